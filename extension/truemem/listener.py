"""Where telemetry is delivered: a small HTTP server inside the sidecar's own event loop.

The function's code can reach it too, so everything is bounded: connections, bytes, and what they can cost.
"""

from __future__ import annotations

import _socket

from . import http1

CONNECTIONS = 8
"""The platform uses one. Beyond these the oldest is closed."""

BODY_LIMIT = 1 << 20
"""Bytes of one delivery. With `maxBytes` 262,144 the platform sends at most twice that, and metadata."""

PIECE = 16384
"""Received at once, in bytes: a usual delivery. The C library maps and unmaps each large buffer."""

_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Connection:
    __slots__ = ("received", "socket")

    def __init__(self, socket: _socket.socket) -> None:
        self.socket = socket
        self.received = bytearray()


class Listener:
    """Listens on a free port of every interface: `sandbox.localdomain` is not loopback in every environment."""

    def __init__(self) -> None:
        """Raises OSError when no port is to be had."""
        self._socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self._socket.bind(("0.0.0.0", 0))
        self._socket.listen(16)
        self._socket.setblocking(False)
        self._connections: dict[int, _Connection] = {}
        self.refused = 0
        """Deliveries that were not HTTP, too large, or cut off: dropped, and counted."""

    @property
    def port(self) -> int:
        """The port to subscribe with."""
        port: int = self._socket.getsockname()[1]
        return port

    def descriptors(self) -> list[int]:
        """What to wait for: readable means `ready` has something to do."""
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
        except OSError:
            return
        peer = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, descriptor)
        peer.setblocking(False)
        if len(self._connections) >= CONNECTIONS:
            self._close(next(iter(self._connections)))
        self._connections[peer.fileno()] = _Connection(peer)

    def _receive(self, descriptor: int, connection: _Connection) -> list[bytes]:
        bodies = []
        try:
            piece = connection.socket.recv(PIECE)
            if not piece:
                self.refused += bool(connection.received)
                self._close(descriptor)
                return []
            connection.received += piece
            while parsed := http1.parse(connection.received, BODY_LIMIT):
                message, taken = parsed
                del connection.received[:taken]
                # Answered before it is read: the platform must not wait for us.
                connection.socket.send(_OK)
                bodies.append(message.body)
        except BlockingIOError:
            pass
        except http1.Malformed:
            self.refused += 1
            self._refuse(connection)
            self._close(descriptor)
        except OSError:
            self._close(descriptor)
        return bodies

    def _refuse(self, connection: _Connection) -> None:
        try:
            connection.socket.send(_REFUSED)
        except OSError:
            pass

    def _close(self, descriptor: int) -> None:
        connection = self._connections.pop(descriptor, None)
        if connection is not None:
            connection.socket.close()
