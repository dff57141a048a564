"""Standard output: one line per record, never waited for. A reader that does not read must not stop a function."""

from __future__ import annotations

import posix
import select

BACKLOG = 256
"""Lines kept while stdout takes none, about 256 KiB; beyond that the oldest is dropped, and counted."""

PIPE_BUF = 4096
"""A pipe that polls as writable takes this much without blocking (pipe(7))."""


class Output:
    """Writes lines to a descriptor in order."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._backlog: list[bytes] = []
        self._offset = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self.dropped = 0
        """Lines lost so far."""

    def put(self, line: str) -> None:
        """Write the line now if stdout takes it, else keep it."""
        if len(self._backlog) >= BACKLOG:
            # Not the first one if it is half written: its end must follow its beginning.
            del self._backlog[1 if self._offset else 0]
            self.dropped += 1
        self._backlog.append(line.encode() + b"\n")
        self.flush()

    def flush(self, wait_ms: int = 0) -> bool:
        """Write what is kept; True when nothing is left. Waits at most `wait_ms` for each piece."""
        while self._backlog:
            ready = self._poll.poll(wait_ms)
            if not ready:
                return False
            line = self._backlog[0]
            try:
                self._offset += posix.write(self._descriptor, line[self._offset : self._offset + PIPE_BUF])
            except BlockingIOError:
                return False
            except OSError:  # nobody will ever read this: EPIPE, EIO, EBADF
                self._offset = len(line)
                self.dropped += 1
            if self._offset >= len(line):
                del self._backlog[0]
                self._offset = 0
        return True
