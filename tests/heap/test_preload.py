"""The probe is loaded by one variable, without a change of the function's code (layer/truemem/python)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from truemem_workbench.testing.environment import Environment

ROOT = Path(__file__).parents[2]
FUNCTION = Path(__file__).with_name("functions") / "imports_nothing.py"


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


def test_a_function_that_imports_nothing_has_the_heap_on_its_lines(layer: Path) -> None:
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


def started(layer: Path, program: str, *more: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """An interpreter with the folder and more on its path, outside Lambda unless `variables` say otherwise."""
    path = ":".join([folder(layer), *map(str, more)])
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "_HANDLER")}
    return subprocess.run(
        [sys.executable, "-c", program],
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


def test_an_extension_in_python_does_not_load_it(layer: Path) -> None:
    assert started(layer, LOADED).stdout == "[]\n"
    assert started(layer, RUNTIME).stdout == "['awslambdaric']\n"
    assert started(layer, RUNTIME, _HANDLER="app.handler").stdout == "['truemem_heap', 'awslambdaric']\n"


def test_a_wrapper_in_python_that_starts_the_runtime_passes_it_on(layer: Path) -> None:
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
