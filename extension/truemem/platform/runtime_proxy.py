"""Passes bytes between the runtime and the Runtime API, both ways, unchanged.

The most dangerous part of truemem, hence the smallest: if these bytes stop, the function stops. Bytes first, what they
mean second (exact). Every connection of the runtime gets one of ours to the API; what one side sends, closes or breaks
off the other side sees. Nothing here waits: what the one side does not take is kept, and no more is read until it does.
"""

from __future__ import annotations

import _socket
import select
import sys
import time

from ..support.log import log, reason
from .exact_mode import ExactMode, Talk
from .proxy_sockets import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.process_table import ProcessTable
    from .proxy_sockets import Door

PIECE = 131_072
"""Bytes that are received at once, and kept at most in each direction of a connection."""
AT_ONCE = 64
"""Pieces that are passed on before anything else is looked at: a whole event of 6 MB."""
DEAF_SECONDS = 0.01
"""No connection is accepted for so long where the system has no descriptor or no memory left."""
LETTER = 256
"""Bytes of the wrapper's letter: an address."""
CREDENTIALS = 32
"""Bytes of what the kernel says of its sender (unix(7)): there is no room for descriptors."""

_IN, _OUT = select.POLLIN, select.POLLOUT
_SCM_CREDENTIALS = 2
_BREAK_OFF = b"\x01\0\0\0\0\0\0\0"
"""SO_LINGER on, for no time: close sends a reset (socket(7))."""


class _End:
    """One of the two sockets of a connection, and what it is still to send."""

    def __init__(self, socket: _socket.socket) -> None:
        self.socket = socket
        self.unsent: bytes | memoryview = b""
        """Received at the other end, and not yet sent here."""
        self.closed = False
        """Nothing more comes from here."""
        self.other: _End
        self.pair: _Pair


class _Pair:
    """One connection of the runtime, and ours for it."""

    def __init__(self, runtime: _End, api: _End, talk: Talk) -> None:
        self.runtime, self.api, self.talk = runtime, api, talk
        runtime.other, api.other = api, runtime
        runtime.pair = api.pair = self
        self.connecting = True


class RuntimeProxy:
    """Serves the runtime that the wrapper has started."""

    def __init__(self, door: Door, api_address: str, exact: ExactMode) -> None:
        self._door = door
        self.address = f"127.0.0.1:{door.port}"
        """Where the runtime finds us."""
        self.exact = exact
        self._address = parsed(api_address)
        self._ends: dict[int, _End] = {}
        """By descriptor."""
        self._buffer = memoryview(bytearray(PIECE))
        self._door.keep_spare()
        self._deaf_until = 0.0
        self.runtime_pid = 0
        """The process that the wrapper has become: the runtime. 0 until it is known."""
        self.problem = ""
        """Why a connection of the runtime could not be served the last time, or "". The log has the first one."""

    def show_runtime(self, table: ProcessTable) -> bool:
        """Tell the table which process the runtime is: the one that the wrapper has become, or that is connected to us.
        False where that is not known."""
        if table.adopt_runtime(self.runtime_pid):
            return True
        clients = [end.socket for end in self._ends.values() if end is end.pair.runtime]
        return any(table.adopt_client(socket.getpeername()[1], self._door.port) for socket in clients[:1])

    def interests(self) -> dict[int, int]:
        """What to wait for: poll's events by descriptor."""
        wanted = {self._door.letters.fileno(): _IN}
        if not self._deaf_until or time.monotonic() >= self._deaf_until:
            wanted[self._door.listening.fileno()] = _IN
        for descriptor, end in self._ends.items():
            events = 0
            if end.unsent or (end is end.pair.api and end.pair.connecting):
                events |= _OUT
            # Read only what the other side can take: not before it is connected, nor while it has some left to send.
            if not end.closed and not end.other.unsent and not end.pair.connecting:
                events |= _IN
            # A side that has closed its half may still break off: poll tells of that without any events (poll(2)).
            # It tells of nothing else here, as both halves are never closed while the pair is kept: no busy loop.
            if events or end.closed:
                wanted[descriptor] = events
        return wanted

    @property
    def patience_s(self) -> float:
        """How long to wait at most: where nothing could be accepted, it is tried again."""
        return DEAF_SECONDS if self._deaf_until else float("inf")

    def serve(self, descriptor: int) -> bool:
        """Do what a ready descriptor asks for; False if it is none of ours. Never blocks, never raises."""
        end = self._ends.get(descriptor)
        try:
            if end is not None:
                self._pass(end)
            elif descriptor == self._door.listening.fileno():
                self._accept()
            elif descriptor == self._door.letters.fileno():
                self._read_letter()
            else:
                return False
        except Exception as error:  # OSError: one side is gone. Anything else is a bug: this connection is lost
            if not isinstance(error, OSError):
                self._complain(f"the runtime's connection: {reason(error)}")
            if end is not None:
                self._pass_rest(end.pair)
                self._close(end.pair, _break_off)  # the other side is to see that this one has broken off
        return True

    def serve_until(self, descriptor: int, seconds: float) -> None:
        """Pass bytes once, or wait until `descriptor` (-1: none) is readable or so much time has passed. Where the
        kernel cannot wait, all descriptors are tried."""
        wanted = self.interests()
        try:
            poll = select.poll()
            if descriptor >= 0:
                poll.register(descriptor, _IN)
            for other, events in wanted.items():
                poll.register(other, events)
            seconds = min(seconds, self.patience_s)
            ready = [number for number, _ in poll.poll(seconds * 1000 if seconds < 1e6 else None)]
        except OSError:
            time.sleep(0.001)
            ready = list(wanted)
        for number in ready:
            self.serve(number)

    def _pass(self, end: _End) -> None:
        pair = end.pair
        if pair.connecting:
            error = pair.api.socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
            if error:
                raise OSError(error, "the Runtime API does not answer")
            pair.connecting = False
            end = pair.runtime
        if end.closed:
            _raise_if_broken(end.socket)
        if end.unsent:
            self._send(end)
        for _ in range(AT_ONCE):
            if end.closed or end.other.unsent:
                break
            try:
                size = end.socket.recv_into(self._buffer)
            except BlockingIOError:
                break
            if not size:
                end.closed = True
                self._did(pair.talk.ended if end is pair.api else pair.talk.finished)
                self._finish(end.other)
                break
            self._hand_on(end, self._buffer[:size])
        if pair.runtime.closed and pair.api.closed and not pair.runtime.unsent and not pair.api.unsent:
            self._close(pair, _socket.socket.close)

    def _hand_on(self, end: _End, piece: memoryview) -> None:
        talk = end.pair.talk
        if not self._did(talk.sent if end is end.pair.runtime else talk.received, piece):
            self._did(talk.lose)
        end.other.unsent = piece
        self._send(end.other)

    def _did(self, read: Callable[..., None], *what: object) -> bool:
        """Only reading along: a bug of ours is counted, and the bytes pass all the same."""
        try:
            read(*what)
        except Exception:
            self.exact.failures += 1
            return False
        return True

    def _send(self, end: _End) -> None:
        """Send what this end takes now; the rest is kept."""
        unsent = memoryview(end.unsent)
        try:
            sent = end.socket.send(unsent)
        except BlockingIOError:
            sent = 0
        end.unsent = bytes(unsent[sent:])
        self._finish(end)

    def _finish(self, end: _End) -> None:
        """Where the other side sends no more and all is sent, say so."""
        if end.other.closed and not end.unsent:
            end.socket.shutdown(_socket.SHUT_WR)

    def _accept(self) -> None:
        self._deaf_until = 0.0
        try:
            runtime = self._door.with_spare(self._door.accept)
        except (BlockingIOError, ConnectionAbortedError):
            pass
        except OSError as error:
            self._complain(f"the runtime's connection cannot be accepted: {error.strerror}")
            self._deaf_until = time.monotonic() + DEAF_SECONDS
        else:
            try:
                self._door.with_spare(lambda: self._connect(runtime))
            except OSError as error:
                self._complain(f"no connection to the Runtime API: {error.strerror}")
                _break_off(runtime)
        self._door.keep_spare()

    def _connect(self, runtime: _socket.socket) -> None:
        """Raises OSError."""
        api = _socket.socket(_socket.AF_INET6 if ":" in self._address[0] else _socket.AF_INET, _socket.SOCK_STREAM)
        for socket in runtime, api:
            socket.setblocking(False)
            try:
                socket.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            except OSError:  # a sandbox without it: slower, and no more
                continue
        try:
            api.connect(self._address)
        except BlockingIOError:  # EINPROGRESS
            pass
        except OSError:
            api.close()
            raise
        pair = _Pair(_End(runtime), _End(api), Talk(self.exact))
        self._ends[runtime.fileno()] = pair.runtime
        self._ends[api.fileno()] = pair.api

    def _complain(self, problem: str) -> None:
        """In the log, but not each time: it may come a hundred times a second."""
        if not self.problem:
            log("warn", problem)
        self.problem = problem

    def _pass_rest(self, pair: _Pair) -> None:
        """What a side has sent before it broke off is still the other one's: a refusal, before all was read."""
        for end in pair.runtime, pair.api:
            try:
                while not pair.connecting and not end.other.unsent:
                    size = end.socket.recv_into(self._buffer)
                    if not size:
                        break
                    self._hand_on(end, self._buffer[:size])
            except OSError:
                continue

    def _close(self, pair: _Pair, close: Callable[[_socket.socket], None]) -> None:
        for end in pair.runtime, pair.api:
            self._ends.pop(end.socket.fileno(), None)
            close(end.socket)
        self._door.keep_spare()
        self._did(pair.talk.closed)

    def _read_letter(self) -> None:
        """The wrapper says where its runtime would have gone: another vendor's proxy, perhaps. Only the first one is
        heard: it is sent before any code of the function runs."""
        try:
            text, control, flags, _ = self._door.letters.recvmsg(LETTER, CREDENTIALS)
            address = parsed(text.decode("ascii"))
        except (OSError, ValueError):
            return
        if self.runtime_pid or flags & _socket.MSG_TRUNC:
            return
        self._address = address
        for level, kind, data in control:
            if level == _socket.SOL_SOCKET and kind == _SCM_CREDENTIALS and len(data) >= 4:
                self.runtime_pid = int.from_bytes(data[:4], sys.byteorder)


def _raise_if_broken(socket: _socket.socket) -> None:
    """Raises OSError if the connection is gone. Reading does not tell of a reset that came after the end (tcp(7))."""
    error = socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
    if error:
        raise OSError(error, "broken off")
    socket.getpeername()


def _break_off(socket: _socket.socket) -> None:
    try:
        socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, _BREAK_OFF)
        socket.close()
    except OSError:
        pass
