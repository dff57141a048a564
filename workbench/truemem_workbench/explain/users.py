"""Tells the user's own code from that of libraries."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

Frame = tuple[str, int]
"""File and line."""
Stack = tuple[Frame, ...]
"""Outermost first."""
INSTALLED = r"(?:.*/)?(?:site-packages|dist-packages)/"
"""Folders of libraries below the root."""


class Users:
    """The code below a task root, but not the libraries that lie there."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        flat = sorted({re.escape(name) for name in _installed(root)})
        self.foreign = "|".join((INSTALLED, *flat))
        """A regular expression: what follows the root in the files of libraries."""
        self._is_foreign = re.compile(self.foreign).match

    def is_theirs(self, frame: Frame) -> bool:
        return frame[0].startswith(self._root) and not self._is_foreign(frame[0], len(self._root))

    def way(self, stack: Stack) -> Stack:
        """The user's frames alone, outermost first."""
        return tuple(filter(self.is_theirs, stack))

    def line(self, stack: Stack) -> Frame | None:
        """The user's innermost frame. If there is none, the innermost of all."""
        way = self.way(stack)
        return way[-1] if way else stack[-1] if stack else None


def _installed(root: Path) -> Iterator[str]:
    """Folders and files that `sam build` or `pip install --target` have put beside the user's code.

    RECORD lists the files of a distribution
    (packaging.python.org/en/latest/specifications/recording-installed-packages).
    """
    for record in root.glob("*.dist-info/RECORD"):
        with record.open(encoding="utf-8", errors="replace", newline="") as file:
            for row in csv.reader(file):
                name, slash, _ = row[0].partition("/") if row else ("", "", "")
                if name not in ("", "..", ".") and not name.endswith(".dist-info"):
                    yield f"{name}{slash}"
