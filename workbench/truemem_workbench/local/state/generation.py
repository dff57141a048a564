"""One generation of processes: from an init to the reset or shutdown that ends it.

A reset makes a new one, and with it every identifier, registration and subscription of the old one is gone.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

from .. import errors
from ..errors import Failed, Failure
from ..processes.process import Process
from ..telemetry.delivery import Relay
from .extension_state import Action, State
from .invocation import Pending
from .pending_next import PendingNext
from .registry import Extension, Registry
from .runtime_state import WANTED, RuntimeAction, RuntimeState, step


class Runtime:
    """The runtime's side of the Runtime API."""

    def __init__(self) -> None:
        self.state = RuntimeState.STARTED
        self.pending_next: PendingNext | None = None
        """The last `next`: the one that gets the event."""
        self.waiting: set[PendingNext] = set()
        """Every `next` that has no answer: a runtime of several threads has one for each."""
        self.current: Pending | None = None
        self.init_error: tuple[str, bytes] | None = None
        """Error type and body that the runtime posted to init/error."""

    def act(self, action: RuntimeAction) -> None:
        """Raises ApiError where the action is not allowed."""
        after = step(self.state, action)
        if after is None:
            raise errors.runtime_state(self.state.value, WANTED[action].value)
        self.state = after

    def asked_next(self) -> None:
        """The runtime wants its next event: an invocation that it has answered is over for it."""
        answered = self.state is RuntimeState.RESPONSE_SENT
        self.act(RuntimeAction.NEXT)
        if answered and self.current is not None:
            self.current.moments.runtime_done = time.perf_counter()
            self.current = None


class Generation:
    def __init__(self, extension_names: list[str]) -> None:
        self.registry = Registry(extension_names)
        self.runtime = Runtime()
        self.relay = Relay()
        self.processes: dict[str, Process] = {}
        self.initialised = False
        self.failure: Failure | None = None
        """The first cause counts."""
        self.shutdown_event: bytes | None = None
        """Once set, exits are expected, and a late `next` gets it at once."""
        self._changed = asyncio.Event()

    def notify(self) -> None:
        self._changed.set()

    def fail(self, failure: Failure) -> None:
        """End the wait of whoever waits for this generation."""
        if self.failure is None:
            self.failure = failure
        self.notify()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on the registry or the runtime. Raises Failed if the generation fails before."""
        while not condition():
            if self.failure is not None:
                raise Failed(self.failure)
            self._changed.clear()
            await self._changed.wait()

    def runtime_ready(self) -> bool:
        return self.runtime.state is RuntimeState.READY

    def runtime_initialised(self) -> bool:
        """It waits for its first event, or with SnapStart for the restore."""
        return self.runtime.state in (RuntimeState.READY, RuntimeState.RESTORE_READY)

    def roots(self) -> dict[str, int]:
        """Live processes by name; called from other threads as well."""
        return {name: process.pid for name, process in list(self.processes.items()) if process.alive}

    def cause(self, name: str, code: int, out_of_memory: bool) -> Failure:
        """What the exit of a process outside of shutdown means."""
        if name == "runtime":
            return self._runtime_exit(code, out_of_memory)
        extension = self.registry[name.partition(":")[2]]
        return Failure(_extension_error(extension), exit_text(code) if code else "exit code 0", "failure")

    def launch_failure(self, name: str, not_permitted: bool, path: str) -> Failure:
        """A command that could not be executed, told as Go does."""
        told = f"fork/exec {path}: {'permission denied' if not_permitted else 'no such file or directory'}"
        if name == "runtime":
            return Failure("Runtime.InvalidEntrypoint", told, "failure")
        kind = "PermissionDenied" if not_permitted else "UnknownError"
        return self.launch_refused(name.partition(":")[2], kind, told)

    def launch_refused(self, extension: str, kind: str, message: str) -> Failure:
        """An extension that was not started: `kind` is the errorType of its platform.extension."""
        refused = self.registry[extension]
        refused.act(Action.LAUNCH_FAILED)
        refused.error_type = kind
        return Failure("Extension.LaunchError", message, "failure")

    def _runtime_exit(self, code: int, out_of_memory: bool) -> Failure:
        if self.runtime.init_error is not None:
            error_type, body = self.runtime.init_error
            return Failure(error_type, "init/error", "failure", payload=body)
        message = (
            f"Runtime exited with error: {exit_text(code)}" if code else "Runtime exited without providing a reason"
        )
        return Failure("Runtime.OutOfMemory" if out_of_memory else "Runtime.ExitError", message, "failure")

    def give_up(self) -> None:
        """Let go of every pending `next`, end telemetry, close the pipes."""
        pending_next = [extension.pending_next for extension in self.registry.all()]
        for waiting in [*pending_next, self.runtime.pending_next, *self.runtime.waiting]:
            if waiting is not None:
                waiting.give_up()
        self.relay.close()
        for process in self.processes.values():
            process.close()


def _extension_error(extension: Extension) -> str:
    if extension.state is State.INIT_ERROR:
        return "Extension.InitError"
    if extension.state is State.EXIT_ERROR:
        return "Extension.ExitError"
    return "Extension.Crash"


def exit_text(code: int) -> str:
    """As Go prints a process state: `exit status 1`, `signal: killed`."""
    if code >= 0:
        return f"exit status {code}"
    return f"signal: {(signal.strsignal(-code) or str(-code)).lower()}"
