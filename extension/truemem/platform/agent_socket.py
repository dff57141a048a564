"""The socket to an agent that takes datagrams, on UDP or on a Unix socket. Nothing here waits, and nothing raises."""

from __future__ import annotations

import _socket

from ..support.log import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .output_settings import DogStatsdSettings


class AgentSocket:
    """Connected: if nobody listens, the kernel says so when the next datagram is sent (udp(7))."""

    def __init__(self, settings: DogStatsdSettings) -> None:
        self._settings = settings
        self._socket: _socket.socket | None = None
        self.sent = 0
        self.lost = 0
        """Datagrams, as far as the kernel says."""
        self.why = ""
        """The last was lost because of that."""

    def send(self, datagram: bytes) -> None:
        """Send it, or count it."""
        try:
            self._send(datagram)
            return
        except ConnectionRefusedError as error:
            if self._settings.path:
                self._close()  # the agent was started anew, perhaps
            else:
                self._fail(error)  # the one before was lost; this one has not left
        except OSError as error:
            self._fail(error)
            self._close()
            return
        try:
            self._send(datagram)
        except OSError as error:
            self._fail(error)
            self._close()

    def look(self) -> None:
        """Was the last one lost?"""
        if self._socket is not None:
            try:
                number = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
                if number:
                    self._fail(OSError(number, "nobody listens there"))
            except OSError:
                pass

    def _send(self, datagram: bytes) -> None:
        """Raises OSError."""
        self._connected().send(datagram, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        self.sent += 1

    def _connected(self) -> _socket.socket:
        """Raises OSError."""
        if self._socket is None:
            settings = self._settings
            address: str | tuple[str, int] = settings.path or (settings.host, settings.port)
            internet = _socket.AF_INET6 if ":" in settings.host else _socket.AF_INET
            made = _socket.socket(_socket.AF_UNIX if settings.path else internet, _socket.SOCK_DGRAM)
            self._socket = made
            made.setblocking(False)
            made.connect(address)
        return self._socket

    def _fail(self, error: OSError) -> None:
        self.lost += 1
        self.why = reason(error)

    def _close(self) -> None:
        made, self._socket = self._socket, None
        if made is not None:
            try:
                made.close()
            except OSError:
                pass
