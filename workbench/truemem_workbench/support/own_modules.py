"""The modules of a project that lie beside its functions."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def modules_above(task_root: Path) -> dict[str, Path]:
    """Python's modules and packages in the two folders above a function's, each with its folder. They are the project's
    own, and no package of their names is to be installed."""
    found: dict[str, Path] = {}
    for folder in task_root.resolve().parents[:2]:
        with suppress(OSError):
            for each in folder.iterdir():
                if each.suffix == ".py" or (each / "__init__.py").is_file():
                    found.setdefault(each.stem, folder)
    return found
