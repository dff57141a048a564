"""AWS's SAM CLI in a virtual environment of its own, below ours: installed once, by hash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.scenarios.clients import installed
from tests.scenarios.clients.installed import Missing

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "deploy" / "sam.lock"
FOLDER = ROOT / ".venv" / "sam"

LONGEST_S = 540
"""A first build compiles CPython: four minutes on two cores."""


def program() -> Path:
    """The `sam` command. Raises Missing where it cannot be installed."""
    made_of = LOCK.read_text()
    ready = FOLDER / ".made-of"
    if not ready.is_file() or ready.read_text() != made_of:
        shutil.rmtree(FOLDER, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(FOLDER)])
        pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--require-hashes", "-r", str(LOCK)])
        ready.write_text(made_of)
    return FOLDER / "bin" / "sam"


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`sam ARGUMENTS` in `folder`, without telemetry and without an account. Raises Missing."""
    # Found as a user's would be, on the path: SAM resolves each function's packages with its runtime's own Python.
    interpreter = installed.python("3.13").resolve()
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    variables |= {
        "SAM_CLI_TELEMETRY": "0",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "PATH": os.pathsep.join([str(interpreter.parent), os.environ["PATH"]]),
        "HOME": os.environ.get("HOME", "/"),
    }
    return subprocess.run(
        [program(), *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )


def build(folder: Path) -> Path:
    """`sam build`; the folder of its artifacts. Raises Missing, AssertionError."""
    target = folder / "build"
    done = run("build", "--template", str(ROOT / "template.yaml"), "--build-dir", str(target), folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{' '.join(command[1:4])} failed: {done.stderr.strip().rpartition(chr(10))[2]}")
