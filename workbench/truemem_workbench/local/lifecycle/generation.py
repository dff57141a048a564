"""One generation of processes, from an init to the reset or shutdown that ends it: its extensions, runtime and states.

The states are those of AWS's code (RIE core/states.go and externalagent_states.go). A reset makes a new generation. All
identifiers, registrations and subscriptions of the old one are then invalid.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from aiohttp import web

from ...support.platform_facts import MOST_EXTENSIONS
from .. import errors
from ..errors import Failure, WaitFailed
from ..processes.process import ChildProcess
from .delivery import Relay
from .invocation import PendingInvocation

SPIN_S = 0.0001


class PendingNext:
    """One pending call of `next`.

    `load` prepares the answer, `fire` sends it later, so that little work lies between the thaw and the bytes. `fire`
    returns when the kernel has the bytes: asyncio's transport tries the socket at once.
    """

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._answered: asyncio.Future[web.Response] = asyncio.get_running_loop().create_future()
        self._response: web.Response | None = None

    async def answered(self) -> web.Response:
        """Wait for the response, which is already sent then. The HTTP handler returns it."""
        return await self._answered

    async def load(self, response: web.Response) -> None:
        self._response = response
        await response.prepare(self._request)

    async def fire(self) -> None:
        assert self._response is not None
        with contextlib.suppress(ConnectionError):  # the client is gone: its process will be noticed, not its socket
            await self._response.write_eof()
        if not self._answered.done():
            self._answered.set_result(self._response)

    def give_up(self) -> None:
        """Cancel the HTTP handler: its process is gone."""
        self._answered.cancel()


async def wait_until(moment: float) -> None:
    """Wait until this time by `time.perf_counter`, to some ten microseconds.

    The event loop's timers are exact to a millisecond. So the last millisecond is a real sleep that blocks the loop,
    and the last tenth of it a busy wait. The loop has no other work before the runtime is released.
    """
    remaining = moment - time.perf_counter()
    if remaining > 0.002:
        await asyncio.sleep(remaining - 0.001)
    remaining = moment - time.perf_counter()
    if remaining > SPIN_S:
        time.sleep(remaining - SPIN_S)
    while time.perf_counter() < moment:
        pass


class ExtensionState(Enum):
    """State of an extension, as `platform.extension` names it."""

    STARTED = "Started"  # executed, has not registered yet
    REGISTERED = "Registered"
    READY = "Ready"  # waits in `next`
    RUNNING = "Running"  # has an event
    INIT_ERROR = "InitError"
    EXIT_ERROR = "ExitError"
    SHUTDOWN_FAILED = "ShutdownFailed"
    EXITED = "Exited"
    LAUNCH_ERROR = "LaunchError"


class ExtensionAction(Enum):
    REGISTER = "register"
    NEXT = "next"
    RELEASE = "release"  # the platform answers `next`
    INIT_ERROR = "init/error"
    EXIT_ERROR = "exit/error"
    LAUNCH_FAILED = "launch failed"
    EXIT_CLEAN = "exit code 0 in shutdown"
    EXIT_DIRTY = "killed, or another exit code, in shutdown"


EXTENSION_TRANSITIONS: dict[tuple[ExtensionState, ExtensionAction], ExtensionState] = {
    (ExtensionState.STARTED, ExtensionAction.REGISTER): ExtensionState.REGISTERED,
    (ExtensionState.STARTED, ExtensionAction.LAUNCH_FAILED): ExtensionState.LAUNCH_ERROR,
    (ExtensionState.REGISTERED, ExtensionAction.NEXT): ExtensionState.READY,
    (ExtensionState.REGISTERED, ExtensionAction.INIT_ERROR): ExtensionState.INIT_ERROR,
    (ExtensionState.REGISTERED, ExtensionAction.EXIT_ERROR): ExtensionState.EXIT_ERROR,
    (ExtensionState.READY, ExtensionAction.RELEASE): ExtensionState.RUNNING,
    (ExtensionState.READY, ExtensionAction.EXIT_ERROR): ExtensionState.EXIT_ERROR,
    (ExtensionState.RUNNING, ExtensionAction.NEXT): ExtensionState.READY,
    (ExtensionState.RUNNING, ExtensionAction.EXIT_ERROR): ExtensionState.EXIT_ERROR,
    (ExtensionState.RUNNING, ExtensionAction.EXIT_CLEAN): ExtensionState.EXITED,
    (ExtensionState.RUNNING, ExtensionAction.EXIT_DIRTY): ExtensionState.SHUTDOWN_FAILED,
    # Telling the same error again is harmless; only the first one is kept.
    (ExtensionState.INIT_ERROR, ExtensionAction.INIT_ERROR): ExtensionState.INIT_ERROR,
    (ExtensionState.EXIT_ERROR, ExtensionAction.EXIT_ERROR): ExtensionState.EXIT_ERROR,
}

EXTENSION_WANTED = {action: after for (_, action), after in EXTENSION_TRANSITIONS.items()}
"""The state that the text of a refusal names, by the refused call."""


EVENTS = ("INVOKE", "SHUTDOWN")


@dataclass
class Extension:
    name: str
    external: bool
    """True if it is launched from the extensions folder; False if it registered from within the runtime."""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    state: ExtensionState = ExtensionState.STARTED
    events: tuple[str, ...] = ()
    pending_next: PendingNext | None = None
    error_type: str | None = None

    def act(self, action: ExtensionAction) -> None:
        """Change the state. Raises ApiError if the action is not allowed."""
        after = EXTENSION_TRANSITIONS.get((self.state, action))
        if after is None:
            raise errors.extension_state(self.name, self.state.value, EXTENSION_WANTED[action].value)
        self.state = after

    def gates(self) -> bool:
        """True if an invocation ends only when this extension has called `next`."""
        return "INVOKE" in self.events


class Registry:
    def __init__(self, external_names: Iterable[str]) -> None:
        self._by_name = {name: Extension(name, external=True) for name in external_names}
        self.closed = False
        """True once the runtime has asked for its first invocation: registration is then over."""

    def register(self, name: str | None, events: list[str]) -> Extension:
        """Register an extension. Raises ApiError, with the checks in the order of AWS's code.

        An unknown name is not refused: it becomes an internal extension. So a launched file with a misspelt name never
        registers.
        """
        if not name:
            raise errors.empty_extension_name()
        for event in events:
            if event not in EVENTS:
                raise errors.invalid_event(f"{event}: ErrorInvalidEventType")
        known = self._by_name.get(name)
        if known is not None and known.external:
            known.act(ExtensionAction.REGISTER)
            known.events = tuple(dict.fromkeys(events))
            return known
        if known is not None:
            raise errors.name_taken()
        return self._register_internal(name, events)

    def _register_internal(self, name: str, events: list[str]) -> Extension:
        if self.closed:
            raise errors.registration_closed()
        if len(self._by_name) >= MOST_EXTENSIONS:
            raise errors.too_many_extensions(MOST_EXTENSIONS)
        if "SHUTDOWN" in events:
            raise errors.invalid_event("SHUTDOWN: ShutdownEventNotSupportedForInternalExtension")
        extension = Extension(name, external=False, events=tuple(dict.fromkeys(events)))
        extension.act(ExtensionAction.REGISTER)
        self._by_name[name] = extension
        return extension

    def identify(self, identifier: str | None, unknown: str | None = None) -> Extension:
        """Find the extension of a Lambda-Extension-Identifier header. Raises ApiError."""
        if not identifier:
            raise errors.missing_identifier()
        try:
            asked = str(uuid.UUID(identifier))
        except ValueError:
            raise errors.invalid_identifier() from None
        for extension in self._by_name.values():
            # An identifier exists once it has been handed out: a launched file that never registered has none.
            if extension.id == asked and extension.state is not ExtensionState.STARTED:
                return extension
        raise errors.unknown_identifier(unknown or f"Unknown extension {asked}")

    def __getitem__(self, name: str) -> Extension:
        return self._by_name[name]

    def all(self) -> list[Extension]:
        return list(self._by_name.values())

    def external(self) -> list[Extension]:
        return [extension for extension in self._by_name.values() if extension.external]

    def all_registered(self) -> bool:
        """True if every launched file has registered: then the runtime may start."""
        return all(
            extension.state not in (ExtensionState.STARTED, ExtensionState.LAUNCH_ERROR)
            for extension in self.external()
        )

    def all_ready(self) -> bool:
        """True if every registered extension, also without events, has called `next`: then init is over."""
        return all(extension.state is ExtensionState.READY for extension in self._by_name.values())

    def invocation_over(self) -> bool:
        """True if every extension that is registered for INVOKE has called `next` again."""
        return all(extension.state is ExtensionState.READY for extension in self._by_name.values() if extension.gates())


class RuntimeState(Enum):
    STARTED = "Started"
    INIT_ERROR = "InitError"
    RESTORE_READY = "RestoreReady"  # SnapStart: waits in restore/next
    RESTORING = "Restoring"
    RESTORE_ERROR = "RuntimeRestoreErrorState"
    READY = "Ready"
    RUNNING = "Running"
    RESPONSE = "InvocationResponse"  # a response is being read
    ERROR_RESPONSE = "InvocationErrorResponse"
    RESPONSE_SENT = "RuntimeResponseSentState"


class RuntimeAction(Enum):
    NEXT = "next"
    RELEASE = "release"
    INIT_ERROR = "init/error"
    RESTORE_NEXT = "restore/next"
    RESTORE = "restore"
    RESTORE_ERROR = "restore/error"
    RESPONSE = "response"
    ERROR = "error"
    SENT = "sent"


RUNTIME_TRANSITIONS: dict[tuple[RuntimeState, RuntimeAction], RuntimeState] = {
    (RuntimeState.STARTED, RuntimeAction.NEXT): RuntimeState.READY,
    (RuntimeState.STARTED, RuntimeAction.INIT_ERROR): RuntimeState.INIT_ERROR,
    (RuntimeState.STARTED, RuntimeAction.RESTORE_NEXT): RuntimeState.RESTORE_READY,
    (RuntimeState.RESTORE_READY, RuntimeAction.RESTORE): RuntimeState.RESTORING,
    (RuntimeState.RESTORING, RuntimeAction.NEXT): RuntimeState.READY,
    (RuntimeState.RESTORING, RuntimeAction.RESTORE_ERROR): RuntimeState.RESTORE_ERROR,
    (RuntimeState.READY, RuntimeAction.NEXT): RuntimeState.READY,
    (RuntimeState.READY, RuntimeAction.RELEASE): RuntimeState.RUNNING,
    # Asking again without having answered is allowed: the same event is delivered again.
    (RuntimeState.RUNNING, RuntimeAction.NEXT): RuntimeState.RUNNING,
    (RuntimeState.RUNNING, RuntimeAction.RESPONSE): RuntimeState.RESPONSE,
    (RuntimeState.RUNNING, RuntimeAction.ERROR): RuntimeState.ERROR_RESPONSE,
    (RuntimeState.RESPONSE, RuntimeAction.SENT): RuntimeState.RESPONSE_SENT,
    (RuntimeState.ERROR_RESPONSE, RuntimeAction.SENT): RuntimeState.RESPONSE_SENT,
    (RuntimeState.RESPONSE_SENT, RuntimeAction.NEXT): RuntimeState.READY,
}

RUNTIME_WANTED = {action: after for (_, action), after in RUNTIME_TRANSITIONS.items()}


class RuntimeCalls:
    """State of the runtime and its calls of the Runtime API."""

    def __init__(self) -> None:
        self.state = RuntimeState.STARTED
        self.pending_next: PendingNext | None = None
        """The runtime's last call of `next`. It gets the event."""
        self.waiting: set[PendingNext] = set()
        """All calls of `next` that wait. A runtime with several threads has one for each."""
        self.current: PendingInvocation | None = None
        self.init_error: tuple[str, bytes] | None = None
        """Error type and body that the runtime posted to init/error."""

    def act(self, action: RuntimeAction) -> None:
        """Change the state. Raises ApiError if the action is not allowed."""
        after = RUNTIME_TRANSITIONS.get((self.state, action))
        if after is None:
            raise errors.runtime_state(self.state.value, RUNTIME_WANTED[action].value)
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
        self.runtime = RuntimeCalls()
        self.relay = Relay()
        self.processes: dict[str, ChildProcess] = {}
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
        """Wait until a condition on the registry or the runtime is true. Raises WaitFailed if the generation fails."""
        while not condition():
            if self.failure is not None:
                raise WaitFailed(self.failure)
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
        message = f"fork/exec {path}: {'permission denied' if not_permitted else 'no such file or directory'}"
        if name == "runtime":
            return Failure("Runtime.InvalidEntrypoint", message, "failure")
        kind = "PermissionDenied" if not_permitted else "UnknownError"
        return self.launch_refused(name.partition(":")[2], kind, message)

    def launch_refused(self, extension: str, kind: str, message: str) -> Failure:
        """The failure of an extension that was not started. `kind` is the errorType of its platform.extension."""
        refused = self.registry[extension]
        refused.act(ExtensionAction.LAUNCH_FAILED)
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
    if extension.state is ExtensionState.INIT_ERROR:
        return "Extension.InitError"
    if extension.state is ExtensionState.EXIT_ERROR:
        return "Extension.ExitError"
    return "Extension.Crash"


def exit_text(code: int) -> str:
    """Describe an exit code as Go does: `exit status 1`, `signal: killed`."""
    if code >= 0:
        return f"exit status {code}"
    return f"signal: {(signal.strsignal(-code) or str(-code)).lower()}"


Call = Literal["next", "response"]


class Hold:
    """Holds one call of the runtime, which is never answered. The scenario sets it from another thread."""

    def __init__(self) -> None:
        self._call: Call | None = None
        self._reached = threading.Event()

    def at(self, call: Call | None) -> None:
        """Hold this call from now on. None lets later calls pass."""
        self._reached.clear()
        self._call = call

    def wait(self, within_s: float) -> bool:
        """Wait until the runtime is held. Returns False if that takes longer."""
        return self._reached.wait(within_s)

    async def pass_by(self, call: Call, runtime: RuntimeCalls, request: web.Request) -> None:
        """Return if this call is not held; else never return. The end of the generation cancels it."""
        if call != self._call:
            return
        runtime.pending_next = PendingNext(request)
        self._reached.set()
        await runtime.pending_next.answered()
