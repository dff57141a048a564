"""Memory of requests that overlap (Lambda Managed Instances). Pure.

Nothing marks one request's memory among that of others. So time is divided into segments, each with the exact watermark
of all that ran in it, and a request's peak is at most the highest segment that it overlaps. Times are epoch ns,
sizes KiB.
"""

from __future__ import annotations

import time

from ..linux.kernel import fault_sizes
from ..linux.procfs import Gone
from ..measure.window import NEVER_NS, SAMPLED, MemoryCurve, Peak, WholePicture, current, peak
from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..linux.process_table import ProcessTable
    from ..linux.procfs import Stat
    from ..measure.recorder import Recorder
    from ..measure.window import Window

VMHWM_SEGMENTS = "vmhwm-segments"

RESOLUTION_NS = 1_000_000
"""Resolution of the times that telemetry gives: a request may have begun, or ended, so much earlier or later."""

MOST_SEGMENTS = 64
"""Segments of one width. Beyond that the two oldest are merged: what lies N segments back is known to N/32 of them."""

WIDTHS = 12
"""Widths of segments, each twice the one before: of 20 ms, all are 87 minutes, and of no request more than half its age
is asked for (AGED_NS). In the last, what is older goes on merging."""


class Zone(NamedTuple):
    """What is known of the function's level while its processes are read and reset, one after the other. KiB."""

    start_ns: int
    """Epoch ns before the first reset."""
    end_ns: int
    """Epoch ns after the last reset."""
    level: int
    """The function held at least this at `start_ns`, KiB."""
    highest: int
    """The function held at no moment until `end_ns` more than this, KiB."""


def zone(start_ns: int, end_ns: int, stats: list[tuple[Stat, Stat | None]], fault_kib: int) -> Zone:
    """`stats` has those of each process before `start_ns` and after `end_ns`, None if it has ended. Resident memory
    does not grow by more than `fault_kib` with each page fault."""
    level = highest = 0
    for before, after in stats:
        if after is None:
            highest += before.rss  # its faults are told by its parent, once that has waited for it
            continue
        rise = (after.faults - before.faults) * fault_kib
        level += max(0, after.rss - rise)
        highest += before.rss + rise
    return Zone(start_ns, end_ns, level, highest)


class Segment:
    """The time from one zone to the next, both included."""

    __slots__ = ("closing_ns", "end_ns", "estimate", "level", "lower", "resets", "start_ns", "upper", "window")

    def __init__(self, opening: Zone, window: Window, closing: Zone) -> None:
        """A segment of this window, with the zones at its two ends."""
        self.start_ns = min(opening.start_ns, closing.start_ns)  # the clock may have been set back
        self.closing_ns = closing.start_ns
        self.end_ns = closing.end_ns
        self.resets = window.resets
        self.window: Window | None = window
        """What was read at its end. Kept of young segments only."""
        self.level = closing.level
        """What the function held at `closing_ns`, when the readings at its end began, at least."""
        found = peak(window)
        self.upper = found.upper if found is not None else 0
        """Upper bound of the peak, KiB; 0: not bounded."""
        if self.upper:
            # One process was reset already, the other not yet: the sum of that moment is in neither of two windows.
            self.upper = max(self.upper, opening.highest, closing.highest)
        self.lower = max(opening.level, closing.level)
        """A level that was reached in it."""
        if window.resets and window.closing:
            self.lower = max(self.lower, *(status.hwm for status in window.closing))
        elif found is not None and not window.multi_process:
            self.lower = max(self.lower, found.lower)
        self.estimate = max(found.estimate if found is not None else 0, self.lower)
        """The most likely peak, by the watermarks."""

    def take(self, later: Segment) -> None:
        """Merge the next segment into this one: coarser, never wrong."""
        self.closing_ns, self.end_ns, self.level = later.closing_ns, later.end_ns, later.level
        self.resets &= later.resets
        self.window = None
        self.upper = max(self.upper, later.upper) if self.upper and later.upper else 0
        self.lower = max(self.lower, later.lower)
        self.estimate = max(self.estimate, later.estimate)

    def reached(self, start_ns: int, end_ns: int) -> int:
        """A level that it reached between those times, 0 if that is not known."""
        if self.start_ns >= start_ns and self.end_ns <= end_ns:
            return self.lower
        return self.level if start_ns <= self.closing_ns <= end_ns else 0


def both(first: Peak | None, second: Peak | None) -> Peak | None:
    """The peak of two times together, as they are known; None if the function was never seen."""
    if first is None or second is None:
        one = first or second
        return one and Peak(one.estimate, one.lower, 0, SAMPLED, one.raced)
    upper = max(first.upper, second.upper) if first.upper and second.upper else 0
    method = VMHWM_SEGMENTS if first.method == second.method == VMHWM_SEGMENTS else SAMPLED
    estimate, lower = max(first.estimate, second.estimate), max(first.lower, second.lower)
    return Peak(estimate, lower, upper, method, raced=False)


class Segments:
    """The past of one environment, finer the younger: of a bounded number of segments, whatever time passes."""

    def __init__(self) -> None:
        self._widths: list[list[Segment]] = [[] for _ in range(WIDTHS)]
        """Finest first, and oldest first in each."""

    def add(self, segment: Segment) -> None:
        """Add the next segment: it begins where the last one ended."""
        self._widths[0].append(segment)
        for index, width in enumerate(self._widths):
            if len(width) <= MOST_SEGMENTS:
                return
            oldest = width.pop(0)
            oldest.take(width.pop(0))
            if index + 1 < WIDTHS:
                self._widths[index + 1].append(oldest)
            else:
                width.insert(0, oldest)

    def at(self, time_ns: int) -> Segment | None:
        """The segment of this time, or the last; None before there is any."""
        held = self._widths[0][-1] if self._widths[0] else None
        for segment in self._back_to(time_ns):
            held = segment
        return held

    def peak_between(
        self, start_ns: int, end_ns: int, resolution_ns: int = RESOLUTION_NS, since_ns: int = 0
    ) -> Peak | None:
        """The peak of a request that ran from `start_ns` to `end_ns`, each known to `resolution_ns`, and of all that
        shared that time with it; of its time from `since_ns` on alone. None if the function was never seen in it."""
        from_ns, to_ns = max(start_ns - resolution_ns, since_ns), end_ns + resolution_ns
        overlapped = [segment for segment in self._back_to(from_ns) if segment.start_ns <= to_ns]
        estimate = max((segment.estimate for segment in overlapped), default=0)
        if not estimate:
            return None
        lower = max(segment.reached(start_ns + resolution_ns, end_ns - resolution_ns) for segment in overlapped)
        whole = overlapped[-1].start_ns <= from_ns and overlapped[0].end_ns >= to_ns
        bounded = whole and all(segment.upper for segment in overlapped)
        upper = max(estimate, *(segment.upper for segment in overlapped)) if bounded else 0
        method = VMHWM_SEGMENTS if bounded and all(segment.resets for segment in overlapped) else SAMPLED
        return Peak(estimate, lower, upper, method, raced=False)

    def peak_before(self, time_ns: int) -> Peak | None:
        """The peak of all that had ended by then, None if the function was not seen before."""
        ended = [segment for width in self._widths for segment in width if segment.end_ns <= time_ns]
        estimate = max((segment.estimate for segment in ended), default=0)
        lower = max((segment.lower for segment in ended), default=0)
        return Peak(estimate, lower, 0, SAMPLED, raced=False) if estimate else None

    def curve(self, until_ns: int) -> MemoryCurve:
        """The function's level at the ends of the youngest segments."""
        curve = MemoryCurve()
        for segment in self._widths[0]:
            if segment.closing_ns <= until_ns:
                curve.see(segment.closing_ns, segment.level)
        return curve

    def _back_to(self, time_ns: int) -> Iterator[Segment]:
        """Segments, the youngest first, back to the one of `time_ns`."""
        for width in self._widths:
            for segment in reversed(width):
                if segment.end_ns < time_ns:
                    return
                yield segment


ALL_PROCESSES = 1 << 16
"""All processes, however many: nothing waits for the readings but the next ones."""


class SegmentRecorder:
    """Makes the segments of one environment. The function goes on running meanwhile."""

    def __init__(self, table: ProcessTable, recorder: Recorder, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives epoch ns."""
        self._table = table
        self._clock = clock
        self._recorder = recorder
        self._fault_kib = fault_sizes().most
        now = clock()
        self._opening = Zone(now, now, 0, 0)
        self.whole: Window | None = None
        """The last window before whose close no process of the function had just ended; no older than DYING_NS when the
        function was last seen."""
        self._picture = WholePicture()
        self.holder: tuple[str, int, int] | None = None
        """Who held most when the function was last seen whole, as in Recorder."""
        self.gone = False
        """The function's processes have ended."""

    @property
    def whole_ns(self) -> int:
        """When `whole` was closed: epoch ns."""
        return self._picture.seen_ns

    def end_segment(self) -> Segment:
        """End the open segment, and begin the next. Returns the one that has ended."""
        if self._table.changed():
            self._table.scan()
        before = self._stats()
        start_ns = self._clock()
        readings = self._recorder.read_and_reset(most=ALL_PROCESSES)
        end_ns = self._clock()
        after = self._stats()
        window = self._recorder.close(readings, NEVER_NS)
        self._keep(window, end_ns)
        if not window.closing and self.whole is not None:
            window = window._replace(last=current(self.whole))  # a function that has ended leaves its last level
        self.gone = not window.closing and (self.gone or window.process_exited)
        around = [(stat, after.get(pid)) for pid, stat in before.items()]
        opening, self._opening = self._opening, zone(start_ns, end_ns, around, self._fault_kib)
        return Segment(opening, window, self._opening)

    def _keep(self, window: Window, now_ns: int) -> None:
        if window.process_exited:
            self._picture.process_ended(now_ns)
        if window.closing and self._picture.take(now_ns):
            self.whole, self.holder = window, self._recorder.levels.largest_process

    def _stats(self) -> dict[int, Stat]:
        """Level and page faults of each process."""
        stats = {}
        for process in self._table.function():
            try:
                stats[process.pid] = process.files.stat()
            except Gone:
                continue  # the readings will show it, too
        return stats
