"""Divides time into segments: at the end of each every process of the function is read and its watermark reset."""

from __future__ import annotations

import time

from ..linux.kernel import fault_sizes
from ..linux.proc_text import Gone
from .memory_curve import WholePicture
from .race import NEVER
from .segments import Segment, Zone, zone
from .window import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.proc_text import Stat
    from ..linux.process_table import ProcessTable
    from .recorder import Recorder
    from .window import Window

MOST = 1 << 16
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
        """Who held most then, as in Recorder."""
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
        readings = self._recorder.read_and_reset(most=MOST)
        end_ns = self._clock()
        after = self._stats()
        window = self._recorder.close(readings, NEVER)
        self._recorder.adopt_new_processes(window)
        self._keep(window, end_ns)
        if not window.closing and self.whole is not None:
            window.last = current(self.whole)  # a function that has ended leaves its last level
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
