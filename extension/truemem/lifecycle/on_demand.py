"""One invocation after the other: performs the actions of the lifecycle (machine.py says when, loop.py calls)."""

from __future__ import annotations

from ..measure.race import NEVER
from ..platform import telemetry_events
from ..records.pending_record import PendingRecord
from ..records.publisher import Publisher
from . import machine
from .capability_notice import notice
from .exact_windows import ExactWindows
from .loop import Loop
from .sampler_loop import SamplerLoop
from .window_closer import WindowCloser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..measure.readings import Readings
    from ..measure.window import Window
    from ..records.environment_state import EnvironmentState
    from ..records.journal import Journal
    from .loop import Event
    from .machine import Pending
    from .parts import Parts

MS = 1_000_000

ENDINGS = ("spindown", "sandboxterminated", "")
"""Reasons of a SHUTDOWN that is no reset (the second is AWS's emulator's)."""

LAST_REPORT_MS = 250
"""At SHUTDOWN, wait this long for the last report. Others saw 5 ms on average, 40 ms at most."""


class OnDemand:
    """One execution environment, from the first `next` to SHUTDOWN."""

    def __init__(self, parts: Parts, environment_state: EnvironmentState, journal: Journal) -> None:
        self._parts = parts
        self._config = parts.config
        self._table = parts.table
        self._recorder = parts.recorder
        self._clock = parts.clock
        self._environment_state = environment_state
        self._journal = journal
        self._exact = parts.exact
        self._exact.measure = self._read_as_runtime_waits
        reports = parts.telemetry_server is not None
        self._outputs = outputs = parts.outputs
        about_lines = parts.config, reports, environment_state, journal, parts.lost
        self._publisher = Publisher(*about_lines, outputs.add if outputs is not None else None)
        self._loop = Loop(machine.ON_DEMAND, self, parts, self._publisher.lose)
        self._sampler = SamplerLoop(parts, self._publisher)
        about = parts, self._publisher, self._loop.running_clock, environment_state
        self._closer = WindowCloser(*about, self._sampler.budget)
        self._windows = ExactWindows(self._exact, self._recorder, self._publisher, self._closer, self._sampler.drain)
        self._event: Event | None = None
        """Received, and not yet worked out."""
        self._readings: Readings | None = None
        """Taken when an event arrived; None in exact mode, and where that failed."""
        self._closed: Window | None = None
        """The window that the event has ended; None where exact mode has closed it, or it cannot be measured."""
        self._maybe_printable = False
        self._invocations = 0
        self._reason = "unknown"
        """Of SHUTDOWN."""
        self._half_ns = 0.0
        """Half the time that it has left,"""
        self._half_until_ns = 0.0
        """and when that is over."""
        self._last_report_until_ns: int | None = None
        """After SHUTDOWN: when to stop waiting for it."""
        self.actions = {
            machine.READ_AND_RESET: self._read_and_reset,
            machine.ADD_READINGS: self._add_readings,
            machine.CLOSE_MOMENTS: self._close_moments,
            machine.CLOSE_WINDOW: self._close_window,
            machine.OPEN_RECORD: self._open_record,
            machine.PLAN_TICK: self._plan_tick,
            machine.SAMPLE_IN_INIT: self._sample_in_init,
            machine.SAMPLE: self._sample_running,
            machine.JOIN_TELEMETRY: self._join_telemetry,
            machine.PRINT_LINE: self._print_line,
            machine.READ_REASON: self._read_reason,
            machine.END_INIT: self._end_init,
            machine.CLOSE_RECORD: self._close_record,
            machine.FLUSH_ALL: self._publisher.flush_all,
            machine.LEAVE_JOURNAL: self._leave_journal,
            machine.HURRY: self._hurry,
            machine.SEND_LAST: lambda: parts.hurry(self._half_ns / 2, last=True),
        }

    def run(self, kills: int = 0) -> None:
        """Serve until SHUTDOWN. `kills`: OOM kills since an earlier process of this environment looked."""
        self._publisher.recover(kills)
        self._loop.run()

    def look(self, pending: Pending) -> None:
        """Say what could be done now."""
        pending.moments = self._windows.due
        pending.bytes_first = not self._exact.answered
        pending.asking = self._exact.asking > 0
        pending.tick_at_ns = self._sampler.next_ns
        pending.printable = self._maybe_printable
        if self._last_report_until_ns is not None:
            pending.last_report_until_ns = self._last_report_until_ns
            pending.report_missing = not self._publisher.complete()

    # Readings and windows

    def _read_as_runtime_waits(self) -> Readings:
        self._parts.know_runtime()
        return self._recorder.read_and_reset(at_rest=True)

    def _read_and_reset(self) -> None:
        """An event has arrived: read and reset, unless exact mode does that."""
        self._readings = None
        self._parts.know_runtime()
        if not self._windows.covers_event:
            self._readings = self._recorder.read_and_reset()

    def _add_readings(self) -> None:
        """No event came: what was read is a sample of the open window."""
        readings, self._readings = self._readings, None
        if readings is not None:
            self._recorder.add_readings(readings)

    def _close_moments(self) -> None:
        self._maybe_printable |= self._windows.close()

    def _close_window(self) -> None:
        event = self._event
        assert event is not None
        readings, self._readings = self._readings, None
        self._closed = None
        if readings is None and not event.invoke and self._publisher.current() is not None:
            readings = self._recorder.read_and_reset()
        if readings is None:
            return
        self._sampler.drain(readings)
        # No event of the runtime's comes with SHUTDOWN.
        not_before_ns, arrived_ns = (0, event.arrived_ns) if event.invoke else (NEVER, None)
        closed = self._recorder.close(readings, not_before_ns, arrived_ns)
        self._recorder.adopt_new_processes(closed)
        self._closed = closed

    # Events

    def journal_invoke(self, body: bytes) -> None:
        """First of all: what is in the journal outlives this process."""
        if b'"INVOKE"' in body:
            self._journal.begin(self._environment_state.invocations + 1, self._clock.epoch_ns() // MS, body)

    def take(self, event: Event) -> bool:
        """The event that was received; False if it can wait: exact mode has measured, or the reading failed."""
        self._event = event
        return self._readings is not None

    def _close_record(self) -> None:
        """The event ends the invocation before, if exact mode has not seen its end."""
        event, record = self._event, self._publisher.current()
        if event is None:
            return
        if record is None:
            last, died = self._publisher.unreported(), "" if event.invoke else self._died()
            if last is not None and died:
                self._closer.ended_after(last, died)
            return
        if self._closed is None:
            self._closer.close_unmeasured(record)
        elif event.invoke:
            self._closer.close(record, self._closed, "next-invoke")
        else:
            self._closer.close(record, self._closed, "shutdown", self._died())

    def _open_record(self) -> None:
        """Open that of the INVOKE."""
        event, closed = self._event, self._closed
        assert event is not None
        members = self._loop.members(event)
        request_id = members.get("requestId")
        if not isinstance(request_id, str):
            request_id = ""
        self._invocations += 1
        state = self._environment_state
        if self._invocations == 1:
            state.begin(self._config.initialization_type)
        state.invocations += 1
        record = PendingRecord(request_id, state.invocations, event.time_ms, self._recorder.window.opening)
        if self._outputs is not None:
            record.traced(self._outputs.invoked(members))
        init = None
        if self._invocations == 1:
            self._first(record)
            # What a snapshot was made of is not this environment's.
            init = None if state.restored else self._windows.take_init() or closed
        self._closer.open(record, init)
        self._windows.begin(request_id)
        self._maybe_printable = True

    def _first(self, record: PendingRecord) -> None:
        """The cold start, or the first after a reset: one line of what this environment allows."""
        state, kind = self._environment_state, self._config.initialization_type
        record.follows_init(state.invocations == 1, state.resumed, "" if kind == "on-demand" else kind)
        exact = self._exact.engaged
        about = self._config, self._table, self._recorder, self._parts.environment_memory
        telemetry = self._parts.unsubscribed or "on"
        problems = self._journal.problem
        notice(
            *about, method="vmhwm", exact=exact, telemetry=telemetry, problems=problems, outputs=self._parts.sends_to
        )

    def _read_reason(self) -> None:
        assert self._event is not None
        self._reason, self._half_ns = self._loop.shutdown(self._event)
        self._half_until_ns = self._clock.monotonic_ns() + self._half_ns
        self._wait_for_report()

    def _hurry(self) -> None:
        self._parts.hurry(self._half_ns / 4)
        self._wait_for_report()  # no telemetry was read meanwhile: what a collector has taken is not the report's

    def _wait_for_report(self) -> None:
        now_ns = self._clock.monotonic_ns()
        self._last_report_until_ns = int(min(now_ns + LAST_REPORT_MS * MS, self._half_until_ns))

    def _died(self) -> str:
        if self._reason in ENDINGS:
            return ""
        return "timeout" if self._reason == "timeout" else "failure"

    def _end_init(self) -> None:
        died = self._died()
        if self._closed is not None and died:
            self._closer.died_in_init(self._closed, died)

    def _leave_journal(self) -> None:
        if self._reason in ENDINGS:
            self._journal.remove()
        else:
            self._journal.remember(self._environment_state.text())

    # Telemetry, ticks and lines

    def _join_telemetry(self) -> None:
        record = self._publisher.current() if not self._exact.engaged else None
        for event in self._loop.inbox.read():
            is_done = event.kind == telemetry_events.RUNTIME_DONE
            if is_done and record is not None and event.request_id == record.request_id:
                # Another extension keeps the environment running: this sample may prove to be from before the event.
                self._recorder.levels.sample(late=True)
            self._publisher.join(event)
        self._maybe_printable = True

    def _plan_tick(self) -> None:
        assert self._event is not None
        self._sampler.begin(self._event.now_ns, exact=self._closed is None)
        self._event = self._closed = None

    def _sample_running(self) -> None:
        done_ns = self._sample()
        cpu_ns = self._loop.cpu_after_tick = self._clock.cpu_ns()
        self._sampler.plan(done_ns, cpu_ns - self._loop.cpu_at_wake, exact=self._exact.engaged)

    def _sample_in_init(self) -> None:
        done_ns = self._sample()
        self._sampler.plan_init(done_ns, bool(self._table.function()))

    def _sample(self) -> int:
        if not self._windows.measured_next:  # else what it saw could be the next invocation's
            self._sampler.look(self._loop.now_ns, exact=self._exact.engaged)
        self._publisher.flush(self._clock.epoch_ns() // MS)
        return self._clock.monotonic_ns()

    def _print_line(self) -> None:
        self._maybe_printable = self._publisher.print_due(self._loop.running_clock.running_ms)
