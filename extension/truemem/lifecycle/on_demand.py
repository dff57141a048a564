"""The lifecycle: what happens on INVOKE, on telemetry, on a tick, on SHUTDOWN.

One loop, one thread. The runtime's bytes come first (exact mode). On INVOKE the first act is the cut, unless exact mode
makes it; the second is asking for the next event.
"""

from __future__ import annotations

import time

from ..config import Config
from ..linux.process_table import ProcessTable
from ..measure.environment_memory import EnvironmentMemory
from ..measure.race import NEVER, Boundary
from ..measure.recorder import Recorder
from ..platform import telemetry_events
from ..platform.extensions_api import ApiError, ExtensionsApi
from ..platform.poller import Poller
from ..platform.telemetry_inbox import TelemetryInbox
from ..platform.telemetry_server import TelemetryServer
from ..records.pending_record import NEXT_REQUEST, PendingRecord
from ..records.publisher import Publisher
from ..support.log import log
from ..support.running_clock import RunningClock
from .capability_notice import notice
from .sampler_loop import SamplerLoop
from .window_closer import WindowCloser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ..linux.oom_kills import OomKills
    from ..measure.readings import Readings
    from ..measure.window import Window
    from ..platform.exact_mode import ExactMode, Invocation, Moment
    from ..platform.runtime_proxy import RuntimeProxy
    from ..records.environment_state import EnvironmentState
    from ..records.journal import Journal

    Result = TypeVar("Result")

MS = 1_000_000

CALM_NS = 2 * MS
"""In exact mode all other work waits until no bytes have passed for so long: after an event a short invocation's
response may come at once, and after that the next event."""
PASSING_NS = 5 * MS
"""While bytes keep passing, it waits for so long at most."""
AWAY_NS = 5 * MS
"""Who wakes up so late was frozen, while the runtime waited for an event: it is on its way."""
AHEAD = 2
"""One event is on its way at a time: another moment after its first bytes says that it was cut off."""
UNKNOWN = 16
"""Invocations that may have ended before the sidecar was told of them."""

ENDINGS = ("spindown", "sandboxterminated", "")
"""Reasons of a SHUTDOWN that is no reset (the second is AWS's emulator's)."""

LAST_REPORT_MS = 250
"""At SHUTDOWN, wait this long for the last report. Others saw 5 ms on average, 40 ms at most."""


class Event:
    """INVOKE or SHUTDOWN, as it came."""

    __slots__ = ("arrived_ns", "body", "cut", "invoke", "now_ns", "time_ms")

    def __init__(self, body: bytes, invoke: bool, cut: Readings | None, arrived_ns: int | None) -> None:
        self.body = body
        self.invoke = invoke
        self.cut = cut
        """What was read then; None in exact mode."""
        self.arrived_ns = arrived_ns
        self.now_ns = time.monotonic_ns()
        self.time_ms = time.time_ns() // MS


class Sidecar:
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
        history: EnvironmentState,
        journal: Journal,
        kills: OomKills,
        proxy: RuntimeProxy | None = None,
    ) -> None:
        self._api = api
        self._unsubscribed = unsubscribed
        self._config = config
        self._table = table
        self._recorder = recorder
        self._surroundings = surroundings
        self._history = history
        self._journal = journal
        self._publisher = Publisher(config, listener is not None, history, journal, self._lost)
        self._clock = RunningClock()
        self._closing = WindowCloser(recorder, self._publisher, surroundings, self._clock, history, kills)
        self._inbox = TelemetryInbox(listener, self._publisher.lose)
        self._due = False
        """A record may be ready to be printed."""
        self._waiting = Poller(api, listener, self._clock, proxy)
        self._proxy = proxy
        self._exact: ExactMode | None = None
        if proxy is not None:
            self._exact = proxy.exact
            self._exact.cut = self._cut
        self._init: Window | None = None
        """The window of the init phase, once it is closed and until the first record has it."""
        self._finished: dict[str, tuple[Window, Invocation]] = {}
        """Invocations whose end has passed here before their INVOKE, by request id."""

        now = time.monotonic_ns()
        self._ticks = SamplerLoop(config, recorder, self._publisher, surroundings, now)
        self._event: Event | None = None
        """In exact mode: INVOKE, until there is time for it."""
        self._turned_ns = now
        self._passed_ns = self._passing_ns = now - CALM_NS
        """When the last of the runtime's bytes passed, and the first of those that come without a pause."""
        self._ask_at = now
        """When to ask for the next event, if that has failed."""
        self._spent = 0
        """CPU time up to the last tick, if nothing was done since: what comes after it is the next one's."""
        self._invocations = 0
        self._over = False

    def run(self, kills: int = 0) -> None:
        """Serve until SHUTDOWN. `kills`: OOM kills since an earlier process of this environment looked."""
        self._publisher.recover(kills)
        self._recorder.find()  # whoever is here before the runtime is not the function
        self._ask_next()
        while not self._over:
            self._turn()

    def _turn(self) -> None:
        """Wait for the next of the runtime's bytes, event, telemetry, tick. The bytes first, then the event."""
        spent, self._spent = self._spent or time.process_time_ns(), 0
        timeout_ns = self._timeout_ns()
        descriptors = self._waiting.wait(timeout_ns)
        passed = False
        if self._proxy is not None:
            for descriptor in descriptors:
                passed |= self._proxy.serve(descriptor)
        now = time.monotonic_ns()
        away = now - self._turned_ns > timeout_ns + AWAY_NS
        if passed or (away and self._exact is not None and self._exact.asking):
            if now - self._passed_ns >= CALM_NS:
                self._passing_ns = now
            self._passed_ns = now
        self._turned_ns = now
        if self._api.fileno() in descriptors or time.monotonic() >= self._api.overdue_at:
            self._on_event()
        elif not self._calm_in_ns(now):
            self._passing_ns = now
            self._did(lambda: self._do_one_thing(descriptors, now, spent))

    @property
    def _moments(self) -> bool:
        return self._exact is not None and self._exact.due(AHEAD)

    def _calm_in_ns(self, now: int) -> int:
        """When there is time for other work than the runtime's bytes: ns, 0 for now. Once a response has passed there
        is: it is the one thing that others wait for."""
        if self._exact is None or self._exact.answered:
            return 0
        return max(0, min(self._passed_ns + CALM_NS, self._passing_ns + PASSING_NS) - now)

    def _timeout_ns(self) -> int:
        now = time.monotonic_ns()
        calm_in_ns = self._calm_in_ns(now)
        if self._inbox or self._due or self._event is not None or self._moments:
            return calm_in_ns
        wake_at = self._ticks.next_ns
        if not self._api.waiting:
            wake_at = min(wake_at, self._ask_at)
        return max(calm_in_ns, wake_at - now)

    def _do_one_thing(self, descriptors: list[int], now: int, spent_before: int) -> None:
        if not self._api.waiting and now >= self._ask_at:
            self._ask_next()
        if self._event is not None:
            self._handle_event()
        elif self._moments:
            self._work_out()
        elif now >= self._ticks.next_ns:
            self._tick(now, spent_before)
        elif self._inbox:
            self._on_telemetry()
        elif self._due:
            self._due = self._publisher.print_due(self._clock.running_ms)
        else:  # last: a flood of deliveries must not pile up here
            self._inbox.take(descriptors)

    # Exact mode

    def _cut(self) -> Readings:
        """The runtime waits for this."""
        self._know_runtime()
        return self._recorder.cut(at_rest=True)

    def _know_runtime(self) -> None:
        """Only at the first events: which process is the runtime?"""
        if self._table.is_settled():
            return
        self._recorder.find()
        if self._proxy is None or not self._proxy.show_runtime(self._table):
            self._table.adopt_elsewhere()

    def _work_out(self) -> None:
        """Close the windows that were measured while bytes passed."""
        moments: list[Moment] = []
        while self._exact is not None and (moment := self._exact.take(AHEAD)) is not None:
            moments.append(moment)
        if not moments:
            return
        # Processes that no answer has waited for are read once, now: for all cuts that left them out.
        if not self._exact or not self._exact.moments:  # else they may have been read for the next one, and reset
            self._ticks.rest(moments[-1].cut, time.monotonic_ns())
        for before, after in zip(moments[-2::-1], moments[:0:-1], strict=True):
            before.cut.read_later(after.cut)
        for moment in moments:
            if moment.look:
                self._recorder.absorb(moment.cut)
                continue
            window = self._recorder.close(moment.cut, NEVER)
            self._recorder.settle(window)
            if self._init is None and not self._invocations:
                self._init = window
            for invocation in moment.ended:
                self._end(window, invocation)
            record = self._publisher.current()
            if moment.begun is not None and record is not None and record.request_id != moment.begun.request_id:
                self._closing.close(record, window, "next-invoke")  # its end was not seen

    def _end(self, window: Window, invocation: Invocation) -> None:
        """Its window is closed."""
        record = self._publisher.current()
        if record is None or record.request_id != invocation.request_id:
            self._finished[invocation.request_id] = window, invocation
            if len(self._finished) > UNKNOWN:
                del self._finished[next(iter(self._finished))]
            return
        record.answered(invocation)
        if invocation.unsure:
            window.opening = window.end = Boundary()
        self._closing.close(record, window, NEXT_REQUEST)
        self._due = True

    def _is_exact(self) -> bool:
        """Has the window of the last invocation been closed where its bytes pass, and will the next one be?"""
        if self._exact is None or not self._exact.engaged:
            return False
        record = self._publisher.current()
        ended = [invocation.request_id for moment in self._exact.moments for invocation in moment.ended]
        return record is None or record.request_id in ended

    # Events

    def _on_event(self) -> None:
        """INVOKE or SHUTDOWN, not yet known which: both end the window that is open."""
        self._handle_event()  # the one before
        cut = self._did(self._cut_at_event)
        try:
            body = self._api.receive_event(self._note)
            invoke = b'"INVOKE"' in body
            if invoke:
                self._ask_next()
        except ApiError as error:
            body = b""
            self._publisher.lose()
            log("warn", f"{error}")
            self._ask_later()
        if not body:
            if cut is not None:
                self._recorder.absorb(cut)
            return
        self._event = Event(body, invoke, cut, self._api.arrived_ns)
        if cut is not None or not invoke:
            self._handle_event()  # else the response may pass first

    def _handle_event(self) -> None:
        """Open its record, or end the environment."""
        event, self._event = self._event, None
        if event is None:
            return
        self._over |= not event.invoke
        closed = self._did(lambda: self._close(event))
        self._did(lambda: self._on_invoke(event, closed) if event.invoke else self._on_shutdown(event.body, closed))

    def _close(self, event: Event) -> Window | None:
        """The window that the event ends; None where exact mode has closed it, or it cannot be measured."""
        self._work_out()
        cut = event.cut
        if cut is None and not event.invoke and self._publisher.current() is not None:
            cut = self._recorder.cut()
        if cut is None:
            return None
        self._ticks.rest(cut, time.monotonic_ns())
        # No event follows SHUTDOWN.
        closed = self._recorder.close(cut, 0 if event.invoke else NEVER, event.arrived_ns if event.invoke else None)
        self._recorder.settle(closed)
        return closed

    def _did(self, what: Callable[[], Result]) -> Result | None:
        """Its result; None where it fails, which is counted: the loop goes on."""
        try:
            return what()
        except Exception as error:
            self._publisher.lose()
            log("error", f"{error!r}")
            return None

    def _cut_at_event(self) -> Readings | None:
        """None where exact mode makes it."""
        self._know_runtime()
        return None if self._is_exact() else self._recorder.cut()

    def _note(self, body: bytes) -> None:
        """First of all: what is noted outlives this process."""
        if b'"INVOKE"' in body:
            self._journal.begin(self._history.invocations + 1, time.time_ns() // MS, body)

    def _on_invoke(self, event: Event, closed: Window | None) -> None:
        request_id = self._members(event.body).get("requestId")
        if not isinstance(request_id, str):
            request_id = ""
        last = self._publisher.current()
        if last is not None and closed is not None:
            self._closing.close(last, closed, "next-invoke")
        elif last is not None:
            self._closing.close_unmeasured(last)
        self._invocations += 1
        if self._invocations == 1:
            self._history.begin(self._config.initialization_type)
        self._history.invocations += 1
        opening = self._recorder.window.opening
        record = PendingRecord(request_id, self._history.invocations, event.time_ms, opening)
        init = None
        if self._invocations == 1:
            self._first(record)
            # What a snapshot was made of is not this environment's.
            init = None if self._history.restored else self._init or closed
        self._closing.open(record, init)
        if request_id in self._finished:
            self._end(*self._finished.pop(request_id))
        self._due = True
        self._ticks.begin(event.now_ns, exact=closed is None)

    def _members(self, body: bytes) -> dict[str, Any]:
        """Of an event: none, which is counted, where it is not understood. It has come all the same."""
        members = telemetry_events.members(body)
        if members is None:
            self._publisher.lose()
        return members or {}

    def _first(self, record: PendingRecord) -> None:
        """The cold start, or the first after a reset: one line of what this environment allows."""
        kind = self._config.initialization_type
        cold_start = self._history.invocations == 1
        record.follows_init(cold_start, self._history.resumed, "" if kind == "on-demand" else kind)
        exact = self._is_engaged()
        if not exact and self._table.runtime_address() != self._table.api_address:
            log("info", "the runtime talks to another address than AWS_LAMBDA_RUNTIME_API: a proxy")
        about = self._config, self._table, self._recorder, self._surroundings
        heard = self._unsubscribed or "on"
        notice(*about, method="vmhwm", exact=exact, telemetry=heard, problems=self._journal.problem)

    def _on_shutdown(self, body: bytes, closed: Window | None) -> None:
        """Whatever fails here, what there is to print is printed."""
        self._over = True
        reason = "unknown"
        try:
            event = self._members(body)
            reason = str(event.get("shutdownReason", "")).lower()
            died = "" if reason in ENDINGS else "timeout" if reason == "timeout" else "failure"
            last = self._publisher.current()
            if last is not None and closed is not None:
                self._closing.close(last, closed, "shutdown", died)
            elif last is not None:
                self._closing.close_unmeasured(last)
            elif closed is not None and died and not self._invocations:
                self._closing.died_in_init(closed, died)
            self._hear_last(telemetry_events.remaining_ms(event, time.time_ns() // MS))
        finally:
            self._publisher.flush_all()
            if reason in ENDINGS:
                self._journal.remove()
            else:
                self._journal.remember(self._history.text())

    def _hear_last(self, remaining_ms: float) -> None:
        """The last reports, if they come: the platform gives us `remaining_ms`."""
        until = time.monotonic_ns() + round(max(0.0, min(LAST_REPORT_MS, remaining_ms / 2)) * MS)
        while True:
            while self._inbox:
                self._on_telemetry()
            if self._publisher.complete() or time.monotonic_ns() >= until:
                return
            self._inbox.take(self._waiting.wait(until - time.monotonic_ns()))

    def _ask_next(self) -> None:
        """Ask for the next event; if that fails, again: at once, and then ever more slowly. The function must not wait
        for us."""
        try:
            self._api.send_next()
        except ApiError:
            self._ask_later()

    def _ask_later(self) -> None:
        self._ask_at = time.monotonic_ns() + round(self._api.pause_s * 1000) * MS

    # Telemetry

    def _on_telemetry(self) -> None:
        self._handle_event()
        for event in self._inbox.read():
            self._join(event)
        self._due = True

    def _join(self, event: telemetry_events.Event) -> None:
        if event.kind == telemetry_events.RUNTIME_DONE and event.request_id == self._running_id():
            # Another extension keeps the environment running: a look at rest, which telemetry may prove to be one.
            self._recorder.sample(late=True)
        self._publisher.join(event)

    def _running_id(self) -> str | None:
        """The invocation whose window is open and will be closed by an event."""
        record = self._publisher.current()
        return record.request_id if record is not None and not self._is_engaged() else None

    def _is_engaged(self) -> bool:
        return self._exact is not None and self._exact.engaged

    # Ticks and lines

    def _tick(self, now: int, spent_before: int) -> None:
        self._handle_event()
        self._work_out()
        if self._exact is None or not self._exact.moments:  # else what it saw could be the next invocation's
            self._ticks.look(now, exact=self._is_engaged())
        self._publisher.flush(time.time_ns() // MS)
        done = time.monotonic_ns()
        if self._invocations:
            self._spent = time.process_time_ns()
            self._ticks.plan(done, self._spent - spent_before, exact=self._is_engaged())
        else:
            self._ticks.plan_init(done, bool(self._table.function()))

    def _lost(self) -> int:
        failures = self._exact.failures if self._exact is not None else 0
        return failures + self._inbox.refused() + self._table.errors + self._recorder.lost
