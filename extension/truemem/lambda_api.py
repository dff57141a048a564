"""The Extensions and Telemetry APIs, from the caller's side: register, subscribe, next.

Sources: "Using the Lambda Extensions API" and "Telemetry API" of the AWS Lambda developer guide. One
kept connection: the kernel's socket without Python's `socket` module, whose import costs 7 ms of cold
start (it brings `selectors`, `enum` and `re`).
"""

from __future__ import annotations

import _socket
import sys

from . import http1

EXTENSION_PATH = "/2020-01-01/extension/"
TELEMETRY_PATH = "/2022-07-01/telemetry"
TELEMETRY_SCHEMA = "2022-12-13"

# All three are set: AWS's pages contradict each other about the defaults. 25 ms is the least allowed.
BUFFERING = '{"maxItems":1000,"maxBytes":262144,"timeoutMs":25}'

PIECE = 4096
"""Received at once, in bytes. The C library maps and unmaps each large buffer: 20 µs before `next` is asked for."""

ANSWER_LIMIT = 1 << 20
"""Longest body accepted from the APIs, in bytes. Events are below 2 KiB: they carry no payload."""


SO_TIMESTAMPNS = 35
"""Ask the kernel when data arrived (socket(7), SO_TIMESTAMP; for TCP since Linux 4.16, x86_64 and arm64)."""


class ApiError(Exception):
    """The API could not be reached, or answered something that is not what was asked for."""

    def __init__(self, what: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(what)
        self.status = status
        """HTTP status, or 0 when there was no answer."""
        self.body = body


class LambdaApi:
    """One extension's connection to `AWS_LAMBDA_RUNTIME_API` ("host:port", no scheme)."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._host = host.strip("[]")
        self._port = int(port)
        self._address = address
        self._socket: _socket.socket | None = None
        self._received = bytearray()
        self._extension = ""
        self.waiting = False
        """True while a `next` is on its way: at most one may be."""
        self.arrived_ns: int | None = None
        """When the last answer began to arrive: epoch ns, by the kernel; None where it does not say."""

    def fileno(self) -> int:
        """The socket's descriptor, readable when an answer has come; -1 when not connected."""
        return self._socket.fileno() if self._socket is not None else -1

    def send_register(self, name: str, events: str) -> None:
        """Send the register request and return: what may come later can be imported meanwhile.

        `name` is the full base name of the extension's file, `events` a JSON array of event types.
        """
        self._send("POST", EXTENSION_PATH + "register", f'{{"events":{events}}}', f"Lambda-Extension-Name: {name}\r\n")

    def finish_register(self) -> None:
        """Take the answer to `send_register`. Raises ApiError."""
        answer = self._expect(200, "register")
        identifier = answer.headers.get(b"lambda-extension-identifier")
        if not identifier:
            raise ApiError("register: no Lambda-Extension-Identifier in the answer", answer.status, answer.body)
        self._extension = f"Lambda-Extension-Identifier: {identifier.decode('latin-1')}\r\n"

    def subscribe(self, port: int) -> None:
        """Ask for `platform` telemetry at our listener on `port`. Raises ApiError, also for 202 (unsupported)."""
        destination = f'{{"protocol":"HTTP","URI":"http://sandbox.localdomain:{port}"}}'
        body = (
            f'{{"schemaVersion":"{TELEMETRY_SCHEMA}","types":["platform"],'
            f'"buffering":{BUFFERING},"destination":{destination}}}'
        )
        self._send("PUT", TELEMETRY_PATH, body, self._extension)
        self._expect(200, "telemetry")

    def send_next(self) -> None:
        """Ask for the next event, without waiting: `fileno` becomes readable when it comes, hours later perhaps."""
        self._send("GET", EXTENSION_PATH + "event/next", "", self._extension)
        self.waiting = True

    def receive_event(self) -> bytes:
        """The body of the event that `send_next` asked for; blocks until it is whole. Raises ApiError."""
        try:
            return self._expect(200, "event/next").body
        finally:
            self.waiting = False

    def close(self) -> None:
        """Give up the connection; the next request makes a new one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._received.clear()

    def _connect(self) -> _socket.socket:
        family = _socket.AF_INET6 if ":" in self._host else _socket.AF_INET
        connection = _socket.socket(family, _socket.SOCK_STREAM)
        try:
            connection.connect((self._host, self._port))
        except OSError:
            connection.close()
            raise
        for level, option in (_socket.IPPROTO_TCP, _socket.TCP_NODELAY), (_socket.SOL_SOCKET, SO_TIMESTAMPNS):
            try:
                connection.setsockopt(level, option, 1)
            except OSError:  # a sandbox without it (qemu-user, gVisor): slower, or less well known, and no more
                continue
        return connection

    def _send(self, method: str, path: str, body: str, headers: str) -> None:
        content = f"Content-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n" if body else ""
        request = f"{method} {path} HTTP/1.1\r\nHost: {self._address}\r\n{headers}{content}\r\n{body}".encode()
        try:
            if self._socket is None:
                self._socket = self._connect()
            self._socket.sendall(request)
        except OSError as error:
            self.close()
            raise ApiError(f"{method} {path}: {error}") from None

    def _expect(self, status: int, what: str) -> http1.Message:
        answer = self._receive(what)
        if answer.headers.get(b"connection", b"").lower() == b"close":
            self.close()
        if answer.status != status:
            raise ApiError(f"{what}: status {answer.status}, {answer.body[:200]!r}", answer.status, answer.body)
        return answer

    def _receive(self, what: str) -> http1.Message:
        connection = self._socket
        if connection is None:
            raise ApiError(f"{what}: not connected")
        at_end = False
        self.arrived_ns = None
        try:
            while True:
                if self._received or at_end:
                    parsed = http1.parse(self._received, ANSWER_LIMIT, at_end)
                    if parsed is not None:
                        message, taken = parsed
                        del self._received[:taken]
                        message.status  # noqa: B018 - raises Malformed for what is not a response
                        return message
                piece, control, _, _ = connection.recvmsg(PIECE, 64)
                if self.arrived_ns is None:
                    self.arrived_ns = _timestamp(control)
                at_end = not piece
                self._received += piece
        except (OSError, http1.Malformed) as error:
            self.close()
            raise ApiError(f"{what}: {error}") from None


def _timestamp(control: list[tuple[int, int, bytes]]) -> int | None:
    """Epoch ns in the control messages of a recvmsg: a timespec of two 64-bit numbers."""
    for level, kind, data in control:
        if level == _socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) >= 16:
            seconds, ns = int.from_bytes(data[:8], sys.byteorder), int.from_bytes(data[8:16], sys.byteorder)
            return seconds * 1_000_000_000 + ns
    return None
