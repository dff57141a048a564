"""Sends what periods have seen to a collector: at most one request a period, and at SHUTDOWN.

What was not taken waits, if the collector cannot have taken it: nothing of it has left, or the answer says that it may
be sent again (once). All else is dropped and counted, as sums must not arrive twice. The queue is short: what waits
longest is dropped.
"""

from __future__ import annotations

import select

from .. import VERSION
from ..platform.collector_connection import CollectorConnection
from ..platform.telemetry_events import number
from ..records import otlp
from ..support.log import log
from ..support.minijson import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Config
    from ..platform.output_settings import OtlpSettings
    from ..records.record import InvocationRecord
    from ..records.trace_context import Trace
    from ..support.clock import Clock

MS = 1_000_000

QUEUE = 8
"""Periods that wait for a collector, at most."""
QUEUE_BYTES = 64 * 1024
"""And so much of them."""
AGAIN = (429, 502, 503, 504)
"""Answers after which a request may be sent again ("OTLP Specification", "Retryable response codes")."""
RETRY_LIMIT_S = 3600
KEPT_NS = 4_000_000_000
"""A connection is used again for so long, freezes included. Collectors close one that is idle: the official one after a
minute, which is the period, Node.js after five seconds; and after a freeze just when the next request is sent. That
request would be lost."""
LINES = 20
"""Lines of the log about this, at most: a collector may come and go."""
FOREVER_NS = 1 << 62


class _Waiting:
    """What one period has seen, on its way."""

    def __init__(self, text: str, records: int) -> None:
        self.text = text
        self.records = records
        self.refused = False
        """The collector has said once: not now."""


class OtlpOutput:
    """One collector. Times are monotonic ns, in which freezes count: a period is one of the clock on the wall."""

    def __init__(self, settings: OtlpSettings, config: Config, region: str, clock: Clock) -> None:
        self._settings = settings
        self._config = config
        self._clock = clock
        self._connection = CollectorConnection(settings.host, settings.port, settings.timeout_ms)
        lines = [f"POST {settings.path} HTTP/1.1", f"Host: {settings.address}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in settings.headers.items()]
        self._head = "\r\n".join(lines)
        self._resource: dict[str, object] = {
            otlp.CLOUD_PROVIDER: "aws",
            otlp.CLOUD_PLATFORM: "aws_lambda",
            otlp.FAAS_NAME: config.function_name,
            otlp.SERVICE_NAME: config.function_name,
        }
        if region:
            self._resource[otlp.CLOUD_REGION] = region
        if config.function_version:
            self._resource[otlp.FAAS_VERSION] = config.function_version
        if config.memory_mib:
            self._resource[otlp.FAAS_MAX_MEMORY] = config.memory_mib * otlp.MEBI
        self._started_ns = clock.epoch_ns()
        self._period = otlp.Period(self._started_ns)
        self._environment_id = ""
        self._queue: list[_Waiting] = []
        self._in_flight = 0
        """So many of the queue, from its begin."""
        self._sent_at_ns = clock.monotonic_ns()
        """When the last request began; at first, when there was nothing to send yet."""
        self._answered_at_ns = -FOREVER_NS
        self._not_before_ns = -FOREVER_NS
        """The collector has asked to wait until then."""
        self._lines = LINES
        self._works: bool | None = None
        self._lost_said = 0
        """Of `lost`, what the log has told."""
        self.lost = 0
        """Records of periods that were dropped."""
        self.rejected = 0
        """Data points that the collector has refused."""

    def begin(self) -> None:
        """The first invocation has come. Restored from a snapshot, this was made long ago, and by another clock."""
        self._sent_at_ns = min(self._sent_at_ns, self._clock.monotonic_ns())
        if not self._period.records:
            self._period = otlp.Period(self._clock.epoch_ns())

    def know_account(self, account: str) -> None:
        """An event has named it."""
        self._resource[otlp.CLOUD_ACCOUNT_ID] = account

    def add(self, record: InvocationRecord, trace: Trace | None) -> None:
        """One that is finished."""
        self._environment_id = f"{record.properties.get('environmentId', '')}"[:512]
        self._period.add(record, trace)

    def interest(self, now_ms: float) -> tuple[int, int] | None:
        """See CollectorConnection."""
        return self._connection.interest(now_ms)

    def due_ns(self, now_ns: int, now_ms: float) -> int:
        """When `step` has something to do, whatever comes."""
        if self._connection.busy:
            left_ms = self._connection.due_ms() - now_ms
            return now_ns + max(0, int(left_ms * MS))
        if not self._queue and not self._period.records:
            return FOREVER_NS
        return max(self._sent_at_ns + self._settings.period_ms * MS, self._not_before_ns)

    def step(self, now_ns: int, now_ms: float) -> None:
        """Go on, as far as that goes without waiting. `now_ms` leaves out freezes."""
        self._connection.step(now_ms)
        self._take_outcome(now_ns)
        if not self._connection.busy and now_ns >= self.due_ns(now_ns, now_ms):
            self._send(now_ns, now_ms)

    def hurry(self, limit_ns: int, now_ms: float, last: bool) -> None:
        """The environment ends: send all that there is, and wait for the answer for so long. `last`: what is not taken
        by then is lost."""
        begun_ns = now_ns = self._clock.monotonic_ns()
        poll, asked = select.poll(), False
        while now_ns - begun_ns < limit_ns:
            at_ms = now_ms + (now_ns - begun_ns) / MS
            self._connection.step(at_ms)
            self._take_outcome(now_ns)
            if not self._connection.busy:
                if asked or not (self._queue or self._period.records):
                    break
                self._send(now_ns, at_ms)
                asked = True
            elif (interest := self._connection.interest(at_ms)) is not None:
                poll.register(*interest)
                poll.poll((limit_ns - (now_ns - begun_ns)) / MS)
                poll.unregister(interest[0])
            else:
                poll.poll(max(1.0, min(self._connection.due_ms() - at_ms, (limit_ns - (now_ns - begun_ns)) / MS)))
            now_ns = self._clock.monotonic_ns()
        if last:
            self._connection.give_up("the environment ends")
            self._take_outcome(now_ns)
            self._drop(len(self._queue) + self._end_period(), "the environment ends")
            if self.lost > self._lost_said:
                self._lines = max(1, self._lines)
                self._tell_fails(f"{self.lost} invocations dropped in all")

    def _send(self, now_ns: int, now_ms: float) -> None:
        self._sent_at_ns = now_ns
        self._end_period()
        body = otlp.request([waiting.text for waiting in self._queue])
        self._in_flight = len(self._queue)
        if not 0 <= now_ns - self._answered_at_ns < KEPT_NS:
            self._connection.rest()
        head = f"{self._head}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._connection.begin(head.encode("latin-1", "replace") + body, now_ms)
        self._take_outcome(now_ns)

    def _end_period(self) -> int:
        """It waits in the queue now, if it has seen anything: 1 then."""
        period, now_ns = self._period, self._clock.epoch_ns()
        if not period.records:
            return 0
        about = {**self._resource, otlp.FAAS_INSTANCE: self._environment_id}
        about[otlp.SERVICE_INSTANCE_ID] = self._environment_id
        if period.tenant:
            about[otlp.TENANT] = period.tenant
        about.update(self._settings.attributes)
        text = otlp.resource_metrics(about, VERSION, period.metrics(now_ns, self._started_ns))
        self._period = otlp.Period(max(now_ns, period.begun_ns))
        self._queue.append(_Waiting(text, period.records))
        while len(self._queue) > QUEUE or sum(len(waiting.text) for waiting in self._queue) > QUEUE_BYTES:
            self._drop(1, "the queue is full")
        return 1

    def _take_outcome(self, now_ns: int) -> None:
        outcome, self._connection.outcome = self._connection.outcome, None
        if outcome is None:
            return
        count, self._in_flight = self._in_flight, 0
        self._answered_at_ns = now_ns
        if 200 <= outcome.status < 300:
            taken = sum(waiting.records for waiting in self._queue[:count])
            del self._queue[:count]
            self._tell_works(taken)
            self._look_for_rejected(outcome.body)
        elif outcome.status in AGAIN:
            self._not_before_ns = now_ns + _seconds(outcome.retry_after) * 1_000_000_000
            sent, rest = self._queue[:count], self._queue[count:]
            kept = [waiting for waiting in sent if not waiting.refused]
            for waiting in kept:
                waiting.refused = True
            self._queue = [waiting for waiting in sent if waiting not in kept] + kept + rest
            self._drop(len(sent) - len(kept), f"status {outcome.status}, twice")
        elif outcome.status or outcome.left:
            self._drop(count, f"status {outcome.status}" if outcome.status else outcome.why)
        else:
            self._tell_fails(f"{outcome.why}; {len(self._queue)} of {QUEUE} periods wait for it")

    def _drop(self, count: int, why: str) -> None:
        """The first ones of the queue."""
        dropped, self._queue = self._queue[:count], self._queue[count:]
        if dropped:
            records = sum(waiting.records for waiting in dropped)
            self.lost += records
            if self._tell_fails(f"{why}; {records} invocations dropped, {self.lost} in all"):
                self._lost_said = self.lost

    def _look_for_rejected(self, body: bytes) -> None:
        """A partial success (ExportMetricsPartialSuccess)."""
        try:
            partial = loads(body).get("partialSuccess")
            rejected = partial.get("rejectedDataPoints") if isinstance(partial, dict) else 0
            count = int(rejected) if isinstance(rejected, str) and rejected.isdecimal() else int(number(rejected) or 0)
        except (ValueError, AttributeError):  # an empty body, or no JSON: all of it was taken
            return
        if 0 < count < 1_000_000:
            self.rejected += count
            # Not its message, which may quote what it was sent, headers included.
            self._tell_fails(f"it has rejected {count} data points; its own log may say why")

    def _tell_works(self, taken: int) -> None:
        if self._works is not True:
            self._works = True
            self._say("info", f"works, {taken} invocations taken")

    def _tell_fails(self, why: str) -> bool:
        self._works = False
        return self._say("warn", why)

    def _say(self, level: str, text: str) -> bool:
        """False if there were too many lines of this before."""
        if not self._lines:
            return False
        self._lines -= 1
        log(level, f"otlp to {self._settings.address}: {text}{'' if self._lines else ' (no more lines of this)'}")
        return True


def _seconds(header: bytes) -> int:
    """Retry-After in seconds; 0 for a date, whose clock is another's, and for anything else."""
    return min(int(header), RETRY_LIMIT_S) if header.isdigit() and len(header) < 9 else 0
