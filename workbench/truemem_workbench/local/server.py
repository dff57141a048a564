"""Starts the environment and its four APIs on loopback, and removes everything at the end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
from aiohttp import web

from ..support.bad_input import BadInput
from ..support.environment_ids import local_id
from .apis.extensions_api import ExtensionsApi
from .apis.http import MAX_READ, api_errors
from .apis.invoke_api import InvokeApi
from .apis.runtime_api import ManagedRuntimeApi, RuntimeApi, SnapStartApi
from .apis.telemetry_api import TelemetryApi
from .configuration.function import WRAPPER, Function
from .configuration.settings import Place, Settings
from .lifecycle.environment import ExecutionEnvironment, OnDemandEnvironment
from .lifecycle.generation import Hold
from .lifecycle.journal import Journal, LogLine
from .lifecycle.launcher import Launcher
from .lifecycle.managed_instances import ManagedEnvironment, ManagedJournal
from .processes.cgroups import Cgroup, CleanupWatchdog
from .processes.cpu import Cpu, choose_cpu
from .processes.freezer import CgroupFreezer, Freezer, choose_freezer
from .processes.memory import CgroupMemory, Memory, choose_memory
from .processes.process import LONGEST_PATH, User, WorkerOutput, choose_user

Api = RuntimeApi | ManagedRuntimeApi | SnapStartApi | ExtensionsApi | TelemetryApi
LOOPBACK = "127.0.0.1"


class Server:
    """One environment with its APIs, in one event loop: `start`, then use `environment`, then `stop`."""

    def __init__(
        self, function: Function, settings: Settings, on_line: Callable[[LogLine], None] | None = None
    ) -> None:
        self._function = function
        self._settings = settings
        self.id = local_id()
        self._undo = contextlib.AsyncExitStack()
        self._watchdog: CleanupWatchdog
        self._worker_output: WorkerOutput | None = None
        self._task: asyncio.Task[None] | None = None
        log_stream = time.strftime("%Y/%m/%d/[$LATEST]", time.gmtime()) + self.id
        journal = Journal if settings.managed_instances is None else ManagedJournal
        self.journal: Journal = journal(settings, log_stream, on_line)
        self.notices: list[str] = []
        self.port = 0
        self.folder = Path()
        self.environment: ExecutionEnvironment
        self.hold = Hold()

    async def start(self) -> None:
        """Serve the APIs and begin the init phase. Raises BadInput, and then leaves nothing behind."""
        try:
            await self._start()
        except BaseException:
            await self._undo.aclose()
            raise

    async def _start(self) -> None:
        invoke_socket = self._bind(self._settings.port)
        runtime_socket = self._bind(0)
        self.port = invoke_socket.getsockname()[1]
        self._watchdog = CleanupWatchdog()
        self._undo.callback(self._watchdog.dismiss)
        self._make_folder()
        extensions = self._present_extensions()
        owner = self._choose_user(extensions)
        place = Place(
            runtime_api=f"{LOOPBACK}:{runtime_socket.getsockname()[1]}",
            log_stream=self.journal.log_stream,
            path=os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
            tmp=str(self.folder / "tmp"),
            log_socket=self._open_worker_output(),
        )
        launcher = Launcher(
            self._function, self._settings, place=place, extensions=extensions, user=owner, journal=self.journal
        )
        self.environment, runtime_apis = self._make_environment(launcher)
        self._equip(self.environment)
        session = await self._undo.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None), trust_env=False)
        )
        environment = self.environment
        apis = [*runtime_apis, ExtensionsApi(environment), TelemetryApi(environment, session)]
        await self._serve(runtime_socket, [route for api in apis for route in api.routes()])
        await self._serve(invoke_socket, InvokeApi(environment).routes())
        self._task = asyncio.create_task(environment.run())

    def _open_worker_output(self) -> Path | None:
        path = self.folder / "log"
        if self._settings.managed_instances is None or len(os.fsencode(path)) > LONGEST_PATH:
            return None
        self._worker_output = WorkerOutput(path, lambda stream, text: self.journal.output("function", stream, text))
        self._undo.callback(self._worker_output.close)
        return path

    def _make_environment(self, launcher: Launcher) -> tuple[ExecutionEnvironment, list[Api]]:
        if isinstance(self.journal, ManagedJournal):
            managed = ManagedEnvironment(
                self._function, self._settings, launcher=launcher, journal=self.journal, output=self._worker_output
            )
            return managed, [ManagedRuntimeApi(managed)]
        environment = OnDemandEnvironment(
            self._function, self._settings, launcher=launcher, journal=self.journal, hold=self.hold
        )
        if self._settings.initialization == "snap-start":
            return environment, [RuntimeApi(environment), SnapStartApi(environment)]
        return environment, [RuntimeApi(environment)]

    async def stop(self, reason: str, *, abort: bool) -> None:
        """Shut the environment down. No process, cgroup, folder or socket stays."""
        try:
            if self._task is not None:
                self.environment.stop(reason, abort=abort)
                await self._task
        finally:
            await self._undo.aclose()

    def _bind(self, port: int) -> socket.socket:
        bound = socket.socket()
        self._undo.callback(bound.close)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((LOOPBACK, port))
            bound.listen(128)  # binding alone does not find a listener that also set SO_REUSEADDR
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            why = "is in use" if error.errno == errno.EADDRINUSE else "needs more rights than yours"
            raise BadInput(f"port {port} {why}. Try --port 0 (a free one)") from None
        return bound

    async def _serve(self, bound: socket.socket, routes: list[web.RouteDef]) -> None:
        app = web.Application(middlewares=[api_errors], client_max_size=MAX_READ)
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        self._undo.push_async_callback(runner.cleanup)
        await web.SockSite(runner, bound).start()

    def _make_folder(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="truemem-")).resolve()
        self._undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._watchdog.watch(self.folder)
        self.folder.chmod(0o755)
        (self.folder / "tmp").mkdir(mode=0o700)
        (self.folder / "extensions").mkdir()

    def _present_extensions(self) -> dict[str, Path]:
        """Link every extension into one folder under its own name, as in /opt/extensions."""
        presented = {}
        for name, path in self._settings.extensions_by_name().items():
            presented[name] = self.folder / "extensions" / name
            presented[name].symlink_to(path.resolve())
        return presented

    def _choose_user(self, extensions: dict[str, Path]) -> User | None:
        needs = [self.folder, *self._function.needs, *extensions.values()]
        wrapper = Path(self._settings.environment.get(WRAPPER, ""))
        if self._function.runtime and wrapper.is_file():
            needs.append(wrapper)
        chosen, notice = choose_user(self._settings.user, needs)
        self._notice(notice)
        if chosen:
            os.chown(self.folder / "tmp", chosen.uid, chosen.gid)
        return chosen

    def _equip(self, environment: ExecutionEnvironment) -> None:
        memory = self._choose_memory(environment.roots)
        of_memory = memory.group if isinstance(memory, CgroupMemory) else None
        cpu = self._choose_cpu(_shared(of_memory))
        freezer = self._choose_freezer(_shared(of_memory, cpu.group), environment.roots)
        environment.equip(memory, cpu, freezer)

    def _choose_memory(self, roots: Callable[[], dict[str, int]]) -> Memory:
        settings = self._settings
        chosen, notice = choose_memory(settings.memory_limit, settings.memory_mib, self._group(), roots)
        self._undo.callback(chosen.close)
        self._notice(notice)
        if isinstance(chosen, CgroupMemory):
            self._watchdog.watch(chosen.group.path)
        return chosen

    def _choose_cpu(self, shared: Cgroup | None) -> Cpu:
        chosen, notice = choose_cpu(self._settings.vcpus, self._group(), shared)
        self._undo.callback(chosen.close)
        self._notice(notice)
        if chosen.group is not None:
            self._watchdog.watch(chosen.group.path)
        return chosen

    def _choose_freezer(self, shared: Cgroup | None, roots: Callable[[], dict[str, int]]) -> Freezer:
        chosen, notice = choose_freezer(self._settings.freeze, self._group(), shared, roots)
        self._undo.callback(chosen.close)
        if self._settings.managed_instances is None:  # Managed Instances never freeze: that needs no notice
            self._notice(notice)
        if isinstance(chosen, CgroupFreezer):
            self._watchdog.watch(chosen.group.path)
        return chosen

    def _group(self) -> str:
        return f"truemem-{self.id}"

    def _notice(self, notice: str | None) -> None:
        if notice:
            self.notices.append(notice)


def _shared(*groups: Cgroup | None) -> Cgroup | None:
    """The group that other controllers must share: of v2 a process can be in one group only."""
    return next((group for group in groups if group is not None and group.version == 2), None)
