"""Starts the processes of a generation, and ends them: spindown, failure or timeout (RIE rapid/shutdown.go)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from ...support.platform_facts import MOST_EXTENSIONS
from ..configuration.function import Function
from ..configuration.settings import Place, Settings, extension_variables, function_variables
from ..errors import Failure, WaitFailed
from ..images.root import Root
from ..processes.cpu import Cpu
from ..processes.freezer import Freezer
from ..processes.memory import Memory, tree
from ..processes.process import NOT_PERMITTED, User, spawn, started
from ..processes.tmp import Tmp
from .events import compact
from .generation import Extension, ExtensionAction, ExtensionState, Generation
from .journal import EnvironmentJournal

WINDOW_EXTERNAL_S = 2.0
WINDOW_INTERNAL_S = 0.5
RUNTIME_SHARE = 0.3  # share of the shutdown time that the runtime has to end after SIGTERM
REAP_S = 5.0  # time for the kernel to end killed processes. Only an uninterruptible wait takes that long.


def shutdown_window(generation: Generation) -> float:
    """Seconds for the shutdown: 2 with an external extension, 0.5 with internal ones only, 0 with none."""
    if generation.registry.external():
        return WINDOW_EXTERNAL_S
    return WINDOW_INTERNAL_S if generation.registry.all() else 0.0


async def shut_down(generation: Generation, reason: str, memory: Memory, *, flush_first_s: float = 0) -> None:
    """End all processes: SIGTERM to the runtime, SHUTDOWN to the extensions, then SIGKILL. All processes must be
    thawed.

    With `flush_first_s`, SHUTDOWN waits that long for the delivery of telemetry, as on Managed Instances.
    """
    loop = asyncio.get_running_loop()
    total = shutdown_window(generation)
    deadline = loop.time() + total
    event = {
        "eventType": "SHUTDOWN",
        "deadlineMs": int((time.time() + total) * 1000),
        "shutdownReason": reason,
    }
    generation.shutdown_event = compact(event)

    await _stop_runtime(generation, total)
    if flush_first_s:
        await generation.relay.flush(flush_first_s)
    for extension in generation.registry.external():
        await _notify(generation, extension)
    generation.relay.resume(flush=True)
    await _wait_for_exits(generation, deadline - loop.time())
    for extension in generation.registry.external():
        _note_exit(generation, extension)
    await kill_all(generation, memory)


async def _stop_runtime(generation: Generation, total: float) -> None:
    runtime = generation.processes.get("runtime")
    if runtime is None:
        return
    if total and runtime.alive:
        runtime.signal_group(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(runtime.exited), total * RUNTIME_SHARE)
    runtime.signal_group(signal.SIGKILL)


async def _notify(generation: Generation, extension: Extension) -> None:
    """Send SHUTDOWN if the extension asked for it, else SIGKILL. An external extension never gets SIGTERM."""
    process = generation.processes.get(f"extension:{extension.name}")
    if process is None or not process.alive:
        return
    if "SHUTDOWN" not in extension.events:
        process.signal_group(signal.SIGKILL)
    elif extension.state is ExtensionState.READY and extension.pending_next is not None:
        assert generation.shutdown_event is not None
        extension.act(ExtensionAction.RELEASE)
        await extension.pending_next.load(shutdown_response(generation.shutdown_event))
        await extension.pending_next.fire()


def shutdown_response(event: bytes) -> web.Response:
    """Make the answer with SHUTDOWN: only a body, without an event id, and with Go's content type, as in AWS's code."""
    return web.Response(body=event, headers={"Content-Type": "text/plain; charset=utf-8"})


async def _wait_for_exits(generation: Generation, within_s: float) -> bool:
    waiting = [process.exited for process in generation.processes.values() if process.alive]
    if not waiting:
        return True
    _, late = await asyncio.wait(waiting, timeout=max(0.0, within_s))
    return not late


def _note_exit(generation: Generation, extension: Extension) -> None:
    process = generation.processes.get(f"extension:{extension.name}")
    if process is None or extension.state is not ExtensionState.RUNNING:
        return
    clean = process.exited.done() and process.exited.result() == 0
    extension.act(ExtensionAction.EXIT_CLEAN if clean else ExtensionAction.EXIT_DIRTY)


async def kill_all(generation: Generation, memory: Memory) -> None:
    """Send SIGKILL to every process of the environment, also to those that left their group or lost their parent."""
    known = tree(generation.roots().values())
    for process in generation.processes.values():
        process.signal_group(signal.SIGKILL)
    end = time.monotonic() + REAP_S
    while pids := [pid for pid in {*known, *memory.pids()} if pid > 1]:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        known = set()
        if time.monotonic() > end:
            break
        await asyncio.sleep(0.002)
    await _wait_for_exits(generation, REAP_S)


KILLED_CODE = -9
RUNTIME_API = "AWS_LAMBDA_RUNTIME_API"


class Launcher:
    def __init__(
        self,
        function: Function,
        settings: Settings,
        *,
        place: Place,
        tmp: Tmp,
        root: Root | None,
        extensions: dict[str, Path],
        user: User | None,
        journal: EnvironmentJournal,
    ) -> None:
        self.extensions = extensions
        """Executables by the extension's name, in the order of launch."""
        self._function = function
        self._settings = settings
        self._place = place
        self._tmp = tmp
        self._root = root
        self._user = user
        self._journal = journal
        self.memory: Memory
        self.cpu: Cpu
        self.freezer: Freezer

    def renew(self, log_stream: str) -> None:
        """Prepare for another environment: a new log stream, and an empty /tmp."""
        self._tmp.clear()
        self._place = dataclasses.replace(self._place, log_stream=log_stream)

    async def start_all(self, generation: Generation) -> None:
        """Start the extensions, then the runtime. Returns when all have asked for their first event. Raises
        WaitFailed."""
        for name in self.extensions:
            await self.launch_extension(generation, name)
        await generation.until(generation.registry.all_registered)
        await self.launch_runtime(generation)
        await generation.until(generation.runtime_initialised)
        generation.registry.closed = True
        await generation.until(generation.registry.all_ready)

    async def launch_extension(self, generation: Generation, name: str) -> None:
        """Raises WaitFailed."""
        if list(self.extensions).index(name) >= MOST_EXTENSIONS:
            raise WaitFailed(generation.launch_refused(name, "TooManyExtensions", "ErrTooManyExtensions"))
        path, root = self.extensions[name], self._root
        if root is not None and not root.holds(path):
            root = None  # it is of this machine, as our own sidecar
        command = [str(path) if root is None else root.image.inside(path)]
        variables = extension_variables(self._settings, self._place, None if root is None else root.image)
        try:
            await self._spawn(generation, f"extension:{name}", command, variables, "/", root)
        except OSError as error:
            kind = "PermissionDenied" if isinstance(error, PermissionError) else "UnknownError"
            raise WaitFailed(generation.launch_refused(name, kind, str(error))) from None

    async def launch_runtime(self, generation: Generation) -> None:
        """Raises WaitFailed."""
        variables = function_variables(self._function, self._settings, self._place)
        try:
            command = self._function.started_with(variables)
            image = self._function.image
            folder = str(self._function.task_root) if image is None else image.folder
            await self._spawn(generation, "runtime", command, variables, folder, self._root)
        except OSError as error:
            raise WaitFailed(Failure("Runtime.InvalidEntrypoint", str(error), "failure")) from None

    async def _spawn(
        self,
        generation: Generation,
        name: str,
        command: list[str],
        variables: dict[str, str],
        folder: str,
        root: Root | None,
    ) -> None:
        source = "function" if name == "runtime" else name
        kills = self.memory.kills()

        def exited(code: int) -> None:
            if generation.shutdown_event is None:
                if generation.processes[name].launched:
                    out_of_memory = code == KILLED_CODE and self.memory.kills() > kills
                    generation.fail(generation.cause(name, code, out_of_memory))
                else:
                    generation.fail(generation.launch_failure(name, code == NOT_PERMITTED, command[0]))
            generation.notify()

        begin: dict[str, Any] = {"environment": variables, "cwd": Path(folder), "user": self._user}
        words, begin["entering"] = command, self._tmp.entering(self._user)
        if root is not None:
            words = root.entering(
                command,
                folder=folder,
                variables=variables,
                user=(self._user.uid, self._user.gid) if self._user else None,
                namespaces=[*self._tmp.namespaces.values()],
                exact=root.image.exact if source == "function" else None,
            )
            here = {"PATH": self._place.path, RUNTIME_API: variables[RUNTIME_API]}
            begin = {"environment": here, "cwd": Path("/"), "user": None, "entering": ()}
        start = partial(started, words, descriptors=self._settings.descriptors, admit=self._admit, **begin)
        generation.processes[name] = await spawn(start, partial(self._journal.output, source), exited)

    def _admit(self, pid: int) -> None:
        self.memory.add(pid)
        self.cpu.add(pid)
        self.freezer.add(pid)
