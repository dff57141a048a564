"""Gives each closed window to its record, with what the environment holds at that moment."""

from __future__ import annotations

from ..measure.window import DYING_NS
from ..records.pending_record import Measured, PendingRecord, death_report
from ..support.log import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from ..linux.cgroup import OomKills
    from ..measure.sampling import CpuBudget
    from ..measure.watermark import ProcessReadings
    from ..measure.window import Peak, Window
    from ..records.pending_record import DeathReport, EnvironmentState
    from .loop import LoopParts, RunningClock
    from .publisher import Publisher


SOON_US: Final = 5_000
"""No child is started, takes memory and is killed for it in so short a time."""


def may_be_of_function(window: Window) -> bool:
    """Has one of the function's processes ended in this window, or one come and gone unseen?"""
    return window.process_exited or window.births != 0


class KillPlacement:
    """OOM kills of one environment: counted where a window ends, until it is known whose processes they were."""

    def __init__(self, kills: OomKills) -> None:
        self._kills = kills
        self._open = 0
        """Counted, and put back."""
        self._counted_ns = 0
        """When the last kill was counted, as `take` was told."""
        self._uncounted: ProcessReadings | None = None
        """Readings that end a window whose kills are not counted yet; they are before the next event is handed on."""
        self._is_between = False
        """The runtime has asked for an event, and has none yet."""
        self._joined = 0
        """Counted in the open window."""
        self._looks: list[tuple[int, int]] = []
        self.looks: Sequence[tuple[int, int]] = ()
        """Where kills rose in the window that ended last: (epoch ns, its kills by then)."""

    @property
    def seen(self) -> int | None:
        """The kernel's count as last read; None where nothing counts."""
        return self._kills.seen

    def take(self, now_ns: int = 0) -> int | None:
        """OOM kills since the last time, and those that were put back; None where nothing counts now."""
        killed = self._more()
        if killed is None:
            return None
        if killed:
            self._counted_ns = now_ns
        return killed + self.take_back()

    def take_back(self) -> int:
        """Kills that were put back."""
        killed, self._open = self._open, 0
        return killed

    def count(self, readings: ProcessReadings) -> None:
        """A window ends with these readings: its kills."""
        self._is_between = False
        earlier, self._uncounted = self._uncounted, None
        killed = self._more()
        if earlier is not None and killed is not None:
            earlier.killed, killed = killed, 0
        readings.killed = killed

    def count_at_rest(self, readings: ProcessReadings, begins: bool) -> None:
        """Count the kills in exact mode, where the runtime waits: an invocation begins, or has ended. 20 µs. If the
        function has one process, none of it is killed between two invocations: `settle` counts later."""
        is_alone = len(readings.readings) == 1 and not (readings.left or readings.ended)
        is_between, self._is_between = self._is_between, not begins
        if not is_alone or self._uncounted is not None or (begins and not is_between):
            self.count(readings)
        elif begins:
            readings.killed = 0
        else:
            self._uncounted = readings
        self._is_between = not begins

    def settle(self) -> None:
        """Count the kills that were left uncounted: there is time now."""
        if self._uncounted is not None:
            self._uncounted.killed, self._uncounted = self._more(), None

    def look(self, clock: Callable[[], int]) -> None:
        """A process has ended in the open window: was it killed? `clock` gives epoch ns."""
        killed = self._kills.more()
        if killed:
            self._joined += killed
            self._looks.append((clock(), self._joined))

    def join(self, readings: ProcessReadings) -> None:
        """Forget that these readings were to end a window: they end none after all."""
        self._joined += readings.killed or 0

    def _more(self) -> int | None:
        killed = self._kills.more()
        if killed is None:
            return None
        killed, self._joined = killed + self._joined, 0
        self.looks, self._looks = self._looks, []
        return killed

    def settled(self, window: Window, now_ns: int, is_last: bool) -> tuple[int, bool]:
        """Kills of a segment of Managed Instances that ends now, and whether they may be of the function. A process is
        killed at once, and may be seen to have ended a segment later: until then there are none. `is_last`: no segment
        follows."""
        killed, of_function = self.take(now_ns) or 0, may_be_of_function(window)
        if killed and not (of_function or is_last or now_ns - self._counted_ns > DYING_NS):
            self.put_back(killed)
            killed = 0
        return killed, of_function

    def put_back(self, killed: int) -> None:
        """Give kills back, because it is not known yet whose they were: the next `take` has them again."""
        self._open += killed


def notice(parts: LoopParts, method: str, exact: bool = False) -> None:
    """Log what this environment allows. `method` is the one there is if watermarks can be reset."""
    config, table, recorder, wings = parts.config, parts.table, parts.recorder, parts.wings
    if recorder.reader.refused:
        method = f"sampled ({recorder.reader.refused})"
    log(
        "info",
        f"method={method} function processes={len(table.function())} environment={parts.environment_memory.source} "
        f"telemetry={parts.unsubscribed or 'on'} mode={'exact' if exact else 'default'} "
        f"limit={config.memory_mib or 'unknown'} MiB"
        + (f" aggregate={config.aggregate_s} s" if config.aggregate_s else "")
        + (f" line={'yes' if config.prints else 'no'} sends to {wings.where}" if wings.where else ""),
    )
    if not table.function():
        log("warn", f"no process of the function is found, nothing is measured: {table.looked_for()}")
    for problem in wings.keeper.problem, table.oom_score_refused():
        if problem:
            log("info", problem)


class WindowCloser:
    def __init__(
        self,
        parts: LoopParts,
        publisher: Publisher,
        clock: RunningClock,
        environment_state: EnvironmentState,
        budget: CpuBudget,
    ) -> None:
        """`budget`: CPU time for what costs more than some µs."""
        self._wings = parts.wings
        self._budget = budget
        self._recorder = parts.recorder
        self._environment_memory = parts.environment_memory
        self.kills = KillPlacement(parts.kills)
        self._table = parts.table
        self._publisher = publisher
        self._clock = clock
        self._environment_state = environment_state
        self._of_extensions = 0
        """Number of extensions' kills among those that were put back."""
        self._between = 0
        """Kills between two invocations, or before the first."""
        self._began = False

    def open(self, record: PendingRecord, init: Window | None) -> None:
        """The next invocation begins. `init` is the window of the init phase, before the first."""
        if init is not None:
            record.init_measured(init)
            self._mark(record.init_peak)
        if not self._began:  # whom the kernel killed in the init phase, it did not kill in this invocation
            self._began = True
            self._blame_others(record, self._killed(init) or 0, lived=bool(init is not None and init.closing))
        self._publisher.open(record)

    def close(self, record: PendingRecord, window: Window, closed_by: str, died: str = "") -> None:
        """The invocation's window is closed. `died`: why the environment ends with it, `failure` or `timeout`."""
        self._measure(record, window, closed_by, died)
        self._publisher.keep(record)

    def ended_after(self, record: PendingRecord, died: str) -> None:
        """The environment has ended when the function was done with this invocation, and extensions were not: the
        platform has not reported it."""
        killed = self._blame_extensions(record, self._killed(None))
        if killed:  # of whom it was, the report of the death decides
            record.killed((record.kernel_kills or 0) + killed)
        if record.window is not None:
            record.died(self._death_report(record.window, died))
        record.blame_extension()

    def close_unmeasured(self, record: PendingRecord) -> None:
        """Reading the function failed: its line has what the platform says."""
        record.close(Measured(at_ms=self._clock.running_ms))
        self._blame_others(record, self._killed(None) or 0, lived=False)
        self._publisher.keep(record)

    def died_in_init(self, window: Window, died: str) -> None:
        """The environment ends before its first invocation. That has no record: the log tells of it."""
        init = PendingRecord("", 0, 0)
        self._measure(init, window, "shutdown", died)
        self._publisher.log_init_death(init)

    def _measure(self, record: PendingRecord, window: Window, closed_by: str, died: str) -> None:
        record.close(Measured(window, closed_by, self._clock.running_ms))
        self._mark(record.peak)
        record.mark_reached(self._environment_state.high_water_mark)
        killed = self._killed(window)
        dying = self._environment_memory.dying_extensions() if killed and closed_by != "shutdown" else 0
        if died:
            record.died(self._death_report(window, died))
        lives = bool(window.closing) and not (window.dying and closed_by == "shutdown")
        record.holds(self._environment_memory.read(lives))
        for window_closed in self._wings.window_closed:
            window_closed((record,), window, self._budget, closed_by == "shutdown")
        record.update_peak()
        self._place_kills(record, window, killed, dying)
        record.killed_between(self._between)
        self._between = 0
        record.blame_extension()

    def pass_between(self, window: Window) -> None:
        """A window is closed that is no invocation's. Whom the kernel has killed in it, the next record counts."""
        self._between += window.killed or 0

    def _death_report(self, window: Window, died: str) -> DeathReport:
        self._environment_memory.look()
        held_kib, extensions = self._environment_memory.held_kib, self._environment_memory.extensions
        ended = self._environment_memory.ended
        return death_report(died, window, held_kib, self._recorder.levels.largest_process, extensions, ended)

    def _place_kills(self, record: PendingRecord, window: Window, killed: int | None, dying: int) -> None:
        """OOM kills that the kernel has counted in the window: the function's, if one of its processes ended in it, or
        one that was not known can have come and gone.

        `dying` extensions have ended, and are no SHUTDOWN's doing. An environment gets no other event than SHUTDOWN
        then, so this window was closed before, perhaps not as the last: theirs are kills of the invocation that
        SHUTDOWN will end.
        """
        if killed and dying:
            self._of_extensions = min(killed, dying)
            self._put_back(self._of_extensions)
            killed -= self._of_extensions
        else:
            killed = self._blame_extensions(record, killed)
        if killed and not window.closing and not window.end.exact:  # the next event has killed the runtime
            record.killed(0)
            self._put_back(killed)
        elif killed and not (may_be_of_function(window) or self._is_dying()):
            record.killed(0)
            self._blame_others(record, killed, lived=bool(window.closing))
        else:
            record.killed(killed, None if killed is None or self._is_all_of(window, killed) else self.kills.looks)

    def _is_all_of(self, window: Window, killed: int) -> bool:
        """Have so many kills of this window been in its invocation? In the default mode it ends some time later. But a
        child that the runtime has waited for was killed before, and none of the next invocation ends so soon."""
        is_waited_for = window.process_exited and window.deaths >= 0 and (window.deaths >= killed or not window.orphans)
        is_alone = len(window.closing) == 1 and not window.end.is_outlived
        late_us = self._recorder.window.reset_delay_us
        return window.end.exact or (is_waited_for and is_alone and late_us is not None and late_us < SOON_US)

    def _is_dying(self) -> bool:
        """Is one of the function's processes about to end by SIGKILL, or has one ended just now?"""
        return self._recorder.window.process_exited or any(each.files.is_dying() for each in self._table.function())

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

    def _killed(self, window: Window | None) -> int | None:
        """OOM kills in this window, and those that were put back. Those until now, where it was not counted at its end,
        or there is none; None where nothing counts."""
        known = window.killed if window is not None else None
        killed = self.kills.take() if known is None else known + self.kills.take_back()
        self._environment_state.kills = self.kills.seen
        return killed

    def _put_back(self, killed: int) -> None:
        """Leave these kills to a later record; if this process does not live to close it, to the next process's."""
        self.kills.put_back(killed)
        if self._environment_state.kills is not None:
            self._environment_state.kills -= killed

    def _mark(self, reached: Peak | None) -> None:
        if reached is not None:
            self._environment_state.reached(reached.estimate)
