"""Gives each closed window to its record, with what the environment holds at that moment."""

from __future__ import annotations

from ..linux.heap_page import Heap
from ..measure.race import KERNEL_SLACK_KIB
from ..measure.window import peak
from ..records.out_of_memory import death_report
from ..records.pending_record import PendingRecord
from .heap_limit import HeapLimitNotice
from .kill_placement import KillPlacement, may_be_of_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..measure.sampling_schedule import Budget
    from ..measure.window import Peak, Window
    from ..records.environment_state import EnvironmentState
    from ..records.out_of_memory import DeathReport
    from ..records.publisher import Publisher
    from ..support.clock import RunningClock
    from .parts import Parts


class WindowCloser:
    """Completes the records of one environment."""

    def __init__(
        self,
        parts: Parts,
        publisher: Publisher,
        clock: RunningClock,
        environment_state: EnvironmentState,
        budget: Budget,
    ) -> None:
        """`budget`: CPU time for what costs more than some µs."""
        self._resources = parts.resources
        self._budget = budget
        self._recorder = parts.recorder
        self._environment_memory = parts.environment_memory
        self._kills = KillPlacement(parts.kills)
        self._publisher = publisher
        self._clock = clock
        self._environment_state = environment_state
        self._heap_limit = HeapLimitNotice(parts.config.memory_mib)
        self._of_extensions = 0
        """Of the kills that were put back: so many were extensions'."""
        self._began = False

    def open(self, record: PendingRecord, init: Window | None) -> None:
        """The next invocation begins. `init` is the window of the init phase, before the first."""
        if init is not None:
            record.init_measured(peak(init))
            self._mark(record.init_peak)
        if not self._began:  # whom the kernel killed in the init phase, it did not kill in this invocation
            self._began = True
            self._blame_others(record, self._killed() or 0, lived=bool(init is not None and init.closing))
        self._publisher.open(record)

    def close(self, record: PendingRecord, window: Window, closed_by: str, died: str = "") -> None:
        """The invocation's window is closed. `died`: why the environment ends with it, `failure` or `timeout`."""
        self._measure(record, window, closed_by, died)
        self._publisher.keep(record)

    def ended_after(self, record: PendingRecord, died: str) -> None:
        """The environment has ended when the function was done with this invocation, and extensions were not: the
        platform has not reported it."""
        killed = self._blame_extensions(record, self._killed())
        if killed:  # of whom it was, the report of the death decides
            record.killed((record.kernel_kills or 0) + killed)
        if record.window is not None:
            record.died(self._death_report(record.window, died))
        record.blame_extension()

    def close_unmeasured(self, record: PendingRecord) -> None:
        """Reading the function failed: its line has what the platform says."""
        record.not_measured(self._clock.running_ms)
        self._blame_others(record, self._killed() or 0, lived=False)
        self._publisher.keep(record)

    def died_in_init(self, window: Window, died: str) -> None:
        """The environment ends before its first invocation. That has no record: the log tells of it."""
        init = PendingRecord("", 0, 0)
        self._measure(init, window, "shutdown", died)
        self._publisher.log_init_death(init)

    def _measure(self, record: PendingRecord, window: Window, closed_by: str, died: str) -> None:
        record.measured(window, closed_by, self._clock.running_ms)
        self._mark(record.peak)
        record.mark_reached(self._environment_state.high_water_mark)
        killed = self._killed()
        dying = self._environment_memory.dying_extensions() if killed and not died else 0
        if died:
            record.died(self._death_report(window, died))
        noted = self._environment_memory.noted_by_probe(record.request_id, record.time_ms)
        record.environment_held(self._environment_memory.read(), noted, self._recorder.runtime_heap(window))
        self._heap_limit.look(record.heap)
        self._hear_of_children(window, noted.children_kib if isinstance(noted, Heap) else None)
        record.update_peak()
        self._place_kills(record, window, killed, dying)
        record.blame_extension()
        if self._resources is not None and closed_by != "shutdown":  # what a dying function has tells nothing
            record.used(self._resources.read(window.closing, self._budget))

    def _hear_of_children(self, window: Window, most: int | None) -> None:
        """The probe says how large the largest child was that the function has ever waited for. Where that has risen
        above what the function's own processes held, a child of this invocation was as large (what a child had before
        exec() was its parent's memory)."""
        before = self._environment_state.children_kib
        if most is None:
            return
        self._environment_state.children_kib = most
        window.child_most = most
        held = max((status.hwm for status in window.closing), default=most)
        if before is not None and most > max(before, held + KERNEL_SLACK_KIB):
            window.child_peak = most

    def _death_report(self, window: Window, died: str) -> DeathReport:
        self._environment_memory.look()
        held_kib, extensions = self._environment_memory.held_kib, self._environment_memory.extensions
        ended = self._environment_memory.ended
        return death_report(died, window, held_kib, self._recorder.levels.largest_process, extensions, ended)

    def _place_kills(self, record: PendingRecord, window: Window, killed: int | None, dying: int) -> None:
        """OOM kills that the kernel has counted in the window: the function's, if one of its processes ended in it, or
        one that was not known can have come and gone.

        `dying` extensions have ended, and are no SHUTDOWN's doing. An environment gets no other event than SHUTDOWN
        then, so this window was closed before: theirs are kills of the invocation that SHUTDOWN will end.
        """
        killed = self._blame_extensions(record, killed)
        if killed and dying:
            self._of_extensions = min(killed, dying)
            self._put_back(self._of_extensions)
            killed -= self._of_extensions
        if killed and not may_be_of_function(window):
            record.killed(0)
            self._blame_others(record, killed, lived=bool(window.closing))
        else:
            record.killed(killed)

    def _blame_extensions(self, record: PendingRecord, killed: int | None) -> int | None:
        """The kills that were put back as extensions' are in this record. Returns the others; None where nothing
        counts."""
        of_extensions, self._of_extensions = min(killed or 0, self._of_extensions), 0
        record.others_killed(record.environment_kills + of_extensions)
        return None if killed is None else killed - of_extensions

    def _blame_others(self, record: PendingRecord, killed: int, lived: bool) -> None:
        """`lived`: did the function, when the window closed? Then it may have been killed since, by the next event."""
        if killed and lived:
            self._recorder.levels.sample(late=False, reset=False)
            if not self._recorder.levels.last_sample:
                self._put_back(killed)  # of the invocation that has begun, perhaps
                return
        record.others_killed(record.environment_kills + killed)

    def _killed(self) -> int | None:
        """OOM kills since the last time; None where nothing counts."""
        killed = self._kills.take()
        self._environment_state.kills = self._kills.seen
        return killed

    def _put_back(self, killed: int) -> None:
        """These are of a later record; if this process does not live to close it, of the next one's."""
        self._kills.put_back(killed)
        if self._environment_state.kills is not None:
            self._environment_state.kills -= killed

    def _mark(self, reached: Peak | None) -> None:
        if reached is not None:
            self._environment_state.reached(reached.estimate)
