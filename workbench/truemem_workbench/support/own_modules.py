"""The modules of a project that lie beside its functions, and the files that list its packages."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

SAM = ".aws-sam"
"""Folder of what `sam build` makes: the next build makes it anew."""


def listing(task_root: Path, name: str) -> Path | None:
    """The file of this name, such as package.json, in the function's folder or the nearest above it that has one, up to
    the repository's root. For a folder that `sam build` has made it begins above that. None if there is none."""
    folder = task_root.resolve()
    built = next((each for each in (folder, *folder.parents) if each.name == SAM), None)
    for each in (folder, *folder.parents) if built is None else built.parents:
        if (each / name).is_file():
            return each / name
        if (each / ".git").exists():
            break
    return None


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
