"""The lifecycle on Lambda Managed Instances: no INVOKE, never frozen, many requests at once.

Nothing waits for us here but SHUTDOWN. Time is cut into segments, and telemetry says afterwards which of them each
request overlapped (segments, overlap).
"""

from __future__ import annotations

import time

from ..measure import sampling_schedule
from ..measure.memory_curve import DYING_NS
from ..measure.segment_recorder import SegmentRecorder
from ..measure.segments import RESOLUTION_NS, Segments
from ..measure.window import current
from ..platform.extensions_api import MANAGED_TIMEOUT_MS, ApiError, ExtensionsApi
from ..platform.poller import Poller
from ..platform.telemetry_events import REPORT, START, members, remaining_ms
from ..platform.telemetry_inbox import TelemetryInbox
from ..platform.telemetry_server import TelemetryServer
from ..records.environment_state import EnvironmentState
from ..records.journal import Journal
from ..records.out_of_memory import DEATHS, death_report
from ..records.publisher import Publisher
from ..records.request_overlap import RUNNING, Request, Requests
from ..support.log import log
from ..support.running_clock import RunningClock
from .capability_notice import notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config import Config
    from ..linux.oom_kills import OomKills
    from ..linux.process_table import ProcessTable
    from ..measure.environment_memory import EnvironmentMemory
    from ..measure.recorder import Recorder
    from ..measure.window import Window
    from ..platform.runtime_proxy import RuntimeProxy
    from ..records.pending_record import PendingRecord

INITIALIZATION_TYPE = "lambda-managed-instances"

MS = 1_000_000

BUSY_NS = 20 * MS
"""Length of a segment while requests run, if the CPU budget allows,"""
IDLE_NS = sampling_schedule.SPARSE_NS
"""and else."""
BUSY_FOR_NS = 1000 * MS
"""Requests are taken to run for so long after telemetry: it comes late, and where one was there will be more."""

SHUTDOWN_MS = MANAGED_TIMEOUT_MS + 50
"""At SHUTDOWN, wait this long for telemetry in any case: what it is buffered for, and its way."""
LAST_REPORT_MS = 2 * MANAGED_TIMEOUT_MS
"""The same while a request runs whose report is to come."""

AT_ONCE = 8
"""Processes that can be read while a request waits."""

PAUSE_S = 0.01
"""After a fault of our own: it may be there again at once."""

FOREVER_NS = 3_600_000 * MS


class Managed:
    """One execution environment, from the first `next` to SHUTDOWN."""

    def __init__(
        self,
        api: ExtensionsApi,
        listener: TelemetryServer | None,
        unsubscribed: str,
        config: Config,
        table: ProcessTable,
        recorder: Recorder,
        surroundings: EnvironmentMemory,
        kills: OomKills,
        proxy: RuntimeProxy | None = None,
    ) -> None:
        """`unsubscribed` says why there is no listener. `proxy` serves the runtime in exact mode."""
        self._api = api
        self._listener = listener
        self._unsubscribed = unsubscribed
        self._config = config
        self._table = table
        self._recorder = recorder
        self._surroundings = surroundings
        self._kills = kills
        # An environment that fails is not reset but ended: there is nobody to leave a journal to.
        self._history = EnvironmentState()
        self._publisher = Publisher(config, listener is not None, self._history, Journal(""), self._lost)
        self._waiting = Poller(api, listener, RunningClock(), proxy)
        self._proxy = proxy
        if proxy is not None:
            proxy.exact.cut = self._cut_if_affordable
        self._inbox = TelemetryInbox(listener, self._publisher.lose)
        self._requests = Requests()
        self._segments = Segments()
        self._cutter = SegmentRecorder(table, recorder)
        self._unplaced = 0
        """OOM kills that the kernel has counted, while none of the function's processes is seen to have ended yet."""
        self._unplaced_at = 0
        self._together = 0
        """Window.together of the last segment at whose end the function was alive."""
        self._seen_ns = 0
        """What ended up to here lies within segments: epoch ns, as telemetry tells it."""
        now = time.monotonic_ns()
        self._budget = sampling_schedule.Budget(config.cpu_budget, config.cpu_share, now)
        self._cut_at = now
        self._heard_at = now  # so that the function is known by its first request
        self._affordable_at = now
        self._ask_at = now
        """When to ask for the next event, if that has failed."""
        self._over = False

    def run(self) -> None:
        """Serve until SHUTDOWN."""
        if self._listener is None:
            log(
                "warn",
                f"telemetry={self._unsubscribed}: on Managed Instances nobody else tells of requests; no records",
            )
        self._recorder.find()
        while not self._over:
            if not self._did(self._turn):
                time.sleep(PAUSE_S)

    def _did(self, what: Callable[[], None]) -> bool:
        """Do it. If that fails, one message or cut is lost, and counted."""
        try:
            what()
        except Exception as error:
            self._publisher.lose()
            log("error", f"{error!r}")
            return False
        return True

    def _turn(self) -> None:
        """Wait for the next of the runtime's bytes, SHUTDOWN, telemetry, cut, and do it. Bytes and deliveries first."""
        if not self._api.waiting and time.monotonic_ns() >= self._ask_at:
            self._ask_next()
        spent = time.process_time_ns()
        wake_at = self._next_cut_at() if self._api.waiting else min(self._next_cut_at(), self._ask_at)
        overdue_at = self._api.overdue_at * 1e9
        ready = self._wait(0 if self._inbox else round(min(wake_at, overdue_at)) - time.monotonic_ns())
        if (self._api.waiting and self._api.fileno() in ready) or time.monotonic_ns() >= overdue_at:
            self._on_event()
            return
        self._note_moments()
        now = time.monotonic_ns()
        if now >= self._next_cut_at():
            self._cut_at = now
            self._cut()
            now = time.monotonic_ns()
            self._budget.spend(time.process_time_ns() - spent, now)
            self._affordable_at = now + self._budget.wait_ns(now)
            self._print_ended()
        elif self._inbox:
            self._on_telemetry()

    def _wait(self, timeout_ns: int) -> list[int]:
        """The descriptors that are ready. The runtime's bytes are passed on, and what was delivered is answered: AWS's
        emulator stands still until then."""
        ready = self._waiting.wait(timeout_ns)
        if self._proxy is not None:
            ready = [descriptor for descriptor in ready if not self._proxy.serve(descriptor)]
        self._inbox.take(ready)
        return ready

    # Exact mode

    def _know_runtime(self) -> None:
        if not self._table.is_settled() and (self._proxy is None or not self._proxy.show_runtime(self._table)):
            self._table.adopt_elsewhere()

    def _cut_if_affordable(self) -> int:
        """A request begins or ends: epoch ns. A segment ends here too, if the CPU time is there, and few processes are
        to be read: the request waits for this."""
        now = time.monotonic_ns()
        affordable = now >= self._affordable_at and len(self._table.function()) <= AT_ONCE
        if self._listener is not None and affordable:
            spent = time.process_time_ns()
            self._did(self._cut)
            self._cut_at = time.monotonic_ns()
            self._budget.spend(time.process_time_ns() - spent, self._cut_at)
            self._affordable_at = self._cut_at + self._budget.wait_ns(self._cut_at)
        return time.time_ns()

    def _note_moments(self) -> None:
        while self._proxy is not None and (moment := self._proxy.exact.take(RUNNING)) is not None:
            if moment.begun is not None and not moment.look:
                self._requests.began(moment.begun, moment.cut)
            for invocation in moment.ended:
                self._requests.ended_at(invocation, moment.cut)

    def _next_cut_at(self) -> int:
        if self._listener is None:
            return self._cut_at + FOREVER_NS
        busy = self._requests.any() or time.monotonic_ns() - self._heard_at < BUSY_FOR_NS
        return max(self._cut_at + (BUSY_NS if busy else IDLE_NS), self._affordable_at)

    # Events

    def _ask_next(self) -> None:
        try:
            self._api.send_next()
        except ApiError as error:
            self._fail(error)

    def _fail(self, error: ApiError) -> None:
        self._publisher.lose()
        log("warn", f"{error}")
        self._ask_at = time.monotonic_ns() + round(self._api.pause_s * 1000) * MS

    def _on_event(self) -> None:
        try:
            body = self._api.receive_event()
        except ApiError as error:
            self._fail(error)
            return
        if b'"SHUTDOWN"' in body:
            self._over = True
            event = members(body)
            if event is None:
                self._publisher.lose()
            event = event or {}
            self._on_shutdown(str(event.get("shutdownReason", "")), remaining_ms(event, time.time_ns() // MS))

    def _on_shutdown(self, reason: str, remaining: float) -> None:
        if self._listener is None:
            return
        self._did(self._cut)
        self._did(lambda: self._hear_last(remaining))
        self._did(self._cut)
        rest = self._requests.rest(time.time_ns())
        if reason.lower() == "failure":
            for request in rest:
                self._did(lambda request=request: self._died(request))  # type: ignore[misc]
        self._did(lambda: self._print(rest))
        self._publisher.flush_all()

    def _hear_last(self, remaining: float) -> None:
        """The last reports, if they come: the platform gives us so many ms."""
        half_ms = max(0.0, remaining) / 2
        now = time.monotonic_ns()
        until = now + round(min(SHUTDOWN_MS, half_ms) * MS)
        last_until = now + round(min(LAST_REPORT_MS, half_ms) * MS)
        while now < (last_until if self._requests.running() else until):
            self._wait(0 if self._inbox else (last_until if self._requests.running() else until) - now)
            if self._inbox:
                self._on_telemetry()
            now = time.monotonic_ns()
        while self._inbox:
            self._on_telemetry()

    # Telemetry

    def _on_telemetry(self) -> None:
        self._note_moments()
        events = self._inbox.read()
        self._requests.hear(events, time.time_ns())
        for event in events:
            if event.kind in (START, REPORT):
                self._heard_at = time.monotonic_ns()
                self._know_runtime()
            else:
                self._publisher.join(event)

    def _cut(self) -> None:
        made = self._cutter.cut()
        self._segments.add(made)
        self._seen_ns = made.end_ns - RESOLUTION_NS
        if made.window is not None:
            self._count_once(made.window)
            self._place_kills(made.window)
        self._history.high_water_mark = max(self._history.high_water_mark, made.estimate)

    def _place_kills(self, window: Window) -> None:
        """What the kernel kills is counted at once, and may be seen to have ended a segment later."""
        now = time.monotonic_ns()
        killed = self._kills.more()
        if killed:
            self._unplaced += killed
            self._unplaced_at = now
        of_function = window.someone_ended or window.births != 0
        if self._unplaced and (of_function or now - self._unplaced_at > DYING_NS or self._over):
            self._requests.killed(self._unplaced, of_function)
            self._unplaced = 0

    def _count_once(self, window: Window) -> None:
        """What workers share, a mapped model, each of them has in its RSS."""
        if window.closing:
            pid = self._recorder.holder[1] if self._recorder.holder is not None else 0
            counted_kib = current(window) if len(window.closing) > 1 else 0
            self._together = self._surroundings.together_kib(pid, counted_kib, self._config.memory_mib * 1024)
        window.together = self._together

    # Lines

    def _print_ended(self) -> None:
        self._print(self._requests.overdue(time.time_ns()))
        if not self._cutter.gone:  # else the environment ends, and SHUTDOWN will say why
            self._print(self._requests.ended(self._seen_ns))
        self._publisher.flush(time.time_ns() // MS)

    def _print(self, requests: list[Request]) -> None:
        if not requests:
            return
        memory = self._surroundings.read()
        for request in requests:
            self._complete(request)
            record = request.record
            record.environment_held(memory, self._surroundings.noted_by_probe(record.request_id, record.time_ms))
            if record.cold_start:
                self._first(record, request.start_ns)
            self._publisher.print_one(record)

    def _complete(self, request: Request) -> None:
        """Add what the segments tell."""
        record = request.record
        record.killed(request.kills if record.status != "success" else 0)
        record.others_killed(request.environment_kills)
        record.mark_reached(self._history.high_water_mark)
        exact = request.take_exact_times()
        reached = self._segments.peak_between(request.start_ns, request.end_ns, request.resolution_ns)
        record.measured_in_segments(self._window(request), reached, exact)

    def _window(self, request: Request) -> Window | None:
        """What was read at the end of its last segment, or since then if that is not kept any more."""
        last = self._segments.at(request.end_ns)
        if last is None or last.window is None:
            last = self._segments.at(time.time_ns())
        return last.window if last is not None else None

    def _first(self, record: PendingRecord, start_ns: int) -> None:
        """The environment's first request: one line of what it allows."""
        record.follows_init(cold_start=True, suppressed=False, initialization_type=INITIALIZATION_TYPE)
        record.init_measured(self._segments.peak_before(start_ns))
        about = self._config, self._table, self._recorder, self._surroundings
        exact = self._proxy is not None and self._proxy.exact.engaged
        notice(*about, method="vmhwm-segments", exact=exact, telemetry="on")

    def _died(self, request: Request) -> None:
        """If it ended with its processes: what was known of the last moment."""
        record = request.record
        if record.report_came and record.error_type not in DEATHS:
            return
        self._complete(request)
        whole = self._cutter.whole
        if record.window is not None and whole is not None:
            whole.flight.samples = self._segments.curve(self._cutter.whole_ns)
            record.window.flight = whole.flight
            noted = self._surroundings.noted_by_probe(record.request_id, record.time_ms)
            record.environment_held(self._surroundings.read(), noted)
            held_kib, extensions = self._surroundings.held_kib, self._surroundings.extensions
            report = death_report("failure", whole, held_kib, self._cutter.holder, extensions)
            record.died(report, request.end_ns)

    def _lost(self) -> int:
        failures = self._proxy.exact.failures if self._proxy is not None else 0
        return failures + self._inbox.refused() + self._table.errors + self._recorder.lost + self._requests.lost
