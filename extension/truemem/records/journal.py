"""What must survive a SIGKILL of the sidecar: a small file that the next process of the environment reads.

/tmp outlives a reset (developer guide, "Execution environment"). The file has a fixed number of pages, allocated
when it is made, and each write stays within one: what the kernel has begun to copy it copies to the end of the page,
whatever signal comes, so that a page is as it was before a write, or as it is after it.
"""

from __future__ import annotations

import posix

from ..support.named_tuple import NamedTuple
from ..support.private_file import PAGE, is_private

SLOTS = 18
"""Closed records at once: one more than PendingRecords lets wait."""
FIRST = 3
"""Page 0 of the file: the environment's history. Pages 1 and 2, by turns: the invocation that runs, written before the
one before it is closed. Then a page, or slot, for each record that is closed and not yet printed."""
SIZE = (FIRST + SLOTS) * PAGE
"""Bytes of a file with that number of slots."""

CURVE = PAGE // 2
"""Offset of the curve in the page of an invocation that runs."""

WAITING = b"W"
SENDING = b"S"
PRINTING = b"P"
FREE = b"\n"


class JournalEntry(NamedTuple):
    """What a killed process left of one invocation."""

    text: bytes
    curve: bytes = b""
    may_repeat: bool = False
    """It was being printed: whether that was done is not known."""
    sent: bool = False
    """It went to a collector or an agent (TRUEMEM_OUTPUT), or was about to."""


class Journal:
    """The file, open and locked by this process; or nothing, if `path` is "" or cannot be had."""

    def __init__(self, path: str, slots: int = SLOTS) -> None:
        self._path = path
        self._size = (FIRST + slots) * PAGE
        self._slots = slots
        self._descriptor = -1
        self._free = list(range(slots))
        self.problem = ""
        """Why there is no journal, or not any more."""
        self.history = b""
        """What the last process wrote with `remember`; empty if this is the first."""
        self.running: list[JournalEntry] = []
        """The invocation that ran when it was killed; two, if the one before it was about to be closed."""
        self.records: list[tuple[int, JournalEntry]] = []
        """Those that it had closed and not printed, or not certainly, each with its slot."""
        if path:
            try:
                self._take(path)
            except OSError as error:
                self._give_up(error)

    def empty(self) -> bool:
        """Has no earlier process left anything?"""
        return not (self.history or self.running or self.records)

    def remember(self, history: str) -> None:
        """Keep the history, which goes on over a reset."""
        self._put(0, history.encode())

    def begin(self, number: int, time_ms: int, event: bytes) -> None:
        """An invocation runs, the environment's `number`: `event` as the platform sent it, at `time_ms`."""
        text = b"%d %d %s" % (number, time_ms, event)
        if len(text) >= CURVE:  # none is: it carries no payload
            text = b""
        self._put(_of(number), text + b"\n" + b"\0" * (CURVE - len(text) - 1))

    def checkpoint(self, number: int, curve: str) -> None:
        """Keep what is known of the memory of the invocation that runs."""
        self._put(_of(number) + CURVE, curve.encode(), PAGE - CURVE)

    def keep(self, number: int, text: str) -> int | None:
        """It is closed: its slot, or None where there is none left for it."""
        slot = None
        if self._descriptor >= 0 and self._free:
            slot = self._free.pop()
            if not self._put(_at(slot), WAITING + text.encode()):
                self._free.append(slot)
                slot = None
        self.end(number)
        return slot

    def end(self, number: int) -> None:
        """The invocation does not run any more."""
        self._put(_of(number), b"")

    def sending(self, slot: int) -> None:
        """It is about to be sent elsewhere; its line may wait for others still."""
        self._put(_at(slot), SENDING, newline=False)

    def printing(self, slot: int) -> None:
        """Its line is about to be written."""
        self._put(_at(slot), PRINTING, newline=False)

    def printed(self, slot: int) -> None:
        """Its line is written, or lost for good."""
        self._put(_at(slot), FREE, newline=False)
        self._free.append(slot)

    def forget(self) -> None:
        """Drop all that is in it: it is another environment's."""
        self.history, self.running, self.records = b"", [], []
        self._free = list(range(self._slots))
        for page in range(FIRST + self._slots):
            self._put(page * PAGE, b"")

    def remove(self) -> None:
        """The environment ends."""
        if self._descriptor >= 0:
            self._give_up(None)

    def _take(self, path: str) -> None:
        flags = posix.O_RDWR | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK
        try:
            self._descriptor = posix.open(path, flags)
        except FileNotFoundError:
            pass
        except OSError:  # a link, a folder, not ours: never followed, never written to
            posix.unlink(path)
        if self._descriptor >= 0 and not is_private(self._descriptor, self._size):
            posix.close(self._descriptor)
            self._descriptor = -1
            posix.unlink(path)
        if self._descriptor < 0:
            self._descriptor = posix.open(path, flags | posix.O_CREAT | posix.O_EXCL, 0o600)
            posix.posix_fallocate(self._descriptor, 0, self._size)
            self._lock()
            return
        self._lock()
        self._read()

    def _lock(self) -> None:
        """Raises OSError where another process that lives has it: it is that one's, and stays."""
        try:
            posix.lockf(self._descriptor, posix.F_TLOCK, 0)
        except OSError:
            posix.close(self._descriptor)
            self._descriptor = -1
            raise

    def _read(self) -> None:
        pages = posix.pread(self._descriptor, self._size, 0)
        self.history = _line(pages, 0, PAGE)
        for page in (PAGE, 2 * PAGE):
            running = _line(pages, page, page + CURVE)
            if running:
                self.running.append(JournalEntry(running, _line(pages, page + CURVE, page + PAGE)))
        for slot in range(self._slots):
            text = _line(pages, _at(slot), _at(slot) + PAGE)
            state = text[:1]
            if state in (WAITING, SENDING, PRINTING):
                entry = JournalEntry(text[1:], may_repeat=state == PRINTING, sent=state == SENDING)
                self.records.append((slot, entry))
                self._free.remove(slot)

    def _put(self, offset: int, text: bytes, limit: int = PAGE, newline: bool = True) -> bool:
        """Write within one page; False if there is no journal, or it does not fit."""
        if self._descriptor < 0 or len(text) >= limit:
            return False
        try:
            posix.pwrite(self._descriptor, text + b"\n" if newline else text, offset)
        except OSError as error:
            self._give_up(error)
            return False
        return True

    def _give_up(self, error: OSError | None) -> None:
        """No journal is better than one that is not kept up: what it says would be printed a second time."""
        if error is not None:
            self.problem = f"no journal (in TMPDIR, else in /tmp): {error.strerror}"
        if self._descriptor < 0:
            return
        try:
            posix.unlink(self._path)
        except OSError:
            pass
        posix.close(self._descriptor)
        self._descriptor = -1


def _of(number: int) -> int:
    return PAGE * (1 + number % 2)


def _at(slot: int) -> int:
    return (FIRST + slot) * PAGE


def _line(pages: bytes, start: int, end: int) -> bytes:
    """The text up to the newline that ends it; nothing where there is none."""
    stop = pages.find(b"\n", start, end)
    return pages[start:stop].strip(b"\0") if stop > start else b""
