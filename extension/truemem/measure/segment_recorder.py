"""Cuts time into segments: every process of the function is read and its watermark reset, again and again."""

from __future__ import annotations

import time

from ..linux.kernel import fault_kib
from ..linux.procfs import Gone
from .memory_curve import DYING_NS
from .race import NEVER
from .segments import Segment, Zone, zone
from .window import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.process_table import ProcessTable
    from ..linux.procfs import Stat
    from .recorder import Recorder
    from .window import Window

MOST = 1 << 16
"""All processes, however many: nothing waits for a cut but the next one."""


class SegmentRecorder:
    """Of one environment, whose function goes on running meanwhile."""

    def __init__(self, table: ProcessTable, recorder: Recorder, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives epoch ns."""
        self._clock = clock
        self._table = table
        self._recorder = recorder
        self._fault_kib = fault_kib()
        now = clock()
        self._opening = Zone(now, now, 0, 0)
        self.whole: Window | None = None
        """The last window that was closed with nobody of the function having ended just before; no older than DYING_NS
        when the function was last seen."""
        self.whole_ns = 0
        """When that was: epoch ns."""
        self.holder: tuple[str, int, int] | None = None
        """Who held most then, as in Recorder."""
        self._ended_ns = -DYING_NS
        """When a process was last seen to have ended."""
        self.gone = False
        """The function's processes have ended."""

    def cut(self) -> Segment:
        """The segment that ends here. The next begins."""
        if self._table.changed():
            self._recorder.find()
        before = self._look()
        start_ns = self._clock()
        cut = self._recorder.cut(most=MOST)
        end_ns = self._clock()
        after = self._look()
        window = self._recorder.close(cut, NEVER)
        self._recorder.settle(window)
        self._keep(window, end_ns)
        if not window.closing and self.whole is not None:
            window.last = current(self.whole)  # a function that has ended leaves its last level
        self.gone = not window.closing and (self.gone or window.someone_ended)
        looks = [(stat, after.get(pid)) for pid, stat in before.items()]
        opening, self._opening = self._opening, zone(start_ns, end_ns, looks, self._fault_kib)
        return Segment(opening, window, self._opening)

    def _keep(self, window: Window, now_ns: int) -> None:
        if window.someone_ended:
            self._ended_ns = now_ns
        dying = now_ns - self._ended_ns < DYING_NS
        # Some functions end processes all the time.
        if window.closing and not (dying and 0 <= now_ns - self.whole_ns < DYING_NS):
            self.whole, self.whole_ns, self.holder = window, now_ns, self._recorder.holder

    def _look(self) -> dict[int, Stat]:
        """Level and page faults of each process."""
        looks = {}
        for process in self._table.function():
            try:
                looks[process.pid] = process.files.stat()
            except Gone:
                continue  # the cut will see it, too
        return looks
