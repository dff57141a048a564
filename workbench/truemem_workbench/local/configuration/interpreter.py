"""Chooses the Python interpreter of a handler: the one that has the handler's dependencies."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ...support import client_start
from ...support.bad_input import BadInput
from .function import Function

START = Path(client_start.__file__)
TRIAL_S = 60
"""Longest wait in seconds for the interpreter to load the runtime client."""
_MISSING = re.compile(r"(?:ImportModuleError|ModuleNotFoundError)\b.*?No module named '([\w.]+)'")


def with_project_python(function: Function, asked: str | None = None) -> tuple[Function, tuple[str, ...]]:
    """The function as its project's interpreter runs it, and notices for the user. Raises BadInput.

    That interpreter is `asked` (a path, a command, or the folder of a virtual environment), else that of `.venv` in the
    handler's folder or above it, else that of the environment that is active (VIRTUAL_ENV), else our own.
    """
    if function.python is None:
        if asked is not None:
            raise BadInput(f"--python {asked}: {function.handler} is no Python handler. Leave --python out")
        return function, ()
    python = _located(asked) if asked is not None else _of_project(function.task_root)
    if python is None or _is_ours(python):
        return function, ()
    return _run_by(python, function)


def missing_module(text: str, python: Path | None) -> str | None:
    """Say which interpreter lacks which module, and what to type, if this error message is about that."""
    found = _MISSING.search(text)
    if found is None or python is None:
        return None
    return f"{python} has no module {found[1]!r}. Try {python} -m pip install {found[1].partition('.')[0]}"


def _located(asked: str) -> Path:
    path = Path(asked)
    if os.path.isdir(path):  # noqa: PTH112  # unlike pathlib's, it is false where there is no permission to look
        path /= "bin/python"
    elif os.sep not in asked and not path.exists():
        path = Path(shutil.which(asked) or asked)
    if not _is_there(path):
        raise BadInput(f"no interpreter {path}. Try --python PATH/bin/python, or the folder of a virtual environment")
    return path.absolute()  # not resolved: the link's own place says which environment it is


def _of_project(folder: Path) -> Path | None:
    trusted = {0, os.geteuid(), folder.stat().st_uid}  # another user's /tmp/.venv must not run
    places = [each / ".venv" for each in (folder, *folder.parents)]
    found = [place for place in places if os.path.isdir(place) and place.lstat().st_uid in trusted]  # noqa: PTH112
    if active := os.environ.get("VIRTUAL_ENV"):
        found.append(Path(active))
    pythons = (place.absolute() / "bin/python" for place in found)
    return next(filter(_is_there, pythons), None)


def _is_there(path: Path) -> bool:
    """Also true where there is no permission to look: running it will say that."""
    try:
        return path.exists()
    except PermissionError:
        return True


def _is_ours(python: Path) -> bool:
    own = Path(sys.executable)
    return python.parent.resolve() == own.parent.resolve() and python.resolve() == own.resolve()


def _run_by(python: Path, function: Function) -> tuple[Function, tuple[str, ...]]:
    folders = os.pathsep.join(dict.fromkeys(map(_folder_of, sorted(client_start.NAMES))))
    facts = _tried(python, folders)
    python, version = Path(facts["python"]), facts["version"]
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    notices = [f"the handler runs with {python} (Python {version}), not with truemem's own. --python chooses another"]
    if facts["standIn"]:
        notices.append(
            f"AWS's runtime client here is for Python {own}; for {version} a part of it is replaced, and the function"
            f" holds some MiB more. Try {python} -m pip install awslambdaric"
        )
    chosen = dataclasses.replace(
        function,
        command=(str(python), str(START), folders, function.command[-1]),
        runtime=f"python{version}",
        needs=(*function.needs, python, *map(Path, facts["needs"]), START),
        python=python,
    )
    return chosen, tuple(notices)


def _folder_of(name: str) -> str:
    """The folder in which our own environment has this module."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise BadInput(f"{name} is not installed for {sys.executable}. Try pip install awslambdaric")
    path = Path(spec.origin).parent
    return str(path.parent if spec.submodule_search_locations else path)


def _tried(python: Path, folders: str) -> dict[str, Any]:
    """Load the runtime client with this interpreter. Returns the facts that `client_start` prints."""
    # as the function will run: without the variables that change what this process of ours imports
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), str(START), folders]
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, errors="replace", timeout=TRIAL_S, check=False
        )
        facts = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 and done.stdout else None
    except PermissionError:
        raise BadInput(
            f"no permission to run {python}. Try chmod o+rx on it and its folders, or --python PATH"
        ) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{python} is no Python interpreter ({error}). Try --python PATH/bin/python") from None
    except subprocess.TimeoutExpired:
        raise BadInput(f"{python} did not start in {TRIAL_S} s. Try --python PATH") from None
    if not isinstance(facts, dict) or "python" not in facts:
        said = (done.stderr.splitlines() or ["it said nothing"])[-1]
        raise BadInput(
            f"{python} cannot load AWS's runtime client ({said}). Try --python with Python 3.10 or newer, or"
            f" {python} -m pip install awslambdaric"
        )
    return facts
