"""One environment on this machine: its Runtime API, folder, control groups and processes. All of it goes at its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import TypeVar

import aiohttp

from ..support.bad_input import BadInput
from ..support.environment_ids import local_id
from .apis.extensions_api import ExtensionsApi
from .apis.http import LOOPBACK, bind, serve
from .apis.runtime_api import ManagedRuntimeApi, RuntimeApi, SnapStartApi
from .apis.telemetry_api import TelemetryApi
from .configuration.function import WRAPPER, Function
from .configuration.settings import Place, Settings
from .images.root import Root
from .lifecycle.environment import ExecutionEnvironment, OnDemandEnvironment
from .lifecycle.generation import Hold
from .lifecycle.journal import Archive, EnvironmentJournal
from .lifecycle.launcher import Launcher
from .lifecycle.managed_instances import ManagedEnvironment, ManagedJournal
from .processes.cgroups import Cgroup, CleanupWatchdog, NotPermitted
from .processes.cpu import Cpu, choose_cpu
from .processes.freezer import Freezer, choose_freezer
from .processes.memory import Memory, choose_memory
from .processes.process import LONGEST_PATH, User, WorkerOutput, choose_user
from .processes.tmp import Tmp, elsewhere, holding, named_in

Api = RuntimeApi | ManagedRuntimeApi | SnapStartApi | ExtensionsApi | TelemetryApi
Kind = TypeVar("Kind", Memory, Cpu, Freezer)

LOG = "log"
"""The folder of the socket to which workers write, which an image's have as well."""
LINKS = ("*", "node_modules/*", "node_modules/@*/*")
"""Where links out of the code folder are looked for: what they lead to in /tmp is needed as well."""


class Sandbox:
    """Create it in the event loop: `start`, then use `environment`, then `stop`."""

    def __init__(
        self, function: Function, settings: Settings, archive: Archive, session: aiohttp.ClientSession, hold: Hold
    ) -> None:
        self._function = function
        self._settings = settings
        self._session = session
        self._hold = hold
        self.id = local_id()
        self._undo = contextlib.AsyncExitStack()
        self._watchdog: CleanupWatchdog
        self._worker_output: WorkerOutput | None = None
        journal = EnvironmentJournal if settings.managed_instances is None else ManagedJournal
        self.journal: EnvironmentJournal = journal(settings, self.id, archive)
        self.notices: list[str] = []
        self.folder = Path()
        self.tmp: Tmp
        self._root: Root | None = None
        self.environment: ExecutionEnvironment
        self.task: asyncio.Task[None]
        """Ends when the environment has ended."""

    async def start(self) -> None:
        """Serve the APIs and begin the init phase. Raises BadInput or OSError, and then leaves nothing behind."""
        self.journal.changed("started")
        try:
            await self._start()
        except BaseException:
            await self._undo.aclose()
            raise

    async def _start(self) -> None:
        runtime_socket = bind(0)
        self._undo.callback(runtime_socket.close)
        # In a thread: what starts programs takes some milliseconds, and other environments answer meanwhile.
        extensions, user = await asyncio.to_thread(self._prepare)
        launcher = Launcher(
            self._function,
            self._settings,
            place=self._place(runtime_socket),
            tmp=self.tmp,
            root=self._root,
            extensions=extensions,
            user=user,
            journal=self.journal,
        )
        self.environment, runtime_apis = self._make_environment(launcher)
        await asyncio.to_thread(self._equip, self.environment)
        apis = [*runtime_apis, ExtensionsApi(self.environment), TelemetryApi(self.environment, self._session)]
        runner = await serve(runtime_socket, [route for api in apis for route in api.routes()])
        self._undo.push_async_callback(runner.cleanup)
        self.task = asyncio.create_task(self.environment.run())

    async def stop(self, reason: str, *, abort: bool) -> None:
        """Shut the environment down. No process, cgroup, folder or socket stays."""
        try:
            self.environment.stop(reason, abort=abort)
            await self.task
        finally:
            await self._undo.aclose()

    def _place(self, runtime_socket: socket.socket) -> Place:
        return Place(
            runtime_api=f"{LOOPBACK}:{runtime_socket.getsockname()[1]}",
            log_stream=self.journal.log_stream,
            path=os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
            tmp=self.tmp.path,
            log_socket=self._open_worker_output(),
        )

    def _open_worker_output(self) -> Path | None:
        path = self.folder / LOG / "socket"
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
            self._function, self._settings, launcher=launcher, journal=self.journal, hold=self._hold
        )
        if self._settings.initialization == "snap-start":
            return environment, [RuntimeApi(environment), SnapStartApi(environment)]
        return environment, [RuntimeApi(environment)]

    def _prepare(self) -> tuple[dict[str, Path], User | None]:
        """Make the folder. Returns the extensions in it, and the processes' user."""
        self._watchdog = CleanupWatchdog()
        self._undo.callback(self._watchdog.dismiss)
        try:
            self._make_folder(elsewhere())
            self._cover()
        except (OSError, NotPermitted) as why:
            if self._function.image is not None:
                raise BadInput(
                    f"an image needs a root folder of its own, and this machine does not permit that ({why}). Try sudo,"
                    " or permit user namespaces"
                ) from None
            self._make_folder(tempfile.gettempdir())
            self._notice(
                f"no /tmp of its own ({why}): files that the function writes to /tmp itself, and not to TMPDIR, are not"
                " counted here, and stay on this machine"
            )
        extensions = self._present_extensions()
        return extensions, self._choose_user(extensions)

    def _make_folder(self, where: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="truemem-", dir=where)).resolve()
        self._undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._watchdog.watch(self.folder)
        self.folder.chmod(0o755)
        self.tmp = Tmp(self.folder / "tmp")
        self.tmp.folder.mkdir(mode=0o700)
        self._undo.callback(self.tmp.close)
        for name in ("extensions", LOG):
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o755)

    def _cover(self) -> None:
        """Give the processes a /tmp of their own, in which what the run needs of this machine's stays. Raises
        NotPermitted, OSError."""
        function, extensions = self._function, self._settings.extensions_by_name().values()
        ours = Path(sys.prefix), Path(sys.executable), Path(__file__)
        if function.image is not None:
            needs = [*function.needs, self.folder / LOG]
            self._root = Root(function.image, self.folder, self.tmp.folder, needs)
            mounts = self._root.mounts()
            self.tmp.cover(holding([self.folder, *function.needs, *extensions, *ours]), mounts)
            return
        needed = holding([self.folder, function.task_root, *function.needs, *extensions, *ours])
        links = (path for pattern in LINKS for path in function.task_root.glob(pattern) if path.is_symlink())
        needed |= named_in([*function.command, *function.variables.values(), *map(str, links)])
        given = self._settings.environment
        by_variable = {name: key for key, value in given.items() for name in named_in([value]) - needed}
        self.tmp.cover(needed | by_variable.keys())
        for name, key in sorted(by_variable.items()):
            self._notice(
                f"{key} names /tmp/{name}, which exists on this machine: the function has that one, and what it leaves"
                " in it is not counted"
            )

    def _present_extensions(self) -> dict[str, Path]:
        """Link every extension into one folder under its own name, as in /opt/extensions."""
        presented = {}
        for name, path in self._settings.extensions_by_name().items():
            presented[name] = path
            if self._root is None or not self._root.holds(path):
                presented[name] = self.folder / "extensions" / name
                presented[name].symlink_to(path.resolve())
        return presented

    def _choose_user(self, extensions: dict[str, Path]) -> User | None:
        needs = [self.folder, *self._function.needs, *extensions.values()]
        if self._root is not None:  # what is in its root can be reached there, whatever folder that is in here
            needs = [self.folder, *(each for each in extensions.values() if not self._root.holds(each))]
        wrapper = Path(self._settings.environment.get(WRAPPER, ""))
        if self._function.runtime and wrapper.is_file():
            needs.append(wrapper)
        chosen, notice = choose_user(self._settings.user, needs)
        self._notice(notice)
        if chosen:
            os.chown(self.tmp.folder, chosen.uid, chosen.gid)
        return chosen

    def _equip(self, environment: ExecutionEnvironment) -> None:
        settings, group = self._settings, f"truemem-{self.id}"
        memory = self._take(choose_memory(settings.memory_limit, settings.memory_mib, group, environment.roots))
        cpu = self._take(choose_cpu(settings.vcpus, group, _shared(memory.group)))
        freezer, notice = choose_freezer(settings.freeze, group, _shared(memory.group, cpu.group), environment.roots)
        never_freezes = settings.managed_instances is not None  # that needs no notice
        environment.equip(memory, cpu, self._take((freezer, None if never_freezes else notice)))

    def _take(self, chosen: tuple[Kind, str | None]) -> Kind:
        """What was chosen, closed at the end; its group is removed even if this process is killed."""
        mechanism, notice = chosen
        self._undo.callback(mechanism.close)
        self._notice(notice)
        if mechanism.group is not None:
            self._watchdog.watch(mechanism.group.path)
        return mechanism

    def _notice(self, notice: str | None) -> None:
        if notice:
            self.notices.append(notice)


def _shared(*groups: Cgroup | None) -> Cgroup | None:
    """The group that other controllers must share: of v2 a process can be in one group only."""
    return next((group for group in groups if group is not None and group.version == 2), None)
