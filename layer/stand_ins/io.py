"""In place of the standard module: sys.stdin, sys.stdout and sys.stderr, on which nothing but a traceback of ours is
ever written. (The sidecar uses descriptors.)"""

from __future__ import annotations

import posix


class Stream:
    """As much of a text file as CPython looks at."""

    encoding = "utf-8"
    errors = "backslashreplace"
    closed = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.raw = self

    def isatty(self) -> bool:
        """Line buffering or not: all is written at once."""
        return False

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def write(self, text: str) -> int:
        """Whole, or as much as the pipe takes: it must not stop us."""
        try:
            return posix.write(self._descriptor, text.encode("utf-8", "backslashreplace"))
        except OSError:
            return 0

    def flush(self) -> None:
        """There is no buffer."""


def open(descriptor: int, *_: object) -> Stream:
    """What init_sys_streams() in CPython's pylifecycle.c calls, for each of the three,"""
    return Stream(descriptor)


def TextIOWrapper(stream: Stream, *_: object) -> Stream:
    """and then this."""
    return stream
