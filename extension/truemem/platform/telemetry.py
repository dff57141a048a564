"""Where telemetry is delivered: a small HTTP server inside the sidecar's own event loop.

The function's code can reach it too, so everything is bounded: connections, bytes, and what they can cost. What
the platform delivers is known by a path that only the platform was given (docs/security.md). Of its events we use those
that belong to a record (schema 2022-12-13 of the "Telemetry API event schema reference"); every member is optional.
"""

from __future__ import annotations

import posix
import time

from ..support.minijson import loads
from ..support.numbers import number, whole
from . import http1
from .tcp import Listener, close

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import Any, Final

    from mypy_extensions import i64

INIT_START: Final = "platform.initStart"
RESTORE_START: Final = "platform.restoreStart"
START: Final = "platform.start"
RUNTIME_DONE: Final = "platform.runtimeDone"
REPORT: Final = "platform.report"
LOGS_DROPPED: Final = "platform.logsDropped"

_USED: Final = (INIT_START, RESTORE_START, START, RUNTIME_DONE, REPORT, LOGS_DROPPED)

MOST_MEMBER_CHARS: Final = 256
"""Characters of a member that goes into our lines. (A tenant's id may have so many.)"""


MOST_DELIVERY_PARTS: Final = 32_768
"""Members, elements and brackets of one delivery. The platform's have one in 23 bytes or more; denser ones, which take
many times their size and time to parse, are not the platform's."""


class PlatformEvent:
    """One platform event that we use."""

    def __init__(self, kind: str, record: dict[str, Any], time_ns: int | None = None) -> None:
        self.kind = kind
        self.record = record
        self.time_ns = time_ns
        """When the event happened: epoch ns, in steps of a ms; None if it does not say."""

    def text(self, name: str) -> str | None:
        """A member that is a string, else None; no more of it than the longest that the platform may send."""
        value = self.record.get(name)
        return value[:MOST_MEMBER_CHARS] if isinstance(value, str) and value else None

    def metric(self, name: str) -> int | float | None:
        """A member of `metrics` that is a number, and not infinite, else None."""
        metrics = self.record.get("metrics")
        return number(metrics.get(name)) if isinstance(metrics, dict) else None

    @property
    def request_id(self) -> str | None:
        return self.text("requestId")


def members(body: bytes, only_id: bool = False) -> dict[str, Any] | None:
    """The members of an event of the Extensions API; None where it is no JSON object. `only_id`: none but `requestId`
    is asked for."""
    if only_id and body.count(b"requestId") == 1 and body.find(b"\\") < 0:
        before, found, after = body.partition(b'"requestId":')
        space, _, rest = after.partition(b'"')
        text = rest.partition(b'"')[0]
        # A string, and a member of the event: at a third of what `loads` takes.
        if found and not space.strip() and before.rfind(b"{") == 0 and text.isascii():
            return {"requestId": text.decode()}
    try:
        event = loads(body)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def remaining_ms(event: dict[str, Any], now_ms: int) -> int | float:
    """Time until the event's deadline; infinite where it names none."""
    deadline_ms = number(event.get("deadlineMs"))
    return deadline_ms - now_ms if deadline_ms is not None else float("inf")


def parse_batch(body: bytes) -> tuple[list[PlatformEvent], int]:
    """The events of one delivery that we use, and how many elements could not be understood.

    Unknown types are passed over without being counted. Raises ValueError if the body is no JSON array, or has more
    than MOST_DELIVERY_PARTS.
    """
    most = MOST_DELIVERY_PARTS
    if len(body) > most and body.count(b"{") + body.count(b"[") + body.count(b",") > most:
        raise ValueError("telemetry in too many parts")
    batch = loads(body)
    if not isinstance(batch, list):
        raise ValueError(f"telemetry is not an array but {type(batch).__name__}")  # noqa: TRY004 - bad data, not a bug
    events = []
    bad = 0
    for element in batch:
        kind = element.get("type") if isinstance(element, dict) else None
        if not isinstance(kind, str):
            bad += 1
        elif kind in _USED:
            record = element.get("record")
            if isinstance(record, dict):
                events.append(PlatformEvent(kind, record, epoch_ns(element.get("time"))))
            else:
                bad += 1
    return events, bad


class _Minute:
    def __init__(self) -> None:
        self.text = b""
        self.begun_ns: int | None = None
        """Epoch ns of its beginning; None where the text is no time."""


_last: Final = _Minute()
"""The minute of the time that was read last: to work it out is nine tenths of the instructions."""


def epoch_ns(text: object) -> int | None:
    """`2022-10-12T00:03:50.000Z` as epoch ns, None for anything else. (The executable has no `datetime`.)"""
    if not isinstance(text, str) or len(text) < 20 or text[-1] != "Z" or not text.isascii():
        return None
    written, size = text.encode(), len(text)
    if written[:17] != _last.text:
        _last.text = written[:17]
        _last.begun_ns = _minute_ns(_last.text)
    if _last.begun_ns is None or written[19] not in (46, 90):
        return None
    ns: i64 = 0
    unit: i64 = 10_000_000_000
    for at in range(17, size - 1):
        if at != 19:
            digit: i64 = written[at]
            if digit < 48 or digit > 57:
                return None
            ns += (digit - 48) * unit
            unit //= 10
    return _last.begun_ns + int(ns)  # beyond 64 bits before 1677 and after 2262


def _minute_ns(text: bytes) -> int | None:
    """`2022-10-12T00:03:` as epoch ns."""
    numbers = [whole(part, 4) for part in (text[:4], text[5:7], text[8:10], text[11:13], text[14:16])]
    if text[4:17:3] != b"--T::" or None in numbers:
        return None
    year, month, day, hour, minute = [each or 0 for each in numbers]
    # Days since the epoch, with the year taken to begin in March: the leap day comes last.
    year -= month < 3
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month + (9 if month < 3 else -3)) + 2) // 5
    return ((days + day - 719469) * 1440 + hour * 60 + minute) * 60_000_000_000


CONNECTIONS = 8
"""The platform uses one. Beyond these one is closed."""

BODY_LIMIT: Final = 2 * 262_144 + 65_536
"""Bytes of one delivery. The platform sends at most twice the `maxBytes` that we ask for, and metadata; all the
connections that have not shown to be the platform's may keep so much together."""

RECEIVE_BYTES: Final = 16384
"""Received at once, in bytes: a usual delivery. The C library maps and unmaps each large buffer."""

MOST_PIPELINED: Final = 16
"""Requests that may come at once on one connection. The platform waits for each answer."""

ACCEPT_PAUSE_S = 1.0
"""No connection is accepted for so long where the system has no descriptor or no memory left."""

DELIVERIES: Final = 64
"""Received and not yet read; beyond these the rest waits in the sockets."""

_OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Connection:
    def __init__(self, socket: _socket.socket) -> None:
        self.socket = socket
        self.reader = http1.MessageReader(BODY_LIMIT, requests=True)
        self.delivered = False
        self.proven = False
        """A request has come to our path: this is the platform."""


class TelemetryServer:
    """Listens on a free port of every interface: `sandbox.localdomain` is not loopback in every environment."""

    def __init__(self) -> None:
        """Raises OSError when no port is to be had."""
        self._listener = Listener("0.0.0.0", ACCEPT_PAUSE_S)
        self.port = self._listener.port
        self._connections: dict[int, _Connection] = {}
        self._descriptors = [self._listener.socket.fileno()]
        """Its own, and those of the connections."""
        self._path = b"/" + posix.urandom(8).hex().encode()
        self._strict = False
        """The platform keeps to the path. (AWS's own emulator for Managed Instances drops it.)"""
        self.refused = 0
        """Deliveries that were not HTTP, too large, cut off, or not to our path: dropped, and counted."""

    @property
    def path(self) -> str:
        """The path to subscribe with. Once something was delivered to it, it is the only one."""
        return self._path.decode()

    def descriptors(self) -> list[int]:
        """What to wait for: readable means `ready` has something to do."""
        listener = self._listener
        if listener.paused_until and time.monotonic() < listener.paused_until:
            return self._descriptors[1:]
        return self._descriptors

    def ready(self, descriptor: int) -> list[bytes]:
        """Do what one readable descriptor asks for: the bodies that are now whole. Never blocks, never raises."""
        if descriptor == self._descriptors[0]:
            self._accept()
        return self._receive(descriptor) if descriptor in self._connections else []

    def _accept(self) -> None:
        try:
            peer = self._listener.accept()
        except OSError:
            return
        if peer is None:
            return
        if len(self._connections) >= CONNECTIONS:
            worth = {number: (made.proven, made.delivered) for number, made in self._connections.items()}
            self._leave(min(worth, key=worth.__getitem__))  # of equals the oldest
        self._connections[peer.fileno()] = _Connection(peer)
        self._descriptors.append(peer.fileno())

    def _receive(self, descriptor: int) -> list[bytes]:
        bodies: list[bytes] = []
        connection = self._connections[descriptor]
        reader = connection.reader
        try:
            piece = connection.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            piece = b""
        if not piece:
            self._leave(descriptor)
            return []
        reader.feed(piece)
        try:
            while message := reader.take():
                self._admit(connection, message.start_line)
                connection.delivered = True
                # Answered before it is read: the platform must not wait for us.
                connection.socket.send(_OK)
                bodies.append(message.body)
                if len(bodies) == MOST_PIPELINED:
                    self._refuse(descriptor)
                    return bodies
            if reader.start_line:
                self._admit(connection, reader.start_line)
            self._bound()
        except (OSError, http1.Malformed):  # OSError: gone, or it does not read its answers
            self._refuse(descriptor)
        return bodies

    def _admit(self, connection: _Connection, start_line: bytes) -> None:
        """Note whether the sender is the platform. Raises Malformed if it is known not to be."""
        if start_line.find(self._path) >= 0:
            connection.proven = self._strict = True
        elif self._strict:
            raise http1.Malformed("not to our path")

    def _bound(self) -> None:
        """What strangers have sent and not finished is bounded as a whole: the connection with most of it is closed."""
        strangers = {number: made for number, made in self._connections.items() if not made.proven}
        if sum(made.reader.held for made in strangers.values()) > BODY_LIMIT + RECEIVE_BYTES:
            self._refuse(max(strangers, key=lambda number: strangers[number].reader.held))

    def _refuse(self, descriptor: int) -> None:
        self.refused += 1
        try:
            self._connections[descriptor].socket.send(_REFUSED)
        except OSError:
            pass
        self._close(descriptor)

    def _leave(self, descriptor: int) -> None:
        """Close it; a delivery that has begun is lost."""
        self.refused += self._connections[descriptor].reader.begun
        self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        self._descriptors.remove(descriptor)
        close(self._connections.pop(descriptor).socket)


class TelemetryInbox:
    """Deliveries in their order: received and answered at once, read when there is time for it."""

    def __init__(self, listener: TelemetryServer | None, lose: Callable[[int], None]) -> None:
        """`lose` counts what could not be understood."""
        self._listener = listener
        self._lose = lose
        self.bodies: list[bytes] = []

    def take(self, descriptors: list[int]) -> None:
        """Receive and answer what has come there. Descriptors of others are passed over."""
        for descriptor in descriptors:
            if self._listener is not None and len(self.bodies) < DELIVERIES:
                self.bodies += self._listener.ready(descriptor)

    def read(self) -> list[PlatformEvent]:
        try:
            events, bad = parse_batch(self.bodies.pop(0))
        except ValueError:
            events, bad = [], 1
        self._lose(bad)
        return events
