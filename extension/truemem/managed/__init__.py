"""The lifecycle on Lambda Managed Instances: no INVOKE, never frozen, many requests at once.

Nothing waits for us here but SHUTDOWN. Each tick ends a segment of time, and telemetry says afterwards which of them
each request overlapped (segments, request_overlap). Performs the actions of the lifecycle (machine.py says when).
"""

from __future__ import annotations

from ..lifecycle import machine
from ..lifecycle.loop import Loop
from ..lifecycle.publisher import Publisher
from ..lifecycle.window_closer import KillPlacement, notice
from ..measure import sampling
from ..measure.window import Window, current
from ..platform.extensions_api import MANAGED_TIMEOUT_MS
from ..platform.telemetry import REPORT, START
from ..records.pending_record import DEATHS, NEXT_REQUEST, EnvironmentState, Measured, death_report
from ..support.log import log
from ..wings import Wing
from .requests import MOST_RUNNING, Request, Requests
from .segments import RESOLUTION_NS, SegmentRecorder, Segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..lifecycle.event import ReceivedEvent
    from ..lifecycle.loop import LoopParts
    from ..lifecycle.turn import Pending
    from ..measure.environment_memory import HeldMemory
    from ..records.pending_record import PendingRecord
    from ..wings import Site

MS = 1_000_000

BUSY_NS = 20 * MS
"""Length of a segment while requests run, if the CPU budget allows."""
IDLE_NS = sampling.SPARSE_NS
"""Length of a segment while no request runs."""
BUSY_FOR_NS = 1000 * MS
"""Requests are taken to run for so long after telemetry: it comes late, and where one was there will be more."""

MOST_PROCESSES_READ = 8
"""Processes that can be read while a request waits."""

FOREVER_NS = 1 << 62


class SegmentLoop:
    """The segments of one environment. Times are monotonic ns, unless they say otherwise."""

    def __init__(self, parts: LoopParts, environment_state: EnvironmentState, requests: Requests) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._environment_state = environment_state
        self._requests = requests
        self._kills = KillPlacement(parts.kills)
        self.segments = Segments()
        self.recorder = SegmentRecorder(parts.table, parts.recorder, parts.clock.epoch_ns)
        self.seen_ns = 0
        """What ended up to here lies within segments: epoch ns, as telemetry tells it."""
        self.is_last = False
        """The environment ends: a kill whose process is not known yet will not be placed later."""
        self.together_kib = 0
        """Window.together of `recorder.whole`: what workers share, a mapped model, each of them has in its RSS."""
        now_ns = self._clock.monotonic_ns()
        self.budget = sampling.CpuBudget(parts.config.cpu_budget, parts.config.cpu_share, now_ns)
        self._ended_at_ns = now_ns
        """When the last segment was ended, or tried to be."""
        self._reported_at_ns = now_ns  # so that the function is known by its first request
        self._affordable_at_ns = now_ns if parts.telemetry_server is not None else FOREVER_NS
        """Never, where nothing tells of requests."""

    def telemetry_came(self) -> None:
        """Telemetry tells of a request: segments are short for a while."""
        self._reported_at_ns = self._clock.monotonic_ns()

    def due_ns(self) -> int:
        """When the open segment is to end."""
        busy = self._requests.any() or self._clock.monotonic_ns() - self._reported_at_ns < BUSY_FOR_NS
        return max(self._ended_at_ns + (BUSY_NS if busy else IDLE_NS), self._affordable_at_ns)

    def end(self, cpu_before_ns: int) -> None:
        """End the open segment. `cpu_before_ns`: CPU time before the work for it began."""
        try:
            self._read()
        finally:
            now_ns = self._ended_at_ns = self._clock.monotonic_ns()  # whatever it took, all else has its turn
            self.budget.spend(self._clock.cpu_ns() - cpu_before_ns, now_ns)
            self._affordable_at_ns = now_ns + self.budget.wait_ns(now_ns)

    def end_if_affordable(self) -> None:
        """A request begins or ends, and waits. End the segment if the CPU time is there, and few processes are to be
        read."""
        affordable = self._clock.monotonic_ns() >= self._affordable_at_ns
        if affordable and len(self._parts.table.function()) <= MOST_PROCESSES_READ:
            self.end(self._clock.cpu_ns())

    def _read(self) -> None:
        made = self.recorder.end_segment()
        self.segments.add(made)
        self.seen_ns = made.end_ns - RESOLUTION_NS
        window = made.window
        assert window is not None  # none of the youngest is merged
        killed, of_function = self._kills.settled(window, self._clock.monotonic_ns(), self.is_last)
        if killed:
            self._requests.killed(killed, of_function)
        if window is self.recorder.whole and self.recorder.holder is not None:
            counted_kib = current(window) if len(window.closing) > 1 else 0
            limit_kib = self._parts.config.memory_mib * 1024
            memory = self._parts.environment_memory
            self.together_kib = memory.together_kib(self.recorder.holder[1], counted_kib, limit_kib)
        self._environment_state.reached(made.estimate)


INITIALIZATION_TYPE = "lambda-managed-instances"

SHUTDOWN_MS = MANAGED_TIMEOUT_MS + 50
"""At SHUTDOWN, wait this long for telemetry in any case: what it is buffered for, and its way."""
LAST_REPORT_MS = 2 * MANAGED_TIMEOUT_MS
"""At SHUTDOWN, wait this long for telemetry while a request runs whose report is to come."""


class ManagedInstances:
    """Performs the lifecycle of one environment of Managed Instances, from the first `next` to SHUTDOWN."""

    def __init__(self, parts: LoopParts) -> None:
        self._parts = parts
        self._environment_memory = parts.environment_memory
        self._clock = parts.clock
        # An environment that fails is not reset but ended: a journal would have no reader.
        self._environment_state = EnvironmentState()
        reports = parts.telemetry_server is not None
        requests = self._requests = Requests()
        self._wings = wings = parts.wings
        lost = lambda: parts.lost() + requests.lost  # noqa: E731
        self._publisher = Publisher(parts.config, reports, self._environment_state, wings, lost)
        self._loop = Loop(machine.MANAGED, self, parts, self._publisher.lose)
        self._segments = SegmentLoop(parts, self._environment_state, self._requests)
        self._exact = parts.exact
        self._exact.measure = self._passes
        self._reason = ""
        """Reason of SHUTDOWN."""
        self._half_ns = 0.0
        """Half the time that it has left."""
        self._shutdown: ReceivedEvent | None = None
        self._shutdown_ns = 0
        """When SHUTDOWN came, monotonic ns."""
        self.actions = {
            machine.CLOSE_MOMENTS: self._note_moments,
            machine.END_SEGMENT: lambda: self._segments.end(self._loop.cpu_at_wake),
            machine.PRINT_ENDED: self._print_ended,
            machine.JOIN_TELEMETRY: self._join_telemetry,
            machine.READ_REASON: self._read_reason,
            machine.END_REQUESTS: self._end_requests,
            machine.FLUSH_ALL: self._publisher.flush_all,
            machine.HURRY: lambda: parts.hurry(self._half_ns / 4),
            machine.SEND_LAST: lambda: parts.hurry(self._half_ns / 2, last=True),
        }

    def run(self) -> None:
        if self._parts.telemetry_server is None:
            log(
                "warn",
                f"telemetry={self._parts.unsubscribed}: on Managed Instances only telemetry tells of requests, "
                "so there are no records",
            )
        self._loop.run()

    def look(self, pending: Pending) -> None:
        pending.tick_at_ns = self._segments.due_ns()
        pending.report_missing = self._shutdown is not None and self._parts.telemetry_server is not None
        if pending.report_missing:
            wait_ms = LAST_REPORT_MS if self._requests.running() else SHUTDOWN_MS
            pending.last_report_until_ns = self._shutdown_ns + round(min(wait_ms * MS, self._half_ns))

    def journal_invoke(self, body: bytes) -> None:
        """Does nothing: Managed Instances have no journal."""

    def take(self, event: ReceivedEvent) -> bool:
        """The event that was received: no other than SHUTDOWN is asked for."""
        if not event.invoke:
            self._shutdown = event
        return True

    # Exact mode

    def _passes(self) -> int:
        """A request begins or ends: epoch ns. A segment ends here too, if that costs the request little."""
        self._loop.did(self._segments.end_if_affordable)
        return self._clock.epoch_ns()

    def _note_moments(self) -> None:
        while (moment := self._exact.take(MOST_RUNNING)) is not None:
            if moment.begun is not None and not moment.is_sample:
                self._requests.began(moment.begun, moment.measured)
            for invocation in moment.ended:
                self._requests.ended_at(invocation, moment.measured)

    # Events

    def _read_reason(self) -> None:
        assert self._shutdown is not None
        self._segments.is_last = True
        self._reason, self._half_ns = self._loop.shutdown(self._shutdown)
        self._shutdown_ns = self._clock.monotonic_ns()

    def _end_requests(self) -> None:
        """Print those that still run, and those that are not printed yet."""
        remaining = self._requests.take_all(self._clock.epoch_ns())
        if self._reason == "failure":
            for request in remaining:
                self._loop.did(lambda request=request: self._died(request))  # type: ignore[misc]
        self._print(remaining)

    def _join_telemetry(self) -> None:
        events = self._loop.inbox.read()
        for event in events:
            if event.kind in (START, REPORT):
                self._segments.telemetry_came()
                self._parts.know_runtime()
            else:
                self._publisher.join(event)
        for record, event in self._requests.join(events, self._clock.epoch_ns()):
            if record.cold_start:
                self._first(record)
            for begun in self._wings.begun:
                begun(record, event.record)

    # Lines

    def _print_ended(self) -> None:
        self._requests.take_peaks(self._segments.segments, self._segments.seen_ns)
        self._requests.end_overdue(self._clock.epoch_ns())
        if not self._segments.recorder.gone:  # else the environment ends, and SHUTDOWN will say why
            self._print(self._requests.ended(self._segments.seen_ns))
        self._publisher.flush(self._clock.epoch_ns() // MS)

    def _print(self, requests: list[Request]) -> None:
        if not requests:
            return
        last = self._segments.segments.at(self._clock.epoch_ns())
        window, records = last.window if last is not None else None, [request.record for request in requests]
        is_whole = window is not None and window is self._segments.recorder.whole
        memory = self._environment_memory.read(is_whole or self._shutdown is None)
        for request in requests:  # each by itself: one that fails costs the others nothing
            self._loop.did(lambda request=request: self._prepare(request, memory))  # type: ignore[misc]
        for window_closed in self._wings.window_closed:
            window_closed(records, window or Window(), self._segments.budget, window is None)
        for record in records:
            self._loop.did(lambda record=record: self._publisher.print_one(record))  # type: ignore[misc]

    def _prepare(self, request: Request, memory: HeldMemory) -> None:
        record = request.record
        if record.measured is None:  # else it has died
            self._complete(request)
        record.holds(memory)

    def _complete(self, request: Request) -> None:
        """Add what the segments tell."""
        record = request.record
        record.killed(request.kills if record.reported.status != "success" else 0)
        record.others_killed(request.environment_kills)
        record.mark_reached(self._environment_state.high_water_mark)
        exact = request.take_exact_times()
        if request.passage is not None and not exact:
            self._exact.forget(request.passage.invocation)  # its worker has died, perhaps
        reached = request.reach(self._segments.segments, request.end_ns, 0 if exact else RESOLUTION_NS)
        window = self._window(request)
        if window is not None and not window.closing and self._segments.recorder.whole_ns < request.start_ns:
            window = window._replace(last=0)  # what it held is from before the request
            reached = reached if reached is not None and reached.lower else None
        record.close(Measured(window, NEXT_REQUEST if exact else "", peak=reached))

    def _window(self, request: Request) -> Window | None:
        """What was read at the end of its last segment, or since then if that is not kept any more."""
        last = self._segments.segments.at(request.end_ns)
        if last is None or last.window is None:
            last = self._segments.segments.at(self._clock.epoch_ns())
        return last.window if last is not None else None

    def _first(self, record: PendingRecord) -> None:
        """The environment's first request has begun: one line of what it allows."""
        record.follows_init(cold_start=True, suppressed=False, initialization_type=INITIALIZATION_TYPE)
        record.init_reached(self._segments.segments.peak_before(record.time_ms * MS))
        notice(self._parts, "vmhwm-segments", self._exact.engaged)

    def _died(self, request: Request) -> None:
        """Put what was known of the last moment into the record of a request that ended with its processes."""
        record = request.record
        if record.reported.report_came and record.reported.error_type not in DEATHS:
            return
        self._complete(request)
        whole = self._segments.recorder.whole
        if record.window is not None and whole is not None:
            curve = self._segments.segments.curve(self._segments.recorder.whole_ns)
            whole = whole._replace(curve=curve, together=self._segments.together_kib)
            self._environment_memory.read()
            held_kib, extensions = self._environment_memory.held_kib, self._environment_memory.extensions
            report = death_report("failure", whole, held_kib, self._segments.recorder.holder, extensions)
            record.died(report, request.end_ns, whole.curve)


class _Managed(Wing):
    def __init__(self) -> None:
        self.managed = ManagedInstances


def door(site: Site) -> Wing:
    """Always there: `startup` asks for it on Managed Instances."""
    return _Managed()
