"""The two state machines, as tables: what is not in them is refused."""

from __future__ import annotations

import pytest
from truemem_workbench.local.state import extension_state, runtime_state
from truemem_workbench.local.state.extension_state import Action, State
from truemem_workbench.local.state.runtime_state import RuntimeAction, RuntimeState

EXTENSION = {
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
    (State.INIT_ERROR, Action.INIT_ERROR): State.INIT_ERROR,
    (State.EXIT_ERROR, Action.EXIT_ERROR): State.EXIT_ERROR,
}
RUNTIME = {
    (RuntimeState.STARTED, RuntimeAction.NEXT): RuntimeState.READY,
    (RuntimeState.STARTED, RuntimeAction.INIT_ERROR): RuntimeState.INIT_ERROR,
    (RuntimeState.STARTED, RuntimeAction.RESTORE_NEXT): RuntimeState.RESTORE_READY,
    (RuntimeState.RESTORE_READY, RuntimeAction.RESTORE): RuntimeState.RESTORING,
    (RuntimeState.RESTORING, RuntimeAction.NEXT): RuntimeState.READY,
    (RuntimeState.RESTORING, RuntimeAction.RESTORE_ERROR): RuntimeState.RESTORE_ERROR,
    (RuntimeState.READY, RuntimeAction.NEXT): RuntimeState.READY,
    (RuntimeState.READY, RuntimeAction.RELEASE): RuntimeState.RUNNING,
    (RuntimeState.RUNNING, RuntimeAction.NEXT): RuntimeState.RUNNING,
    (RuntimeState.RUNNING, RuntimeAction.RESPONSE): RuntimeState.RESPONSE,
    (RuntimeState.RUNNING, RuntimeAction.ERROR): RuntimeState.ERROR_RESPONSE,
    (RuntimeState.RESPONSE, RuntimeAction.SENT): RuntimeState.RESPONSE_SENT,
    (RuntimeState.ERROR_RESPONSE, RuntimeAction.SENT): RuntimeState.RESPONSE_SENT,
    (RuntimeState.RESPONSE_SENT, RuntimeAction.NEXT): RuntimeState.READY,
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("action", Action)
def test_an_extension_moves_as_in_aws_code(state: State, action: Action) -> None:
    assert extension_state.step(state, action) is EXTENSION.get((state, action))


def test_the_states_of_an_extension_are_called() -> None:
    names = {"Started", "Registered", "Ready", "Running", "InitError", "ExitError", "ShutdownFailed", "Exited"}
    assert {state.value for state in State} == names | {"LaunchError"}


@pytest.mark.parametrize("state", RuntimeState)
@pytest.mark.parametrize("action", RuntimeAction)
def test_a_runtime_moves_as_in_aws_code(state: RuntimeState, action: RuntimeAction) -> None:
    assert runtime_state.step(state, action) is RUNTIME.get((state, action))
