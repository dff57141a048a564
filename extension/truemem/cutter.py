"""Cuts time into segments: every process of the function is read and its watermark reset, again and again."""

from __future__ import annotations

import time

from .kernel import fault_kib
from .procfs import Gone
from .segments import Segment, Zone, zone
from .window import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .processes import ProcessTable
    from .procfs import Stat
    from .recorder import Recorder


class Cutter:
    """Of one environment, whose function goes on running meanwhile."""

    def __init__(self, table: ProcessTable, recorder: Recorder) -> None:
        self._table = table
        self._recorder = recorder
        self._fault_kib = fault_kib()
        now = time.time_ns()
        self._opening = Zone(now, now, 0, 0)
        self._level = 0
        """Of the function, when it was last seen: KiB."""
        self.gone = False
        """The function's processes have ended."""

    def cut(self) -> Segment:
        """The segment that ends here. The next begins."""
        if self._table.changed():
            self._recorder.find()
        before = self._look()
        start_ns = time.time_ns()
        cut = self._recorder.cut()
        end_ns = time.time_ns()
        after = self._look()
        window = self._recorder.close(cut, None, at_rest=True)
        self._recorder.settle(window)
        if window.closing:
            self._level = current(window)
        else:
            window.last = self._level  # a function that has ended leaves its last level
        self.gone = not window.closing and (self.gone or window.someone_ended)
        looks = [(stat, after.get(pid)) for pid, stat in before.items()]
        opening, self._opening = self._opening, zone(start_ns, end_ns, looks, self._fault_kib)
        return Segment(opening, window, self._opening)

    def _look(self) -> dict[int, Stat]:
        """Level and page faults of each process."""
        looks = {}
        for process in self._table.function():
            try:
                looks[process.pid] = process.files.stat()
            except Gone:
                continue  # the cut will see it, too
        return looks
