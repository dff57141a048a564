"""TCP sockets: one that listens, and the few calls that every connection needs.

The kernel's socket without Python's `socket` module, whose import costs 7 ms and brings `selectors`, `enum` and `re`.
"""

from __future__ import annotations

import _socket
import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Made = TypeVar("Made")

BACKLOG = 128
"""Connections that wait to be accepted. A runtime has one for each of its threads, at most."""


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`. Names are not looked up, as that may take long. Raises ValueError."""
    host, _, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        _socket.inet_pton(_socket.AF_INET6 if ":" in host else _socket.AF_INET, host)
    except OSError:
        raise ValueError("no address") from None
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("no port")
    return host, int(port)


def new_socket(host: str) -> _socket.socket:
    """A socket that can be connected to `host`, an address. Raises OSError."""
    return _socket.socket(_socket.AF_INET6 if ":" in host else _socket.AF_INET, _socket.SOCK_STREAM)


def set_options(socket: _socket.socket, *more: tuple[int, int]) -> None:
    """TCP_NODELAY, and others by level and number. A sandbox without them (qemu-user, gVisor) is slower, no more."""
    for level, option in ((_socket.IPPROTO_TCP, _socket.TCP_NODELAY), *more):
        try:
            socket.setsockopt(level, option, 1)
        except OSError:
            continue


def send_at_once(socket: _socket.socket) -> None:
    """Let no timer hold back what is sent (Reno, which every kernel has): where BBR is the system's choice, it paces
    even what goes over loopback. Of use before the connection only, since BBR's pacing outlives its being replaced. Of
    a listener, the connections that it accepts have it too."""
    try:
        socket.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_CONGESTION, b"reno")
    except OSError:
        pass


def close(socket: _socket.socket | None) -> None:
    """Close it. It is closed then, whatever the kernel says (close(2))."""
    try:
        if socket is not None:
            socket.close()
    except OSError:
        pass


class Listener:
    """Listens on a port, 0 for a free one. Where the system has no descriptor or no memory left, nothing is accepted
    for a while: the socket stays readable, and waiting for it would be a busy loop."""

    def __init__(self, host: str, pause_s: float, spares: int = 0, port: int = 0) -> None:
        """`spares`: descriptors to keep for connections, should there be no other any more. Raises OSError, and
        OverflowError where `port` is none."""
        self.socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        # After a reset, connections of the process that was killed may still have our port (tcp(7): TIME_WAIT).
        self.socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        self.socket.bind((host, port))
        self.socket.listen(BACKLOG)
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]
        self.paused_until = 0.0
        """Monotonic seconds from which on it accepts again; 0 where it does not pause."""
        self._pause_s = pause_s
        self._most_spares = spares
        self._spares: list[int] = []

    def accept(self) -> _socket.socket | None:
        """The next connection; None where it is gone. Raises OSError, and pauses, where it cannot be accepted."""
        self.paused_until = 0.0
        try:
            descriptor, _ = self.with_spares(self.socket._accept)  # type: ignore[attr-defined]  # accept()'s half in C
            connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, descriptor)
            connection.setblocking(False)
        except (BlockingIOError, ConnectionAbortedError):
            return None
        except OSError:
            self.paused_until = time.monotonic() + self._pause_s
            raise
        return connection

    def with_spares(self, make: Callable[[], Made]) -> Made:
        """Make a socket, if need be of the spare descriptors. Raises OSError."""
        try:
            return make()
        except (BlockingIOError, ConnectionAbortedError):
            raise
        except OSError:
            if not self._spares:
                raise
            self.use_spares()
            return make()

    def keep_spares(self) -> None:
        """Take new spare descriptors, at once where one is closed: any other part may take it."""
        try:
            while len(self._spares) < self._most_spares:
                self._spares.append(posix.dup(self.socket.fileno()))
        except OSError:
            pass

    def use_spares(self) -> None:
        """Close the spare descriptors, so that as many can be opened."""
        for descriptor in self._spares:
            posix.close(descriptor)
        self._spares.clear()
