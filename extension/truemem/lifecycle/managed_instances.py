"""The lifecycle on Lambda Managed Instances: no INVOKE, never frozen, many requests at once.

Nothing waits for us here but SHUTDOWN. Each tick ends a segment of time, and telemetry says afterwards which of them
each request overlapped (segments, request_overlap). Performs the actions of the lifecycle (machine.py says when).
"""

from __future__ import annotations

from ..platform.extensions_api import MANAGED_TIMEOUT_MS
from ..platform.telemetry_events import REPORT, START
from ..records.environment_state import EnvironmentState
from ..records.journal import Journal
from ..records.out_of_memory import DEATHS, death_report
from ..records.publisher import Publisher
from ..records.request_overlap import RUNNING, Request, Requests
from ..support.log import log
from . import machine
from .capability_notice import notice
from .heap_limit import HeapLimitNotice
from .loop import Loop
from .segment_loop import SegmentLoop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..measure.resources import Usage
    from ..measure.window import Window
    from ..records.pending_record import PendingRecord
    from ..records.trace_context import Trace
    from .loop import Event
    from .machine import Pending
    from .parts import Parts

INITIALIZATION_TYPE = "lambda-managed-instances"

MS = 1_000_000

SHUTDOWN_MS = MANAGED_TIMEOUT_MS + 50
"""At SHUTDOWN, wait this long for telemetry in any case: what it is buffered for, and its way."""
LAST_REPORT_MS = 2 * MANAGED_TIMEOUT_MS
"""The same while a request runs whose report is to come."""


class ManagedInstances:
    """One execution environment, from the first `next` to SHUTDOWN."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._table = parts.table
        self._recorder = parts.recorder
        self._environment_memory = parts.environment_memory
        self._clock = parts.clock
        # An environment that fails is not reset but ended: a journal would have no reader.
        self._environment_state = EnvironmentState()
        self._heap_limit = HeapLimitNotice(parts.config.memory_mib)
        reports = parts.telemetry_server is not None
        requests = self._requests = Requests()
        about = parts.config, reports, self._environment_state, Journal("")
        self._outputs = outputs = parts.outputs
        send = outputs.add if outputs is not None else None
        self._publisher = Publisher(*about, lambda: parts.lost() + requests.lost, send)
        self._loop = Loop(machine.MANAGED, self, parts, self._publisher.lose)
        self._segments = SegmentLoop(parts, self._environment_state, self._requests)
        self._exact = parts.exact
        self._exact.measure = self._passes
        self._reason = ""
        """Of SHUTDOWN."""
        self._half_ns = 0.0
        """Half the time that it has left."""
        self._shutdown: Event | None = None
        self._traces: dict[str, Trace | None] = {}
        """Of requests that are not printed, by request id; none where records are sent nowhere."""
        self._until_ns = self._last_until_ns = 0
        """After SHUTDOWN: wait for telemetry until then; the second while a request runs whose report is to come."""
        self.actions = {
            machine.CLOSE_MOMENTS: self._note_moments,
            machine.END_SEGMENT: self._end_segment,
            machine.PRINT_ENDED: self._print_ended,
            machine.JOIN_TELEMETRY: self._join_telemetry,
            machine.READ_REASON: self._read_reason,
            machine.END_REQUESTS: self._end_requests,
            machine.FLUSH_ALL: self._publisher.flush_all,
            machine.HURRY: lambda: parts.hurry(self._half_ns / 4),
            machine.SEND_LAST: lambda: parts.hurry(self._half_ns / 2, last=True),
        }

    def run(self) -> None:
        """Serve until SHUTDOWN."""
        if self._parts.telemetry_server is None:
            log(
                "warn",
                f"telemetry={self._parts.unsubscribed}: on Managed Instances only telemetry tells of requests, "
                "so there are no records",
            )
        self._loop.run()

    def look(self, pending: Pending) -> None:
        """Say what could be done now."""
        pending.tick_at_ns = self._segments.due_ns()
        pending.report_missing = self._shutdown is not None and self._parts.telemetry_server is not None
        if pending.report_missing:
            is_running = self._requests.running() > 0
            pending.last_report_until_ns = self._last_until_ns if is_running else self._until_ns

    def journal_invoke(self, body: bytes) -> None:
        """There is no journal."""

    def take(self, event: Event) -> bool:
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
        while (moment := self._exact.take(RUNNING)) is not None:
            if moment.begun is not None and not moment.is_sample:
                self._requests.began(moment.begun, moment.measured)
            for invocation in moment.ended:
                self._requests.ended_at(invocation, moment.measured)

    def _end_segment(self) -> None:
        self._segments.end(self._loop.cpu_at_wake)

    # Events

    def _read_reason(self) -> None:
        assert self._shutdown is not None
        self._segments.is_last = True
        self._reason, half_ns = self._loop.shutdown(self._shutdown)
        self._half_ns = half_ns
        now_ns = self._clock.monotonic_ns()
        self._until_ns = now_ns + round(min(SHUTDOWN_MS * MS, half_ns))
        self._last_until_ns = now_ns + round(min(LAST_REPORT_MS * MS, half_ns))

    def _end_requests(self) -> None:
        """Print those that still run, and those that are not printed yet."""
        remaining = self._requests.take_all(self._clock.epoch_ns())
        if self._reason == "failure":
            for request in remaining:
                self._loop.did(lambda request=request: self._died(request))  # type: ignore[misc]
        self._print(remaining)

    def _join_telemetry(self) -> None:
        events = self._loop.inbox.read()
        self._requests.hear(events, self._clock.epoch_ns())
        for event in events:
            if self._outputs is not None and event.kind == START and event.request_id is not None:
                self._traces[event.request_id] = self._outputs.invoked(event.record)
                if len(self._traces) > RUNNING:
                    del self._traces[next(iter(self._traces))]
            if event.kind in (START, REPORT):
                self._segments.heard()
                self._parts.know_runtime()
            else:
                self._publisher.join(event)

    # Lines

    def _print_ended(self) -> None:
        self._print(self._requests.overdue(self._clock.epoch_ns()))
        if not self._segments.recorder.gone:  # else the environment ends, and SHUTDOWN will say why
            self._print(self._requests.ended(self._segments.seen_ns))
        self._publisher.flush(self._clock.epoch_ns() // MS)

    def _print(self, requests: list[Request]) -> None:
        if not requests:
            return
        memory, shown = self._environment_memory.read(), self._recorder.runtime_heap()
        usage = self._usage()
        for request in requests:
            self._complete(request)
            record = request.record
            record.traced(self._traces.pop(record.request_id, None))
            if usage is not None:
                record.used(usage)
            noted = self._environment_memory.noted_by_probe(record.request_id, record.time_ms)
            record.environment_held(memory, noted, shown)
            self._heap_limit.look(record.heap)
            if record.cold_start:
                self._first(record, request.start_ns)
            self._publisher.print_one(record)

    def _usage(self) -> Usage | None:
        """What else is in use now, by the processes of the last segment."""
        last = self._segments.segments.at(self._clock.epoch_ns())
        window = last.window if last is not None else None
        if self._parts.resources is None or window is None:
            return None
        return self._parts.resources.read(window.closing, self._segments.budget)

    def _complete(self, request: Request) -> None:
        """Add what the segments tell."""
        record = request.record
        record.killed(request.kills if record.status != "success" else 0)
        record.others_killed(request.environment_kills)
        record.mark_reached(self._environment_state.high_water_mark)
        exact = request.take_exact_times()
        reached = self._segments.segments.peak_between(request.start_ns, request.end_ns, request.resolution_ns)
        record.measured_in_segments(self._window(request), reached, exact)

    def _window(self, request: Request) -> Window | None:
        """What was read at the end of its last segment, or since then if that is not kept any more."""
        last = self._segments.segments.at(request.end_ns)
        if last is None or last.window is None:
            last = self._segments.segments.at(self._clock.epoch_ns())
        return last.window if last is not None else None

    def _first(self, record: PendingRecord, start_ns: int) -> None:
        """The environment's first request: one line of what it allows."""
        record.follows_init(cold_start=True, suppressed=False, initialization_type=INITIALIZATION_TYPE)
        record.init_measured(self._segments.segments.peak_before(start_ns))
        about = self._parts.config, self._table, self._recorder, self._environment_memory
        sends_to = self._parts.sends_to
        notice(*about, method="vmhwm-segments", exact=self._exact.engaged, telemetry="on", outputs=sends_to)

    def _died(self, request: Request) -> None:
        """If it ended with its processes: what was known of the last moment."""
        record = request.record
        if record.report_came and record.error_type not in DEATHS:
            return
        self._complete(request)
        whole = self._segments.recorder.whole
        if record.window is not None and whole is not None:
            whole.curve.samples = self._segments.segments.curve(self._segments.recorder.whole_ns)
            record.window.curve = whole.curve
            noted = self._environment_memory.noted_by_probe(record.request_id, record.time_ms)
            record.environment_held(self._environment_memory.read(), noted)
            held_kib, extensions = self._environment_memory.held_kib, self._environment_memory.extensions
            report = death_report("failure", whole, held_kib, self._segments.recorder.holder, extensions)
            record.died(report, request.end_ns)
