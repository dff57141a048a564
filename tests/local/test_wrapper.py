"""AWS_LAMBDA_EXEC_WRAPPER, as the bootstrap of managed runtimes honours it; and exact mode, which uses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.cli import local_run
from truemem_workbench.local import Function, Settings
from truemem_workbench.local.configuration import sidecar
from truemem_workbench.local.configuration.function import WRAPPER

from tests.local.conftest import APP, BOOTSTRAP, HANDLER, HERE, TOGETHER, Start

AGAIN = HERE / "wrappers" / "again"
REFUSES = HERE / "wrappers" / "refuses"


# --- the variable -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"freeze": "signal", "memory_limit": "watch"},
        {"freeze": "off", "memory_limit": "off"},
        {"initialization": "provisioned-concurrency"},
        {"initialization": "snap-start"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "default",
)
def test_a_managed_runtime_starts_through_it_and_stays_the_same_process(start: Start, settings: dict[str, Any]) -> None:
    local = start(environment={WRAPPER: str(AGAIN)}, behaviour={}, **settings)
    local.settle()
    before = local.processes()
    for answer in [local.invoke({"environment": True}) for _ in range(2)]:
        assert answer.payload["ROUNDS"] == "3"
        assert answer.payload["_HANDLER"] == "app.handler"
        assert local.report(answer.request_id).status == "success"
    assert local.invoke({"pid": True}).payload == before["runtime"]
    assert local.processes() == before


def test_managed_instances_start_through_it(start: Start) -> None:
    local = start(TOGETHER, environment={WRAPPER: str(AGAIN)}, managed_instances=2)
    assert local.invoke({}).payload["environment"]["ROUNDS"] == "3"


def test_after_a_reset_the_runtime_starts_through_it_again(start: Start) -> None:
    local = start(environment={WRAPPER: str(AGAIN)})
    assert local.report(local.invoke({"exit": 3}).request_id).error_type == "Runtime.ExitError"
    assert local.invoke({"environment": True}).payload["ROUNDS"] == "3"


def test_a_bootstrap_is_a_function_too_and_does_not_know_it(start: Start) -> None:
    local = start(BOOTSTRAP, environment={WRAPPER: str(REFUSES)})
    assert local.invoke({"a": 1}).payload == {"echo": {"a": 1}}
    assert local.finish({"a": 2}).payload == {"echo": {"a": 2}}
    assert [line.text for line in local.logs if line.source == "function"] == ["handling bootstrap"] * 2


def test_an_empty_one_is_none(start: Start) -> None:
    assert start(environment={WRAPPER: ""}).invoke({}).function_error is None


@pytest.mark.parametrize(
    ("wrapper", "code", "said"),
    [
        ("/opt/nowhere", 127, "/opt/nowhere: does not exist"),
        (str(APP), 126, f"{APP}: is not an executable"),
        (str(REFUSES), 9, None),
    ],
)
def test_one_that_does_not_start_the_runtime_fails_init(
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
def test_its_program_is_the_one_of_the_same_layer_or_package(tmp_path: Path, attached: str) -> None:
    path = made(tmp_path / attached)
    assert sidecar.exact(path) is None
    program = made(path.parents[1] / "truemem" / "exact")
    assert sidecar.exact(path) == program
    program.chmod(0o644)
    assert sidecar.exact(path) is None


def test_a_handler_has_a_variable_and_a_bootstrap_is_started_through_it(tmp_path: Path) -> None:
    attached = made(tmp_path / "truemem" / "run")
    handler, bootstrap = Function.from_spec(HANDLER), Function.from_spec(str(BOOTSTRAP))
    assert sidecar.in_exact_mode(handler, {"A": "B"}, attached) is None
    exact = made(tmp_path / "truemem" / "exact")
    assert sidecar.in_exact_mode(handler, {"A": "B"}, attached) == (handler, {"A": "B", WRAPPER: str(exact)})
    started = sidecar.in_exact_mode(bootstrap, {"A": "B"}, attached)
    assert started is not None
    assert started[0].command == (str(exact), str(BOOTSTRAP))
    assert started[1] == {"A": "B"}
    for chosen in ("/opt/other", ""):
        assert sidecar.in_exact_mode(handler, {WRAPPER: chosen}, attached) is None


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """What `truemem local run ARGUMENTS` would start its function with."""
    started: list[Settings] = []

    def run(_: Function, settings: Settings, **__: object) -> int:
        started.append(settings)
        return 0

    def variables_of(*arguments: str) -> dict[str, str]:
        local_run.run.main(list(arguments), standalone_mode=False)
        return dict(started[-1].environment)

    monkeypatch.setattr("truemem_workbench.cli.local_console.run", run)
    return variables_of


@pytest.mark.parametrize(
    ("arguments", "program", "expected"),
    [
        ([HANDLER], AGAIN, {WRAPPER: str(AGAIN)}),
        ([HANDLER], None, {}),
        ([HANDLER, "--no-exact"], AGAIN, {}),
        ([HANDLER, "--no-sidecar"], AGAIN, {}),
        ([HANDLER, "--env", f"{WRAPPER}=/opt/other"], AGAIN, {WRAPPER: "/opt/other"}),
        ([str(BOOTSTRAP)], AGAIN, {}),
    ],
    ids=["a handler", "no program", "switched off", "no sidecar", "another wrapper", "a bootstrap"],
)
def test_the_command_runs_handlers_in_exact_mode_where_its_program_is_there(
    variables: Callable[..., dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    program: Path | None,
    expected: dict[str, str],
) -> None:
    monkeypatch.setattr(sidecar, "exact", lambda _: program)
    assert variables(*arguments) == expected


def test_a_layers_folder_has_its_own_program(variables: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    made(tmp_path / "extensions" / "truemem")
    exact = made(tmp_path / "truemem" / "exact")
    assert variables(HANDLER, "--extensions", str(tmp_path / "extensions")) == {WRAPPER: str(exact)}
