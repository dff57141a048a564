"""The states of an extension, as AWS's code has them (RIE core/externalagent_states.go). No clock, no socket."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """State of an extension, as `platform.extension` names it."""

    STARTED = "Started"  # executed, nothing heard yet
    REGISTERED = "Registered"
    READY = "Ready"  # waits in `next`
    RUNNING = "Running"  # has an event
    INIT_ERROR = "InitError"
    EXIT_ERROR = "ExitError"
    SHUTDOWN_FAILED = "ShutdownFailed"
    EXITED = "Exited"
    LAUNCH_ERROR = "LaunchError"


class Action(Enum):
    REGISTER = "register"
    NEXT = "next"
    RELEASE = "release"  # the platform answers `next`
    INIT_ERROR = "init/error"
    EXIT_ERROR = "exit/error"
    LAUNCH_FAILED = "launch failed"
    EXIT_CLEAN = "exit code 0 in shutdown"
    EXIT_DIRTY = "killed, or another exit code, in shutdown"


TRANSITIONS: dict[tuple[State, Action], State] = {
    (State.STARTED, Action.REGISTER): State.REGISTERED,
    (State.STARTED, Action.LAUNCH_FAILED): State.LAUNCH_ERROR,
    (State.REGISTERED, Action.NEXT): State.READY,
    (State.REGISTERED, Action.INIT_ERROR): State.INIT_ERROR,
    (State.REGISTERED, Action.EXIT_ERROR): State.EXIT_ERROR,
    (State.READY, Action.RELEASE): State.RUNNING,
    (State.READY, Action.EXIT_ERROR): State.EXIT_ERROR,
    (State.RUNNING, Action.NEXT): State.READY,
    (State.RUNNING, Action.EXIT_ERROR): State.EXIT_ERROR,
    (State.RUNNING, Action.EXIT_CLEAN): State.EXITED,
    (State.RUNNING, Action.EXIT_DIRTY): State.SHUTDOWN_FAILED,
    # Telling the same error again is harmless; only the first one is kept.
    (State.INIT_ERROR, Action.INIT_ERROR): State.INIT_ERROR,
    (State.EXIT_ERROR, Action.EXIT_ERROR): State.EXIT_ERROR,
}

WANTED: dict[Action, State] = {
    Action.REGISTER: State.REGISTERED,
    Action.NEXT: State.READY,
    Action.INIT_ERROR: State.INIT_ERROR,
    Action.EXIT_ERROR: State.EXIT_ERROR,
}
"""The state that the text of a refusal names, by the refused call."""


def step(state: State, action: Action) -> State | None:
    """The state after an action, or None if the action is not allowed."""
    return TRANSITIONS.get((state, action))
