"""From what is known of each invocation to its line: joins, decides what is due, prints, counts what was lost."""

from __future__ import annotations

from ..measure.window import current
from ..platform.telemetry_events import INIT_START, LOGS_DROPPED, REPORT, RESTORE_START, Event
from ..support import minijson
from ..support.log import log
from . import out_of_memory, recovery
from .emf import line
from .environment_state import SNAP_START
from .pending_records import PendingRecords
from .record import metrics, properties
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
    from .record import InvocationRecord


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
    ) -> None:
        """`reports`: is telemetry subscribed to? `lost_elsewhere` counts what readers and listener have lost."""
        self._config = config
        self._history = history
        self._journal = journal
        self._lost_elsewhere = lost_elsewhere
        self._ledger = PendingRecords(reports)
        self._output = StdoutWriter(journal=journal)
        self._aggregate = _aggregate(config.aggregate_s)
        self._lost = 0
        self._told = 0
        self._told_mark = 0
        """`high_water_mark` of the last record that was printed."""

    def open(self, record: InvocationRecord) -> None:
        """An invocation begins."""
        if self._ledger.crowded():
            self.print_due(0.0)
        self._ledger.open(record)

    def keep(self, record: InvocationRecord) -> None:
        """The record is closed: what is known of it so far is in the journal until it is printed."""
        record.environment_id = self._history.environment_id
        self._conclude(record)
        members = properties(record, self._config.memory_mib, self._config.function_version)
        text = minijson.dumps([record.time_ms, metrics(record), members])
        record.slot = self._journal.keep(record.invocation, text)
        self._journal.remember(self._history.text())

    def tell_of_init(self, record: InvocationRecord) -> None:
        """The environment has ended before an invocation that could have a line."""
        self._conclude(record)
        assert record.ending is not None
        cause = f", out of memory ({', '.join(record.signals)})" if record.signals else ""
        members = {**record.ending.document(), "lastSamples": record.ending.samples}
        log(
            "warn" if cause else "info",
            f"before its first invocation the environment has ended with a {record.ending.reason}{cause}, "
            f"limit {self._config.memory_mib or 'unknown'} MiB: {minijson.dumps(members)}",
        )

    def draw(self, recorder: Recorder, surroundings: EnvironmentMemory) -> None:
        """Put the curve of the invocation that runs into the journal."""
        record = self._ledger.current()
        if record is not None:
            others = surroundings.held_kib, surroundings.extensions
            self._journal.draw(record.invocation, recovery.curve(record, recorder, *others))

    def recover(self, kills: int) -> None:
        """Print what an earlier process of the environment has left, `kills` OOM kills ago: marked, and once."""
        left = recovery.lines(self._journal, self._history, self._config, kills)
        self._journal.remember(self._history.text())  # first: a line that is out takes its number with it
        for slot, text in left:
            self._output.put(text, _slots(slot))

    def current(self) -> InvocationRecord | None:
        """The invocation whose window is open, or None."""
        return self._ledger.current()

    def last(self) -> InvocationRecord | None:
        """The last invocation, if it has not been printed yet."""
        return self._ledger.last()

    def find(self, request_id: str | None) -> InvocationRecord | None:
        """That invocation, if it has not been printed yet."""
        return self._ledger.find(request_id)

    def complete(self) -> bool:
        """True when no record waits for a report."""
        return self._ledger.complete()

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
        elif not self._ledger.join(event) and event.kind == REPORT:
            # Of an invocation that is printed, or has ended the process before this one: what was the mark by then?
            self._history.mark_mib = event.metric("maxMemoryUsedMB") or self._history.mark_mib

    def _on_init(self, event: Event) -> None:
        """An init phase has begun: that of the environment, or of the snapshot which it was restored from; that one
        is told again in every copy, with the log stream in which it was made."""
        if event.text("initializationType") == SNAP_START and event.text("phase") != "invoke":
            return
        self._history.identify(event.text("instanceId"))
        if event.text("phase") == "invoke":
            self._history.went_on = True
            first = self._ledger.first()
            if first is not None and first.cold_start:  # it has begun already; telemetry may come much later still
                first.suppressed_init = True

    def print_due(self, running_ms: float) -> bool:
        """Print one record that is complete, or has waited long enough (see Ledger.due); False if there is none.

        One at a time: what is to be done at once is looked at in between.
        """
        record = self._ledger.due(running_ms)
        if record is not None:
            self.print_one(record)
        return record is not None

    def print_rest(self) -> None:
        """Print everything there is: the environment ends."""
        rest = self._ledger.rest()
        for record in rest:
            self.print_one(record, last=record is rest[-1])
        self._print_together()
        self._output.flush(wait_ms=100)

    def flush(self, now_ms: int) -> None:
        """Write what has waited for long enough at epoch `now_ms`, and what stdout did not take before."""
        if self._aggregate is not None and self._aggregate.overdue(now_ms):
            self._print_together()
        self._output.flush()

    def print_one(self, record: InvocationRecord, last: bool = False) -> None:
        """Print this one, opened here or not. `last`: none follows."""
        lost = self._lost + self._output.dropped + self._lost_elsewhere()
        record.dropped, self._told = lost - self._told, lost
        record.environment_id = self._history.environment_id
        self._conclude(record)
        record.high_water_mark = self._told_mark = max(record.high_water_mark, self._told_mark)
        self._history.mark_mib = record.max_memory_used_mib or self._history.mark_mib
        if record.signals and record.max_memory_used_mib is None:  # nobody has said so, but it has been there
            self._history.mark_mib = max(self._history.mark_mib, float(self._config.memory_mib))
        self._judge(record, last)
        if self._aggregate is not None and self._aggregate.wants(record):
            if not self._aggregate.fits(record):
                self._print_together()
            self._aggregate.add(record)
        else:
            self._print_together()
            self._output.put(self._line(record), _slots(record.slot), record.dropped)

    def _conclude(self, record: InvocationRecord) -> None:
        """From what is known by now: how it ended, and whether it ran out of memory."""
        if record.ending is not None and record.window is not None:
            end_ns = record.done_ns or record.window.flight.last_ns()
            record.ending.samples = record.window.flight.tail(record.time_ms * 1_000_000, end_ns)
        mark_mib, before_mib = record.max_memory_used_mib, self._history.mark_mib
        if record.window is not None and not record.shared_by and mark_mib is not None and 0 < before_mib < mark_mib:
            record.window.risen = round((mark_mib - before_mib) * 1024)
            record.settle()
        if record.peak is not None:  # telemetry may have raised it since the window was closed
            record.high_water_mark = max(record.high_water_mark, record.peak.estimate)
            if record.peak.estimate > self._history.high_water_mark:
                self._history.high_water_mark = record.peak.estimate
                self._journal.remember(self._history.text())
        record.signals = out_of_memory.signals(record, self._config.memory_mib, self._history.mark_mib)

    def _line(self, record: InvocationRecord) -> str:
        text = line(record, self._config)
        while record.ending is not None and len(record.ending.samples) > 1 and len(text) >= LINE_LIMIT:
            record.ending.samples = record.ending.samples[::-2][::-1]  # the last one stays
            text = line(record, self._config)
        return text

    def _print_together(self) -> None:
        """Those that wait for their common line."""
        if self._aggregate:
            count, slots = len(self._aggregate), self._aggregate.slots
            self._output.put(self._aggregate.take(self._config), slots, count - 1)

    def _judge(self, record: InvocationRecord, last: bool) -> None:
        """Leak or not, so far: told with some of the lines, and with the `last` one."""
        drift, due = self._history.drift, last or record.closed_by == "shutdown"
        if record.window is None or record.peak is None:
            return
        held_kib = current(record.window)
        # The last reading may be that of a dying function.
        drift.see(held_kib, record.peak.estimate)
        if held_kib and record.closed_by != "shutdown":
            drift.add(held_kib, record.time_ms)
            due |= drift.due()
        if due:
            others_kib = record.sidecar + sum(record.extensions.values())
            record.drift = drift.document(self._config.memory_mib * 1024 - record.peak.estimate - others_kib)


def _aggregate(seconds: int) -> BatchLine | None:
    if not seconds:
        return None
    from .batch_line import BatchLine  # read only where it is wanted

    return BatchLine(seconds)


def _slots(slot: int | None) -> tuple[int, ...]:
    return () if slot is None else (slot,)
