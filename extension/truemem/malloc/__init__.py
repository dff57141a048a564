"""What malloc has given out and holds, of a function without a probe, once in a while: read from outside, with nothing
written and nothing stopped.

A reading counts only if all threads of the runtime's process slept before it and after it, and none has run in between.
In both modes the next invocation may have begun by then, and what that has in use is in it.
"""

from __future__ import annotations

from .. import arenas
from ..config import OFF
from ..support.log import log, reason
from ..wings import HEAP_NOTE, IN_USE_NOTE, Wing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..linux.process_table import Process
    from ..measure.sampling import CpuBudget
    from ..measure.window import Window
    from ..records.pending_record import PendingRecord
    from ..wings import Site

FIRST_READING = 64
"""Invocations until malloc is first read; then it is read after twice as many, and so on."""
MOST_CHUNKS = 1_000
"""Free chunks that are looked at: 3 ms. In exact mode the runtime's bytes may wait meanwhile."""
MALLOC_NOTE = "malloc"
MIB_BYTES = 1 << 20


class MallocReadings(Wing):
    """The readings of one environment."""

    def __init__(self, site: Site) -> None:
        self._table = site.table
        self._clock = site.clock
        self._root = site.proc.root
        self._closed = 0
        """Invocations so far."""
        self._due = FIRST_READING
        """Number of the invocation from which on malloc is read next, as soon as the process sleeps."""
        self._process: Process | None = None
        """The process whose malloc is read."""
        self._is_over = False
        """True if malloc is read no more: the process has a probe, or no malloc that can be read, or another process
        has come."""

    def window_closed(self, records: Sequence[PendingRecord], window: Window, budget: CpuBudget, dying: bool) -> None:
        record = records[-1]
        self._closed += 1
        self._is_over |= HEAP_NOTE in record.notes or IN_USE_NOTE in record.notes
        if self._is_over or self._closed < self._due or dying:
            return
        now_ns, function = self._clock.monotonic_ns(), self._table.function()
        if not function or not budget.affords(0, now_ns):
            return
        began_ns = self._clock.cpu_ns()
        found = self._read(function[0])
        budget.spend_beside(self._clock.cpu_ns() - began_ns, now_ns)  # more than it has, in a small function
        if found is not None:
            sizes = {"inUse": found.in_use, "held": found.held, "mapped": found.mapped}
            rounded = {name: round(size / MIB_BYTES, 3) for name, size in sizes.items()}  # to one KiB
            record.note(MALLOC_NOTE, {**rounded, "source": "outside"})

    def members(self, record: PendingRecord) -> Mapping[str, object]:
        found = record.notes.get(MALLOC_NOTE)
        return {HEAP_NOTE: found} if found is not None else {}

    def _read(self, process: Process) -> arenas.Malloc | None:
        """malloc's figures; None if they are not known this time. Sets when malloc is read next, or that it is over."""
        self._process = self._process or process
        self._is_over = process.identity != self._process.identity
        before_ns, found, problem = process.files.asleep_ns(), None, None
        if before_ns is None or self._is_over:
            return None  # the next invocation may find it asleep
        try:
            found = arenas.read(process.pid, MOST_CHUNKS, self._root)
        except (OSError, ValueError) as error:
            problem = error
        # Twice: a thread that goes to sleep says so some µs before its time is counted. Of 4,559 readings of a process
        # whose threads never rest 9 passed one look, and none the second.
        if any(process.files.asleep_ns() != before_ns for _ in range(2)):
            return None
        self._due = 2 * self._closed
        self._is_over = isinstance(problem, (PermissionError, arenas.NoGlibc))
        if isinstance(problem, PermissionError):
            log("info", f"malloc of the function cannot be read: {reason(problem)}")
        return found


def door(site: Site) -> Wing | None:
    """The wing, unless TRUEMEM_SETTLE is off. Not on Managed Instances: requests overlap, so none is at an end."""
    return MallocReadings(site) if site.config.settle != OFF and not site.managed else None
