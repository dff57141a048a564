"""What the function's runtime or allocator says of its heap: by a probe in the process, or by a JVM's counters."""

from __future__ import annotations

from ..linux.process_table import KEPT_PROCESSES
from ..wings import HEAP_NOTE, IN_USE_NOTE, InUse, Wing
from .java import HsperfFiles, Shown
from .page import HeapLimitNotice, HeapPages, PythonHeap, RuntimeHeap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..measure.sampling import CpuBudget
    from ..measure.watermark import ProcessReadings
    from ..measure.window import Window
    from ..records.pending_record import PendingRecord
    from ..wings import Site


class Heaps(Wing):
    """The heaps of one environment."""

    def __init__(self, site: Site) -> None:
        self._table = site.table
        self._pages = HeapPages(site.environ)
        self._java = HsperfFiles()
        self._limit = HeapLimitNotice(site.config.memory_mib)

    def readings_taken(self, readings: ProcessReadings) -> None:
        readings.shown = self._java.take()  # the next invocation moves a JVM's counters

    def window_closed(self, records: Sequence[PendingRecord], window: Window, budget: CpuBudget, dying: bool) -> None:
        processes = self._table.function()[:KEPT_PROCESSES]
        shown = self._java.heap(processes, window.shown if isinstance(window.shown, Shown) else None)
        pages = self._pages.read(process.pid for process in processes)
        for record in records:
            noted = self._pages.find(pages, record.request_id, record.time_ms)
            # The page of a process whose allocator says nothing is worth less than a JVM's counters.
            heap = shown if noted is None or (isinstance(noted, PythonHeap) and noted.source == "none") else noted
            if isinstance(noted, PythonHeap):
                self._bound_children(record, window, noted)
            if shown is not None and heap is shown:
                record.note(IN_USE_NOTE, InUse(self._java.pid, shown.live, is_jvm=True))
            elif noted is not None and (isinstance(noted, PythonHeap) or noted.runtime == "nodejs"):
                record.note(IN_USE_NOTE, InUse(self._pages.pid, noted.in_use_kib))
            if heap is not None:
                record.note(HEAP_NOTE, heap)
                self._limit.look(heap)

    def members(self, record: PendingRecord) -> Mapping[str, object]:
        heap = record.notes.get(HEAP_NOTE)
        return {HEAP_NOTE: heap.document()} if isinstance(heap, (PythonHeap, RuntimeHeap)) else {}

    def _bound_children(self, record: PendingRecord, window: Window, noted: PythonHeap) -> None:
        """No child that the process had waited for, when its handler returned, was larger than the probe says. Where no
        other thread or process can have waited for one, those are all that were waited for in the window.

        That a child of this window was so large it does not say: it may be an earlier one's peak, or what the parent
        held at exec()."""
        if len(window.closing) == noted.threads == 1:
            record.children_were(noted.children_kib)


def door(site: Site) -> Wing:
    """Always there: it costs nothing where nothing says anything."""
    return Heaps(site)
