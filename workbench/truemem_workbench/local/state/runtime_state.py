"""The states of the runtime, as AWS's code has them (RIE core/states.go). No clock, no socket."""

from __future__ import annotations

from enum import Enum


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


TRANSITIONS: dict[tuple[RuntimeState, RuntimeAction], RuntimeState] = {
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

WANTED: dict[RuntimeAction, RuntimeState] = {
    RuntimeAction.NEXT: RuntimeState.READY,
    RuntimeAction.INIT_ERROR: RuntimeState.INIT_ERROR,
    RuntimeAction.RESTORE_NEXT: RuntimeState.RESTORE_READY,
    RuntimeAction.RESTORE_ERROR: RuntimeState.RESTORE_ERROR,
    RuntimeAction.RESPONSE: RuntimeState.RESPONSE,
    RuntimeAction.ERROR: RuntimeState.ERROR_RESPONSE,
}


def step(state: RuntimeState, action: RuntimeAction) -> RuntimeState | None:
    """The state after an action, or None if the action is not allowed."""
    return TRANSITIONS.get((state, action))
