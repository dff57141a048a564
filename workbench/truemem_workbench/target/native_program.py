"""Can a library be preloaded into a program? What its file says of how it is linked."""

from __future__ import annotations

import struct
from pathlib import Path

GLIBC = ("ld-linux", "ld64.so")
"""Begins of the names of glibc's loader."""
DAMAGED = (OSError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError, struct.error)
"""What elftools raises where a file is damaged, beside its own errors."""


def why_not(program: Path) -> str:
    """Why nothing can be preloaded into this program, in words that go on after its name. Empty if it can be."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with program.open("rb") as file:
            if file.read(2) == b"#!":
                return "is a script: name the program that it starts"
            file.seek(0)
            asked = next(iter(ELFFile(file).iter_segments("PT_INTERP")), None)
            loader = asked.data().rstrip(b"\0").decode() if asked is not None else ""
    except (ELFError, *DAMAGED):
        return "is no program that can be read"
    if not loader:
        return "is linked statically: its malloc cannot be sampled. Link it with glibc, dynamically, to have the line"
    if not Path(loader).name.startswith(GLIBC):
        return f"is linked with {Path(loader).name}: malloc is sampled with glibc alone"
    return ""
