"""Writes the layer's zip: executables, what functions and collectors load, notices. Always the same bytes."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

DATE = (1980, 1, 1, 0, 0, 0)
"""Date of all entries: the earliest that a zip can have."""

EXECUTABLE_MODE, PLAIN_MODE = 0o100755, 0o100644

FILE_PATTERNS = ("python/**/*.py", "truemem/python/*.py", "truemem/*.cjs", "truemem/*.yaml")
"""Files that functions load, and a collector. Lambda has /opt/python on the path of a Python function. `truemem/python`
loads the probe there, for a function whose PYTHONPATH begins with it. `truemem/heap.cjs` is for Node.js, by
NODE_OPTIONS; `truemem/local` is for runs on a developer's machine, and stays out."""


def write(target: Path, executables: Mapping[str, Path], notices: Mapping[str, str]) -> None:
    """Write the zip. `executables` are by their names in the zip, `notices` are texts by file name."""
    partial = target.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, executable in executables.items():
            _add(archive, name, executable.read_bytes(), EXECUTABLE_MODE)
        here = Path(__file__).parent
        for pattern in FILE_PATTERNS:
            for file in sorted(here.glob(pattern)):
                _add(archive, file.relative_to(here).as_posix(), file.read_bytes(), PLAIN_MODE)
        for name, text in sorted(notices.items()):
            _add(archive, f"licenses/truemem/{name}", text.encode(), PLAIN_MODE)
    partial.replace(target)


def _add(archive: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, DATE)
    entry.create_system = 3  # Unix: else the mode is not looked at
    entry.external_attr = mode << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content, compresslevel=9)
