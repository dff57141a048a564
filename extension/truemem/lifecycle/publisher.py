"""From what is known of each invocation to its line: joins, completes, prints, counts what was lost."""

from __future__ import annotations

import posix
import select

from ..measure.window import current
from ..platform.telemetry import INIT_START, LOGS_DROPPED, REPORT, RESTORE_START, PlatformEvent
from ..records.pending_record import SNAP_START, PendingRecords, signals
from ..records.record import ShortLines, finished, line
from ..support import minijson
from ..support.log import log
from ..wings import Keeper, Lines, PrintedLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final

    from ..config import Config
    from ..measure.environment_memory import EnvironmentMemory
    from ..measure.recorder import Recorder
    from ..records.pending_record import EnvironmentState, PendingRecord
    from ..records.record import InvocationRecord
    from ..wings import Wings

BACKLOG: Final = 256
"""Lines kept while stdout takes none, about 256 KiB; beyond that the oldest is dropped, and counted."""

PIPE_BUF: Final = 4096
"""A pipe that polls as writable takes this much without blocking (pipe(7))."""


class StdoutWriter:
    def __init__(self, descriptor: int = 1, keeper: Keeper | None = None) -> None:
        self._keeper = keeper or Keeper()
        self._descriptor = descriptor
        self._backlog: list[tuple[bytes, Sequence[int], int]] = []
        """Lines, the slots in which the journal has them, and how much more than a line is lost with each."""
        self._offset = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self.dropped = 0

    def put(self, line: PrintedLine) -> None:
        """Write the line now if stdout takes it, else keep it. Its slots in the journal are freed when it is out. If it
        is lost, the next line reports what it reported."""
        if len(self._backlog) >= BACKLOG:
            # Not the first one if it is half written: its end must follow its beginning.
            _, oldest, lost_with_it = self._backlog.pop(1 if self._offset else 0)
            self._out(oldest)
            self.dropped += 1 + lost_with_it
        self._backlog.append((line.text.encode() + b"\n", line.slots, line.lost))
        self.flush()

    def flush(self, wait_ms: int = 0) -> bool:
        """Write what is kept; True when nothing is left. Waits at most `wait_ms` for each piece."""
        while self._backlog:
            ready = self._poll.poll(wait_ms)
            if not ready:
                return False
            line, slots, lost = self._backlog[0]
            if not self._offset:
                for slot in slots:
                    self._keeper.printing(slot)
            try:
                self._offset += posix.write(self._descriptor, line[self._offset : self._offset + PIPE_BUF])
            except BlockingIOError:
                return False
            except OSError:  # it will never be read: EPIPE, EIO, EBADF
                self._offset = len(line)
                self.dropped += 1 + lost
            if self._offset >= len(line):
                self._out(slots)
                del self._backlog[0]
                self._offset = 0
        return True

    def _out(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self._keeper.printed(slot)


LINE_LIMIT: Final = 2048
"""Bytes of the line of an invocation that died, newline and all: where names are long, its curve has fewer samples."""


class Publisher:
    def __init__(
        self, config: Config, reports: bool, history: EnvironmentState, wings: Wings, lost_elsewhere: Callable[[], int]
    ) -> None:
        """`reports`: is telemetry subscribed to? `lost_elsewhere` counts what readers and listener have lost."""
        self._wings = wings
        self._config = config
        self._history = history
        self._keeper = wings.keeper
        self._lines = (wings.lines or Lines)(self._text)
        self._short_lines = ShortLines(config)
        self._lost_elsewhere = lost_elsewhere
        self._pending = pending = PendingRecords(reports)
        self.current, self.has_due = pending.current, pending.is_due
        self.unreported, self.complete = pending.unreported, pending.complete
        """PendingRecords' methods of these names."""
        self._output = StdoutWriter(keeper=wings.keeper)
        self._lost = 0
        self._lost_printed = 0
        """What was lost up to the last record that was printed."""
        self._printed_mark = 0
        """The `high_water_mark` of the last record that was printed."""

    def open(self, record: PendingRecord) -> None:
        if self._pending.over_capacity():
            self.print_due(0.0)
        self._pending.open(record)

    def keep(self, record: PendingRecord) -> None:
        """The record is closed: what is known of it so far is in the journal until it is printed."""
        signals = self._conclude(record)
        added = self._wings.members(record)
        so_far = finished(record, self._config, self._history.environment_id, signals, added=added)
        record.journaled(self._keeper.keep(record.invocation, so_far))
        self._keeper.remember(self._history.text())

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

    def checkpoint(self, recorder: Recorder, surroundings: EnvironmentMemory, urgent: bool, now_ns: int) -> None:
        """Keep the curve of the invocation that runs, if it is time (Keeper.checkpoint_due)."""
        levels = recorder.levels
        if self._keeper.checkpoint_due(levels.last_sample + surroundings.held_kib, urgent, now_ns):
            record = self._pending.current()
            others = surroundings.held_kib, surroundings.extensions
            if record is not None:
                self._keeper.checkpoint(record, recorder.window.so_far(), levels.largest_process, *others)

    def recover(self, kills: int) -> None:
        """Print what an earlier process of the environment has left, `kills` OOM kills ago: marked, and once."""
        left = self._keeper.recover(self._history, self._config, kills)
        self._keeper.remember(self._history.text())  # first: a line that is out takes its number with it
        for record, was_sent in left:
            if not was_sent:
                self._send_elsewhere(record, None)
            self._put(record)

    def lose(self, count: int = 1) -> None:
        """Something was lost: the next line says so."""
        self._lost += count

    def join(self, event: PlatformEvent) -> None:
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

    def _on_init(self, event: PlatformEvent) -> None:
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
        """Print one record that is complete, or has waited long enough (PendingRecords.is_due). Is there another?

        One at a time: what is to be done at once is looked at in between.
        """
        record = self._pending.due(running_ms)
        if record is not None:
            self.print_one(record)
        return record is not None and self.has_due(running_ms)

    def flush_all(self) -> None:
        """Print every record: the environment ends."""
        remaining = self._pending.take_all()
        for ending in self._wings.ending:
            ending(remaining)
        for record in remaining:
            self.print_one(record, last=record is remaining[-1])
        self._print(self._lines.rest())
        self._output.flush(wait_ms=100)

    def flush(self, now_ms: int) -> None:
        """Write what has waited for long enough at epoch `now_ms`, and what stdout did not take before."""
        self._print(self._lines.overdue(now_ms))
        self._output.flush()

    def print_one(self, record: PendingRecord, last: bool = False) -> None:
        """Print this one, opened here or not. `last`: none follows."""
        if last:
            self._short_lines.end()
        lost = self._lost + self._output.dropped + self._lost_elsewhere()
        dropped, self._lost_printed = lost - self._lost_printed, lost
        made = self.finish(record, dropped, last)
        self._send_elsewhere(made, record)
        self._put(made, dropped)

    def _send_elsewhere(self, made: InvocationRecord, record: PendingRecord | None) -> None:
        """Send the record elsewhere. Its line may come later: should this process be killed, the next must not send it
        again."""
        if self._wings.finished and made.slot is not None:
            self._keeper.sending(made.slot)
        for take in self._wings.finished:
            take(made, record)

    def _put(self, record: InvocationRecord, dropped: int = 0) -> None:
        """Print its line, where records have one; what it says was `dropped`."""
        if self._config.prints:
            self._print(self._lines.add(record, dropped))
        elif record.slot is not None:
            self._keeper.printed(record.slot)

    def _print(self, lines: Iterable[PrintedLine]) -> None:
        for each in lines:
            self._output.put(each)

    def finish(self, record: PendingRecord, dropped: int, last: bool) -> InvocationRecord:
        """The record as it is printed: what was left open is worked out, once, and the environment's state goes on."""
        signals = self._conclude(record)
        self._printed_mark = record.mark_reached(self._printed_mark)
        self._history.mark_mib = record.reported.max_memory_used_mib or self._history.mark_mib
        if signals and record.reported.max_memory_used_mib is None:  # no report says so, but it has been there
            self._history.mark_mib = max(self._history.mark_mib, float(self._config.memory_mib))
        drift = self._judge(record, last)
        for finishing in self._wings.finishing:
            finishing(record)
        added = self._wings.members(record)
        return finished(record, self._config, self._history.environment_id, signals, drift, dropped, added)

    def _conclude(self, record: PendingRecord) -> list[str]:
        """Conclude from what is known by now: the peak, the marks that it has reached, and the signals that it ran out
        of memory."""
        record.mark_rose(self._history.mark_mib)
        if record.peak is not None:  # telemetry may have raised it since the window was closed
            record.mark_reached(record.peak.estimate)
            if record.peak.estimate > self._history.high_water_mark:
                self._history.high_water_mark = record.peak.estimate
                self._keeper.remember(self._history.text())
        return signals(record, self._config.memory_mib, self._history.mark_mib)

    def _text(self, record: InvocationRecord) -> str:
        text = line(record, self._config, is_short=self._short_lines.take(record))
        samples = record.properties.get("lastSamples") if len(text) >= LINE_LIMIT else None
        while isinstance(samples, list) and len(samples) > 1 and len(text) >= LINE_LIMIT:
            samples = samples[::-2][::-1]  # the last one stays
            text = line(record.having(lastSamples=samples), self._config)
        return text

    def _judge(self, record: PendingRecord, last: bool) -> dict[str, object] | None:
        """Leak or not, so far: told with some of the lines, and with the `last` one."""
        drift, due = self._history.drift, last or record.closed_by == "shutdown"
        if record.window is None or record.peak is None:
            return None
        held_kib = current(record.window)
        drift.see(held_kib, record.peak.estimate)
        # The last reading may be that of a dying function.
        if held_kib and record.closed_by != "shutdown":
            drift.add(held_kib, record.time_ms)
            due |= drift.due()
        if not due:
            return None
        if not self._config.memory_mib:
            return drift.document(record.invocation, None)
        memory = record.measured.memory if record.measured is not None else None
        others_kib = memory.sidecar + sum(memory.extensions.values()) if memory is not None else 0
        return drift.document(record.invocation, self._config.memory_mib * 1024 - others_kib - record.peak.estimate)
