"""Standard output: one line per record, never waited for. A reader that does not read must not stop a function."""

from __future__ import annotations

import posix
import select

from .journal import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

BACKLOG = 256
"""Lines kept while stdout takes none, about 256 KiB; beyond that the oldest is dropped, and counted."""

PIPE_BUF = 4096
"""A pipe that polls as writable takes this much without blocking (pipe(7))."""


class StdoutWriter:
    """Writes lines to a descriptor in order."""

    def __init__(self, descriptor: int = 1, journal: Journal | None = None) -> None:
        self._journal = journal or Journal("")
        self._descriptor = descriptor
        self._backlog: list[tuple[bytes, Sequence[int], int]] = []
        """Lines, the slots in which the journal has them, and how much more than a line is lost with each."""
        self._offset = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self.dropped = 0
        """Lines lost so far."""

    def put(self, line: str, slots: Sequence[int] = (), lost: int = 0) -> None:
        """Write the line now if stdout takes it, else keep it. The journal's `slots` are freed when it is out. The line
        reports `lost` others: if it is lost as well, the next line reports them again."""
        if len(self._backlog) >= BACKLOG:
            # Not the first one if it is half written: its end must follow its beginning.
            _, oldest, lost_with_it = self._backlog.pop(1 if self._offset else 0)
            self._out(oldest)
            self.dropped += 1 + lost_with_it
        self._backlog.append((line.encode() + b"\n", slots, lost))
        self.flush()

    def flush(self, wait_ms: int = 0) -> bool:
        """Write what is kept; True when nothing is left. Waits at most `wait_ms` for each piece."""
        while self._backlog:
            ready = self._poll.poll(wait_ms)
            if not ready:
                return False
            line, slots, lost = self._backlog[0]
            if not self._offset:
                for slot in slots:
                    self._journal.printing(slot)
            try:
                self._offset += posix.write(self._descriptor, line[self._offset : self._offset + PIPE_BUF])
            except BlockingIOError:
                return False
            except OSError:  # it will never be read: EPIPE, EIO, EBADF
                self._offset = len(line)
                self.dropped += 1 + lost
            if self._offset >= len(line):
                self._out(slots)
                del self._backlog[0]
                self._offset = 0
        return True

    def _out(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._journal.printed(slot)
