"""The lifecycle: what happens on INVOKE, on telemetry, on a tick, on SHUTDOWN.

One loop, one thread. On INVOKE the first act is the cut, the second is asking for the next event, unless the
invocation is to be held open (TRUEMEM_HOLD).
"""

from __future__ import annotations

import time

from . import minijson, telemetry
from .closing import Closing
from .config import Config
from .conversation import BROKEN, RESPONDING, WAITING
from .holder import Holder
from .inbox import Inbox
from .lambda_api import ApiError, LambdaApi
from .listener import Listener
from .log import log
from .notice import notice
from .processes import ProcessTable
from .publisher import Publisher
from .record import InvocationRecord
from .recorder import Recorder
from .running_clock import RunningClock
from .runtime_watch import RuntimeWatch
from .sampler import Budget
from .surroundings import Surroundings
from .ticks import Ticks
from .waiting import Waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .history import History
    from .journal import Journal
    from .oom_kills import OomKills
    from .window import Window

MS = 1_000_000

FINE_NS = 3 * MS
"""Waits shorter than this matter to the µs while an invocation is held."""

ENDINGS = ("spindown", "sandboxterminated", "")
"""Reasons of a SHUTDOWN that is no reset (the second is AWS's emulator's)."""

LAST_REPORT_MS = 250
"""At SHUTDOWN, wait this long for the last report. Others saw 5 ms on average, 40 ms at most."""


class Sidecar:
    """One execution environment, from the first `next` to SHUTDOWN."""

    def __init__(
        self,
        api: LambdaApi,
        listener: Listener | None,
        unsubscribed: str,
        config: Config,
        table: ProcessTable,
        recorder: Recorder,
        watch: RuntimeWatch,
        surroundings: Surroundings,
        history: History,
        journal: Journal,
        kills: OomKills,
    ) -> None:
        self._api = api
        self._unsubscribed = unsubscribed
        self._config = config
        self._table = table
        self._recorder = recorder
        self._watch = watch
        self._surroundings = surroundings
        self._history = history
        self._journal = journal
        self._publisher = Publisher(config, listener is not None, history, journal, self._lost)
        self._clock = RunningClock()
        self._closing = Closing(recorder, self._publisher, watch, surroundings, self._clock, history, kills)
        self._inbox = Inbox(listener, self._publisher.lose)
        self._due = False
        """A record may be ready to be printed."""
        self._waiting = Waiting(api, listener, self._clock)
        self._looked_ns = 0
        """When there was no event yet: epoch ns."""

        now = time.monotonic_ns()
        self._ticks = Ticks(config, recorder, self._publisher, surroundings, now)
        looks = Budget(config.hold_budget, config.cpu_share, now)
        self._holder = Holder(config.hold, config.hold_budget, looks, listener is not None, watch)
        self._began = self._next_look = now
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
        """Wait for the next of event, tick, telemetry. The event first, and nothing else takes long before it
        is looked for again: what keeps us from seeing it loses the race."""
        holding = self._holder.hold is not None
        tick_at = self._ticks.next_ns
        wake_at = min(tick_at, self._next_look, self._holder.ends_at()) if holding else tick_at
        timeout_ns = 0 if self._inbox or self._due else wake_at - time.monotonic_ns()
        spent, self._spent = self._spent or time.process_time_ns(), 0
        descriptors = self._waiting.wait(timeout_ns, fine=holding and timeout_ns < FINE_NS)
        event_came = self._api.fileno() in descriptors
        if event_came:
            self._on_event()
            return
        self._looked_ns = time.time_ns()
        try:
            self._do_one_thing(descriptors, spent)
        except Exception as error:  # one message or tick is lost, and counted; the loop goes on
            self._publisher.lose()
            log("error", f"{error!r}")
            if self._holder.hold:
                self._let_go()

    def _do_one_thing(self, descriptors: list[int], spent_before: int) -> None:
        now = time.monotonic_ns()
        if self._holder.hold and now >= self._holder.ends_at():
            self._let_go()
        if self._holder.hold and now >= self._next_look:
            self._look(spent_before)
        elif now >= self._ticks.next_ns:
            self._tick(now, spent_before)
        elif self._inbox:
            self._on_telemetry()
        elif self._due:
            self._due = self._publisher.print_due(self._clock.running_ms)
        else:  # last: a flood of deliveries must not pile up here
            self._inbox.take(descriptors)

    # Events

    def _on_event(self) -> None:
        """INVOKE or SHUTDOWN, not yet known which: both end the window that is open."""
        if not self._table.function():
            self._recorder.find()
            self._table.adopt_elsewhere()
        cut = self._closing.cut()
        try:
            body = self._api.receive_event(self._note)
            invoke = b'"INVOKE"' in body
            holding = invoke and self._holder.wants(time.monotonic_ns())
            if invoke and not holding:
                self._api.send_next()
        except ApiError as error:
            if cut is not None:
                self._recorder.rejoin(self._recorder.close(cut, None, self._looked_ns))
            self._recover(error)
            return
        try:
            closed = self._recorder.close(cut, self._api.arrived_ns, self._looked_ns) if cut is not None else None
            if invoke:
                self._on_invoke(minijson.loads(body), closed, holding)
            elif b'"SHUTDOWN"' in body:
                self._on_shutdown(body, closed)
        except Exception as error:
            self._publisher.lose()
            self._holder.hold = None
            log("error", f"event: {error!r}")
        finally:
            self._over |= b'"SHUTDOWN"' in body
            if not self._over and not self._api.waiting and self._holder.hold is None:
                self._ask_next()

    def _note(self, body: bytes) -> None:
        """First of all: what is noted outlives this process."""
        if b'"INVOKE"' in body:
            self._journal.begin(self._history.invocations + 1, time.time_ns() // MS, body)

    def _on_invoke(self, event: dict[str, Any], closed: Window | None, holding: bool) -> None:
        now = time.monotonic_ns()
        request_id = str(event.get("requestId", ""))
        time_ms = time.time_ns() // MS
        if closed is not None:
            self._closing.close("next-invoke", closed)
        remaining_ms = float(event.get("deadlineMs", 0)) - time_ms
        if holding and not self._holder.begin(request_id, now, remaining_ms, self._recorder.window.started_raced):
            self._ask_next()
        # Somebody else may keep the environment running when the runtime rests.
        accompanied = len(self._table.others()) > 1
        self._watch.begin(request_id, accompanied or self._holder.wants_looks())
        if self._holder.hold:
            self._holder.hold.see(self._watch.state, False, now)
        self._invocations += 1
        if self._invocations == 1:
            self._history.begin(self._config.initialization_type)
        self._history.invocations += 1
        record = InvocationRecord(request_id, self._history.invocations, time_ms)
        if self._invocations == 1:
            self._first(record)
        # What a snapshot was made of is not this environment's.
        own_init = self._invocations == 1 and not self._history.restored
        self._closing.begin(record, closed if own_init else None)
        self._due = True
        self._began = now
        self._next_look = self._holder.next_look(now, now)
        self._ticks.begin(now, held=self._holder.hold is not None)

    def _first(self, record: InvocationRecord) -> None:
        """The cold start, or the first after a reset: one line of what this environment allows."""
        record.cold_start = self._history.invocations == 1
        record.suppressed_init = self._history.went_on
        if record.cold_start and self._config.initialization_type not in ("", "on-demand"):
            record.initialization_type = self._config.initialization_type
        if self._table.runtime_address() != self._table.api_address:
            log("info", "the runtime talks to another address than AWS_LAMBDA_RUNTIME_API: a proxy")
        about = self._config, self._table, self._recorder, self._surroundings
        heard, held = self._unsubscribed or "on", self._holder.mode
        notice(*about, method="vmhwm", telemetry=heard, hold=held, problems=self._journal.problem)

    def _on_shutdown(self, body: bytes, closed: Window | None) -> None:
        """Whatever fails here, what there is to print is printed."""
        self._over = True
        reason = "unknown"
        try:
            event = minijson.loads(body)
            reason = str(event.get("shutdownReason", "")).lower()
            died = "" if reason in ENDINGS else "timeout" if reason == "timeout" else "failure"
            if closed is not None:
                self._closing.close("shutdown", closed, died)
            self._hear_last(float(event.get("deadlineMs", 0)) - time.time_ns() // MS)
        finally:
            self._publisher.print_rest()
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

    def _recover(self, error: ApiError) -> None:
        """`next` failed. The function must not wait for us: ask again, at once and then ever more slowly."""
        self._publisher.lose()
        log("warn", f"{error}")
        self._ask_next()

    def _ask_next(self) -> None:
        while True:
            try:
                self._api.send_next()
                return
            except ApiError:
                continue

    # Telemetry

    def _on_telemetry(self) -> None:
        for event in self._inbox.read():
            self._join(event)
        self._due = True

    def _join(self, event: telemetry.Event) -> None:
        self._holder.hear(event)
        if event.kind == telemetry.RUNTIME_DONE:
            # With any other status it does not rest: the environment is about to be reset, and SHUTDOWN will tell.
            if event.text("status") in (None, "success"):
                self._on_runtime_done(event)
            if self._holder.hold and self._holder.hold.request_id == event.request_id:
                self._let_go()  # whatever kept the window from being closed
        self._publisher.join(event)

    def _on_runtime_done(self, event: telemetry.Event) -> None:
        """The runtime rests, if we still run: close the window here, where there is no race."""
        record = self._publisher.find(event.request_id)
        is_last = record is not None and record is self._publisher.last()
        if record is not None and is_last and not self._over and not self._waiting.event_has_come():
            if not record.closed:
                self._watch.look(continuous=self._holder.hold is not None)
                self._rest(event)
            elif record.provisional and not self._closing.confirm():
                self._rest(event)
        rested = self._watch.done(event)
        if record is not None and record.after is not None:
            record.decide(rested)

    # Rest

    def _look(self, spent_before: int) -> None:
        """See how far the runtime has got. If it waits for its next event, the window is closed here."""
        state = self._watch.look(continuous=self._holder.hold is not None)
        now = time.monotonic_ns()
        if self._holder.hold:
            self._holder.see(state, time.process_time_ns() - spent_before, now)
            self._next_look = self._holder.next_look(self._began, now)
        if state == WAITING and self._holder.hold and self._watch.moved:
            return  # it may be about to ask: closed if the next look sees the same
        if state == WAITING and self._publisher.current() is not None:
            self._rest(None)
        elif state == BROKEN and self._holder.hold:
            self._let_go()

    def _rest(self, done: telemetry.Event | None) -> None:
        self._due |= self._closing.rest(done, self._waiting.event_has_come, self._end_hold, self._looked_ns)

    def _end_hold(self, back_for_ms: float) -> None:
        """The runtime has come back."""
        if self._holder.hold:
            self._ask_next()
            self._holder.end(back_for_ms)
            record = self._publisher.current()
            if record is not None:
                record.hold_ms = back_for_ms

    def _let_go(self) -> None:
        """The hold has not ended as it should."""
        now = time.monotonic_ns()
        self._ask_next()
        coming_back = self._watch.state in (RESPONDING, WAITING)
        self._holder.miss((now - self._watch.moved_ns) / MS if coming_back else 0.0, now)

    # Ticks and lines

    def _tick(self, now: int, spent_before: int) -> None:
        self._ticks.look(now, held=self._holder.hold is not None)
        if not self._holder.hold and self._watch.due(now):
            self._look(spent_before)
        if self._holder.hold and not self._recorder.last_sample:
            self._let_go()  # the function has ended
        self._publisher.flush(time.time_ns() // MS)
        done = time.monotonic_ns()
        if self._invocations:
            self._spent = time.process_time_ns()
            self._ticks.plan(done, self._spent - spent_before, held=self._holder.hold is not None)
        else:
            self._ticks.plan_init(done, bool(self._table.function()))

    def _lost(self) -> int:
        return self._inbox.refused() + self._table.errors + self._recorder.lost
