"""One invocation after the other: performs the actions of the lifecycle (machine.py says when, loop.py calls)."""

from __future__ import annotations

from ..measure import sampling
from ..measure.window import NEVER_NS, Boundary
from ..platform import telemetry
from ..platform.extensions_api import is_invoke
from ..records.pending_record import NEXT_INVOKE, NEXT_REQUEST, PendingRecord
from ..support.own_memory import unmap
from . import machine
from .loop import Loop
from .publisher import Publisher
from .window_closer import WindowCloser, notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from ..measure.recorder import Recorder
    from ..measure.watermark import ProcessReadings
    from ..measure.window import Window
    from ..platform.exact_mode import ExactMode, Moment, PassingInvocation
    from ..records.pending_record import EnvironmentState
    from .event import ReceivedEvent
    from .loop import LoopParts
    from .turn import Pending

MOMENTS_AHEAD: Final = 2
"""Moments of exact mode that may be open: one event is on its way at a time, so a second moment means that the first
event was cut off."""
MOST_ENDED_EARLY: Final = 16
"""Invocations that may have ended before the sidecar was told of them."""


class ExactWindows:
    """The windows of one environment that are measured while the runtime's bytes pass."""

    def __init__(
        self,
        exact: ExactMode,
        recorder: Recorder,
        publisher: Publisher,
        closer: WindowCloser,
        drain: Callable[[ProcessReadings], None],
    ) -> None:
        """`drain` reads the processes that readings have left out."""
        self._exact = exact
        self._recorder = recorder
        self._publisher = publisher
        self._closer = closer
        self._drain = drain
        self._began = False
        self._init: Window | None = None
        """The window of the init phase, once it is closed and until the first record has it."""
        self._finished: dict[str, tuple[Window, PassingInvocation]] = {}
        """Invocations whose end has passed here before their INVOKE, by request id."""

    @property
    def measured_next(self) -> bool:
        """May the next invocation have begun? What is read now may be of its window."""
        return bool(self._exact.moments)

    @property
    def covers_event(self) -> bool:
        """Has the window of the last invocation been closed where its bytes pass, and will the next one be?"""
        if not self._exact.engaged:
            return False
        record = self._publisher.current()
        ended = [invocation.request_id for moment in self._exact.moments for invocation in moment.ended]
        return record is None or record.request_id in ended

    def close(self) -> bool:
        """Close the windows that are due; True if a record was closed with one."""
        moments: list[Moment] = []
        while (moment := self._exact.take(MOMENTS_AHEAD)) is not None:
            moments.append(moment)
        if not moments:
            return False
        # Processes that no answer has waited for are read once, now: for all readings that left them out.
        if not self.measured_next:  # else they may have been read for the next one, and reset
            self._drain(moments[-1].measured)
        read = [moment.measured for moment in (*moments, *self._exact.moments[:1])]
        for at, moment in enumerate(moments):
            if moment.begun is None:
                self._recorder.reader.read_cpu(read[at], read[at + 1] if at + 1 < len(read) else None)
        for at in range(len(moments) - 1, 0, -1):
            read[at - 1].read_later(read[at])
        self._closer.kills.settle()
        has_closed = False
        for moment in moments:
            has_closed |= self._close_one(moment)
        return has_closed

    def _close_one(self, moment: Moment) -> bool:
        if moment.is_sample:
            self._recorder.add_readings(moment.measured)
            self._closer.kills.join(moment.measured)
            self._recorder.add_looks(moment.looks)
            return False
        window = self._recorder.close(moment.measured, NEVER_NS)
        self._recorder.add_looks(moment.looks)
        if self._init is None and not self._began:
            self._init = window
        closed = [self._end(window, invocation) for invocation in moment.ended]
        record = self._publisher.current()
        if moment.begun is not None and record is not None and record.request_id != moment.begun.request_id:
            self._closer.close(record, window, NEXT_INVOKE)  # its end was not seen
        elif moment.begun is not None:
            self._closer.pass_between(window)
        return any(closed)

    def begin(self, request_id: str) -> None:
        """Begin an invocation: its INVOKE has come, and its record is open. In exact mode it may have ended already."""
        self._began = True
        if request_id in self._finished:
            self._end(*self._finished.pop(request_id))

    def take_init(self) -> Window | None:
        """The window of the init phase, if it was closed here: once."""
        init, self._init = self._init, None
        return init

    def _end(self, window: Window, invocation: PassingInvocation) -> bool:
        """The window of an invocation is closed; False if its INVOKE has not come yet."""
        record = self._publisher.current()
        if record is None or record.request_id != invocation.request_id:
            self._finished[invocation.request_id] = window, invocation
            if len(self._finished) > MOST_ENDED_EARLY:
                del self._finished[next(iter(self._finished))]
            return False
        record.answered(invocation)
        if invocation.unsure:
            window = window._replace(opening=Boundary(), end=Boundary())
        self._closer.close(record, window, NEXT_REQUEST)
        return True


LATE_NS: Final = 5 * sampling.MS
"""A tick this much behind its time means that the environment was frozen, or starved."""


class SamplerLoop:
    def __init__(self, parts: LoopParts, publisher: Publisher) -> None:
        config, self._clock = parts.config, parts.clock
        self._recorder = parts.recorder
        self._environment_memory = parts.environment_memory
        self._publisher = publisher
        self._sampled = parts.wings.sampled
        self._limit_kib = config.memory_mib * 1024
        now_ns = self._clock.monotonic_ns()
        self.budget = sampling.CpuBudget(config.cpu_budget, config.cpu_share, now_ns)
        """CPU time, also for what else is read when a window closes."""
        self._began = now_ns
        self._moved_kib = 0
        self._urgent = False
        self._sample_ns = now_ns
        """When all processes are to be sampled next, not children alone: monotonic ns."""
        self._watched = False
        self._child_in_ns: int | None = None
        self.next_ns = now_ns

    def begin(self, now_ns: int, exact: bool) -> None:
        self._began = now_ns
        self.next_ns = self._sample_ns = now_ns + (sampling.EXACT_NS if exact else sampling.DENSE_NS)

    def drain(self, readings: ProcessReadings) -> None:
        """Read the processes that the answer did not wait for, as far as the CPU budget goes."""
        if not readings.left:
            return
        now_ns, cpu_ns = self._clock.monotonic_ns(), self._clock.cpu_ns()
        self._recorder.read_rest(readings, self.budget.rest_ns(now_ns))
        self.budget.spend(self._clock.cpu_ns() - cpu_ns, now_ns, saved=True)

    def look(self, now_ns: int, exact: bool) -> None:
        recorder = self._recorder
        self._watched = now_ns < self._sample_ns
        if self._watched:
            self.next_ns = self._sample_ns  # should this one fail
            self._child_in_ns = recorder.levels.watch(self.budget.sparing(now_ns))
            return
        late = now_ns - self.next_ns > LATE_NS
        self.next_ns = now_ns + sampling.SPARSE_NS  # should this one fail: not at once again
        self._moved_kib = recorder.levels.sample(late, reset=not exact)
        if now_ns - self._began >= sampling.DENSE_AGE_NS:  # a short invocation's end will say it
            self._environment_memory.look()
        if recorder.levels.is_whole and recorder.window.multi_process:
            pid = recorder.levels.largest_pid
            recorder.window.see_together(
                self._environment_memory.together_kib(pid, recorder.levels.last_sample, self._limit_kib)
            )
        self._publisher.checkpoint(recorder, self._environment_memory, self._urgent, now_ns)
        for sampled in self._sampled:
            level_kib = recorder.levels.last_sample + self._environment_memory.held_kib
            sampled(recorder.levels.levels, level_kib, self._limit_in_ns(), now_ns)

    def plan(self, done_ns: int, cost_ns: int, exact: bool) -> None:
        """The tick is done, and has used `cost_ns` of CPU time."""
        watched, self._watched = self._watched, False  # the next tick may not look: a moment waits
        self.budget.spend(cost_ns, done_ns, saved=watched)
        if not watched:
            self._sample_ns = done_ns + self._interval_ns(done_ns, exact)
        self.next_ns = self._sample_ns
        sparing = self.budget.sparing(done_ns)
        if sparing:
            watch_ns = sparing * sampling.WATCH_NS
            if self._child_in_ns is not None:
                watch_ns = min(watch_ns, self._child_in_ns)
            self.next_ns = min(self.next_ns, done_ns + watch_ns)

    def _interval_ns(self, done_ns: int, exact: bool) -> int:
        age_ns = done_ns - self._began
        interval_ns = sampling.interval_ns(age_ns, self._moved_kib, self.budget.wait_ns(done_ns), exact)
        urgent_ns = sampling.urgent_ns(self._limit_in_ns(), interval_ns)
        self._urgent = urgent_ns is not None
        if urgent_ns is not None:
            interval_ns = min(interval_ns, max(urgent_ns, self.budget.wait_ns(done_ns, sampling.OVERDRAFT_NS)))
        return interval_ns

    def _limit_in_ns(self) -> float | None:
        """Time until the whole environment would be at the memory limit, ns, if the function grows on as it does."""
        if not self._limit_kib:
            return None
        return self._recorder.window.curve.ns_until(self._limit_kib - self._environment_memory.held_kib)

    def plan_init(self, done_ns: int, found: bool) -> None:
        """Plan the next tick in the init phase; `found`: is there a runtime yet?"""
        interval_ns = sampling.init_interval_ns(done_ns - self._began, found)
        urgent_ns = sampling.urgent_ns(self._limit_in_ns(), interval_ns)
        self.next_ns = self._sample_ns = done_ns + (interval_ns if urgent_ns is None else min(interval_ns, urgent_ns))


MS: Final = 1_000_000

FIRST_LOOK_NS: Final = 100_000
"""Time from an event to the first look at the runtime's threads: the one that asked for the event (in AWS's client for
Python) has mostly ended by then."""
LOOK_AGAIN_NS: Final = MS
LOOKS_PER_EVENT: Final = 3
"""Most looks at the runtime's threads after one event."""

ENDING_REASONS: Final = ("spindown", "sandboxterminated", "")
"""Reasons of a SHUTDOWN that is no reset (the second is AWS's emulator's)."""

LINES_OF_START: Final = 3
"""After so many lines all has run that runs once: 2 MiB of code and constants, of which an invocation needs 0.8."""

LAST_REPORT_MS: Final = 250
"""At SHUTDOWN, wait this long for the last report. Others saw 5 ms on average, 40 ms at most."""


class OnDemand:
    """Performs the lifecycle of one on-demand environment, from the first `next` to SHUTDOWN."""

    def __init__(self, parts: LoopParts, environment_state: EnvironmentState) -> None:
        self._parts = parts
        self._recorder = parts.recorder
        self._clock = parts.clock
        self._environment_state = environment_state
        self._keeper = parts.wings.keeper
        self._exact = parts.exact
        self._exact.measure = self._read_as_runtime_waits
        self._exact.look = self._look_at_rest
        self._begun = 0
        """Events after which the threads were looked at, or are to be."""
        self._looks_left = 0
        self._look_at_ns = NEVER_NS
        reports = parts.telemetry_server is not None
        self._publisher = Publisher(parts.config, reports, environment_state, parts.wings, parts.lost)
        self._loop = Loop(machine.ON_DEMAND, self, parts, self._publisher.lose)
        self._sampler = SamplerLoop(parts, self._publisher)
        clock, budget = self._loop.running_clock, self._sampler.budget
        self._closer = WindowCloser(parts, self._publisher, clock, environment_state, budget)
        self._windows = ExactWindows(self._exact, self._recorder, self._publisher, self._closer, self._sampler.drain)
        self._event: ReceivedEvent
        """Received, and not yet worked out."""
        self._readings: ProcessReadings | None = None
        """Taken when an event arrived; None in exact mode, and where that failed."""
        self._closed: Window | None = None
        """The window that the event has ended; None where exact mode has closed it, or it cannot be measured."""
        self._lines_of_start = LINES_OF_START
        self._is_printable = False
        self._invocations = 0
        self._reason = "unknown"
        """Reason of SHUTDOWN."""
        self._half_ns = 0.0
        """Half the time that SHUTDOWN has left, ns."""
        self._half_until_ns = 0.0
        """When half the time that SHUTDOWN has left is over."""
        self._last_report_until_ns: int | None = None
        """After SHUTDOWN: when to stop waiting for the last report, monotonic ns."""
        self.actions = {
            machine.READ_AND_RESET: self._read_and_reset,
            machine.ADD_READINGS: self._add_readings,
            machine.LOOK_AT_THREADS: self._look_after_event,
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
            machine.SEND_LAST: self._send_last,
        }

    def run(self, kills: int = 0) -> None:
        """Serve until SHUTDOWN. `kills`: OOM kills since an earlier process of this environment looked."""
        self._publisher.recover(kills)
        self._loop.run()

    def look(self, pending: Pending) -> None:
        exact = self._exact
        pending.moments = bool(exact.moments) and exact.due(MOMENTS_AHEAD)
        pending.bytes_first = not (exact.running and exact.answered)
        pending.asking = exact.asking > 0
        if exact.begun != self._begun:
            self._begun, self._looks_left = exact.begun, LOOKS_PER_EVENT
            self._look_at_ns = self._loop.now_ns + FIRST_LOOK_NS if self._recorder.reader.has_threads else NEVER_NS
        pending.look_at_ns = self._look_at_ns
        pending.tick_at_ns = self._sampler.next_ns
        pending.printable = self._is_printable
        if self._last_report_until_ns is not None:
            pending.last_report_until_ns = self._last_report_until_ns
            pending.report_missing = not self._publisher.complete()

    # Readings and windows

    def _read_as_runtime_waits(self) -> ProcessReadings:
        self._parts.know_runtime()
        readings = self._recorder.read_and_reset(at_rest=True)
        self._closer.kills.count_at_rest(readings, begins=bool(self._exact.running))
        return readings

    def _look_at_rest(self) -> None:
        """The runtime has answered. A child that has done so for it (a shell's curl) is about to end: look at all."""
        has_children = self._parts.table.changed() or self._recorder.window.multi_process
        if has_children and not self._exact.moments:
            self._recorder.levels.sample(late=False, reset=False)
            if not self._recorder.window.multi_process:
                return  # the sample has looked at its threads
        self._look_at_threads()

    def _look_at_threads(self) -> None:
        """A look of the window that the last moment has opened, or will open."""
        looks = self._recorder.reader.look()
        if self._exact.moments:
            self._exact.moments[-1].looks += looks
        else:
            self._recorder.add_looks(looks)

    def _look_after_event(self) -> None:
        """Look again soon, a few times, if the thread that has asked for the event may run still."""
        self._look_at_ns = NEVER_NS
        self._looks_left -= 1
        if self._exact.running:
            self._look_at_threads()
            if self._looks_left and self._recorder.reader.others_ran:
                self._look_at_ns = self._clock.monotonic_ns() + LOOK_AGAIN_NS

    def _read_and_reset(self) -> None:
        """An event has arrived: read and reset, unless exact mode does that."""
        self._readings = None
        self._parts.know_runtime()
        if not self._windows.covers_event:
            self._readings = self._read()

    def _read(self) -> ProcessReadings:
        readings = self._recorder.read_and_reset()
        self._closer.kills.count(readings)
        return readings

    def _add_readings(self) -> None:
        """No event came: what was read is a sample of the open window."""
        readings, self._readings = self._readings, None
        if readings is not None:
            self._recorder.add_readings(readings)
            self._closer.kills.join(readings)

    def _close_moments(self) -> None:
        self._is_printable |= self._windows.close() and self._has_due()

    def _close_window(self) -> None:
        event = self._event
        readings, self._readings = self._readings, None
        self._closed = None
        if readings is None and not event.invoke and self._publisher.current() is not None:
            readings = self._read()
        if readings is None:
            return
        self._sampler.drain(readings)
        # No event of the runtime's comes with SHUTDOWN.
        not_before_ns, arrived_ns = (0, event.arrived_ns) if event.invoke else (NEVER_NS, None)
        self._closed = self._recorder.close(readings, not_before_ns, arrived_ns)

    # Events

    def journal_invoke(self, body: bytes) -> None:
        """First of all: what is in the journal outlives this process."""
        if is_invoke(body):
            self._keeper.begin(self._environment_state.invocations + 1, self._clock.epoch_ns() // MS, body)

    def take(self, event: ReceivedEvent) -> bool:
        """The event that was received; False if it can wait: exact mode has measured, or the reading failed."""
        self._event = event
        return self._readings is not None

    def _close_record(self) -> None:
        """The event ends the invocation before, if exact mode has not seen its end."""
        event, record = self._event, self._publisher.current()
        if record is None:
            last, died = self._publisher.unreported(), "" if event.invoke else self._died()
            if last is not None and died:
                self._closer.ended_after(last, died)
            return
        if self._closed is None:
            self._closer.close_unmeasured(record)
        elif event.invoke:
            self._closer.close(record, self._closed, NEXT_INVOKE)
        else:
            self._closer.close(record, self._closed, "shutdown", self._died())

    def _open_record(self) -> None:
        event, closed, wings = self._event, self._closed, self._parts.wings
        members = self._loop.members(event, not wings.begun)
        given = members.get("requestId")
        request_id = given if isinstance(given, str) else ""
        self._invocations += 1
        state = self._environment_state
        if self._invocations == 1:
            state.begin(self._parts.config.initialization_type)
        state.invocations += 1
        record = PendingRecord(request_id, state.invocations, event.time_ms, self._recorder.window.opening)
        for begun in wings.begun:
            begun(record, members)
        init = None
        if self._invocations == 1:
            # The cold start, or the first after a reset: one line of what this environment allows.
            kind = self._parts.config.initialization_type
            record.follows_init(state.invocations == 1, state.resumed, "" if kind == "on-demand" else kind)
            notice(self._parts, "vmhwm", self._exact.engaged)
            # What a snapshot was made of is not this environment's.
            init = None if state.restored else self._windows.take_init() or closed
        self._closer.open(record, init)
        self._windows.begin(request_id)
        self._is_printable = self._has_due()

    def _read_reason(self) -> None:
        self._reason, self._half_ns = self._loop.shutdown(self._event)
        self._half_until_ns = self._clock.monotonic_ns() + self._half_ns
        self._wait_for_report()

    def _hurry(self) -> None:
        self._parts.hurry(self._half_ns / 4)
        self._wait_for_report()  # no telemetry was read meanwhile: what a collector has taken is not the report's

    def _send_last(self) -> None:
        self._parts.hurry(self._half_ns / 2, last=True, reset=self._reason not in ENDING_REASONS)

    def _wait_for_report(self) -> None:
        now_ns = self._clock.monotonic_ns()
        self._last_report_until_ns = int(min(now_ns + LAST_REPORT_MS * MS, self._half_until_ns))

    def _died(self) -> str:
        if self._reason in ENDING_REASONS:
            return ""
        return "timeout" if self._reason == "timeout" else "failure"

    def _end_init(self) -> None:
        died = self._died()
        if self._closed is not None and died:
            self._closer.died_in_init(self._closed, died)

    def _leave_journal(self) -> None:
        if self._reason in ENDING_REASONS:
            self._keeper.remove()
        else:
            self._keeper.remember(self._environment_state.text())

    # Telemetry, ticks and lines

    def _join_telemetry(self) -> None:
        record = self._publisher.current() if not self._exact.engaged else None
        for event in self._loop.inbox.read():
            is_done = event.kind == telemetry.RUNTIME_DONE
            if is_done and record is not None and event.request_id == record.request_id:
                # Another extension keeps the environment running: this sample may prove to be from before the event.
                self._recorder.levels.sample(late=True)
            self._publisher.join(event)
        self._is_printable = self._has_due()

    def _plan_tick(self) -> None:
        self._sampler.begin(self._event.now_ns, exact=self._closed is None)
        self._closed = None

    def _sample_running(self) -> None:
        done_ns = self._sample()
        cpu_ns = self._loop.cpu_after_tick = self._clock.cpu_ns()
        self._sampler.plan(done_ns, cpu_ns - self._loop.cpu_at_wake, exact=self._exact.engaged)

    def _sample_in_init(self) -> None:
        done_ns = self._sample()
        self._sampler.plan_init(done_ns, bool(self._parts.table.function()))

    def _sample(self) -> int:
        if not self._windows.measured_next:  # else what it saw could be the next invocation's
            self._sampler.look(self._loop.now_ns, exact=self._exact.engaged)
            if self._recorder.window.process_exited and not self._exact.engaged:
                self._closer.kills.look(self._clock.epoch_ns)
        self._publisher.flush(self._clock.epoch_ns() // MS)
        return self._clock.monotonic_ns()

    def _print_line(self) -> None:
        self._is_printable = self._publisher.print_due(self._loop.running_clock.running_ms)
        if self._lines_of_start:
            self._lines_of_start -= 1
            if not self._lines_of_start:
                unmap()

    def _has_due(self) -> bool:
        return self._publisher.has_due(self._loop.running_clock.running_ms)
