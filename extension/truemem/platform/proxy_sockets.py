"""Where the runtime finds the proxy: two sockets that must be there before `register`, after which it is started.

The wrapper /opt/truemem/exact looks for the datagram socket's name, which has the port in it, and sends the address
that the runtime would have talked to (layer/exact.c).
"""

from __future__ import annotations

import _socket
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Made = TypeVar("Made")

SPARE = 8
"""Descriptors kept for the runtime's connections, should there be no other any more."""
BACKLOG = 128
"""Connections that wait to be accepted: a runtime has one for each of its threads, at most."""

NAME = "\0truemem/exact/"
"""Of the datagram socket: an abstract name (unix(7)), which is gone when this process is. Then the address of the
Runtime API and our port."""

_SO_PASSCRED = 16
"""The kernel tells who sends (unix(7))."""


class Door:
    """The listening socket, and the datagram socket beside it."""

    def __init__(self, api_address: str) -> None:
        """Raises OSError or ValueError where either is not to be had: then there is no exact mode."""
        parsed(api_address)
        self.listening = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen(BACKLOG)
        self.listening.setblocking(False)
        self.port: int = self.listening.getsockname()[1]
        self.letters = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        self.letters.setsockopt(_socket.SOL_SOCKET, _SO_PASSCRED, 1)
        self.letters.bind(f"{NAME}{api_address}/{self.port}".encode("latin-1"))
        self.letters.setblocking(False)
        self._spare: list[int] = []

    def accept(self) -> _socket.socket:
        """The runtime's next connection. Raises OSError."""
        descriptor, _ = self.listening._accept()  # type: ignore[attr-defined]  # the C half of accept()
        return _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, descriptor)

    def with_spare(self, make: Callable[[], Made]) -> Made:
        """Make a socket, if need be of the spare descriptors. Raises OSError."""
        try:
            return make()
        except (BlockingIOError, ConnectionAbortedError):
            raise
        except OSError:
            if not self._spare:
                raise
            self.use_spare()
            return make()

    def keep_spare(self) -> None:
        """Take new spare descriptors, at once where one is closed: any other part may take it."""
        try:
            while len(self._spare) < SPARE:
                self._spare.append(posix.dup(self.listening.fileno()))
        except OSError:
            pass

    def use_spare(self) -> None:
        """Close the spare descriptors, so that as many can be opened."""
        for descriptor in self._spare:
            posix.close(descriptor)
        self._spare.clear()


def open_door(api_address: str) -> Door | None:
    """None where it cannot be had."""
    try:
        return Door(api_address)
    except (OSError, ValueError):
        return None


def parsed(address: str) -> tuple[str, int]:
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
