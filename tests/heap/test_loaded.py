"""`truemem check`, `truemem local run` and the marker load the probe by themselves; functions see nothing of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from truemem_workbench.check.local_run import Run
from truemem_workbench.check.marker import MemoryMarker
from truemem_workbench.check.target import Target
from truemem_workbench.cli.__main__ import cli
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration import heap_probe
from truemem_workbench.local.configuration.heap_probe import with_probe
from truemem_workbench.testing.environment import Environment

from tests.heap.test_node import REQUIRED
from tests.heap.test_node import function as node

SEES = Path(__file__).with_name("functions") / "sees.py"
BOOTSTRAP = Path(__file__).parents[1] / "local" / "functions" / "bootstrap"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node on the path")


def heaps(run: Run, events: list[Any]) -> list[dict[str, object] | None]:
    """`heap` on the line of each invocation but the last, whose page ends with the environment."""
    with run:
        for event in events:
            assert run.invoke(event).function_error is None
        lines = [seen.line for seen in run.measurement(0).seen]
    return [line.members.get("heap") for line in lines[:-1]]


@pytest.mark.parametrize("exact", [True, False])
def test_a_run_of_check_has_the_heap_of_python(exact: bool) -> None:
    target = Target(spec="sees", name="sees", function=Function.from_handler(f"{SEES}:handler"))
    found = heaps(Run(target, exact=exact), [{}] * 3)
    assert all(heap and heap["inUse"] for heap in found)
    assert heaps(Run(target, exact=exact, probe=False), [{}] * 2) == [None]


@needs_node
def test_a_run_of_check_has_the_heap_of_nodejs() -> None:
    target = Target(spec="node", name="node", function=node(), environment={"CLIENT": "fetch"})
    found = heaps(Run(target), [{"do": "nothing"}] * 3)
    assert [heap and heap["runtime"] for heap in found] == ["nodejs"] * 2
    assert heaps(Run(target, probe=False), [{"do": "nothing"}] * 2) == [None]


def told(*options: str) -> list[dict[str, Any]]:
    """The lines of two invocations under `truemem local run`."""
    arguments = ["local", "run", f"{SEES}:handler", "--event", "{}", "--invocations", "2", "--json", *options]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    texts = [json.loads(line).get("log", {}).get("text", "") for line in done.stdout.splitlines()]
    return [line for line in map(json.loads, filter(lambda text: text.startswith("{"), texts)) if "PeakRSS" in line]


def test_local_run_has_it_unless_told_otherwise() -> None:
    assert told()[0]["heap"]["inUse"] > 0
    assert [line.get("heap") for line in told("--no-probe")] == [None, None]


def test_the_marker_leaves_it_out_where_asked() -> None:
    assert MemoryMarker("app.py:handler").probe
    assert not MemoryMarker("app.py:handler", probe=False).probe


OF_ONE_RUN = ("AWS_LAMBDA_RUNTIME_API", "AWS_LAMBDA_LOG_STREAM_NAME", "TMPDIR", "_X_AMZN_TRACE_ID")
"""Variables that are others in each environment."""


def answer(function: Function, variables: Mapping[str, str], event: object = None) -> Any:
    with LocalLambda(function, Settings(environment=variables)) as local:
        invocation = local.invoke(event)
    assert invocation.function_error is None, invocation.payload
    return invocation.payload


def seen(variables: Mapping[str, str], *, probe: bool) -> Any:
    function = Function.from_handler(f"{SEES}:handler")
    found = answer(with_probe(function, variables) if probe else function, variables)
    for environment in (found["environment"], found["child"]["environment"]):
        for name in OF_ONE_RUN:
            environment.pop(name, None)
    return found


@pytest.mark.parametrize("path", [{}, {"PYTHONPATH": ""}, {"PYTHONPATH": "/var/runtime"}, {"PYTHONPATH": "lib:/opt/x"}])
def test_the_function_and_its_children_see_no_difference(path: dict[str, str]) -> None:
    plain, loaded = seen(path, probe=False), seen(path, probe=True)
    if path == {"PYTHONPATH": ""}:  # Python takes it for not set, and so do we
        for each in (plain, plain["child"]):
            assert each["environment"].pop("PYTHONPATH") == ""
    assert loaded == plain


@needs_node
@pytest.mark.parametrize("options", [{}, {"NODE_OPTIONS": "--max-old-space-size=300 --no-warnings"}])
def test_a_node_function_and_its_children_see_no_difference(options: dict[str, str]) -> None:
    variables = {"CLIENT": "fetch", **options}
    plain = answer(node(), variables, {"do": "look"})
    loaded = answer(with_probe(node(), variables), variables, {"do": "look"})
    assert plain["answer"].pop("probes") == []
    assert len(loaded["answer"].pop("probes")) <= 1
    assert loaded == plain


@needs_node
def test_a_second_preload_of_it_is_not_added() -> None:
    for options in (REQUIRED, "--permission --allow-fs-read=*", "--experimental-permission"):
        assert with_probe(node(), {"NODE_OPTIONS": options}).variables == {}
    assert with_probe(node(flags=["--experimental-permission"]), {}).variables == {}


def test_another_runtime_is_left_as_it_is() -> None:
    bootstrap = Function.from_bootstrap(BOOTSTRAP)
    assert with_probe(bootstrap, {}) is bootstrap


def test_an_extension_does_not_get_the_variable() -> None:
    function = with_probe(Function.from_handler(f"{SEES}:handler"), {})
    with Environment(function) as running:
        running.invoke("nothing")
        sidecar = running.local.processes()[f"extension:{running.name}"]
        variables = Path(f"/proc/{sidecar}/environ").read_bytes()
        assert b"PYTHONPATH" not in variables
        assert b"AWS_LAMBDA_RUNTIME_API" in variables


@pytest.mark.parametrize("name", ["with space", "colon:inside", 'quote"inside'])
def test_a_folder_of_any_name_fails_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.path.realpath("/tmp"), f"truemem-test-{os.getpid()}", name)
    shutil.copytree(heap_probe.CHECKOUT, folder / "layer", ignore=shutil.ignore_patterns("*.lock", "__pycache__"))
    try:
        monkeypatch.setattr(heap_probe, "CHECKOUT", folder / "layer")
        plain, loaded = seen({}, probe=False), seen({}, probe=True)
        assert loaded == plain
        if shutil.which("node"):
            variables = {"CLIENT": "fetch"}
            found = with_probe(node(), variables)
            assert bool(found.variables) is (name == "with space")
            assert answer(found, variables, {"do": "look"})["answer"]["error"] == ""
    finally:
        shutil.rmtree(folder.parent)


def test_without_the_files_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(heap_probe, "CHECKOUT", tmp_path)
    function = Function.from_handler(f"{SEES}:handler")
    assert with_probe(function, {}) is function
    (tmp_path / "truemem" / "python").mkdir(parents=True)
    assert with_probe(function, {}) is function
