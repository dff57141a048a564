"""Sends what periods have seen to a collector: at most one request a period, and at SHUTDOWN.

What was not taken waits, if the collector cannot have taken it: nothing of it has left, or the answer says that it may
be sent again. All else is dropped and counted, as sums must not arrive twice. The queue is short: what waits longest is
dropped. What waits when the environment is reset, its next process sends. The collector may be late, slow, rude or
gone: nothing here waits but `hurry`, and nothing raises.
"""

from __future__ import annotations

import _socket
import select

from .. import VERSION
from ..config import OTLP
from ..platform import http1
from ..platform.tcp import close, new_socket, set_options
from ..support.log import log, reason
from ..support.minijson import loads
from ..support.named_tuple import NamedTuple
from ..support.numbers import number, whole
from . import otlp_document, unsent
from .unsent import UnsentPeriod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Config
    from ..output_settings import OtlpSettings
    from ..records.record import InvocationRecord
    from ..support.clock import Clock
    from .otlp_document import Trace

MS = 1_000_000
QUEUE = 8
"""Periods that wait for a collector, at most."""
RETRY_STATUSES = (429, 502, 503, 504)
"""Answers after which a request may be sent again ("OTLP Specification", "Retryable response codes")."""
RETRY_LIMIT_S = 3600
MOST_LOG_LINES = 20
"""Lines of the log about this, at most: a collector may come and go."""
FOREVER_NS = 1 << 62

ANSWER_LIMIT = 64 * 1024
"""Longest body of an answer, in bytes. That of a collector has some hundred at most."""
RECEIVE_BYTES = 4096
"""Received at once, in bytes. The C library maps and unmaps each large buffer."""
PIECES = 4
"""Received in one step at most: others wait."""
PAUSE_MS = 20
"""Between two looks at an answer that comes in pieces: a collector that sends byte by byte costs some looks, not one
for each byte."""


class RequestOutcome(NamedTuple):
    """How a request has ended: with an answer, or not connected, broken off, or without an answer in time."""

    status: int
    """Status of the answer; 0 where there was none."""
    body: bytes
    retry_after: bytes
    """Header of the answer, as it came; or nothing."""
    left: bool
    """Has a part of the request left? Then the collector may have taken it."""
    why: str
    """What went wrong, if no answer came."""


class CollectorConnection:
    """Sends requests to the collector, one at a time. Each has a connection of its own: collectors close one that is
    idle (Node.js after five seconds), and after a freeze just when the next request is sent, which would be lost.

    Times are ms in which the environment ran: a collector in it was frozen with us."""

    def __init__(self, host: str, port: int, timeout_ms: int) -> None:
        self._address = host, port
        self._timeout_ms = timeout_ms
        self._socket: _socket.socket | None = None
        self._reader = http1.MessageReader(ANSWER_LIMIT)
        self._request = b""
        self._sent = 0
        self._end_ms = 0.0
        """The request is given up then."""
        self._look_at_ms = 0.0
        """A part of the answer has come: it is looked at again then. 0: as soon as something comes."""
        self.outcome: RequestOutcome | None = None
        """Outcome of the last request, once it has ended."""

    @property
    def busy(self) -> bool:
        """Is a request on its way?"""
        return bool(self._request)

    def begin(self, request: bytes, now_ms: float) -> None:
        """Send it: as much as the kernel takes now."""
        self._request, self._sent, self.outcome = request, 0, None
        self._reader = http1.MessageReader(ANSWER_LIMIT)
        self._end_ms, self._look_at_ms = now_ms + self._timeout_ms, 0.0
        self.step(now_ms)

    def interest(self, now_ms: float) -> tuple[int, int] | None:
        """The descriptor and the events to wait for; None where only time helps."""
        if self._socket is None or now_ms < self._look_at_ms:
            return None
        return self._socket.fileno(), select.POLLIN if self._sent == len(self._request) else select.POLLOUT

    def due_ms(self) -> float:
        """When `step` has something to do, whatever comes; infinite while nothing is on its way."""
        if not self.busy:
            return float("inf")
        return min(self._look_at_ms or self._end_ms, self._end_ms)

    def step(self, now_ms: float) -> None:
        """Go on, as far as that goes without waiting."""
        if not self.busy:
            return
        try:
            connection = self._socket or self._connect()
            if self._sent < len(self._request):
                self._sent += connection.send(self._request[self._sent :], _socket.MSG_NOSIGNAL)
            if self._sent == len(self._request) and now_ms >= self._look_at_ms:
                self._receive(connection, now_ms)
        except BlockingIOError:
            pass
        except (OSError, http1.Malformed) as error:
            self.give_up(reason(error))
        if now_ms >= self._end_ms:
            self.give_up(f"no answer in {self._timeout_ms} ms")

    def give_up(self, why: str) -> None:
        """The request, if one is on its way, has no answer."""
        if self.busy:
            self._end(RequestOutcome(0, b"", b"", self._sent > 0, why))

    def _connect(self) -> _socket.socket:
        """Raises OSError."""
        made = self._socket = new_socket(self._address[0])
        made.setblocking(False)
        set_options(made)
        try:
            made.connect(self._address)
        except BlockingIOError:
            pass  # EINPROGRESS (connect(2))
        return made

    def _receive(self, connection: _socket.socket, now_ms: float) -> None:
        """Raises OSError, Malformed."""
        self._look_at_ms = 0.0
        for _ in range(PIECES):
            piece = connection.recv(RECEIVE_BYTES)
            self._reader.feed(piece)
            message = self._reader.take(not piece)
            if message is not None:
                retry_after = message.headers.get(b"retry-after", b"")[:32]
                self._end(RequestOutcome(message.status, message.body, retry_after, True, ""))
                return
            self._look_at_ms = now_ms + PAUSE_MS  # also after an interim answer: a collector may send any number

    def _end(self, outcome: RequestOutcome) -> None:
        close(self._socket)
        self._socket, self._request, self.outcome = None, b"", outcome


class OtlpOutput:
    """Sends records to one OpenTelemetry collector. Times are monotonic ns, in which freezes count: a period is one of
    the clock on the wall."""

    def __init__(
        self, settings: OtlpSettings, config: Config, region: str, clock: Clock, path: str = "", name: str = OTLP
    ) -> None:
        """`path`: of the file by which a process leaves what it could not send to the next one; or none. `name`: of
        the output, for the log."""
        self._name = name
        self._what = "invocations" if name == OTLP else "profiles"
        self._profile = b""
        """The profile that is sent to a relay."""
        self._settings = settings
        self._path = path
        self._clock = clock
        self._connection = CollectorConnection(settings.host, settings.port, settings.timeout_ms)
        lines = [f"POST {settings.path} HTTP/1.1", f"Host: {settings.address}", "Connection: close"]
        lines += [f"Content-Type: application/{'json' if name == OTLP else 'octet-stream'}"]
        lines += [f"{name}: {value}" for name, value in settings.headers.items()]
        self._head = "\r\n".join(lines)
        self._resource = otlp_document.resource(config, region)
        self._started_ns = clock.epoch_ns()
        self._period = otlp_document.Period(self._started_ns)
        self._queue: list[UnsentPeriod] = []
        """Periods that wait to be sent; all are on their way while the connection is busy."""
        self._period_ns = settings.period_ms * MS
        self._send_at_ns = clock.monotonic_ns() + self._period_ns
        """The next request is due then, if there is something to send."""
        self._lines = MOST_LOG_LINES
        self._works = False
        self.lost = 0
        """Records of periods that were dropped."""
        self.rejected = 0
        """Data points that the collector has refused."""

    def begin(self) -> None:
        """The first invocation of this process has come: the collector listens. Restored from a snapshot, this was made
        long ago, and by another clock."""
        now_ns = self._clock.monotonic_ns()
        self._queue += unsent.take(self._path) if self._path else ()
        self._send_at_ns = now_ns if self._queue else min(self._send_at_ns, now_ns + self._period_ns)
        if not self._period.records:
            self._period = otlp_document.Period(self._clock.epoch_ns())

    def know_account(self, account: str) -> None:
        """Take the account's id, which an event has named."""
        self._resource["cloud.account.id"] = account

    def add(self, record: InvocationRecord, trace: Trace | None) -> None:
        """Add a finished record to the period."""
        self._period.add(record, trace)

    def post(self, profile: bytes) -> None:
        """Send a profile, the environment's only one, as soon as possible."""
        self._profile = profile
        self._queue.append(UnsentPeriod("", 1))
        self._send_at_ns = 0

    def interest(self, now_ms: float) -> tuple[int, int] | None:
        """The descriptor to wait for, with poll's events; None if no request runs."""
        return self._connection.interest(now_ms)

    def due_ns(self, now_ns: int, now_ms: float) -> int:
        """When `step` has something to do, whatever comes."""
        if self._connection.busy:
            return now_ns + max(0, int((self._connection.due_ms() - now_ms) * MS))
        return self._send_at_ns if self._queue or self._period.records else FOREVER_NS

    def step(self, now_ns: int, now_ms: float) -> None:
        """Go on, as far as that goes without waiting. `now_ms` leaves out freezes."""
        self._connection.step(now_ms)
        self._take_outcome(now_ns)
        if not self._connection.busy and now_ns >= self.due_ns(now_ns, now_ms):
            self._send(now_ns, now_ms)

    def hurry(self, limit_ns: float, now_ms: float, last: bool, reset: bool = False) -> None:
        """The environment ends: send all that there is, and wait for the answer for so long. `last`: what is not taken
        by then is lost, or after a `reset` the next process's."""
        begun_ns = now_ns = self._clock.monotonic_ns()
        asked = False
        while (left_ms := (begun_ns + limit_ns - now_ns) / MS) > 0:
            at_ms = now_ms + (now_ns - begun_ns) / MS
            self._connection.step(at_ms)
            self._take_outcome(now_ns)
            if self._connection.busy:
                poll = select.poll()
                if (interest := self._connection.interest(at_ms)) is not None:
                    poll.register(*interest)
                poll.poll(max(1.0, min(self._connection.due_ms() - at_ms, left_ms)))
            elif asked or not (self._queue or self._period.records):
                break
            else:
                self._send(now_ns, at_ms)
                asked = True
            now_ns = self._clock.monotonic_ns()
        if last:
            self._connection.give_up("the environment ends")
            self._take_outcome(now_ns)
            self._end_period()
            if self._queue and not (reset and self._path and unsent.leave(self._path, self._queue)):
                self._drop(len(self._queue), "the environment ends")
            if self.lost:
                log("warn", f"{self._name} to {self._settings.address}: {self.lost} {self._what} dropped in all")

    def _send(self, now_ns: int, now_ms: float) -> None:
        self._send_at_ns = now_ns + self._period_ns
        self._end_period()
        body = self._profile or otlp_document.request([waiting.text for waiting in self._queue])
        head = f"{self._head}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._connection.begin(head.encode("latin-1", "replace") + body, now_ms)
        self._take_outcome(now_ns)

    def _end_period(self) -> None:
        """Put the period into the queue, if it has seen anything."""
        period, now_ns = self._period, self._clock.epoch_ns()
        if not period.records:
            return
        about = {**self._resource, **period.resource, **self._settings.attributes}
        is_cumulative = self._settings.is_cumulative
        temporality = otlp_document.CUMULATIVE if is_cumulative else otlp_document.DELTA
        metrics = period.metrics(now_ns, self._started_ns, temporality)
        text = otlp_document.resource_metrics(about, VERSION, metrics)
        begun_ns = period.begun_ns if is_cumulative else max(now_ns, period.begun_ns)
        self._period = otlp_document.Period(begun_ns, period if is_cumulative else None)
        self._queue.append(UnsentPeriod(text, period.records))
        if len(self._queue) > QUEUE:
            self._drop(1, "the queue is full")

    def _take_outcome(self, now_ns: int) -> None:
        outcome, self._connection.outcome = self._connection.outcome, None
        if outcome is None:
            return
        why = f"status {outcome.status}" if outcome.status else outcome.why
        if 200 <= outcome.status < 300:
            taken = sum(waiting.records for waiting in self._queue)
            self._queue.clear()
            self._report(True, f"works, {taken} {self._what} taken")
            self._look_for_rejected(outcome.body)
        elif outcome.status in RETRY_STATUSES or not outcome.left:
            # Retry-After in seconds; not a date, whose clock is another's.
            pause_s = min(whole(outcome.retry_after, 8) or 0, RETRY_LIMIT_S)
            self._send_at_ns = max(self._send_at_ns, now_ns + pause_s * 1000 * MS)
            self._report(False, f"{why}; {len(self._queue)} of {QUEUE} periods wait for it")
        else:
            self._drop(len(self._queue), why)

    def _drop(self, count: int, why: str) -> None:
        """Drop the first requests of the queue."""
        records = sum(waiting.records for waiting in self._queue[:count])
        del self._queue[:count]
        self.lost += records
        if records:
            self._report(False, f"{why}; {records} {self._what} dropped, {self.lost} in all")

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
            self._report(False, f"it has rejected {count} data points; its own log may say why")

    def _report(self, works: bool, text: str) -> None:
        """Log one line, unless all that is new is that it still works."""
        if self._lines and not (works and self._works):
            self._lines -= 1
            after = "" if self._lines else " (no more lines of this)"
            log("info" if works else "warn", f"{self._name} to {self._settings.address}: {text}{after}")
        self._works = works
