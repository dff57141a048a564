"""Is a program one in Go, and can it be seen from outside?"""

from __future__ import annotations

from functools import cache
from mmap import PROT_READ, mmap
from pathlib import Path

BUILT = b"\xff Go buildinf:"
"""Begin of what the linker of Go writes into each program (debug/buildinfo)."""
DEBUG_INFORMATION = (b"\0.debug_info\0", b"\0.zdebug_info\0")
"""Its section's name, in the table of names."""


def is_go(program: Path) -> bool:
    """True of a program in Go; False too if it cannot be read."""
    try:
        return is_go_file(program, program.stat().st_ino)
    except (OSError, ValueError):  # an empty file cannot be mapped
        return False


@cache
def is_go_file(program: Path, file_number: int) -> bool:
    """True of a program in Go. `file_number`: its inode, as a path below /proc may be given out again. Raises OSError,
    ValueError for an empty file."""
    with program.open("rb") as file, mmap(file.fileno(), 0, prot=PROT_READ) as text:
        return text.find(BUILT) >= 0


def why_not(program: Path) -> str | None:
    """Why its lines cannot be named, in words that go on after its name. Empty if they can be, None if it is no program
    in Go."""
    if not is_go(program):
        return None
    with program.open("rb") as file, mmap(file.fileno(), 0, prot=PROT_READ) as text:
        if any(text.find(name) >= 0 for name in DEBUG_INFORMATION):
            return ""
    return (
        "has no debug information, which has the lines. Build it without -s and -w in -ldflags (a second program"
        " for this test will do: lines and allocations are the same)"
    )
