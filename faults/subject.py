"""Chooses the sidecar for the tests: the layer's executable, or the source under python3."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kit.contenders import EXECUTABLE
from testing.environment import EXTENSION, SOURCE

FAULTY = Path(__file__).with_name("faulty.py")


@dataclass(frozen=True)
class Subject:
    """An extension's file, and what it needs besides."""

    path: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    launcher: tuple[str, ...] = ()
    """What starts it, if it is not started by itself."""

    @property
    def name(self) -> str:
        """That it registers with."""
        return self.path.name

    @property
    def is_source(self) -> bool:
        """Can faults be put underneath it?"""
        return self.path == SOURCE

    def __str__(self) -> str:
        return "the source under python3" if self.is_source else "the layer's executable"


def chosen() -> Subject:
    """The layer's executable if it was built, else the source; or whatever TRUEMEM_TEST_SIDECAR names."""
    named = os.environ.get("TRUEMEM_TEST_SIDECAR")
    return Subject(Path(named) if named else EXECUTABLE if EXECUTABLE.exists() else SOURCE)


def source() -> Subject:
    """The source."""
    return Subject(SOURCE)


def faulty(folder: Path, faults: str) -> Subject:
    """The source with faults underneath it, as the file `folder`/truemem. See faulty.py for how to spell them."""
    path = folder / "truemem"
    if not path.exists():
        shutil.copy(FAULTY, path)
        path.chmod(0o755)
    return Subject(path, {"FAULTS": faults, "PYTHONPATH": str(EXTENSION)})
