"""Replaces the standard module: sys.stdin, sys.stdout and sys.stderr, which only our own tracebacks are written to. The
sidecar itself uses descriptors."""

from __future__ import annotations

import posix


class Stream:
    """The part of a text file that CPython uses."""

    encoding = "utf-8"
    errors = "backslashreplace"
    closed = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.raw = self

    def isatty(self) -> bool:
        """False: all is written at once, so line buffering makes no difference."""
        return False

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def write(self, text: str) -> int:
        """Write as much as the pipe takes. It must not stop the sidecar."""
        try:
            return posix.write(self._descriptor, text.encode("utf-8", "backslashreplace"))
        except OSError:
            return 0

    def flush(self) -> None:
        """Does nothing: there is no buffer."""


def open(descriptor: int, *_: object) -> Stream:
    """Open a stream. init_sys_streams() in CPython's pylifecycle.c calls this for each of the three."""
    return Stream(descriptor)


def TextIOWrapper(stream: Stream, *_: object) -> Stream:
    """Wrap a stream. init_sys_streams() calls this next."""
    return stream
