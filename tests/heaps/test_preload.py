"""The probe is loaded by one variable, without a change of the function's code (layer/truemem/python)."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import awslambdaric
import pytest
from click.testing import CliRunner
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration import layer as layer_files
from truemem_workbench.local.configuration.layer import CHECKOUT, may_probe, with_probe
from truemem_workbench.runs.here import Run
from truemem_workbench.target.target import Target

from testing import installs
from testing.environment import Environment
from tests.heaps.test_node import FUNCTIONS, REQUIRED
from tests.heaps.test_node import function as node

ROOT = Path(__file__).parents[2]
FUNCTION = Path(__file__).with_name("functions") / "imports_nothing.py"
PYTHON: str = getattr(sys, "_base_executable", sys.executable)
"""Not the virtual environment's: there, Python imports no `usercustomize`."""
CLIENTS = Path(awslambdaric.__file__).parents[1]
"""Folder of AWS's client."""


@pytest.fixture
def layer() -> Iterator[Path]:
    """/opt as the layer makes it, as far as Python functions see it. Not pytest's folder: only root can read that."""
    with tempfile.TemporaryDirectory() as name:
        for folder in ("python", "truemem"):
            shutil.copytree(ROOT / "layer" / folder, Path(name, folder))
        Path(name).chmod(0o755)
        yield Path(name)


def folder(layer: Path) -> str:
    return str(layer / "truemem" / "python")


def test_a_function_without_the_import_has_its_heap(layer: Path) -> None:
    with Environment(FUNCTION, environment={"PYTHONPATH": f"{folder(layer)}:/var/runtime"}) as running:
        answer = running.invoke(mib=8)
        for _ in range(2):
            running.invoke(mib=8)
        first, second = running.records()[:2]
    held = [record.heap["inUse"] + record.heap["mapped"] for record in (first, second)]
    assert held[1] - held[0] == pytest.approx(8, abs=2)
    assert answer["PYTHONPATH"] == "/var/runtime"
    assert folder(layer) not in answer["path"]
    assert answer["child"][0] == "False"
    assert folder(layer) not in answer["child"]


@pytest.mark.parametrize("lost", ["python/truemem_heap.py", "python"])
def test_without_the_probe_the_function_runs_as_ever(layer: Path, lost: str) -> None:
    gone = layer / lost
    gone.unlink() if gone.is_file() else shutil.rmtree(gone)
    with Environment(FUNCTION, environment={"PYTHONPATH": folder(layer)}) as running:
        answer = running.invoke()
        running.invoke()
        assert "heap" not in running.records()[0].line
    assert answer["PYTHONPATH"] is None


def started(
    layer: Path,
    program: str,
    *more: Path,
    before: tuple[Path, ...] = (),
    options: tuple[str, ...] = (),
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """An interpreter with the folder and more on its path, outside Lambda unless `variables` say otherwise."""
    path = ":".join([*map(str, before), folder(layer), *map(str, more)])
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "_HANDLER")}
    return subprocess.run(
        [PYTHON if before else sys.executable, *options, "-c", program],
        env={**clean, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_functions_own_sitecustomize_runs_as_well(layer: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('own')\nMARK = 1\n")
    done = started(layer, "import sitecustomize; print(sitecustomize.MARK)", tmp_path, _HANDLER="app.handler")
    assert (done.stdout.split(), done.stderr) == (["own", "1"], "")


def test_an_error_of_it_is_told_and_ends_nothing_as_without_us(layer: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise RuntimeError('own')\n")
    done = started(layer, "print('runs')", tmp_path)
    assert done.stdout == "runs\n"
    assert "RuntimeError: own" in done.stderr


LOADED = "import sys; print([name for name in ('truemem_heap', 'awslambdaric') if name in sys.modules])"
RUNTIME = f"import awslambdaric.bootstrap; {LOADED}"


@pytest.mark.parametrize("name", ["sitecustomize", "usercustomize"])
def test_another_customization_before_ours_is_no_end(layer: Path, tmp_path: Path, name: str) -> None:
    """OpenTelemetry's wrapper puts its `sitecustomize` first on the path."""
    (tmp_path / f"{name}.py").write_text("print('first')\n")
    after = tmp_path / "after"
    after.mkdir()
    (after / "usercustomize.py").write_text("print('after')\n")
    done = started(layer, RUNTIME, after, CLIENTS, before=(tmp_path,), _HANDLER="app.handler")
    assert (done.stdout, done.stderr) == (
        "first\n" + "after\n" * (name == "sitecustomize") + "['truemem_heap', 'awslambdaric']\n",
        "",
    )


def test_an_isolated_python_runs_without_the_probe(layer: Path) -> None:
    """`-I` has Python ignore PYTHONPATH."""
    done = started(layer, RUNTIME, options=("-I",), _HANDLER="app.handler")
    assert (done.stdout, done.stderr) == ("['awslambdaric']\n", "")


def test_an_extension_in_python_does_not_load_it(layer: Path) -> None:
    assert started(layer, LOADED).stdout == "[]\n"
    assert started(layer, RUNTIME).stdout == "['awslambdaric']\n"
    assert started(layer, RUNTIME, _HANDLER="app.handler").stdout == "['truemem_heap', 'awslambdaric']\n"


def test_a_wrapper_in_python_passes_the_probe_on(layer: Path) -> None:
    program = f"import os, sys; os.execv(sys.executable, [sys.executable, '-c', {RUNTIME!r}])"
    assert started(layer, program, _HANDLER="app.handler").stdout == "['truemem_heap', 'awslambdaric']\n"


def test_the_client_is_the_one_that_the_runtime_finds(layer: Path, tmp_path: Path) -> None:
    """Lambda's client can be beside the runtime's program, first on the path; another one is in the task."""
    for place in ("runtime", "task"):
        (tmp_path / place / "awslambdaric").mkdir(parents=True)
        (tmp_path / place / "awslambdaric" / "__init__.py").touch()
        (tmp_path / place / "awslambdaric" / "lambda_runtime_client.py").write_text(f"WHOSE = {place!r}")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'runtime')!r}); "
        "from awslambdaric.lambda_runtime_client import WHOSE; print(WHOSE)"
    )
    done = started(layer, program, tmp_path / "task", _HANDLER="app.handler", AWS_LAMBDA_RUNTIME_API="x")
    assert (done.stdout, done.stderr) == ("runtime\n", "")


# By itself


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
    found = heaps(Run(replace(target, exact=exact)), [{}] * 3)
    assert all(heap and heap["inUse"] for heap in found)
    assert heaps(Run(replace(target, exact=exact, probe=False)), [{}] * 2) == [None]


@needs_node
def test_a_run_of_check_has_the_heap_of_nodejs() -> None:
    target = Target(spec="node", name="node", function=node(), environment={"CLIENT": "fetch"})
    found = heaps(Run(target), [{"do": "nothing"}] * 3)
    assert [heap and heap["runtime"] for heap in found] == ["nodejs"] * 2
    assert heaps(Run(replace(target, probe=False)), [{"do": "nothing"}] * 2) == [None]


def told(*options: str) -> list[dict[str, Any]]:
    """The lines of two invocations under `truemem local run`."""
    counts = ("--event", "{}", "--invocations", "2", "--cpu", "off")
    arguments = ["local", "run", f"{SEES}:handler", *counts, "--json", *options]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    texts = [json.loads(line).get("log", {}).get("text", "") for line in done.stdout.splitlines()]
    return [line for line in map(json.loads, filter(lambda text: text.startswith("{"), texts)) if "PeakRSS" in line]


def test_local_run_has_it_unless_told_otherwise() -> None:
    assert told()[0]["heap"]["inUse"] > 0
    assert [line.get("heap") for line in told("--no-probe")] == [None, None]


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
    assert with_probe(node(), {"NODE_OPTIONS": REQUIRED}).variables == {}


# --- Node.js's permission model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "may"),
    [
        ("--no-warnings --allow-fs-read=/none", True),
        ("--permission", False),
        ("--permission --allow-fs-read=* --allow-fs-write=*", True),
        ("--experimental-permission --allow-fs-read=/opt --allow-fs-write=/tmp", True),
        ("--permission --allow-fs-read=/var/task,/opt/* --allow-fs-write=/tmp/", True),
        ("--permission --allow-fs-read=/var/task/ --allow-fs-read /opt/truemem/ --allow-fs-write=/tm*", True),
        ("--permission --allow-fs-read=*", False),
        ("--permission --allow-fs-read=/opt/true --allow-fs-write=*", False),
        ("--permission --allow-fs-read=/opt/truemem/heap.cjs --allow-fs-write=*", False),
        ("--permission --allow-fs-read=opt --allow-fs-write=*", False),
        ("--permission --allow-fs-read=* --allow-fs-write=/tmp/mine/", False),
    ],
)
def test_permission_to_read_it_and_to_write_is_needed(options: str, may: bool) -> None:
    assert may_probe("/opt/truemem", options) is may


@pytest.mark.parametrize("version", ["20", "22", "24"])
def test_under_permissions_node_runs_with_a_heap_or_without(version: str) -> None:
    """Node.js 20 would not start with a file that it may not read."""
    try:
        program = installs.node(version)
    except installs.Missing as missing:
        pytest.skip(str(missing))
    function = node(program=program)
    own = f"--{'experimental-' * (version == '20')}permission --allow-fs-read={FUNCTIONS}/"
    for granted in ("", f" --allow-fs-read={CHECKOUT}/", f" --allow-fs-read={CHECKOUT}/ --allow-fs-write=/tmp/"):
        variables = {"NODE_OPTIONS": own + granted, "TRUEMEM_LINES": "on"}
        with Environment(with_probe(function, variables), environment=variables, memory_mib=512) as running:
            for _ in range(20):
                running.invoke("leak", mib=1)
            heaps = [record.heap for record in running.records()]
        assert any(heaps) is ("write" in granted), granted


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
    shutil.copytree(CHECKOUT, folder / "layer", ignore=shutil.ignore_patterns("*.lock", "__pycache__"))
    try:
        monkeypatch.setattr(layer_files, "CHECKOUT", folder / "layer")
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
    monkeypatch.setattr(layer_files, "CHECKOUT", tmp_path)
    function = Function.from_handler(f"{SEES}:handler")
    assert with_probe(function, {}) is function
    (tmp_path / "truemem" / "python").mkdir(parents=True)
    assert with_probe(function, {}) is function
