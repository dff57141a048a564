"""Exact mode behind AWS's Lambda Web Adapter: where it is safe, and how it is undone."""

from datetime import date

import pytest
from truemem_workbench.attach.change import (
    CHAINED_WRAPPER,
    EXACT_WRAPPER,
    WRAPPER,
    FunctionState,
    change_back,
    state_of,
    taken_off,
    variables_after,
)
from truemem_workbench.attach.plan import NOTHING_ASKED, AttachPlan, plan
from truemem_workbench.support.web_adapter import PORT, PROXY

OURS = "arn:aws:lambda:eu-west-1:123456789012:layer:truemem-x86_64:1"
APP = {"AWS_LWA_PORT": "8000", WRAPPER: "/opt/bootstrap"}
POINTED = {PORT: "9717", PROXY: "127.0.0.1:9717"}


def layer(number: int, account: str = "753240598075") -> str:
    return f"arn:aws:lambda:eu-west-1:{account}:layer:LambdaAdapterLayerX86:{number}"


def function(*layers: str, **variables: str) -> FunctionState:
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:web"
    held = {"Layers": [{"Arn": each} for each in layers], "Environment": {"Variables": {**APP, **variables}}}
    return state_of({"FunctionName": "web", "FunctionArn": arn, "Runtime": "python3.13", **held}, date(2026, 1, 1))


def attached(state: FunctionState, exact: bool = True, **settings: str) -> AttachPlan:
    made = plan(state, NOTHING_ASKED._replace(exact=exact, settings=settings), OURS)
    assert isinstance(made, AttachPlan)
    return made


def after(state: FunctionState, exact: bool = True, **settings: str) -> dict[str, str]:
    return variables_after(state.variables, attached(state, exact, **settings).change)


@pytest.mark.parametrize("number", [25, 28, 30])
def test_the_adapter_is_pointed_at_the_sidecar(number: int) -> None:
    made = attached(function(layer(number)))
    assert (made.mode, made.notes) == ("exact", ())
    assert after(function(layer(number))) == {**APP, **POINTED}
    assert after(function(layer(number)), TRUEMEM_PORT="9800")[PROXY] == "127.0.0.1:9800"


def test_our_wrapper_is_of_no_use_there_and_goes() -> None:
    wrapped = function(layer(28), **{WRAPPER: EXACT_WRAPPER, CHAINED_WRAPPER: "/opt/bootstrap"})
    assert after(wrapped) == {**APP, **POINTED}


@pytest.mark.parametrize(
    ("layers", "variables", "why"),
    [
        ([layer(27)], {}, "would fail in init"),
        ([layer(24)], {}, "is too old"),
        ([layer(28, account="123456789012")], {}, "is not known"),
        ([], {}, "is not known"),
        ([layer(28)], {PROXY: "127.0.0.1:9002"}, "points at something else"),
    ],
)
def test_an_adapter_that_might_fail_stays_as_it_is(layers: list[str], variables: dict[str, str], why: str) -> None:
    made = attached(function(*layers, **variables))
    assert (made.mode, len(made.notes), why in made.notes[0]) == ("default", 1, True)
    assert after(function(*layers, **variables)) == {**APP, **variables}


def test_an_adapter_that_becomes_unsafe_is_freed() -> None:
    assert after(function(layer(27), **POINTED)) == APP
    assert after(function(layer(28), **POINTED), exact=False) == APP


def test_detach_frees_the_adapter() -> None:
    state = function(layer(28))
    made = attached(state).change
    back, left = change_back(made, made.layers[1], variables_after(state.variables, made))
    assert (back.layers[1], variables_after({**APP, **POINTED}, back), left) == (state.layers, APP, [])


@pytest.mark.parametrize("layers", [(layer(28), OURS), (layer(28),)])
def test_detach_without_a_record_frees_it_too(layers: tuple[str, ...]) -> None:
    assert variables_after({**APP, **POINTED}, taken_off(layers, {**APP, **POINTED})) == APP


def test_an_adapter_pointed_elsewhere_is_not_freed() -> None:
    variables = {**APP, **POINTED, PROXY: "127.0.0.1:9002"}
    assert variables_after(variables, taken_off((layer(28),), variables)) == variables
