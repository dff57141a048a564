"""The sidecar's source without some of its wings: `make layer WITHOUT=managed,outputs`, and `make deletable`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from .errors import BuildError

WING_ROW = re.compile(r'^    "(\w+)": (\w+)\.door,\n', re.MULTILINE)
"""A row of startup.WINGS."""


def names(sidecar: Path) -> list[str]:
    """The wings of the sidecar in this folder, by its table."""
    return [name for name, _ in WING_ROW.findall((sidecar / "startup.py").read_text())]


def remove(sidecar: Path, unwanted: Iterable[str]) -> None:
    """Remove wings from a folder with the sidecar: their packages, rows and imports. Raises BuildError for a name that
    is none."""
    startup, known = sidecar / "startup.py", names(sidecar)
    text = startup.read_text()
    for name in unwanted:
        if name not in known:
            raise BuildError(f"WITHOUT={name}: no such wing; there are {', '.join(known)}")
        shutil.rmtree(sidecar / name)
        text = text.replace(f'    "{name}": {name}.door,\n', "")
        text = re.sub(rf"^(from \. import .*?)\b{name}\b(, )?", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"^from \. import *\n", "", text, flags=re.MULTILINE)
    startup.write_text(re.sub(r"^(from \. import .*), *$", r"\1", text, flags=re.MULTILINE))


def without(sidecar: Path, unwanted: Iterable[str], work: Path) -> Path:
    """A copy of the sidecar below `work`, without these wings. Raises BuildError."""
    copy = work / sidecar.name
    shutil.copytree(sidecar, copy, ignore=shutil.ignore_patterns("__pycache__"))
    remove(copy, unwanted)
    return copy
