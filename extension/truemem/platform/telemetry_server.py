"""Where telemetry is delivered: a small HTTP server inside the sidecar's own event loop.

The function's code can reach it too, so everything is bounded: connections, bytes, and what they can cost. What
the platform delivers is told from the rest by a path that only the platform was told (docs/security.md).
"""

from __future__ import annotations

import _socket
import posix
import time

from . import http1

CONNECTIONS = 8
"""The platform uses one. Beyond these one is closed."""

BODY_LIMIT = 2 * 262_144 + 65_536
"""Bytes of one delivery. The platform sends at most twice the `maxBytes` that we ask for, and metadata; all the
connections that have not shown to be the platform's may keep so much together."""

PIECE = 16384
"""Received at once, in bytes: a usual delivery. The C library maps and unmaps each large buffer."""

PIPELINED = 16
"""Requests that may come at once on one connection. The platform waits for each answer."""

BACKLOG = 128
"""Connections that wait to be accepted."""

DEAF_SECONDS = 1.0
"""No connection is accepted for so long when the system has no descriptor or no memory left."""

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Connection:
    def __init__(self, socket: _socket.socket) -> None:
        self.socket = socket
        self.reader = http1.Reader(BODY_LIMIT, requests=True)
        self.delivered = False
        """Something whole has come."""
        self.proven = False
        """It came to our path: this is the platform."""


class TelemetryServer:
    """Listens on a free port of every interface: `sandbox.localdomain` is not loopback in every environment."""

    def __init__(self) -> None:
        """Raises OSError when no port is to be had."""
        self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self._socket.bind(("0.0.0.0", 0))
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        """The port to subscribe with."""
        self._connections: dict[int, _Connection] = {}
        self._deaf_until = 0.0
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
        if self._deaf_until and time.monotonic() < self._deaf_until:
            return [*self._connections]
        return [self._socket.fileno(), *self._connections]

    def ready(self, descriptor: int) -> list[bytes]:
        """Do what one readable descriptor asks for: the bodies that are now whole. Never blocks, never raises."""
        if descriptor == self._socket.fileno():
            self._accept()
            return []
        connection = self._connections.get(descriptor)
        return self._receive(descriptor, connection) if connection is not None else []

    def _accept(self) -> None:
        try:
            descriptor, _ = self._socket._accept()  # type: ignore[attr-defined]  # the C half of accept()
            peer = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, descriptor)
            peer.setblocking(False)
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # it stays readable: waiting for it would be a busy loop
            self._deaf_until = time.monotonic() + DEAF_SECONDS
            return
        self._deaf_until = 0.0
        if len(self._connections) >= CONNECTIONS:
            worth = {number: (made.proven, made.delivered) for number, made in self._connections.items()}
            self._leave(min(worth, key=worth.__getitem__))  # of equals the oldest
        self._connections[peer.fileno()] = _Connection(peer)

    def _receive(self, descriptor: int, connection: _Connection) -> list[bytes]:
        bodies: list[bytes] = []
        reader = connection.reader
        try:
            piece = connection.socket.recv(PIECE)
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
                if len(bodies) == PIPELINED:
                    self._refuse(descriptor, connection)
                    return bodies
            if reader.start_line:
                self._admit(connection, reader.start_line)
            self._bound()
        except (OSError, http1.Malformed):  # OSError: gone, or it does not read its answers
            self._refuse(descriptor, connection)
        return bodies

    def _admit(self, connection: _Connection, start_line: bytes) -> None:
        """Is this the platform? Raises Malformed if it is known not to be."""
        if self._path in start_line:
            connection.proven = self._strict = True
        elif self._strict:
            raise http1.Malformed("not to our path")

    def _bound(self) -> None:
        """What strangers have sent and not finished is bounded as a whole: the connection with most of it is closed."""
        strangers = {number: made for number, made in self._connections.items() if not made.proven}
        if sum(made.reader.held for made in strangers.values()) > BODY_LIMIT + PIECE:
            number = max(strangers, key=lambda number: strangers[number].reader.held)
            self._refuse(number, strangers[number])

    def _refuse(self, descriptor: int, connection: _Connection) -> None:
        self.refused += 1
        try:
            connection.socket.send(_REFUSED)
        except OSError:
            pass
        self._close(descriptor)

    def _leave(self, descriptor: int) -> None:
        """Close it; a delivery that has begun is lost."""
        self.refused += self._connections[descriptor].reader.begun
        self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        try:
            self._connections.pop(descriptor).socket.close()
        except OSError:  # it is closed, whatever it says (close(2))
            pass
