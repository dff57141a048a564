"""AWS's own runtime clients for other interpreters than ours: installed once, in folders below the one of our own.

Each of these functions raises Missing where this machine cannot have the client.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from truemem_workbench.local import BadInput
from truemem_workbench.local.configuration.node_function import installed_client

from testing.installs import CACHE, Missing, python_packages

LOCK = Path(__file__).parents[3] / "requirements.lock"
WANTED = ("awslambdaric", "simplejson", "snapshot-restore-py")
"""AWS's client and what it needs."""


def python(version: str) -> Path:
    """An interpreter of that version ("3.12") that has awslambdaric."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    return python_packages(CACHE / f"python{version}", _requirements(), _interpreter(version)) / "python"


def node() -> Path:
    """The node on the path."""
    found = shutil.which("node")
    if found is None:
        raise Missing("there is no node on the path")
    return Path(found)


def aws_lambda_ric() -> Path:
    """The script of aws-lambda-ric, to be run by `node()`. Installing it takes a minute or two."""
    try:
        return installed_client(node())
    except BadInput as problem:
        raise Missing(str(problem)) from None


def _interpreter(version: str) -> Path:
    """One of pyenv's, or the one on the path. A shim of pyenv is on the path for versions it does not run."""
    places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    for place in [*places, *([Path(on_path)] if on_path else [])]:
        asked = [str(place), "-c", "import ensurepip, sys; print(sys.version)"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.startswith(f"{version}."):
            return place
    raise Missing(f"there is no python{version}, neither on the path nor of pyenv")


def _requirements() -> str:
    """Their part of the lock file, hashes included."""
    parts = re.split(r"\n(?=\S)", LOCK.read_text())
    return "\n".join(part for part in parts if part.partition("==")[0] in WANTED)
