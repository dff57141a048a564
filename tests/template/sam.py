"""AWS's SAM CLI in a virtual environment of its own, below ours: installed once, by hash."""

import os
import subprocess
from pathlib import Path

from testing.installs import python_packages
from tests.scenarios.clients import installed

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "deploy" / "sam.lock"
FOLDER = ROOT / ".venv" / "sam"

LONGEST_S = 540
"""A first build compiles CPython: four minutes on two cores."""


def program() -> Path:
    """The `sam` command. Raises Missing where it cannot be installed."""
    return python_packages(FOLDER, LOCK.read_text()) / "sam"


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
