"""The contracts of pyproject.toml: a module imports from below, in no circle, and only tests from tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from truemem.startup import WINGS

ROOT = Path(__file__).parents[2]
PLACES = {"truemem": ROOT / "extension", "truemem_workbench": ROOT / "workbench", "testing": ROOT}


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check what lies in `folder` instead of what is installed."""
    command: list[str | Path] = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    command += ["--config", ROOT / "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("truemem.support.log", "from ..linux import procfs"),
        ("truemem.linux.procfs", "from ..measure import window"),
        ("truemem.linux.procfs", "from ..platform import http1"),
        ("truemem.measure.window", "from ..records import record"),
        ("truemem.records.record", "from .. import startup"),
        ("truemem.lifecycle.publisher", f"from .. import {next(iter(WINGS))}"),
        ("truemem_workbench.support.terminal", "from truemem_workbench.lines import record"),
        ("truemem_workbench.analysis.drift", "def late() -> None:\n    from truemem_workbench.report import summary"),
        ("truemem_workbench.local.lifecycle.generation", "from truemem_workbench.local.apis import http"),
        ("truemem_workbench.local.processes.memory", "from truemem_workbench.local import LocalLambda"),
        ("truemem_workbench.check.template_yaml", "def late() -> None:\n    from .target import from_template"),
        ("truemem_workbench.local.processes.memory", "from testing import environment"),
        ("testing.workload", "from tests import golden"),
    ],
)
def test_a_wrong_import_breaks_a_contract(tmp_path: Path, module: str, statement: str) -> None:
    package, *inner = module.split(".")
    shutil.copytree(PLACES[package] / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path.joinpath(package, *inner).with_suffix(".py")
    path.write_text(path.read_text() + f"\n{statement}\n")
    broken = contracts(tmp_path)
    assert broken.returncode == 1
    assert f".{inner[-1]}" in broken.stdout
