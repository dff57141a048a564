"""Asks the preload in the function which lines of code keep what grows, once in an environment (TRUEMEM_LINES).

When memory grows as the verdict says, and is not near its limit, it makes `.truemem-lines-PID` beside the heap page,
with one line: `truemem-lines-1 INVOCATIONS CPU_PERCENT MEMORY_KIB`. The preload profiles so many invocations, within
these limits, and answers with `.truemem-lines-PID.json`. Where the request is gone it stops, and does not answer. A JVM
has no preload: its classes are asked for, where the setting says so (java.py).

The members are in the printed line alone: the journal's pages are too small for them.
"""

from __future__ import annotations

import posix

from ..drift import Drift
from ..measure.window import current
from ..support.files import path_in, read_private, remove, tmp_of, write_private
from ..support.numbers import whole
from ..verdict import GROWING, GROWING_FROM, LeakVerdict, may_grow
from ..wings import IN_USE_NOTE, InUse, Wing
from .answer import MOST_ANSWER_BYTES, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..measure.sampling import CpuBudget
    from ..measure.window import Window
    from ..records.pending_record import PendingRecord
    from ..wings import Site
    from .java import Histograms

PROFILED_INVOCATIONS = 60
"""Invocations to be profiled."""
CPU_PERCENT = 100
"""The profile ends early where an invocation takes so much more CPU time than before."""
MEMORY_PART, MOST_MEMORY_KIB = 20, 16 * 1024
"""The profile may hold this part of the memory size, and no more than so many KiB."""
ROOM_PART = 5
"""This part of the memory size (a fifth) must be free: four times what the profile may hold."""
JVM_ROOM_PART = 3
"""This part of the memory size (a third) must be free for a JVM: after a full collection it has held up to 35 %
more."""
RISES, RISE_PART = 3, 16
"""A JVM's live heap grows if so many major collections have each left more, by such a part at least. There may be too
few of them for the verdict."""
INVOCATIONS_TOGETHER = 16
"""Invocations that are considered together: a third of the time of one after the other. The verdict changes no more
often."""
PATIENCE_INVOCATIONS = 4 * PROFILED_INVOCATIONS
"""Invocations until no answer is waited for any more."""
LEFT_MS = 2000
"""An invocation must leave this much of the function's timeout: looks come after its answer, take up to half of that,
and the timeout goes on until the next request."""
FADING_FACTOR = 0.98
"""The longest duration so far is multiplied by this with each invocation, because an environment's first one is
slow."""
PID_DIGITS = 10
REQUEST_PREFIX = ".truemem-lines-"
LINES_NOTE = "growthLines"


class Growing(LeakVerdict):
    """Says only whether it is `growing`. What cannot be is not judged: that would take 0.3 ms."""

    def look(self, levels: Sequence[float], floors: Sequence[float], invocations: int, spikes: int = 0) -> None:
        """Look at the memory again (LeakVerdict)."""
        if self.since or (invocations >= GROWING_FROM and may_grow(floors)):
            super().look(levels, floors, invocations)

    def _settled(self, levels: Sequence[float], judged: Sequence[float], per_level: float) -> str:
        return ""


class GrowthLines(Wing):
    """The lines of one environment."""

    def __init__(self, site: Site) -> None:
        self._table = site.table
        self._proc = site.proc
        self._share = site.config.lines_share
        self._asks_jvm = site.config.lines_java
        self._memory_kib = site.config.memory_mib * 1024
        self._folder = tmp_of(site.environ)
        self._mark = path_in(site.environ, "asked")
        """A file that is there since it was asked, also after a reset: with the pid of the process; 0 when that is
        over."""
        self._is_marked = self._is_over = self._has_begun = False
        self._pid = 0
        """Pid of the process that says what it has in use."""
        self._is_jvm = False
        self._histograms: Histograms | None = None
        self._drifts = self._new_drifts()
        self._seen: list[tuple[InUse, int]] = []
        """What is to be considered next: in use, and CurrentRSS; 0 where that is not known."""
        self._looks = self._rises = self._risen_kib = 0
        """How often a JVM's live heap was looked at, how often it rose, and to what."""
        self._waited: int | None = None
        """Invocations since it was asked; None if it was not."""
        self._timeout_ms: float | None = None
        self._longest_ms = 0.0
        """Time of the longest of the latest invocations that were reported, ms; it fades."""
        self._found: tuple[PendingRecord, dict[str, object]] | None = None
        """The record that is to have the members, until it is printed."""

    def _new_drifts(self) -> tuple[Drift, Drift]:
        """Verdicts on CurrentRSS, as the line has it, and on what the runtime has in use."""
        return Drift(Growing()), Drift(Growing())

    def begun(self, record: PendingRecord, members: Mapping[str, Any]) -> None:
        deadline_ms = members.get("deadlineMs")
        self._timeout_ms = deadline_ms - record.time_ms if isinstance(deadline_ms, (int, float)) else None

    def window_closed(self, records: Sequence[PendingRecord], window: Window, budget: CpuBudget, dying: bool) -> None:
        if self._is_over or dying:
            return
        record = records[-1]
        if not self._has_begun:  # not before: a snapshot's copies are to be chosen one by one
            self._begin(record)
        noted = record.notes.get(IN_USE_NOTE)
        in_use = noted if isinstance(noted, InUse) else None
        if self._waited is not None:
            self._wait(record, in_use)
        elif in_use is not None and not self._is_over and (self._asks_jvm or not in_use.is_jvm):
            self._seen.append((in_use, current(window)))
            if len(self._seen) == INVOCATIONS_TOGETHER:
                self._consider(record)

    def ending(self, records: Sequence[PendingRecord]) -> None:
        last = records[-1] if records else None
        if self._waited is not None and (self._histograms is not None or not self._receive(last)):
            self._end(last, "the environment has ended")
        if self._is_marked and (last is None or last.death is None):  # else it is reset, and goes on
            remove(self._mark)

    def finishing(self, record: PendingRecord) -> None:
        self._longest_ms = max(self._longest_ms * FADING_FACTOR, record.reported.duration_ms or 0.0)
        if self._found is not None and self._found[0] is record:
            record.note(LINES_NOTE, self._found[1])
            self._found = None

    def members(self, record: PendingRecord) -> Mapping[str, object]:
        members = record.notes.get(LINES_NOTE)
        return members if isinstance(members, dict) else {}

    def _begin(self, record: PendingRecord) -> None:
        """Begin, if this is one of the environments in which the function is asked, and it was not asked before a
        reset."""
        self._has_begun = True
        mark = read_private(self._mark, 1 + PID_DIGITS)
        pid = whole((mark or b"").strip(), PID_DIGITS)
        self._is_marked = mark is not None
        self._is_over = self._is_marked or int.from_bytes(posix.urandom(4)) >= self._share * 2**32
        if pid:
            self._pid = pid
            self._end(record, "the environment was reset")

    def _consider(self, record: PendingRecord) -> None:
        """Ask, if it is time."""
        seen, self._seen = self._seen, []
        for in_use, held_kib in seen:
            if in_use.pid != self._pid:
                if self._lives(self._pid):
                    self._is_over = True  # several runtimes take turns: no one's growth is known
                    return
                self._pid, self._drifts = in_use.pid, self._new_drifts()
                self._is_jvm, self._looks, self._rises, self._risen_kib = in_use.is_jvm, 0, 0, 0
            grown_kib = 0 if self._is_jvm else held_kib  # a heap grows to its limit, leak or not
            for drift, kib in zip(self._drifts, (grown_kib, in_use.kib), strict=True):
                drift.see(0, 0)
                if kib and held_kib:
                    drift.add(kib, record.time_ms)
            if self._is_jvm and in_use.kib is not None:
                self._rise(in_use.kib)
        grows = self._rises >= RISES or any(drift.verdict.name == GROWING for drift in self._drifts)
        if grows and self._has_room(record) and self._has_time():
            self._ask(record)

    def _rise(self, kib: int) -> None:
        """Count the steps of a JVM's live heap, once the verdict could say something as well."""
        self._looks += 1
        if self._looks < GROWING_FROM:
            return
        if kib < self._risen_kib:
            self._rises = 0
        elif kib - self._risen_kib >= max(1, self._risen_kib // RISE_PART):
            self._rises += 1
        else:
            return
        self._risen_kib = kib

    def _ask(self, record: PendingRecord) -> None:
        most_kib = min(self._memory_kib // MEMORY_PART, MOST_MEMORY_KIB)
        remove(self._answer)
        try:
            write_private(self._mark, b"%d\n" % self._pid)
            self._is_marked = True
            if self._is_jvm:
                from .java import Histograms  # here: most functions are on no JVM

                self._histograms = Histograms(self._proc, self._pid, self._folder, PROFILED_INVOCATIONS)
            else:
                write_private(
                    self._request, b"truemem-lines-1 %d %d %d\n" % (PROFILED_INVOCATIONS, CPU_PERCENT, most_kib)
                )
        except OSError:
            self._end(record, "no file can be made in /tmp")
        else:
            self._waited = 0

    def _wait(self, record: PendingRecord, in_use: InUse | None) -> None:
        assert self._waited is not None
        self._waited += 1
        if self._histograms is None and self._receive(record):
            return
        if not self._lives(self._pid):
            self._end(record, "the process has ended")
        elif in_use is not None and in_use.pid != self._pid:
            self._end(record, "several processes")
        elif not self._has_room(record):
            self._end(record, "memory")
        elif not self._has_time():
            self._end(record, "the timeout is near")
        elif self._histograms is not None:
            self._receive(record)
        elif self._waited > PATIENCE_INVOCATIONS:
            self._end(record, "no answer")

    def _receive(self, record: PendingRecord | None) -> bool:
        """Has the answer come? The record's line tells it."""
        if self._histograms is not None and record is not None:
            members = self._histograms.step(record.time_ms)
            if members is None:
                return False
        else:
            text = read_private(self._answer, MOST_ANSWER_BYTES)
            if text is None:
                return False
            members, lost = parse(text)
            self.lost += lost
        self._finish(record, members)
        return True

    def _end(self, record: PendingRecord | None, why: str) -> None:
        """Do not wait any longer: the record's line says why."""
        self._finish(record, {"growthProfile": {"gaveUp": why}})

    def _finish(self, record: PendingRecord | None, members: dict[str, object]) -> None:
        self._is_over, self._waited = True, None
        if record is not None:
            self._found = record, members
        if self._histograms is not None:
            self._histograms.close()
        for path in (self._request, self._answer, f"{self._answer}.new", f"{self._request}.histogram"):
            remove(path)
        try:
            write_private(self._mark, b"0\n")
        except OSError:
            pass

    @property
    def _request(self) -> str:
        return f"{self._folder}/{REQUEST_PREFIX}{self._pid}"

    @property
    def _answer(self) -> str:
        return f"{self._request}.json"

    def _lives(self, pid: int) -> bool:
        return any(process.pid == pid for process in self._table.function())

    def _has_room(self, record: PendingRecord) -> bool:
        """Has the highest peak so far left enough?"""
        room_kib = self._limit_kib(record) - record.high_water_mark
        return room_kib * (JVM_ROOM_PART if self._is_jvm else ROOM_PART) >= self._memory_kib

    def _has_time(self) -> bool:
        """Do the longest invocations leave enough of the timeout?"""
        return self._timeout_ms is None or self._timeout_ms - self._longest_ms >= LEFT_MS

    def _limit_kib(self, record: PendingRecord) -> int:
        """What sidecar and extensions leave of the memory size for the function."""
        memory = record.measured.memory if record.measured is not None else None
        others_kib = memory.sidecar + sum(memory.extensions.values()) if memory is not None else 0
        return self._memory_kib - others_kib


def door(site: Site) -> Wing | None:
    """The wing, if TRUEMEM_LINES is on, records have lines, and the memory size is known. Not on Managed Instances:
    several requests run in a process at once, and several processes."""
    config = site.config
    is_wanted = config.lines_share and config.prints and config.memory_mib and not site.managed
    return GrowthLines(site) if is_wanted else None
