"""The lifecycle: what happens on INVOKE, on telemetry, on a tick, on SHUTDOWN.

One loop, one thread. On INVOKE the first act is the cut, the second is asking for the next event: no
invocation is ever held open, except under TRUEMEM_HOLD=always.
"""

from __future__ import annotations

import select
import time

from . import hold, minijson, sampler, telemetry
from .config import Config
from .lambda_api import ApiError, LambdaApi
from .listener import Listener
from .log import log
from .processes import ProcessTable
from .publisher import Publisher
from .record import InvocationRecord
from .recorder import Recorder
from .running_clock import RunningClock
from .surroundings import Surroundings
from .window import Window, peak

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MS = 1_000_000

LATE_NS = 5 * MS
"""A tick this much behind its time means that the environment was frozen, or starved."""

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
        surroundings: Surroundings,
    ) -> None:
        self._api = api
        self._listener = listener
        self._unsubscribed = unsubscribed
        self._config = config
        self._table = table
        self._recorder = recorder
        self._surroundings = surroundings
        self._publisher = Publisher(config, listener is not None, self._lost)
        self._clock = RunningClock()
        self._bodies: list[bytes] = []
        """Telemetry received and not yet read."""
        self._due = False
        """A record may be ready to be printed."""
        self._poll = select.poll()
        self._polled: set[int] = set()
        self._event_poll = select.poll()
        self._looked_ns = 0
        """When there was no event yet: epoch ns."""

        now = time.monotonic_ns()
        self._budget = sampler.Budget(config.cpu_budget, config.cpu_share, now)
        self._began = self._next_tick = now
        self._hold: hold.Hold | None = None
        self._hold_misses = 0
        self._invocations = 0
        self._high_water_mark = 0
        self._at_rest = False
        """The window was closed with the function at rest: the present one is the next invocation's."""
        self._proxied = False
        self._over = False

    def run(self) -> None:
        """Serve until SHUTDOWN."""
        self._recorder.find()  # whoever is here before the runtime is not the function
        self._api.send_next()
        while not self._over:
            self._turn()

    def _turn(self) -> None:
        """Wait for the next of event, tick, telemetry. The event first, and nothing else takes long before it
        is looked for again: what keeps us from seeing it loses the race."""
        self._watch()
        wake_at = min(self._next_tick, self._hold.ends_at()) if self._hold else self._next_tick
        timeout_ms = 0 if self._bodies or self._due else max(0, -(-(wake_at - time.monotonic_ns()) // MS))
        spent = time.process_time_ns()
        self._clock.before_wait(timeout_ms)
        ready = self._poll.poll(timeout_ms)
        descriptors = [descriptor for descriptor, _ in ready]
        event_came = self._api.fileno() in descriptors
        self._clock.after_wait()
        if event_came:
            self._on_event()
            return
        self._looked_ns = time.time_ns()
        try:
            self._do_one_thing(descriptors, spent)
        except Exception as error:  # one message or tick is lost, and counted; the loop goes on
            self._publisher.lose()
            log("error", f"{error!r}")

    def _do_one_thing(self, descriptors: list[int], spent_before: int) -> None:
        now = time.monotonic_ns()
        if self._hold and now >= self._hold.ends_at():
            self._miss_hold()
        if now >= self._next_tick:
            self._tick(now, spent_before)
        elif self._bodies:
            self._on_telemetry(self._bodies.pop(0))
        elif self._due:
            self._due = self._publisher.print_due(self._clock.running_ms)
        elif self._listener is not None:  # last: a flood of deliveries must not pile up here
            for descriptor in descriptors:
                self._bodies += self._listener.ready(descriptor)

    def _watch(self) -> None:
        """Keep the poll's descriptors in step with the connections there are."""
        wanted = {self._api.fileno()} if self._api.waiting else set()
        if self._listener is not None:
            wanted.update(self._listener.descriptors())
        for descriptor in self._polled - wanted:
            try:
                self._poll.unregister(descriptor)
            except KeyError:
                pass
        for descriptor in wanted - self._polled:
            self._poll.register(descriptor, select.POLLIN)
        self._polled = wanted

    # Events

    def _on_event(self) -> None:
        """INVOKE or SHUTDOWN, not yet known which: both end the window that is open."""
        if not self._table.function():
            self._recorder.find()
            self._proxied = self._table.adopt_elsewhere()
        cut = None if self._at_rest else self._recorder.cut()
        try:
            body = self._api.receive_event()
            invoke = b'"INVOKE"' in body
            holding = self._config.hold == "always" and self._listener is not None
            if invoke and not holding:
                self._api.send_next()
        except ApiError as error:
            if cut is not None:
                self._recorder.rejoin(self._recorder.close(cut, None))
            self._recover(error)
            return
        try:
            closed = self._recorder.close(cut, self._api.arrived_ns, self._looked_ns) if cut is not None else None
            event = minijson.loads(body)
            if invoke:
                self._on_invoke(event, closed, holding)
            elif b'"SHUTDOWN"' in body:
                self._on_shutdown(event, closed)
        except Exception as error:
            self._publisher.lose()
            log("error", f"event: {error!r}")
        finally:
            self._over |= b'"SHUTDOWN"' in body
            if not self._over and not self._api.waiting and self._hold is None:
                self._ask_next()

    def _on_invoke(self, event: dict[str, Any], closed: Window | None, holding: bool) -> None:
        now = time.monotonic_ns()
        request_id = str(event.get("requestId", ""))
        time_ms = time.time_ns() // MS
        if holding:
            self._hold = hold.Hold(request_id, now, float(event.get("deadlineMs", 0)) - time_ms)
        self._at_rest = False
        self._invocations += 1
        if closed is not None:
            self._close("next-invoke", closed)
        record = InvocationRecord(request_id, self._invocations, time_ms)
        if self._invocations == 1:
            self._first(record, closed)
        self._publisher.open(record)
        self._began = now
        self._next_tick = now + sampler.DENSE_NS

    def _first(self, record: InvocationRecord, init: Window | None) -> None:
        """The cold start: the init phase was a window too; and one line of what this environment allows."""
        record.cold_start = True
        if self._proxied:
            log("info", "the runtime talks to another address than AWS_LAMBDA_RUNTIME_API: a proxy")
        record.init_peak = peak(init) if init is not None else None
        if record.init_peak is not None:
            self._high_water_mark = record.init_peak.estimate
        method = f"sampled ({self._recorder.refused})" if self._recorder.refused else "vmhwm"
        log(
            "info",
            f"method={method} function processes={len(self._table.function())} environment={self._surroundings.source} "
            f"telemetry={self._unsubscribed or 'on'} hold={self._config.hold} "
            f"limit={self._config.memory_mib or 'unknown'} MiB",
        )

    def _on_shutdown(self, event: dict[str, Any], closed: Window | None) -> None:
        if closed is not None:
            self._close("shutdown", closed)
        remaining = float(event.get("deadlineMs", 0)) - time.time_ns() // MS
        until = time.monotonic_ns() + round(max(0.0, min(LAST_REPORT_MS, remaining / 2)) * MS)
        while self._bodies:
            self._on_telemetry(self._bodies.pop(0))
        while self._listener is not None and not self._publisher.complete() and time.monotonic_ns() < until:
            self._watch()
            for descriptor, _ in self._poll.poll(max(0, (until - time.monotonic_ns()) // MS)):
                self._bodies += self._listener.ready(descriptor)
            while self._bodies:
                self._on_telemetry(self._bodies.pop(0))
        self._publisher.print_rest()

    def _close(self, closed_by: str, window: Window) -> None:
        """The open record, if any, gets its window and what the environment holds at this moment."""
        self._recorder.settle(window)
        record = self._publisher.current()
        if record is None:
            return
        self._due = True
        record.closed, record.closed_by, record.closed_at_ms = True, closed_by, self._clock.running_ms
        record.window = window
        record.peak = peak(window)
        if record.peak is not None:
            self._high_water_mark = max(self._high_water_mark, record.peak.estimate)
        record.high_water_mark = self._high_water_mark
        self._surroundings.describe(record)

    def _recover(self, error: ApiError) -> None:
        """`next` failed. The function must not wait for us: ask again, at once and then ever more slowly."""
        self._publisher.lose()
        log("warn", f"{error}")
        self._ask_next()

    def _ask_next(self) -> None:
        pause = 0.0
        while True:
            try:
                self._api.send_next()
                return
            except ApiError:
                time.sleep(pause)
                pause = min(1.0, pause * 2 + 0.01)

    # Telemetry

    def _on_telemetry(self, body: bytes) -> None:
        try:
            events, bad = telemetry.parse_batch(body)
        except ValueError:
            self._publisher.lose()
            return
        self._publisher.lose(bad)
        for event in events:
            self._join(event)
        self._due = True

    def _join(self, event: telemetry.Event) -> None:
        if self._hold is not None and event.request_id == self._hold.request_id:
            self._hold.hear()
        if event.kind == telemetry.RUNTIME_DONE:
            self._on_runtime_done(event)
        self._publisher.join(event)

    def _on_runtime_done(self, event: telemetry.Event) -> None:
        """The runtime rests while we still run: close the window here, where there is no race."""
        record = self._publisher.current()
        if record is None or record.request_id != event.request_id or self._event_has_come():
            return
        try:
            cut = self._recorder.cut()
            # If an event has come meanwhile, the runtime may have been released with it.
            at_rest = not self._event_has_come()
        finally:
            if self._hold is not None:
                self._hold, self._hold_misses = None, 0
                self._ask_next()
        self._at_rest = True
        self._close("runtime-done", self._recorder.close(cut, None, at_rest=at_rest))

    def _event_has_come(self) -> bool:
        if not self._api.waiting:
            return False
        descriptor = self._api.fileno()
        self._event_poll.register(descriptor, select.POLLIN)
        ready = self._event_poll.poll(0)
        self._event_poll.unregister(descriptor)
        return bool(ready)

    def _miss_hold(self) -> None:
        """Telemetry did not end the hold in time: let go, and after some of these hold no more."""
        self._hold = None
        self._ask_next()
        self._hold_misses += 1
        log("warn", "hold: no platform.runtimeDone in time; the invocation is let go")
        if self._hold_misses >= hold.MISSES:
            self._config.hold = "off"
            log("warn", f"hold: {hold.MISSES} times in a row; not holding any more")

    # Ticks and lines

    def _tick(self, now: int, spent_before: int) -> None:
        moved = self._recorder.sample(late=now - self._next_tick > LATE_NS)
        self._publisher.flush()
        done = time.monotonic_ns()
        age = done - self._began
        if self._invocations:
            self._budget.spend(time.process_time_ns() - spent_before, done)
            self._next_tick = done + sampler.interval_ns(age, moved, self._budget.wait_ns(done))
        else:
            self._next_tick = done + sampler.init_interval_ns(age, bool(self._table.function()))

    def _lost(self) -> int:
        refused = self._listener.refused if self._listener is not None else 0
        return refused + self._table.errors + self._recorder.lost
