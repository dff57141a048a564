"""Writes the layer's zip: sidecar, wrapper, the Python modules, notices. The bytes are the same each time."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

DATE = (1980, 1, 1, 0, 0, 0)
"""Date of all entries: the earliest that a zip can have."""

EXECUTABLE, PLAIN = 0o100755, 0o100644

MODULES = ("python", "truemem/python")
"""Folders of Python modules. Lambda has /opt/python on the path of a Python function. The other one loads the probe,
for a function whose PYTHONPATH begins with it."""


def write(target: Path, executables: Mapping[str, Path], notices: Mapping[str, str]) -> None:
    """Write the zip. `executables` are by their names in the zip, `notices` are texts by file name."""
    partial = target.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, executable in executables.items():
            _add(archive, name, executable.read_bytes(), EXECUTABLE)
        for folder in MODULES:
            for module in sorted(Path(__file__).parent.joinpath(folder).glob("*.py")):
                _add(archive, f"{folder}/{module.name}", module.read_bytes(), PLAIN)
        for name, text in sorted(notices.items()):
            _add(archive, f"licenses/truemem/{name}", text.encode(), PLAIN)
    partial.replace(target)


def _add(archive: zipfile.ZipFile, name: str, content: bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, DATE)
    entry.create_system = 3  # Unix: else the mode is not looked at
    entry.external_attr = mode << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content, compresslevel=9)
