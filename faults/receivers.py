"""Receivers of records that misbehave: a collector of OpenTelemetry, and an agent of Datadog.

Real sockets, and a thread for each, so that the sidecar meets what it would meet in an environment.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

OK = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{"partialSuccess":{}}'
PARTIAL = json.dumps({"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too old"}}).encode()


def status(code: int, headers: str = "", body: bytes = b"{}") -> bytes:
    """An answer with this status."""
    return f"HTTP/1.1 {code} X\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


SETTLES_S = 0.5
"""Longest wait for an answer that is on its way: some have no end."""

Connection = socket.socket
Behaviour = Callable[["Collector", Connection, bytes], bool]
"""Answers one request, or does not. True if it has taken the metrics, and said so."""


def takes(_: Collector, connection: Connection, __: bytes) -> bool:
    connection.sendall(OK)
    return True


def takes_and_closes(_: Collector, connection: Connection, __: bytes) -> bool:
    connection.sendall(OK)
    connection.close()
    return True


def answers(answer: bytes, *, taken: bool = False) -> Behaviour:
    """With these bytes."""

    def answering(_: Collector, connection: Connection, __: bytes) -> bool:
        connection.sendall(answer)
        return taken

    return answering


def slowly(pause_s: float) -> Behaviour:
    """A byte at a time."""

    def answering(collector: Collector, connection: Connection, _: bytes) -> bool:
        for at in range(len(OK)):
            connection.sendall(OK[at : at + 1])
            if collector.ended.wait(pause_s):
                return False
        return True

    return answering


def never(collector: Collector, _: Connection, __: bytes) -> bool:
    collector.ended.wait(60)
    return False


def floods(collector: Collector, connection: Connection, _: bytes) -> bool:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not collector.ended.is_set():
        connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
    return False


def dies(_: Collector, connection: Connection, __: bytes) -> bool:
    connection.sendall(OK[:40])
    connection.close()
    return False


def once(first: Behaviour) -> Behaviour:
    """The first request is answered in another way than those after it, which are taken."""

    def answering(collector: Collector, connection: Connection, body: bytes) -> bool:
        return (first if len(collector.bodies) == 1 else takes)(collector, connection, body)

    return answering


class Collector:
    """A collector that listens on a port of loopback, as soon as it is started."""

    def __init__(self, behaviour: Behaviour = takes, *, reads: bool = True) -> None:
        """`reads`: does it read requests?"""
        self._behaviour = behaviour
        self._reads = reads
        self._server = socket.socket()
        self._server.bind(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        """Of all requests, taken or not."""
        self._taken: list[dict[str, Any]] = []
        self._answering: set[socket.socket] = set()
        self.connections = 0

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join(5)

    def start(self) -> Collector:
        """Listen."""
        self._server.listen(16)
        self._run(self._accept)
        return self

    @property
    def variables(self) -> dict[str, str]:
        """Of a function that sends to it, once a second."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        }

    @property
    def taken(self) -> list[dict[str, Any]]:
        """The requests that were taken. An answer that is on its way is waited for: its reader may be here first."""
        until = time.monotonic() + SETTLES_S
        while self._answering and time.monotonic() < until:
            time.sleep(0.001)
        return self._taken

    @property
    def invocations(self) -> int:
        """In all that it has taken."""
        return sum(invocations(request) for request in self.taken)

    def _run(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.ended.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if not self._reads:
                self.ended.wait(60)
            received = b""
            while not self.ended.is_set():
                connection.settimeout(0.2)
                try:
                    piece = connection.recv(65536)
                except TimeoutError:
                    continue
                if not piece:
                    return
                received += piece
                head, whole, body = received.partition(b"\r\n\r\n")
                if whole and len(body) >= _length(head):
                    received = b""
                    self.heads.append(head)
                    self.bodies.append(body)
                    connection.settimeout(5)
                    self._answering.add(connection)
                    try:
                        if self._behaviour(self, connection, body):
                            self._taken.append(json.loads(body))
                    finally:
                        self._answering.discard(connection)


def _length(head: bytes) -> int:
    return next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))


def points(request: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The data points of a metric in a request."""
    return [
        point
        for resource in request["resourceMetrics"]
        for scope in resource["scopeMetrics"]
        for metric in scope["metrics"]
        if metric["name"] == name
        for kind in ("histogram", "sum", "gauge")
        for point in metric.get(kind, {}).get("dataPoints", ())
    ]


def invocations(request: dict[str, Any]) -> int:
    """Whose peaks are in the request."""
    return sum(int(point["count"]) for point in points(request, "faas.mem_usage"))


class Agent:
    """An agent that takes datagrams, on UDP or on a Unix socket."""

    def __init__(self, path: str = "") -> None:
        self._socket = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(path or ("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self.url = f"unix://{path}" if path else f"udp://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @property
    def variables(self) -> dict[str, str]:
        """Of a function that sends to it."""
        return {"DD_DOGSTATSD_URL": self.url}

    def waiting(self) -> list[bytes]:
        """Those that are there now."""
        found: list[bytes] = []
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self._socket.recv(65536))
        self._socket.settimeout(0.2)
        return found

    def received(self, quiet_s: float = 0.2) -> list[bytes]:
        """All datagrams that are there."""
        found: list[bytes] = []
        until = time.monotonic() + quiet_s
        while time.monotonic() < until:
            with contextlib.suppress(TimeoutError):
                found.append(self._socket.recv(65536))
                until = time.monotonic() + quiet_s
        return found
