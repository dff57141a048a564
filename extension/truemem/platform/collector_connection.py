"""One kept connection to a collector, which may be late, slow, rude or gone: nothing here waits, and nothing raises.

A request has one of four ends: an answer; not connected (nothing of it has left); broken off (the collector may have
taken it); no answer in time. Times are ms in which the environment ran: a collector in it was frozen with us.
"""

from __future__ import annotations

import _socket
import select

from ..support.log import reason
from ..support.named_tuple import NamedTuple
from . import http1

ANSWER_LIMIT = 64 * 1024
"""Longest body of an answer, in bytes. That of a collector has some hundred at most."""
PIECE = 4096
"""Received at once, in bytes. The C library maps and unmaps each large buffer."""
PIECES = 4
"""Received in one step at most: others wait."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1, 250
"""Between two looks at an answer that comes in pieces: a collector that sends byte by byte costs some looks, not one
for each byte."""

_IN_PROGRESS = (115, 4)
"""EINPROGRESS, EINTR (connect(2))."""


class Outcome(NamedTuple):
    """How a request has ended."""

    status: int
    """Of the answer; 0 where there was none."""
    body: bytes
    retry_after: bytes
    """Header of the answer, as it came; or nothing."""
    left: bool
    """Has a part of it left? Then the collector may have taken it."""
    why: str
    """Without an answer: what went wrong."""


class CollectorConnection:
    """At most one request at a time."""

    def __init__(self, host: str, port: int, timeout_ms: int) -> None:
        self._address = host, port
        self._family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
        self._timeout_ms = timeout_ms
        self._socket: _socket.socket | None = None
        self._reader = http1.Reader(ANSWER_LIMIT)
        self._request = b""
        self._sent = 0
        self._connected = False
        self._kept = False
        """An earlier request was answered on this connection: the collector may close it at any time."""
        self._began_ms = 0.0
        self._look_at_ms = 0.0
        self._pause_ms = FIRST_PAUSE_MS
        self.outcome: Outcome | None = None
        """Of the last request, once it has ended."""

    @property
    def busy(self) -> bool:
        """Is a request on its way?"""
        return bool(self._request)

    def begin(self, request: bytes, now_ms: float) -> None:
        """Send it: as much as the kernel takes now."""
        self._request, self._sent, self.outcome = request, 0, None
        self._began_ms = now_ms
        self._look_at_ms, self._pause_ms = now_ms, FIRST_PAUSE_MS
        if self._kept and not self._is_quiet():
            self._close()
        self.step(now_ms)

    def rest(self) -> None:
        """The next request makes a new connection."""
        if not self.busy:
            self._close()

    def interest(self, now_ms: float) -> tuple[int, int] | None:
        """The descriptor and the events to wait for; None where only time helps."""
        if self._socket is None or not self.busy or now_ms < self._look_at_ms:
            return None
        return self._socket.fileno(), select.POLLIN if self._sent == len(self._request) else select.POLLOUT

    def due_ms(self) -> float:
        """When `step` has something to do, whatever comes; infinite while nothing is on its way."""
        if not self.busy:
            return float("inf")
        end_ms = self._began_ms + self._timeout_ms
        return min(end_ms, self._look_at_ms) if self._look_at_ms > self._began_ms else end_ms

    def step(self, now_ms: float) -> None:
        """Go on, as far as that goes without waiting."""
        if not self.busy:
            return
        try:
            if self._advance(now_ms):
                return
        except (OSError, http1.Malformed) as error:
            if self._kept and not self._sent:  # closed just now, as servers do with an idle one
                self._close()
                self.step(now_ms)
                return
            self._end(Outcome(0, b"", b"", self._sent > 0, reason(error)))
            return
        if now_ms >= self._began_ms + self._timeout_ms:
            self._end(Outcome(0, b"", b"", self._sent > 0, f"no answer in {self._timeout_ms} ms"))

    def give_up(self, why: str) -> None:
        """There is no time for the answer any more."""
        if self.busy:
            self._end(Outcome(0, b"", b"", self._sent > 0, why))

    def _advance(self, now_ms: float) -> bool:
        """True if the request has ended. Raises OSError, Malformed."""
        if self._socket is None:
            self._connect()
        if not self._connected and not self._has_connected():
            return False
        if self._sent < len(self._request) and not self._send():
            return False
        return now_ms >= self._look_at_ms and self._receive(now_ms)

    def _connect(self) -> None:
        self._reader = http1.Reader(ANSWER_LIMIT)
        made = self._socket = _socket.socket(self._family, _socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            made.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        except OSError:  # a sandbox without it: slower, and no more
            pass
        number = made.connect_ex(self._address)
        if number and number not in _IN_PROGRESS:
            raise OSError(number, "not connected")
        self._connected = not number

    def _has_connected(self) -> bool:
        """Raises OSError if it never will be."""
        assert self._socket is not None
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLOUT)
        if not poll.poll(0):
            return False
        number = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
        if number:
            raise OSError(number, "not connected")
        self._connected = True
        return True

    def _send(self) -> bool:
        """True once all of it has left. Raises OSError."""
        assert self._socket is not None
        try:
            self._sent += self._socket.send(self._request[self._sent :], _socket.MSG_NOSIGNAL)
        except (BlockingIOError, InterruptedError):
            return False
        return self._sent == len(self._request)

    def _receive(self, now_ms: float) -> bool:
        """True once the answer is whole. Raises OSError, Malformed."""
        assert self._socket is not None
        came = False
        for _ in range(PIECES):
            try:
                piece = self._socket.recv(PIECE)
            except (BlockingIOError, InterruptedError):
                break
            self._reader.feed(piece)
            message = self._reader.take(not piece)
            if message is not None:
                self._answered(message, closed=not piece)
                return True
            if not piece:
                raise http1.Broken("the connection was closed")
            came = True
        if came or self._reader.begun:  # also an interim answer that is whole: a collector may send any number of them
            self._look_at_ms = now_ms + self._pause_ms
            self._pause_ms = min(LONGEST_PAUSE_MS, 2 * self._pause_ms)
        else:  # nothing to look at before more comes
            self._look_at_ms = self._began_ms
        return False

    def _answered(self, message: http1.Message, closed: bool) -> None:
        headers = message.headers
        is_old = not message.start_line.startswith(b"HTTP/1.1")
        if closed or is_old or headers.get(b"connection", b"").lower() == b"close" or self._reader.held:
            self._close()
        else:
            self._kept = True
        self._request = b""
        self.outcome = Outcome(message.status, message.body, headers.get(b"retry-after", b"")[:32], True, "")

    def _end(self, outcome: Outcome) -> None:
        self._close()
        self._request = b""
        self.outcome = outcome

    def _is_quiet(self) -> bool:
        """Is a kept connection still open, and silent? Bytes that came before our request are no answer to it."""
        assert self._socket is not None
        try:
            self._socket.recv(1)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False

    def _close(self) -> None:
        made, self._socket = self._socket, None
        self._connected = self._kept = False
        if made is not None:
            try:
                made.close()
            except OSError:  # it is closed, whatever it says (close(2))
                pass
