"""A pipe that bytes go through from one socket to another, in the kernel: nothing is copied (splice(2))."""

from __future__ import annotations

import fcntl
import posix

PIPE_BYTES = 524_288
"""Bytes that it holds. It has a place for each page or packet, so of small packets these are fewer."""

_FLAGS = posix.SPLICE_F_NONBLOCK | posix.SPLICE_F_MOVE


class Pipe:
    def __init__(self) -> None:
        """Raises OSError where there is none to be had. One is small where a user's pipes have used up their memory
        (pipe(7), pipe-user-pages-soft)."""
        self._reader, self._writer = posix.pipe2(posix.O_NONBLOCK | posix.O_CLOEXEC)
        self._held = 0
        self.refusal: OSError | None = None
        """What went wrong when bytes were passed on the last time, at the socket that they came from; or at the other
        one, if some are held."""
        try:
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass

    def __len__(self) -> int:
        """Bytes in it."""
        return self._held

    def pass_on(self, source: int, target: int, most: int) -> int:
        """Pass on what the socket `source` has received, as far as `target` takes it: how many bytes were received.
        Those that are not yet sent are held."""
        splice, reader, writer, left = posix.splice, self._reader, self._writer, most
        self.refusal = None
        try:
            while left and not self._held:
                size = self._held = splice(source, writer, min(left, PIPE_BYTES), None, None, _FLAGS)
                if not size:
                    break
                left -= size
                self._held -= splice(reader, target, size, None, None, _FLAGS)
        except BlockingIOError:
            pass
        except OSError as error:
            self.refusal = error
        return most - left

    def drain(self, target: int) -> None:
        """Send of what is held as much as a socket takes now. Raises OSError."""
        self._held -= posix.splice(self._reader, target, self._held, None, None, _FLAGS)

    def empty(self) -> bytes:
        """Copy what is held out of it. Raises OSError."""
        pieces = []
        while self._held:
            pieces.append(posix.read(self._reader, self._held))
            self._held -= len(pieces[-1])
        return b"".join(pieces)

    def close(self) -> None:
        posix.close(self._reader)
        posix.close(self._writer)
