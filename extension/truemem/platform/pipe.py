"""A pipe that bytes go through from one socket to another, in the kernel: nothing is copied (splice(2))."""

from __future__ import annotations

import posix


class Pipe:
    def __init__(self) -> None:
        """Raises OSError where there is none to be had."""
        self._reader, self._writer = posix.pipe2(posix.O_NONBLOCK | posix.O_CLOEXEC)
        self._held = 0

    def __len__(self) -> int:
        """Bytes in it."""
        return self._held

    def fill(self, source: int, most: int) -> int:
        """Take what a socket has received; how much. Raises BlockingIOError if that is nothing, and other OSErrors of
        the socket, or where the kernel does not splice."""
        size = posix.splice(source, self._writer, most, flags=_FLAGS)
        self._held += size
        return size

    def drain(self, target: int) -> None:
        """Send as much as a socket takes now. Raises OSError as `fill` does."""
        self._held -= posix.splice(self._reader, target, self._held, flags=_FLAGS)

    def empty(self) -> bytes:
        """Copy what it holds out of it. Raises OSError."""
        pieces = []
        while self._held:
            pieces.append(posix.read(self._reader, self._held))
            self._held -= len(pieces[-1])
        return b"".join(pieces)

    def close(self) -> None:
        posix.close(self._reader)
        posix.close(self._writer)


_FLAGS = posix.SPLICE_F_NONBLOCK | posix.SPLICE_F_MOVE
