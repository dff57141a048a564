"""AWS's own runtime clients for other interpreters than ours: installed once, in folders below the one of our own.

Each of these functions raises Missing where this machine cannot have the client.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

NODE_PROJECT = Path(__file__).with_name("node")
LOCK = Path(__file__).parents[3] / "requirements.lock"
WANTED = ("awslambdaric", "simplejson", "snapshot-restore-py")
"""AWS's client and what it needs."""
CACHE = LOCK.parent / ".venv" / "clients"

BUILDING = ("cmake", "make", "g++", "xz", "python3")
"""aws-lambda-ric compiles curl and an addon of its own when it is installed."""


class Missing(Exception):
    """What this machine lacks."""


def python(version: str) -> Path:
    """An interpreter of that version ("3.12") that has awslambdaric."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    folder = CACHE / f"python{version}"
    requirements = _requirements()
    if not _ready(folder, requirements):
        _begin(folder)
        _run([str(_interpreter(version)), "-m", "venv", str(folder)])
        listed = folder / "requirements.txt"
        listed.write_text(requirements)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--no-deps", "--require-hashes", "-r", str(listed)])
        _finish(folder, requirements)
    return folder / "bin" / "python"


def node() -> Path:
    """The node on the path."""
    found = shutil.which("node")
    if found is None:
        raise Missing("there is no node on the path")
    return Path(found)


def aws_lambda_ric() -> Path:
    """The script of aws-lambda-ric, to be run by `node()`. Installing it takes a minute or two."""
    program = node()
    folder = CACHE / "node"
    made_of = (NODE_PROJECT / "package-lock.json").read_text() + _run([str(program), "--version"])
    if not _ready(folder, made_of):
        lacking = [tool for tool in ("npm", *BUILDING) if shutil.which(tool) is None]
        if lacking:
            raise Missing(f"aws-lambda-ric is built with {', '.join(lacking)}, not to be found here")
        _begin(folder)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(NODE_PROJECT / name, folder)
        _run(["npm", "ci", "--omit=dev", "--no-audit", "--no-fund", "--prefix", str(folder)])
        _finish(folder, made_of)
    return folder / "node_modules" / "aws-lambda-ric" / "index.mjs"


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


def _ready(folder: Path, made_of: str) -> bool:
    made = folder / ".made-of"
    return made.is_file() and made.read_text() == made_of


def _begin(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _finish(folder: Path, made_of: str) -> None:
    (folder / ".made-of").write_text(made_of)


def _run(command: list[str]) -> str:
    """Its output. A command that fails is a machine without network, or without what the build needs."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        raise Missing(f"{' '.join(command[:4])} failed: {last}")
    return done.stdout
