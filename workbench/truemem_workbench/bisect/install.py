"""Installs packages for one version with the ordinary clients: uv or pip into a folder, npm beside the code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path

from ..support.bad_input import BadInput
from .search import Unready

MOST_S = 1800
"""Longest time for an installation, s."""
_ERROR = re.compile(r"(?:npm error|error:) (?!code |errno |syscall |path |A complete)(.+)", re.IGNORECASE)
QUIET_NPM = ("--no-audit", "--no-fund", "--loglevel=error")


def output(words: Sequence[str], folder: Path | None = None) -> str:
    """What a client prints. Raises Unready with what it says of an error, BadInput where it is not installed."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=MOST_S,
        )
    except FileNotFoundError:
        raise BadInput(f"there is no {words[0]} on the PATH. Install it first") from None
    except subprocess.TimeoutExpired:
        raise Unready(f"{words[0]} took longer than {MOST_S // 60} minutes") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [found[1] for line in said if (found := _ERROR.match(line))]
        told = errors[:1] if words[0] == "npm" else (errors or said)[-1:]  # npm begins with it, all others end
        raise Unready((told or said or [f"{words[0]} ended with exit code {done.returncode}"])[0][:300])
    return done.stdout


def npm_ci(lock: Path) -> None:
    """Install what this package-lock.json lists, beside it. Raises Unready."""
    output(["npm", "ci", *QUIET_NPM], lock.parent)


def run_build(command: str, folder: Path) -> None:
    """Run the user's own command in this folder. Raises Unready."""
    if not folder.is_dir():
        raise Unready(f"it has no folder {folder.name}")
    try:
        output(["sh", "-c", command], folder)
    except Unready as problem:
        raise Unready(f"--build: {problem}") from None


def pip(python: Path | None) -> list[str]:
    """The beginning of a pip command for this interpreter, which need not have pip itself."""
    own = Path(sys.executable)
    other = [] if python is None or python == own else ["--python", str(python)]
    return [str(own), "-m", "pip", "--disable-pip-version-check", "--no-input", *other]


def into_folder(what: Sequence[str], folder: Path, python: Path | None, cwd: Path | None = None) -> None:
    """Install packages of Python into a folder: with uv, if it is on the PATH and can, else with pip, which may know an
    index that uv does not. Raises Unready."""
    if uv := shutil.which("uv"):
        with suppress(Unready):
            fast = [uv, "pip", "install", "--quiet", "--python", str(python or sys.executable)]
            output([*fast, "--target", str(folder), *what], cwd)
            return
    shutil.rmtree(folder, ignore_errors=True)  # half of it is none
    try:
        output([*pip(python), "install", "--quiet", "--target", str(folder), *what], cwd)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def with_python(python: Path | None) -> list[tuple[str, str]]:
    """The option for this interpreter of a handler. None is needed for our own, which then stands for a runtime."""
    return [] if python is None or python == Path(sys.executable) else [("--python", str(python))]


def with_folder(folder: Path, own_path: str | None) -> list[tuple[str, str]]:
    """The option with which a handler in Python finds this folder's packages before those of its interpreter."""
    return [("--env", f"PYTHONPATH={os.pathsep.join(filter(None, (str(folder), own_path)))}")]


def required(requirements: Path, place: Path, python: Path | None) -> Path:
    """A folder in `place` with what this requirements.txt lists, made once for each content. Raises Unready."""
    folder = place / f"packages-{sha256(requirements.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        into_folder(["-r", requirements.name], folder, python, requirements.parent)
    return folder


def installed(folder: Path) -> dict[str, str]:
    """The packages of Python in this folder, by name, with their versions."""
    return {each.name: each.version for each in distributions(path=[str(folder)])}


def differences(was: Mapping[str, str], now: Mapping[str, str], but: str = "") -> list[str]:
    """The packages whose versions differ, each in words, without that of the name `but`."""
    names = sorted(each for each in {*was, *now} if was.get(each) != now.get(each) and each.lower() != but.lower())
    return [f"{each} {was.get(each, '(none)')} to {now.get(each, '(none)')}" for each in names]
