"""Starts the environment's processes, and reports their unexpected ends."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from ..configuration.function import Function
from ..configuration.settings import MAX_EXTENSIONS, Settings
from ..configuration.variables import Place, extension_variables, function_variables
from ..errors import Failed, Failure
from ..processes.freezer import Freezer
from ..processes.memory import Memory
from ..processes.process import NOT_PERMITTED, spawn
from ..processes.user import User
from ..state.generation import Generation
from .journal import Journal

KILLED = -9


class Launcher:
    def __init__(
        self,
        function: Function,
        settings: Settings,
        *,
        place: Place,
        extensions: dict[str, Path],
        user: User | None,
        journal: Journal,
    ) -> None:
        self.extensions = extensions
        """Executables by the extension's name, in the order of launch."""
        self._function = function
        self._settings = settings
        self._place = place
        self._user = user
        self._journal = journal
        self.memory: Memory
        self.freezer: Freezer

    def renew(self, log_stream: str) -> None:
        """Prepare for another environment: a new log stream, and an empty /tmp."""
        for entry in Path(self._place.tmp).iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        self._place = dataclasses.replace(self._place, log_stream=log_stream)

    async def start_all(self, generation: Generation) -> None:
        """Start the extensions, then the runtime. Returns when all have asked for their first event. Raises Failed."""
        for name in self.extensions:
            self.launch_extension(generation, name)
        await generation.until(generation.registry.all_registered)
        self.launch_runtime(generation)
        await generation.until(generation.runtime_initialised)
        generation.registry.closed = True
        await generation.until(generation.registry.all_ready)

    def launch_extension(self, generation: Generation, name: str) -> None:
        """Raises Failed."""
        if list(self.extensions).index(name) >= MAX_EXTENSIONS:
            raise Failed(generation.launch_refused(name, "TooManyExtensions", "ErrTooManyExtensions"))
        variables = extension_variables(self._settings, self._place)
        try:
            self._spawn(generation, f"extension:{name}", [str(self.extensions[name])], variables, Path("/"))
        except OSError as error:
            kind = "PermissionDenied" if isinstance(error, PermissionError) else "UnknownError"
            raise Failed(generation.launch_refused(name, kind, str(error))) from None

    def launch_runtime(self, generation: Generation) -> None:
        """Raises Failed."""
        variables = function_variables(self._function, self._settings, self._place)
        try:
            command = self._function.started_with(variables)
            self._spawn(generation, "runtime", command, variables, self._function.task_root)
        except OSError as error:
            raise Failed(Failure("Runtime.InvalidEntrypoint", str(error), "failure")) from None

    def _spawn(
        self, generation: Generation, name: str, command: list[str], variables: dict[str, str], cwd: Path
    ) -> None:
        source = "function" if name == "runtime" else name
        kills = self.memory.kills()

        def exited(code: int) -> None:
            if generation.shutdown_event is None:
                if generation.processes[name].launched:
                    out_of_memory = code == KILLED and self.memory.kills() > kills
                    generation.fail(generation.cause(name, code, out_of_memory))
                else:
                    generation.fail(generation.launch_failure(name, code == NOT_PERMITTED, command[0]))
            generation.notify()

        generation.processes[name] = spawn(
            command,
            environment=variables,
            cwd=cwd,
            user=self._user,
            descriptors=self._settings.descriptors,
            admit=self._admit,
            on_line=lambda stream, text: self._journal.output(source, stream, text),
            on_exit=exited,
        )

    def _admit(self, pid: int) -> None:
        self.memory.add(pid)
        self.freezer.add(pid)
