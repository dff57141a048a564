"""The Extensions and Telemetry APIs, from the caller's side: register, subscribe, next. One kept connection.

Sources: "Using the Lambda Extensions API" and "Telemetry API" of the AWS Lambda developer guide.
"""

from __future__ import annotations

import _socket
import select
import time

from ..support.log import OwnWords, reason
from . import http1
from .tcp import close, new_socket, set_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

EXTENSION_PATH = "/2020-01-01/extension/"
TELEMETRY_PATH = "/2022-07-01/telemetry"
TELEMETRY_SCHEMA = "2022-12-13"
MANAGED_SCHEMA = "2025-01-29"
"""The only one that Managed Instances take."""

BUFFERING = '{"maxItems":1000,"maxBytes":262144,"timeoutMs":%d}'
"""Buffering of telemetry. All three values are set: AWS's pages contradict each other about the defaults."""
TIMEOUT_MS = 25
"""The least allowed."""
MANAGED_TIMEOUT_MS = 250
"""Buffering time of telemetry on Managed Instances, ms: AWS's emulator hangs if a delivery is not answered when the
next one is due."""

RECEIVE_BYTES: Final = 4096
"""Received at once, in bytes. The C library maps and unmaps each large buffer: 20 µs before `next` is asked for."""

ANSWER_LIMIT = 1 << 20
"""Longest body accepted from the APIs, in bytes. Events are below 2 KiB: they carry no payload."""

REST_S = 2.0
"""Seconds for the rest of an answer that has begun, and for the answer to the subscription. Both come at once, or not
at all: then the function must not wait for them with us."""

LONGEST_PAUSE = 1.0

NAME_LIMIT = 64
"""Letters of the name of an error. The platform's longest has 33."""

SO_TIMESTAMPNS: Final = 35
"""Ask the kernel when data arrived (socket(7), SO_TIMESTAMP; for TCP since Linux 4.16, x86_64 and arm64)."""

_SOL_SOCKET: Final = _socket.SOL_SOCKET
_PEEK: Final = _socket.MSG_PEEK | _socket.MSG_DONTWAIT

FOREVER: Final = float("inf")


class ApiError(OwnWords):
    """The API could not be reached, or answered something that is not what was asked for."""

    def __init__(self, what: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(what)
        self.status = status
        """HTTP status, or 0 when there was no answer."""
        self.body = body
        """The body, for us to look at, not for the log: events are bodies, too."""


class ExtensionsClient:
    """One extension's connection to `AWS_LAMBDA_RUNTIME_API` ("host:port", no scheme)."""

    def __init__(self, address: str, rest_s: float = REST_S) -> None:
        """`rest_s`: seconds for the rest of an answer that has begun."""
        self._rest_s = rest_s
        host, _, port = address.rpartition(":")
        self._host = host.strip("[]")
        self._port = int(port)
        self._address = address
        self._socket: _socket.socket | None = None
        self._reader = http1.MessageReader(ANSWER_LIMIT)
        self._extension = ""
        self._next = b""
        """The request for the next event: the one that must not be late."""
        self._failures = 0
        self.overdue_at = FOREVER
        """Monotonic seconds at which to give up an answer that has begun; infinite where none has."""
        self.descriptor = -1
        """The socket's, readable when an answer has come; -1 when not connected."""
        self.waiting = False
        """True while a `next` is on its way: at most one may be."""
        self.arrived_ns: int | None = None
        """When the last answer began to arrive: epoch ns, by the kernel; None where it does not say."""

    def register(self, name: str, events: str) -> None:
        """Register. `name` is the full base name of the extension's file, `events` a JSON array of event types. Raises
        ApiError."""
        self._send("POST", EXTENSION_PATH + "register", f'{{"events":{events}}}', f"Lambda-Extension-Name: {name}\r\n")
        answer = self._expect(200, "register")
        identifier = answer.headers.get(b"lambda-extension-identifier")
        if not identifier:
            raise ApiError("register: no Lambda-Extension-Identifier in the answer", answer.status, answer.body)
        self._extension = f"Lambda-Extension-Identifier: {identifier.decode('latin-1')}\r\n"
        self._next = self._request("GET", EXTENSION_PATH + "event/next", "", self._extension)

    def send_subscription(
        self, port: int, path: str, schema: str = TELEMETRY_SCHEMA, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """Ask for `platform` telemetry at our listener on `port`, at `path`, `timeout_ms` after the first event of a
        batch at the latest. Does not wait: there is work to do meanwhile. Raises ApiError."""
        destination = f'{{"protocol":"HTTP","URI":"http://sandbox.localdomain:{port}{path}"}}'
        wanted = f'"schemaVersion":"{schema}","types":["platform"],"buffering":{BUFFERING % timeout_ms}'
        self._send("PUT", TELEMETRY_PATH, f'{{{wanted},"destination":{destination}}}', self._extension)

    def finish_subscription(self) -> None:
        """Take the answer to `send_subscription`. Raises ApiError, also for 202 (unsupported)."""
        self._expect(200, "telemetry", at_once=True)

    def send_next(self) -> None:
        """Ask for the next event, without waiting: `descriptor` becomes readable when it comes, hours later perhaps.

        Raises ApiError; `pause_s` says how long to wait before the next try.
        """
        try:
            self._write("event/next", self._next)
        except ApiError:
            self._failures += 1
            raise
        self.overdue_at = FOREVER
        self.waiting = True

    @property
    def pause_s(self) -> float:
        """Seconds to wait before asking again: none at first, ever more while it fails."""
        return min(LONGEST_PAUSE, 0.005 * 2 ** min(self._failures, 10)) if self._failures > 1 else 0.0

    def receive_event(self, note: Callable[[bytes], None] | None = None) -> bytes:
        """The body of the event that `send_next` asked for, or nothing while it is not whole. Does not wait. Raises
        ApiError, also REST_S after an answer has begun that does not end.

        `note` gets it before it is taken out of the socket: who is killed has left it in one place or the other.
        """
        try:
            message = self._receive_now(note)
            if message is None:
                return b""
            body = self._event_in(message)
        except (OSError, http1.Malformed, http1.Broken, ApiError) as error:
            self.waiting, self.overdue_at = False, FOREVER
            self._failures += 1
            self.close()
            if isinstance(error, ApiError):
                raise
            raise ApiError(f"event/next: {reason(error)}") from None
        self.waiting, self.overdue_at = False, FOREVER
        self._failures = 0
        return body

    def _event_in(self, message: http1.Message) -> bytes:
        body = self._checked(message, 200, "event/next").body
        if is_invoke(body):
            return body.replace(b'"SHUTDOWN"', b'""')  # a caller may name his trace so
        if b'"SHUTDOWN"' not in body:
            raise ApiError(f"event/next: no event that we asked for, {len(body)} bytes", 200, body)
        return body

    def _receive_now(self, note: Callable[[bytes], None] | None = None) -> http1.Message | None:
        """Raises OSError, Malformed."""
        connection = self._socket
        if connection is None:
            raise http1.Broken("not connected")
        if self.overdue_at == FOREVER:
            self.arrived_ns = None
        try:
            piece, control, _, _ = connection.recvmsg(RECEIVE_BYTES, 64, _PEEK)
        except BlockingIOError:
            if time.monotonic() >= self.overdue_at:
                raise http1.Broken("the answer does not come") from None
            return None
        if self.arrived_ns is None:
            self.arrived_ns = _timestamp(control)
        self._reader.feed(piece)
        message = self._reader.take(not piece)
        if message is not None and note is not None:
            note(message.body)
        connection.recv(len(piece))
        if message is None:
            if self._reader.begun:  # not by an interim answer
                self.overdue_at = min(self.overdue_at, time.monotonic() + self._rest_s)
            if time.monotonic() >= self.overdue_at:  # byte by byte
                raise http1.Broken("the answer does not come")
        elif not piece:
            self.close()
        return message

    def close(self) -> None:
        """Give up the connection; the next request makes a new one."""
        close(self._socket)
        self._socket, self.descriptor = None, -1
        self._reader = http1.MessageReader(ANSWER_LIMIT)

    def _connect(self) -> _socket.socket:
        connection = new_socket(self._host)
        try:
            connection.connect((self._host, self._port))
        except OSError:
            connection.close()
            raise
        set_options(connection, (_socket.SOL_SOCKET, SO_TIMESTAMPNS))
        return connection

    def _request(self, method: str, path: str, body: str, headers: str) -> bytes:
        content = f"Content-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n" if body else ""
        return f"{method} {path} HTTP/1.1\r\nHost: {self._address}\r\n{headers}{content}\r\n{body}".encode()

    def _send(self, method: str, path: str, body: str, headers: str) -> None:
        self._write(path, self._request(method, path, body, headers))

    def _write(self, what: str, request: bytes) -> None:
        if self._reader.held:  # more than was asked for: what comes next would be taken for another request's answer
            self.close()
        try:
            if self._socket is None:
                self._socket = self._connect()
                self.descriptor = self._socket.fileno()
            self._socket.sendall(request)
        except OSError as error:
            self.close()
            raise ApiError(f"{what}: {reason(error)}") from None

    def _expect(self, status: int, what: str, at_once: bool = False) -> http1.Message:
        """Wait for an answer. Raises ApiError."""
        self.overdue_at = time.monotonic() + self._rest_s if at_once else FOREVER
        try:
            while (answer := self._receive_now()) is None:
                readable = select.poll()
                readable.register(self.descriptor, select.POLLIN)
                readable.poll(
                    max(1.0, (self.overdue_at - time.monotonic()) * 1000) if self.overdue_at < FOREVER else None
                )
        except (OSError, http1.Malformed, http1.Broken) as error:
            self.close()
            raise ApiError(f"{what}: {reason(error)}") from None
        finally:
            self.overdue_at = FOREVER
        return self._checked(answer, status, what)

    def _checked(self, answer: http1.Message, status: int, what: str) -> http1.Message:
        if answer.is_last:
            self.close()
        if answer.status != status:
            raise ApiError(f"{what}: status {answer.status}{_error_type(answer.body)}", answer.status, answer.body)
        return answer


def is_invoke(body: bytes) -> bool:
    return body.find(b'"INVOKE"') >= 0  # `in` takes twice as long for bytes


def _error_type(body: bytes) -> str:
    """The name of a refusal, for the log, such as `, Extension.InvalidEventType`; empty if it has none."""
    name = body.partition(b'"errorType"')[2].partition(b'"')[2].partition(b'"')[0]
    is_name = name.replace(b".", b"").isalpha() and len(name) <= NAME_LIMIT
    return f", {name.decode()}" if is_name else ""


def _timestamp(control: list[tuple[int, int, bytes]]) -> int | None:
    """Epoch ns in the control messages of a recvmsg: a timespec of two 64-bit numbers."""
    for level, kind, data in control:
        if level == _SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= 16:
            return _number(data, 0) * 1_000_000_000 + _number(data, 8)
    return None


def _number(data: bytes, start: int) -> int:
    """The 64-bit number that begins there, its least byte first. (`int.from_bytes` takes ten times as long.)"""
    number = 0
    for at in range(start + 7, start - 1, -1):
        number = number << 8 | data[at]
    return number
