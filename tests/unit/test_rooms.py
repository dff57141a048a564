"""The rooms' contract (pyproject.toml): a module imports from rooms below its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def contract(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check what lies in `folder` instead of what is installed."""
    command = [
        str(Path(sys.executable).with_name("lint-imports")),
        "--config",
        str(ROOT / "pyproject.toml"),
        "--no-cache",
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("support/log.py", "from ..linux import procfs"),
        ("linux/procfs.py", "from ..measure import window"),
        ("linux/procfs.py", "from ..platform import http1"),
        ("measure/window.py", "from ..records import record"),
        ("records/emf.py", "from ..lifecycle import startup"),
    ],
)
def test_an_upward_import_breaks_the_contract(tmp_path: Path, module: str, statement: str) -> None:
    shutil.copytree(ROOT / "extension" / "truemem", tmp_path / "truemem", ignore=shutil.ignore_patterns("__pycache__"))
    assert contract(tmp_path).returncode == 0
    path = tmp_path / "truemem" / module
    path.write_text(path.read_text() + f"\n{statement}\n")
    broken = contract(tmp_path)
    assert broken.returncode == 1
    assert "truemem." + module.removesuffix(".py").replace("/", ".") in broken.stdout
