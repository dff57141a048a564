"""One generation of processes: from an init to the reset or shutdown that ends it.

A reset makes a new generation. All identifiers, registrations and subscriptions of the old one are then invalid.
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
    """State of the runtime and its calls of the Runtime API."""

    def __init__(self) -> None:
        self.state = RuntimeState.STARTED
        self.pending_next: PendingNext | None = None
        """The last call of `next`. It gets the event."""
        self.waiting: set[PendingNext] = set()
        """All calls of `next` that wait. A runtime with several threads has one for each."""
        self.current: Pending | None = None
        self.init_error: tuple[str, bytes] | None = None
        """Error type and body that the runtime posted to init/error."""

    def act(self, action: RuntimeAction) -> None:
        """Change the state. Raises ApiError if the action is not allowed."""
        after = step(self.state, action)
        if after is None:
            raise errors.runtime_state(self.state.value, WANTED[action].value)
        self.state = after

    def asked_next(self) -> None:
        """Note a call of `next`: an invocation that the runtime has answered ends here."""
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
        """Why this generation failed. Only the first cause is kept."""
        self.shutdown_event: bytes | None = None
        """The SHUTDOWN event. Once it is set, processes may exit, and a late `next` gets it at once."""
        self._changed = asyncio.Event()

    def notify(self) -> None:
        self._changed.set()

    def fail(self, failure: Failure) -> None:
        """Make every `until` on this generation raise this failure."""
        if self.failure is None:
            self.failure = failure
        self.notify()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition on the registry or the runtime is true. Raises Failed if the generation fails."""
        while not condition():
            if self.failure is not None:
                raise Failed(self.failure)
            self._changed.clear()
            await self._changed.wait()

    def runtime_ready(self) -> bool:
        return self.runtime.state is RuntimeState.READY

    def runtime_initialised(self) -> bool:
        """True if the runtime waits for its first event, or with SnapStart for the restore."""
        return self.runtime.state in (RuntimeState.READY, RuntimeState.RESTORE_READY)

    def roots(self) -> dict[str, int]:
        """Live processes by name. Safe to call from other threads."""
        return {name: process.pid for name, process in list(self.processes.items()) if process.alive}

    def cause(self, name: str, code: int, out_of_memory: bool) -> Failure:
        """The failure that an exit of this process means, outside of a shutdown."""
        if name == "runtime":
            return self._runtime_exit(code, out_of_memory)
        extension = self.registry[name.partition(":")[2]]
        return Failure(_extension_error(extension), exit_text(code) if code else "exit code 0", "failure")

    def launch_failure(self, name: str, not_permitted: bool, path: str) -> Failure:
        """The failure of a command that could not be executed, with the text that Go prints."""
        told = f"fork/exec {path}: {'permission denied' if not_permitted else 'no such file or directory'}"
        if name == "runtime":
            return Failure("Runtime.InvalidEntrypoint", told, "failure")
        kind = "PermissionDenied" if not_permitted else "UnknownError"
        return self.launch_refused(name.partition(":")[2], kind, told)

    def launch_refused(self, extension: str, kind: str, message: str) -> Failure:
        """The failure of an extension that was not started. `kind` is the errorType of its platform.extension."""
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
        """Cancel every pending `next`, end telemetry, close the pipes."""
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
    """Describe an exit code as Go does: `exit status 1`, `signal: killed`."""
    if code >= 0:
        return f"exit status {code}"
    return f"signal: {(signal.strsignal(-code) or str(-code)).lower()}"
