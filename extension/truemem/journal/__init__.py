"""What must survive a SIGKILL of the sidecar: a small file that the next process of the environment reads.

/tmp outlives a reset (developer guide, "Execution environment"). The file has a fixed number of pages, allocated
when it is made, and each write stays within one: what the kernel has begun to copy it copies to the end of the page,
whatever signal comes, so that a page is as it was before a write, or as it is after it.
"""

from __future__ import annotations

import posix

from ..line_schema import METRICS, PROPERTIES
from ..measure.window import MOST_TAIL_SAMPLES, MemoryCurve, Window
from ..records.pending_record import DeathReport, Measured, PendingRecord, level_and_holder, signals
from ..records.record import VALUES, InvocationRecord, finished
from ..support import minijson
from ..support.files import PAGE_BYTES, is_private, path_in
from ..support.named_tuple import NamedTuple
from ..support.numbers import number as json_number
from ..wings import Keeper, Wing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from ..config import Config
    from ..records.pending_record import EnvironmentState
    from ..wings import Site


SLOTS: Final = 18
"""Closed records at once: one more than PendingRecords lets wait."""
FIRST_SLOT_PAGE: Final = 3
"""Page 0 of the file: the environment's history. Pages 1 and 2, by turns: the invocation that runs, written before the
one before it is closed. Then a page, or slot, for each record that is closed and not yet printed."""
SIZE: Final = (FIRST_SLOT_PAGE + SLOTS) * PAGE_BYTES
"""Bytes of a file with that number of slots."""

CURVE: Final = PAGE_BYTES // 2
"""Offset of the curve in the page of an invocation that runs."""

SLOT_WAITING: Final = b"W"
SLOT_SENDING: Final = b"S"
SLOT_PRINTING: Final = b"P"
FREE: Final = b"\n"


CHECKPOINT: Final = 1 / 16
"""The curve is written to the journal again when the level has moved by this share of the limit."""
CHECKPOINT_URGENT: Final = 1 / 64
"""Where the limit is near, the curve is written again when the level has moved by this share of it."""
CHECKPOINT_NS: Final = 1_000_000_000
"""The curve is written again after this time in any case: a level that has not moved is news as well."""
UNLIMITED_KIB: Final = 256 * 1024
"""Stands for a limit that is not known, KiB."""


class JournalEntry(NamedTuple):
    """What a killed process left of one invocation."""

    text: bytes
    curve: bytes = b""
    may_repeat: bool = False
    """The record was being printed: whether that was done is not known."""
    sent: bool = False
    """The record went to a collector or an agent (TRUEMEM_OUTPUT), or was about to."""


class Journal(Keeper):
    """The file, open and locked by this process; or nothing, if `path` is "" or cannot be had."""

    def __init__(self, path: str, slots: int = SLOTS, limit_kib: int = 0) -> None:
        """`limit_kib` is the function's memory size, 0 if unknown."""
        self._limit_kib = limit_kib or UNLIMITED_KIB
        self._level_kib = -1
        """Level when the curve of the invocation that runs was written last; below 0 before that."""
        self._written_ns = 0
        """When the curve was written last, ns."""
        self._path = path
        self._size = (FIRST_SLOT_PAGE + slots) * PAGE_BYTES
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
        """Records that the earlier process had closed and not printed, or not certainly, each with its slot."""
        if path:
            try:
                self._take(path)
            except OSError as error:
                self._give_up(error)

    def empty(self) -> bool:
        return not (self.history or self.running or self.records)

    def remember(self, history: str) -> None:
        self._put(0, history.encode())

    def begin(self, number: int, time_ms: int, event: bytes) -> None:
        self._level_kib = -1
        # None is that long, as events carry no payload; one that is cut off is not understood.
        text = b"%d %d %s" % (number, time_ms, event[: CURVE - 64])
        self._put(_of(number), (text + b"\n").ljust(CURVE, b"\0"))

    def checkpoint_due(self, level_kib: int, urgent: bool, now_ns: int) -> bool:
        moved_kib = abs(level_kib - self._level_kib)
        is_far = moved_kib >= self._limit_kib * (CHECKPOINT_URGENT if urgent else CHECKPOINT)
        if self._level_kib >= 0 and not is_far and now_ns - self._written_ns < CHECKPOINT_NS:
            return False
        self._level_kib, self._written_ns = level_kib, now_ns
        return True

    def checkpoint(
        self,
        record: PendingRecord,
        window: Window,
        largest: tuple[str, int, int] | None,
        others_kib: int,
        extensions: Mapping[str, int],
    ) -> None:
        """Samples as ns from the invocation's beginning and KiB: the process that reads them does not know when this
        one ended."""
        begun_ns = record.time_ms * 1_000_000
        samples = window.curve.thinned(begun_ns, window.curve.last_ns())
        level_kib, who = level_and_holder(window, others_kib, largest, extensions)
        level = "null" if level_kib is None else level_kib
        pairs = ",".join([f"[{at_ns - begun_ns},{kib}]" for at_ns, kib in samples])
        of_window = f"{window.baseline},{window.sampled},{window.last}"
        named = [f'"{name}":{minijson.quoted(of) if isinstance(of, str) else of}' for name, of in who.items()]
        text = f"[{of_window},{level},{{{','.join(named)}}},[{pairs}]]"
        self._put(_of(record.invocation) + CURVE, text.encode(), PAGE_BYTES - CURVE)

    def recover(self, history: EnvironmentState, config: Config, kills: int) -> list[tuple[InvocationRecord, bool]]:
        if self.empty():
            return []
        sent = {slot for slot, entry in self.records if entry.sent}
        return [(record, record.slot in sent) for record in recovered(self, history, config, kills)]

    def keep(self, number: int, record: InvocationRecord) -> int | None:
        """Write the record into a slot, and return that; None also where there is no slot left for it."""
        slot = self._free[-1] if self._free and self._descriptor >= 0 else None
        if slot is not None and self._put(_at(slot), SLOT_WAITING + journal_text(record).encode()):
            self._free.pop()
        else:
            slot = None
        self.end(number)
        return slot

    def end(self, number: int) -> None:
        """The invocation does not run any more."""
        self._put(_of(number), b"")

    def sending(self, slot: int) -> None:
        self._put(_at(slot), SLOT_SENDING, newline=False)

    def printing(self, slot: int) -> None:
        self._put(_at(slot), SLOT_PRINTING, newline=False)

    def printed(self, slot: int) -> None:
        self._put(_at(slot), FREE, newline=False)
        self._free.append(slot)

    def forget(self) -> None:
        self.history, self.running, self.records = b"", [], []
        self._free = list(range(self._slots))
        for page in range(FIRST_SLOT_PAGE + self._slots):
            self._put(page * PAGE_BYTES, b"")

    def remove(self) -> None:
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
        self.history = _line(pages, 0, PAGE_BYTES)
        for page in (PAGE_BYTES, 2 * PAGE_BYTES):
            running = _line(pages, page, page + CURVE)
            if running:
                self.running.append(JournalEntry(running, _line(pages, page + CURVE, page + PAGE_BYTES)))
        for slot in range(self._slots):
            text = _line(pages, _at(slot), _at(slot) + PAGE_BYTES)
            state = text[:1]
            if state in (SLOT_WAITING, SLOT_SENDING, SLOT_PRINTING):
                entry = JournalEntry(text[1:], may_repeat=state == SLOT_PRINTING, sent=state == SLOT_SENDING)
                self.records.append((slot, entry))
                self._free.remove(slot)

    def _put(self, offset: int, text: bytes, limit: int = PAGE_BYTES, newline: bool = True) -> bool:
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
    return PAGE_BYTES * (1 + number % 2)


def _at(slot: int) -> int:
    return (FIRST_SLOT_PAGE + slot) * PAGE_BYTES


def _line(pages: bytes, start: int, end: int) -> bytes:
    """The text up to the newline that ends it; nothing where there is none."""
    stop = pages.find(b"\n", start, end)
    return pages[start:stop].strip(b"\0") if stop > start else b""


def journal_text(record: InvocationRecord) -> str:
    """A finished record as the journal keeps it."""
    return f"[{record.time_ms},{{{record.figures[:-1]}}},{{{record.members[:-1]}}}]"


def recovered(journal: Journal, history: EnvironmentState, config: Config, kills: int) -> list[InvocationRecord]:
    """Each with the slot that has it: the closed left_behind in their order, then the one that ran when the process was
    killed. `kills`: OOM kills that the kernel has counted since; one of them may have been ours."""
    left: list[InvocationRecord] = []
    for slot, entry in journal.records:
        closed = _closed(entry, slot)
        if closed is None:
            journal.printed(slot)
        else:
            left.append(closed)
            history.invocations = max(history.invocations, int(closed.properties["invocation"]))
    # a retry has the id once more
    known_ids = {(record.properties["requestId"], record.properties["invocation"]) for record in left}
    running = [found for found in (_running(entry, history) for entry in journal.running) if found is not None]
    last = max((pending.invocation for pending, _ in running), default=0)
    for pending, death in running:
        fired: list[str] = []
        if pending.invocation == last:  # else the next one had come: it was at its end, and lived
            pending.killed(kills)
            if death is not None:
                pending.died(death)
            fired = signals(pending, config.memory_mib, history.mark_mib)
        if (pending.request_id, pending.invocation) in known_ids:
            journal.end(pending.invocation)  # the kill came between its slot and this; else it would be told once more
        else:
            record = finished(pending, config, history.environment_id, fired)
            kept = journal.keep(pending.invocation, record)
            recovered_one = record.having(recovered=True)
            recovered_one.slot = kept
            left.append(recovered_one)
    left.sort(key=lambda record: record.properties["invocation"])
    return left


def _closed(entry: JournalEntry, slot: int) -> InvocationRecord | None:
    """A closed record; None for what we have not written."""
    try:
        time_ms, values, members = minijson.loads(entry.text)
        known = values.keys() <= METRICS.keys() and members.keys() <= PROPERTIES.keys()
        numbers = [time_ms, members["invocation"], *values.values()]
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
    if (
        not known
        or not isinstance(members.get("requestId"), str)
        or any(json_number(value) is None for value in numbers)
    ):
        return None
    marks = {"recovered": True, **({"mayRepeat": True} if entry.may_repeat else {})}
    try:
        return InvocationRecord(int(time_ms), values, {**members, **marks}, slot)
    except ValueError:  # a number that JSON has not
        return None


def _running(entry: JournalEntry, history: EnvironmentState) -> tuple[PendingRecord, DeathReport | None] | None:
    """The invocation that ran, with what its curve tells; and how it died, if it did."""
    try:
        number, time_ms, event = entry.text.split(b" ", 2)
        request_id = minijson.loads(event)["requestId"]
        record = PendingRecord(request_id, int(number), int(time_ms))
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(request_id, str):
        return None
    record.follows_init(cold_start=record.invocation == 1, suppressed=False)
    history.invocations = max(history.invocations, record.invocation)
    try:
        window, death = _seen(minijson.loads(entry.curve), record.time_ms * 1_000_000)
    except (ValueError, TypeError):  # it ran for too short a time to have one
        record.close(Measured())
        return record, None
    record.close(Measured(window))
    return record, death


def _seen(curve: Any, begun_ns: int) -> tuple[Window, DeathReport | None]:
    """What a curve tells. Raises ValueError or TypeError for what is none."""
    baseline, sampled, last, level, largest, samples = curve
    pairs = [(at_ns, kib) for at_ns, kib in samples]
    numbers = [baseline, sampled, last, level or 0, *(value for pair in pairs for value in pair)]
    if (
        any(json_number(value) is None for value in numbers)
        or not isinstance(largest, dict)
        or len(pairs) > MOST_TAIL_SAMPLES
    ):
        raise ValueError
    window = Window(int(baseline), sampled=int(sampled), last=int(last), curve=MemoryCurve())
    for at_ns, kib in pairs:
        window.curve.see(begun_ns + int(at_ns), int(kib))
    if level is None and not window.curve.samples:
        return window, None  # nothing was read
    named = {name: largest[name] for name in ("process", "extension", "pid", "rss") if name in largest}
    level_kib, growth = None if level is None else int(level), window.curve.growth_kib_per_s()
    return window, DeathReport("", level_kib, growth, named, at_ms=round(window.curve.last_ns() / 1e6))


def door(site: Site) -> Wing | None:
    """A journal where TRUEMEM_JOURNAL wants one. On Managed Instances an environment that fails is not reset but ended:
    a journal would have no reader."""
    if site.managed:
        return None
    config = site.config
    wing = Wing()
    slots = SLOTS + (VALUES if config.aggregate_s else 0)
    path = path_in(site.environ, site.name) if config.journal else ""
    wing.keeper = Journal(path, slots, config.memory_mib * 1024)
    return wing
