"""From what is known of each invocation to its line: joins, decides what is due, prints, counts what was lost."""

from __future__ import annotations

from ..config import ALWAYS
from ..measure.window import current
from ..platform.telemetry_events import INIT_START, LOGS_DROPPED, REPORT, RESTORE_START, Event
from ..support import minijson
from ..support.log import log
from .emf import line
from .environment_state import SNAP_START
from .journal_text import curve, journal_text
from .pending_records import PendingRecords
from .record import finished
from .stdout_writer import StdoutWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config
    from ..measure.environment_memory import EnvironmentMemory
    from ..measure.recorder import Recorder
    from .batch_line import BatchLine
    from .environment_state import EnvironmentState
    from .journal import Journal
    from .pending_record import PendingRecord
    from .record import InvocationRecord
    from .trace_context import Trace


LINE_LIMIT = 2048
"""Bytes of the line of an invocation that died, newline and all: where names are long, its curve has fewer samples."""


class Publisher:
    """The records of one environment on their way to stdout."""

    def __init__(
        self,
        config: Config,
        reports: bool,
        history: EnvironmentState,
        journal: Journal,
        lost_elsewhere: Callable[[], int],
        send: Callable[[InvocationRecord, Trace | None], None] | None = None,
    ) -> None:
        """`reports`: is telemetry subscribed to? `lost_elsewhere` counts what readers and listener have lost. `send`
        takes each finished record, too."""
        self._send = send
        self._config = config
        self._history = history
        self._journal = journal
        self._lost_elsewhere = lost_elsewhere
        self._pending = PendingRecords(reports)
        self._output = StdoutWriter(journal=journal)
        self._aggregate: BatchLine | None = None
        if config.aggregate_s and config.prints:
            from .batch_line import BatchLine  # read only where it is wanted

            self._aggregate = BatchLine(config.aggregate_s)
        self._lost = 0
        self._lost_printed = 0
        """What was lost up to the last record that was printed,"""
        self._printed_mark = 0
        """and that one's `high_water_mark`."""

    def open(self, record: PendingRecord) -> None:
        """An invocation begins."""
        if self._pending.over_capacity():
            self.print_due(0.0)
        self._pending.open(record)

    def keep(self, record: PendingRecord) -> None:
        """The record is closed: what is known of it so far is in the journal until it is printed."""
        signals = self._conclude(record)
        resources = self._resources(record)
        so_far = finished(record, self._config, self._history.environment_id, signals, resources=resources)
        record.journaled(self._journal.keep(record.invocation, journal_text(so_far)))
        self._journal.remember(self._history.text())

    def log_init_death(self, record: PendingRecord) -> None:
        """The environment has ended before an invocation that could have a line."""
        signals, death = self._conclude(record), record.death
        assert death is not None
        cause = f", out of memory ({', '.join(signals)})" if signals else ""
        members = {**death.document(), "lastSamples": record.last_samples()}
        log(
            "warn" if cause else "info",
            f"before its first invocation the environment has ended with a {death.reason}{cause}, "
            f"limit {self._config.memory_mib or 'unknown'} MiB: {minijson.dumps(members)}",
        )

    def checkpoint(self, recorder: Recorder, surroundings: EnvironmentMemory) -> None:
        """Put the curve of the invocation that runs into the journal."""
        record = self._pending.current()
        if record is not None:
            seen = recorder.window, recorder.levels.largest_process, surroundings.held_kib, surroundings.extensions
            self._journal.checkpoint(record.invocation, curve(record, *seen))

    def recover(self, kills: int) -> None:
        """Print what an earlier process of the environment has left, `kills` OOM kills ago: marked, and once."""
        if self._journal.empty():
            self._journal.remember(self._history.text())
            return
        from . import recovery  # seldom needed, and an import before `next` is a part of each cold start

        sent = {slot for slot, entry in self._journal.records if entry.sent}
        left = recovery.records(self._journal, self._history, self._config, kills)
        self._journal.remember(self._history.text())  # first: a line that is out takes its number with it
        for record in left:
            if record.slot not in sent:
                self._send_elsewhere(record, None)
            self._put(record)

    def current(self) -> PendingRecord | None:
        """The invocation whose window is open, or None."""
        return self._pending.current()

    def unreported(self) -> PendingRecord | None:
        """The last invocation, if the platform has not reported its end."""
        return self._pending.unreported()

    def complete(self) -> bool:
        """True when no record waits for a report."""
        return self._pending.complete()

    def lose(self, count: int = 1) -> None:
        """Something was lost: the next line says so."""
        self._lost += count

    def join(self, event: Event) -> None:
        """Add what the platform says."""
        if event.kind == INIT_START:
            self._on_init(event)
        elif event.kind == RESTORE_START:
            self._history.identify(event.text("instanceId"))
        elif event.kind == LOGS_DROPPED:
            count = event.record.get("droppedRecords")
            self.lose(count if isinstance(count, int) and 0 < count < 1_000_000 else 1)
        elif not self._pending.join(event) and event.kind == REPORT:
            # Of an invocation that is printed, or has ended the process before this one: what was the mark by then?
            self._history.mark_mib = event.metric("maxMemoryUsedMB") or self._history.mark_mib

    def _on_init(self, event: Event) -> None:
        """An init phase has begun: that of the environment, or of the snapshot which it was restored from; that one
        is told again in every copy, with the log stream in which it was made."""
        if event.text("initializationType") == SNAP_START and event.text("phase") != "invoke":
            return
        self._history.identify(event.text("instanceId"))
        if event.text("phase") == "invoke":
            self._history.resumed = True
            first = self._pending.first()
            if first is not None and first.cold_start:  # it has begun already; telemetry may come much later still
                first.follows_init(cold_start=True, suppressed=True, initialization_type=first.initialization_type)

    def print_due(self, running_ms: float) -> bool:
        """Print one record that is complete, or has waited long enough (PendingRecords.due); False if there is none.

        One at a time: what is to be done at once is looked at in between.
        """
        record = self._pending.due(running_ms)
        if record is not None:
            self.print_one(record)
        return record is not None

    def flush_all(self) -> None:
        """Print every record: the environment ends."""
        remaining = self._pending.take_all()
        for record in remaining:
            self.print_one(record, last=record is remaining[-1])
        self._print_together()
        self._output.flush(wait_ms=100)

    def flush(self, now_ms: int) -> None:
        """Write what has waited for long enough at epoch `now_ms`, and what stdout did not take before."""
        if self._aggregate is not None and self._aggregate.overdue(now_ms):
            self._print_together()
        self._output.flush()

    def print_one(self, record: PendingRecord, last: bool = False) -> None:
        """Print this one, opened here or not. `last`: none follows."""
        lost = self._lost + self._output.dropped + self._lost_elsewhere()
        dropped, self._lost_printed = lost - self._lost_printed, lost
        made = self.finish(record, dropped, last)
        self._send_elsewhere(made, record.trace)
        if self._aggregate is not None and self._aggregate.wants(made):
            if not self._aggregate.fits(made):
                self._print_together()
            self._aggregate.add(made)
        else:
            self._print_together()
            self._put(made, dropped)

    def _send_elsewhere(self, record: InvocationRecord, trace: Trace | None) -> None:
        """Beside its line, which may come later: should this process be killed, the next must not send it again."""
        if self._send is not None:
            if record.slot is not None:
                self._journal.sending(record.slot)
            self._send(record, trace)

    def _put(self, record: InvocationRecord, dropped: int = 0) -> None:
        """Print its line, where records have one; what it says was `dropped`."""
        if self._config.prints:
            self._output.put(self._line(record), _slots(record.slot), dropped)
        elif record.slot is not None:
            self._journal.printed(record.slot)

    def finish(self, record: PendingRecord, dropped: int, last: bool) -> InvocationRecord:
        """The record as it is printed: what was left open is worked out, once, and the environment's state goes on."""
        signals = self._conclude(record)
        self._printed_mark = record.mark_reached(self._printed_mark)
        self._history.mark_mib = record.max_memory_used_mib or self._history.mark_mib
        if signals and record.max_memory_used_mib is None:  # no report says so, but it has been there
            self._history.mark_mib = max(self._history.mark_mib, float(self._config.memory_mib))
        drift = self._judge(record, last)
        if record.usage is not None:
            self._history.resource_drift.add(record.usage, record.time_ms)
        resources = self._resources(record)
        return finished(record, self._config, self._history.environment_id, signals, drift, dropped, resources)

    def _resources(self, record: PendingRecord) -> dict[str, object] | None:
        """What the record's line tells of /tmp, descriptors, threads and processes."""
        if record.usage is None:
            return None
        return self._history.resource_drift.members(record.usage, always=self._config.resources == ALWAYS)

    def _conclude(self, record: PendingRecord) -> list[str]:
        """From what is known by now: its peak, the marks that it has reached, and the signals that it ran out of
        memory."""
        record.mark_rose(self._history.mark_mib)
        if record.peak is not None:  # telemetry may have raised it since the window was closed
            record.mark_reached(record.peak.estimate)
            if record.peak.estimate > self._history.high_water_mark:
                self._history.high_water_mark = record.peak.estimate
                self._journal.remember(self._history.text())
        return record.signals(self._config.memory_mib, self._history.mark_mib)

    def _line(self, record: InvocationRecord) -> str:
        text = line(record, self._config)
        samples = record.properties.get("lastSamples")
        while isinstance(samples, list) and len(samples) > 1 and len(text) >= LINE_LIMIT:
            samples = samples[::-2][::-1]  # the last one stays
            text = line(record.having(lastSamples=samples), self._config)
        return text

    def _print_together(self) -> None:
        """Print the invocations that wait for their common line."""
        if self._aggregate:
            count, slots = len(self._aggregate), self._aggregate.slots
            self._output.put(self._aggregate.take(self._config), slots, count - 1)

    def _judge(self, record: PendingRecord, last: bool) -> dict[str, object] | None:
        """Leak or not, so far: told with some of the lines, and with the `last` one."""
        drift, due = self._history.drift, last or record.closed_by == "shutdown"
        if record.window is None or record.peak is None:
            return None
        held_kib = current(record.window)
        # The last reading may be that of a dying function.
        memory, limit_kib = record.memory, None
        if self._config.memory_mib:
            others_kib = memory.sidecar + sum(memory.extensions.values()) if memory is not None else 0
            limit_kib = self._config.memory_mib * 1024 - others_kib
        drift.see(held_kib, record.peak.estimate)
        if held_kib and record.closed_by != "shutdown":
            drift.add(held_kib, record.time_ms, limit_kib)
            due |= drift.due()
        if not due:
            return None
        return drift.document(record.invocation, None if limit_kib is None else limit_kib - record.peak.estimate)


def _slots(slot: int | None) -> tuple[int, ...]:
    return () if slot is None else (slot,)
