"""The files of a project, within limits: a large repository must not keep its user waiting."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_FILES, MOST_DEPTH, MOST_S = 20_000, 10, 5.0
"""Most files, folders one in the other, and seconds of a search."""
MOST_BYTES = 1 << 20
"""Most bytes of a source that a person has written."""
LEFT_OUT = frozenset(
    (
        "node_modules", "venv", "env", "site-packages", "__pycache__", "vendor", "test", "tests", "__tests__", "spec",
        "dist", "build", "out", "target", "coverage", "cdk.out", "memory-events", "docs", "layers",
    )
)  # fmt: skip
"""Folders of packages, of tests, and of what is built. So are those whose names begin with a dot."""


@dataclass(frozen=True)
class Tree:
    """The files below a folder, those near its top first."""

    root: Path
    files: tuple[Path, ...]
    is_whole: bool = True
    """False: a limit of the search ended it."""

    def named(self, *names: str) -> list[Path]:
        """Files of these names."""
        return [path for path in self.files if path.name in names]

    def ending(self, *endings: str) -> list[Path]:
        """Files with these endings."""
        return [path for path in self.files if path.suffix in endings]

    def newest(self, folder: Path, *endings: str) -> float:
        """When the newest file below the folder, with one of these endings or any, was written: seconds since 1970."""
        below = (path for path in self.files if folder == path.parent or folder in path.parents)
        return max((written(path) for path in below if not endings or path.suffix in endings), default=0.0)


def tree(root: Path) -> Tree:
    """The files below a folder, but for those of LEFT_OUT."""
    files: list[Path] = []
    began = time.monotonic()
    for path in _walk(root):
        if len(files) >= MOST_FILES or time.monotonic() - began > MOST_S:
            return Tree(root, tuple(files), is_whole=False)
        files.append(path)
    return Tree(root, tuple(files))


def _walk(root: Path) -> Iterator[Path]:
    level = [root]
    for _ in range(MOST_DEPTH):
        below = []
        for folder in level:
            try:
                entries = sorted(os.scandir(folder), key=lambda each: each.name)
            except OSError:  # no permission: others may be readable
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in LEFT_OUT and not entry.name.startswith("."):
                        below.append(folder / entry.name)
                elif entry.is_file():
                    yield folder / entry.name
        level = below


def written(path: Path) -> float:
    """When it was written, seconds since 1970; 0 if it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def text_of(path: Path) -> str:
    """Its text; empty if it cannot be read, or is larger than MOST_BYTES."""
    try:
        return "" if path.stat().st_size > MOST_BYTES else path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
