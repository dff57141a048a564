"""Sends what periods have seen to a collector: at most one request a period, and at SHUTDOWN.

What was not taken waits, if the collector cannot have taken it: nothing of it has left, or the answer says that it may
be sent again (once). All else is dropped and counted, as sums must not arrive twice. The queue is short: what waits
longest is dropped. The collector may be late, slow, rude or gone: nothing here waits but `hurry`, and nothing raises.
"""

from __future__ import annotations

import _socket
import select

from .. import VERSION
from ..platform import http1
from ..platform.tcp import close, new_socket, set_options
from ..support.log import log, reason
from ..support.minijson import loads
from ..support.named_tuple import NamedTuple
from ..support.numbers import number, whole
from . import otlp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Config
    from ..output_settings import OtlpSettings
    from ..records.record import InvocationRecord
    from ..support.clock import Clock
    from .otlp import Trace

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

ANSWER_LIMIT = 64 * 1024
"""Longest body of an answer, in bytes. That of a collector has some hundred at most."""
PIECE = 4096
"""Received at once, in bytes. The C library maps and unmaps each large buffer."""
PIECES = 4
"""Received in one step at most: others wait."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1, 250
"""Between two looks at an answer that comes in pieces: a collector that sends byte by byte costs some looks, not one
for each byte."""

_IN_PROGRESS = (115, 4)
"""EINPROGRESS, EINTR (connect(2))."""


class Outcome(NamedTuple):
    """How a request has ended: with an answer, or not connected, broken off, or without an answer in time."""

    status: int
    """Of the answer; 0 where there was none."""
    body: bytes
    retry_after: bytes
    """Header of the answer, as it came; or nothing."""
    left: bool
    """Has a part of it left? Then the collector may have taken it."""
    why: str
    """Without an answer: what went wrong."""


class CollectorConnection:
    """One kept connection, with at most one request at a time. Times are ms in which the environment ran: a collector
    in it was frozen with us."""

    def __init__(self, host: str, port: int, timeout_ms: int) -> None:
        self._address = host, port
        self._timeout_ms = timeout_ms
        self._socket: _socket.socket | None = None
        self._reader = http1.Reader(ANSWER_LIMIT)
        self._request = b""
        self._sent = 0
        self._kept = False
        """An earlier request was answered on this connection: the collector may close it at any time."""
        self._began_ms = 0.0
        self._look_at_ms = 0.0
        self._pause_ms = FIRST_PAUSE_MS
        self.outcome: Outcome | None = None
        """Of the last request, once it has ended."""

    @property
    def busy(self) -> bool:
        """Is a request on its way?"""
        return bool(self._request)

    def begin(self, request: bytes, now_ms: float) -> None:
        """Send it: as much as the kernel takes now."""
        self._request, self._sent, self.outcome = request, 0, None
        self._began_ms = now_ms
        self._look_at_ms, self._pause_ms = now_ms, FIRST_PAUSE_MS
        if self._kept and not self._is_quiet():
            self._close()
        self.step(now_ms)

    def rest(self) -> None:
        """The next request makes a new connection."""
        if not self.busy:
            self._close()

    def interest(self, now_ms: float) -> tuple[int, int] | None:
        """The descriptor and the events to wait for; None where only time helps."""
        if self._socket is None or not self.busy or now_ms < self._look_at_ms:
            return None
        return self._socket.fileno(), select.POLLIN if self._sent == len(self._request) else select.POLLOUT

    def due_ms(self) -> float:
        """When `step` has something to do, whatever comes; infinite while nothing is on its way."""
        if not self.busy:
            return float("inf")
        end_ms = self._began_ms + self._timeout_ms
        return min(end_ms, self._look_at_ms) if self._look_at_ms > self._began_ms else end_ms

    def step(self, now_ms: float) -> None:
        """Go on, as far as that goes without waiting."""
        if not self.busy:
            return
        try:
            if self._advance(now_ms):
                return
        except (OSError, http1.Malformed) as error:
            if self._kept and not self._sent:  # closed just now, as servers do with an idle one
                self._close()
                self.step(now_ms)
                return
            self.give_up(reason(error))
            return
        if now_ms >= self._began_ms + self._timeout_ms:
            self.give_up(f"no answer in {self._timeout_ms} ms")

    def give_up(self, why: str) -> None:
        """The request, if one is on its way, has no answer."""
        if self.busy:
            self._close()
            self._request = b""
            self.outcome = Outcome(0, b"", b"", self._sent > 0, why)

    def _advance(self, now_ms: float) -> bool:
        """True if the request has ended. Raises OSError, Malformed."""
        if self._socket is None:
            self._connect()
        if self._sent < len(self._request) and not self._send():
            return False
        return now_ms >= self._look_at_ms and self._receive(now_ms)

    def _connect(self) -> None:
        self._reader = http1.Reader(ANSWER_LIMIT)
        made = self._socket = new_socket(self._address[0])
        made.setblocking(False)
        set_options(made)
        number = made.connect_ex(self._address)
        if number and number not in _IN_PROGRESS:
            raise OSError(number, "not connected")

    def _send(self) -> bool:
        """True once all of it has left. Raises OSError, also where the connection cannot be made."""
        assert self._socket is not None
        try:
            self._sent += self._socket.send(self._request[self._sent :], _socket.MSG_NOSIGNAL)
        except (BlockingIOError, InterruptedError):
            return False
        return self._sent == len(self._request)

    def _receive(self, now_ms: float) -> bool:
        """True once the answer is whole. Raises OSError, Malformed."""
        assert self._socket is not None
        came = False
        for _ in range(PIECES):
            try:
                piece = self._socket.recv(PIECE)
            except (BlockingIOError, InterruptedError):
                break
            self._reader.feed(piece)
            message = self._reader.take(not piece)
            if message is not None:
                self._answered(message, closed=not piece)
                return True
            if not piece:
                raise http1.Broken("the connection was closed")
            came = True
        if came or self._reader.begun:  # also an interim answer that is whole: a collector may send any number of them
            self._look_at_ms = now_ms + self._pause_ms
            self._pause_ms = min(LONGEST_PAUSE_MS, 2 * self._pause_ms)
        else:  # nothing to look at before more comes
            self._look_at_ms = self._began_ms
        return False

    def _answered(self, message: http1.Message, closed: bool) -> None:
        if closed or message.is_last or self._reader.held:
            self._close()
        else:
            self._kept = True
        self._request = b""
        retry_after = message.headers.get(b"retry-after", b"")[:32]
        self.outcome = Outcome(message.status, message.body, retry_after, True, "")

    def _is_quiet(self) -> bool:
        """Is a kept connection still open, and silent? Bytes that came before our request are no answer to it."""
        assert self._socket is not None
        try:
            self._socket.recv(1)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False

    def _close(self) -> None:
        close(self._socket)
        self._socket = None
        self._kept = False


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
        self._clock = clock
        self._connection = CollectorConnection(settings.host, settings.port, settings.timeout_ms)
        lines = [f"POST {settings.path} HTTP/1.1", f"Host: {settings.address}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in settings.headers.items()]
        self._head = "\r\n".join(lines)
        resource: dict[str, object] = {
            otlp.CLOUD_PROVIDER: "aws",
            otlp.CLOUD_PLATFORM: "aws_lambda",
            otlp.FAAS_NAME: config.function_name,
            otlp.SERVICE_NAME: config.function_name,
            otlp.CLOUD_REGION: region,
            otlp.FAAS_VERSION: config.function_version,
            otlp.FAAS_MAX_MEMORY: config.memory_mib * otlp.MEBI,
        }
        self._resource = {name: value for name, value in resource.items() if value}
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
        self._lost_reported = 0
        """Of `lost`, what the log has reported."""
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
            if self.lost > self._lost_reported:
                self._lines = max(1, self._lines)
                self._report_failure(f"{self.lost} invocations dropped in all")

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
        own = {otlp.FAAS_INSTANCE: self._environment_id, otlp.SERVICE_INSTANCE_ID: self._environment_id}
        tenant = {otlp.TENANT: period.tenant} if period.tenant else {}
        about = {**self._resource, **own, **tenant, **self._settings.attributes}
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
            self._report_success(taken)
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
            self._report_failure(f"{outcome.why}; {len(self._queue)} of {QUEUE} periods wait for it")

    def _drop(self, count: int, why: str) -> None:
        """The first ones of the queue."""
        dropped, self._queue = self._queue[:count], self._queue[count:]
        if dropped:
            records = sum(waiting.records for waiting in dropped)
            self.lost += records
            if self._report_failure(f"{why}; {records} invocations dropped, {self.lost} in all"):
                self._lost_reported = self.lost

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
            self._report_failure(f"it has rejected {count} data points; its own log may say why")

    def _report_success(self, taken: int) -> None:
        if self._works is not True:
            self._works = True
            self._say("info", f"works, {taken} invocations taken")

    def _report_failure(self, why: str) -> bool:
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
    return min(whole(header, 8) or 0, RETRY_LIMIT_S)
