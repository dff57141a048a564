"""AWS_LAMBDA_EXEC_WRAPPER, as the bootstrap of managed runtimes honours it; and exact mode, which uses it."""

from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.local import Function
from truemem_workbench.local.configuration import layer
from truemem_workbench.local.configuration.function import WRAPPER

from tests.local.conftest import APP, BOOTSTRAP, HANDLER, HERE, TOGETHER, SettingsOf, Start

AGAIN = HERE / "wrappers" / "again"
REFUSES = HERE / "wrappers" / "refuses"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"freeze": "signal", "memory_limit": "watch"},
        {"initialization": "snap-start"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "default",
)
def test_a_managed_runtime_starts_through_the_wrapper(start: Start, settings: dict[str, Any]) -> None:
    """And stays the same process, until a reset."""
    local = start(environment={WRAPPER: str(AGAIN)}, behaviour={}, **settings)
    local.settle()
    before = local.processes()
    for answer in [local.invoke({"environment": True}) for _ in range(2)]:
        assert answer.payload["ROUNDS"] == "3"
        assert answer.payload["_HANDLER"] == "app.handler"
        assert local.report(answer.request_id).status == "success"
    assert local.invoke({"pid": True}).payload == before["runtime"]
    assert local.processes() == before
    if not settings:
        assert local.report(local.invoke({"exit": 3}).request_id).error_type == "Runtime.ExitError"
        assert local.invoke({"environment": True}).payload["ROUNDS"] == "3"


def test_managed_instances_start_through_the_wrapper(start: Start) -> None:
    local = start(TOGETHER, environment={WRAPPER: str(AGAIN)}, managed_instances=2)
    assert local.invoke({}).payload["environment"]["ROUNDS"] == "3"


def test_a_bootstrap_does_not_know_the_wrapper(start: Start) -> None:
    local = start(BOOTSTRAP, environment={WRAPPER: str(REFUSES)})
    assert local.invoke({"a": 1}).payload == {"echo": {"a": 1}}
    assert local.finish({"a": 2}).payload == {"echo": {"a": 2}}
    assert [line.text for line in local.logs if line.source == "function"] == ["handling bootstrap"] * 2


def test_an_empty_wrapper_is_none(start: Start) -> None:
    assert start(environment={WRAPPER: ""}).invoke({}).function_error is None


@pytest.mark.parametrize(
    ("wrapper", "code", "said"),
    [
        ("/opt/nowhere", 127, "/opt/nowhere: does not exist"),
        (str(APP), 126, f"{APP}: is not an executable"),
        (str(REFUSES), 9, None),
    ],
)
def test_a_wrapper_that_does_not_start_the_runtime_fails_init(
    start: Start, wrapper: str, code: int, said: str | None
) -> None:
    local = start(environment={WRAPPER: wrapper})
    answer = local.invoke({})
    assert answer.payload == {
        "errorType": "Runtime.ExitError",
        "errorMessage": f"RequestId: {answer.request_id} Error: Runtime exited with error: exit status {code}",
    }
    written = [line.text for line in local.logs if line.source == "function"]
    assert written == ([said, said] if said else [])  # init, and init again within the invocation


# --- exact mode -------------------------------------------------------------------------------------------------------


def made(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode)
    return path


@pytest.mark.parametrize("attached", ["layer/extensions/truemem", "site-packages/truemem/run"])
def test_the_program_is_that_of_the_same_layer_or_package(tmp_path: Path, attached: str) -> None:
    path = made(tmp_path / attached)
    assert layer.exact_program(path) is None
    program = made(path.parents[1] / "truemem" / "exact")
    assert layer.exact_program(path) == program
    program.chmod(0o644)
    assert layer.exact_program(path) is None


def test_a_handler_gets_a_variable_a_bootstrap_a_command(tmp_path: Path) -> None:
    attached = made(tmp_path / "truemem" / "run")
    handler, bootstrap = Function.from_spec(HANDLER), Function.from_spec(str(BOOTSTRAP))
    assert layer.in_exact_mode(handler, {"A": "B"}, attached) is None
    exact = made(tmp_path / "truemem" / "exact")
    assert layer.in_exact_mode(handler, {"A": "B"}, attached) == (handler, {"A": "B", WRAPPER: str(exact)})
    started = layer.in_exact_mode(bootstrap, {"A": "B"}, attached)
    assert started is not None
    assert (started[0].command, started[1]) == ((str(exact), str(BOOTSTRAP)), {"A": "B"})
    for chosen in ("/opt/other", ""):
        assert layer.in_exact_mode(handler, {WRAPPER: chosen}, attached) is None


def test_the_command_runs_handlers_in_exact_mode(
    settings_of: SettingsOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def variables(*arguments: str) -> dict[str, str]:
        return dict(settings_of(*arguments).environment)

    made(tmp_path / "extensions" / "truemem")
    exact = made(tmp_path / "truemem" / "exact")  # a layer's folder has its own
    assert variables(HANDLER, "--extensions", str(tmp_path / "extensions")) == {WRAPPER: str(exact)}
    monkeypatch.setattr(layer, "exact_program", lambda _: AGAIN)
    assert variables(HANDLER) == {WRAPPER: str(AGAIN)}
    assert variables(HANDLER, "--env", f"{WRAPPER}=/opt/other") == {WRAPPER: "/opt/other"}
    for arguments in ([HANDLER, "--no-exact"], [HANDLER, "--no-sidecar"], [str(BOOTSTRAP)]):
        assert variables(*arguments) == {}
    monkeypatch.setattr(layer, "exact_program", lambda _: None)
    assert variables(HANDLER) == {}
