"""Passes bytes between the runtime and the Runtime API, both ways, unchanged.

The most dangerous part of truemem, hence the smallest: if these bytes stop, the function stops. Bytes first, what they
mean second (exact_mode.py reads along). Every connection of the runtime gets one of ours to the API; what one side
sends, closes or breaks off the other side sees. Nothing here waits: what the one side does not take is kept, and no
more is read until it does. Large bodies stay in the kernel (pipe.py), where it permits that; else they are copied.
"""

from __future__ import annotations

import _socket
import select
import sys
import time

from ..support.log import log, reason
from .exact_mode import RuntimeConnection
from .pipe import Pipe
from .tcp import Listener, new_socket, parse_address, send_at_once, set_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from ..linux.process_table import ProcessTable
    from .exact_mode import ExactMode

RECEIVE_BYTES = 131_072
"""Bytes that are received at once, and kept at most in each direction of a connection."""
LEAST_SPLICED_BYTES = 65_536
"""Bytes of a body that are left at least where they are passed on without a copy. Fewer are copied as fast."""
PIECES_AT_ONCE = 64
"""Pieces that are passed on before anything else is looked at: a whole event of 6 MB."""
ACCEPT_PAUSE_S = 0.01
"""No connection is accepted for so long where the system has no descriptor or no memory left."""
SPARE_DESCRIPTORS = 8
"""Descriptors kept for the runtime's connections, should there be no other any more."""
HANDSHAKE_NAME = "\0truemem/exact/"
"""Name of the datagram socket: an abstract one (unix(7)), which is gone when this process is. Then the address of the
Runtime API and our port."""
HANDSHAKE = 256
"""Bytes of what the wrapper sends: an address."""
CREDENTIALS_BYTES = 32
"""Bytes of what the kernel says of its sender (unix(7)): there is no room for descriptors."""

_IN: Final[int] = select.POLLIN
_OUT: Final[int] = select.POLLOUT
_SO_PASSCRED, _SCM_CREDENTIALS = 16, 2
"""The kernel says who sends (unix(7))."""
_BREAK_OFF = b"\x01\0\0\0\0\0\0\0"
"""SO_LINGER on, for no time: close sends a reset (socket(7))."""


class ProxyListener(Listener):
    """Where the runtime finds the proxy: it must be there before `register`, after which the runtime is started.

    The wrapper /opt/truemem/exact looks for the name of the datagram socket, which has the port in it, and sends the
    address that the runtime would have talked to (layer/exact.c)."""

    def __init__(self, api_address: str, port: int = 0) -> None:
        """Raises OSError, ValueError or OverflowError where it cannot be had: then there is no exact mode."""
        parse_address(api_address)
        super().__init__("127.0.0.1", ACCEPT_PAUSE_S, SPARE_DESCRIPTORS, port)
        send_at_once(self.socket)
        self.handshake = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        self.handshake.setsockopt(_socket.SOL_SOCKET, _SO_PASSCRED, 1)
        self.handshake.bind(f"{HANDSHAKE_NAME}{api_address}/{self.port}".encode("latin-1"))
        self.handshake.setblocking(False)


def open_listener(api_address: str, port: bytes = b"") -> ProxyListener | None:
    """Open the listener, at a free port where `port` (TRUEMEM_PORT) is empty or cannot be had. None where there is
    none."""
    for wanted in port, b"0":
        try:
            return ProxyListener(api_address, int(wanted))
        except (OSError, ValueError, OverflowError):
            continue
    return None


class _End:
    """One of the two sockets of a connection, and what it is still to send."""

    def __init__(self, socket: _socket.socket) -> None:
        self.socket = socket
        self.unsent: bytes | memoryview | Pipe = b""
        """Received at the other end, and not yet sent here."""
        self.closed = False
        """True if nothing more comes from this socket."""
        self.other: _End
        self.pair: _Pair


class _Pair:
    """One connection of the runtime to us, and ours to the API for it."""

    def __init__(self, runtime: _End, api: _End, connection: RuntimeConnection) -> None:
        self.runtime, self.api, self.connection = runtime, api, connection
        runtime.other, api.other = api, runtime
        runtime.pair = api.pair = self
        self.connecting = True


class RuntimeProxy:
    """Serves the runtime that the wrapper has started."""

    def __init__(self, listener: ProxyListener, api_address: str, exact: ExactMode) -> None:
        self._listener = listener
        self.address = f"127.0.0.1:{listener.port}"
        self.exact = exact
        self._address = parse_address(api_address)
        self._ends: dict[int, _End] = {}
        self._wanted: dict[int, int] | None = None
        """What `interests` said; None where bytes have passed since: half of the loop's turns have other reasons."""
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._pipe: Pipe | None = None
        """An empty one, for the next large body."""
        self.splices = True
        """False where the kernel has refused to."""
        listener.keep_spares()
        self.patience_s = float("inf")
        """How long to wait at most: where nothing could be accepted, it is tried again. Set by `interests`."""
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
        return any(table.adopt_client(socket.getpeername()[1], self._listener.port) for socket in clients[:1])

    def interests(self) -> dict[int, int]:
        """What to wait for: poll's events by descriptor. Not to be written to."""
        listener = self._listener
        if self._wanted is not None and not listener.paused_until:
            return self._wanted
        wanted = {listener.handshake.fileno(): _IN}
        self.patience_s = ACCEPT_PAUSE_S if listener.paused_until else float("inf")
        if not listener.paused_until or time.monotonic() >= listener.paused_until:
            wanted[listener.socket.fileno()] = _IN
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
        self._wanted = wanted
        return wanted

    def serve(self, descriptor: int) -> bool:
        """Do what a ready descriptor asks for; False if it is none of ours. Never blocks, never raises."""
        end = self._ends.get(descriptor)
        try:
            if end is not None:
                self._wanted = None
                self._pass(end)
            elif descriptor == self._listener.socket.fileno():
                self._wanted = None
                self._accept()
            elif descriptor == self._listener.handshake.fileno():
                self._read_handshake()
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
        wanted = {descriptor: _IN} if descriptor >= 0 else {}
        wanted.update(self.interests())
        try:
            poll = select.poll()
            for number, events in wanted.items():
                poll.register(number, events)
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
            _raise_if_broken(pair.api.socket)
            pair.connecting = False
            end = pair.runtime
        if end.closed:  # reading does not tell of a reset that came after the end (tcp(7))
            _raise_if_broken(end.socket)
            end.socket.getpeername()
        if end.unsent:
            self._send(end)
        for _ in range(PIECES_AT_ONCE):
            if end.closed or end.other.unsent:
                break
            try:
                size = self._take(end)
            except BlockingIOError:
                break
            if not size:
                end.closed = True
                self._did(pair.connection.ended if end is pair.api else pair.connection.finished)
                self._finish(end.other)
            if size != RECEIVE_BYTES:  # there is no more now, or poll tells of it
                break
        if pair.runtime.closed and pair.api.closed and not pair.runtime.unsent and not pair.api.unsent:
            self._close(pair, _socket.socket.close)

    def _take(self, end: _End) -> int:
        """Receive, and hand it on: a piece, or what is there of a large body. How much, 0 if nothing more comes. Raises
        OSError."""
        try:
            left = end.pair.connection.body_left(end is end.pair.runtime)
        except Exception:  # a bug of ours, as in _did
            self.exact.failures += 1
            left = 0
        pipe = self._take_pipe() if left >= LEAST_SPLICED_BYTES else None
        return self._copy(end) if pipe is None else self._splice(end, pipe, left)

    def _splice(self, end: _End, pipe: Pipe, left: int) -> int:
        other, connection = end.other, end.pair.connection
        size = pipe.pass_on(end.socket.fileno(), other.socket.fileno(), min(left, PIECES_AT_ONCE * RECEIVE_BYTES))
        if not self._did(connection.skip, end is end.pair.runtime, size):
            self._did(connection.lose)
        if pipe:
            other.unsent = pipe
            if pipe.refusal is not None:
                self._send_copied(other, pipe)
            return size
        self._keep_pipe(pipe)
        if pipe.refusal is None:
            return size or self._copy(end)  # which knows whether that is the end
        size = self._copy(end)  # which knows what is wrong with the connection, unless the kernel has told it
        if not size:
            raise pipe.refusal
        self.splices = False
        return size

    def _copy(self, end: _End) -> int:
        size = end.socket.recv_into(self._buffer)
        if size:
            self._hand_on(end, self._buffer[:size])
        return size

    def _hand_on(self, end: _End, piece: memoryview) -> None:
        connection = end.pair.connection
        if not self._did(connection.sent if end is end.pair.runtime else connection.received, piece):
            self._did(connection.lose)
        end.other.unsent = piece
        self._send(end.other)

    def _did(self, read: Callable[..., None], *what: object) -> bool:
        """Let exact mode read along. A bug of ours is counted, and the bytes pass all the same."""
        try:
            read(*what)
        except Exception:
            self.exact.failures += 1
            return False
        return True

    def _send(self, end: _End) -> None:
        """Send what this end takes now; the rest is kept."""
        if isinstance(end.unsent, Pipe):
            self._drain(end, end.unsent)
        else:
            unsent = memoryview(end.unsent)
            try:
                sent = end.socket.send(unsent)
            except BlockingIOError:
                sent = 0
            end.unsent = bytes(unsent[sent:])
        self._finish(end)

    def _drain(self, end: _End, pipe: Pipe) -> None:
        try:
            pipe.drain(end.socket.fileno())
        except BlockingIOError:
            return
        except OSError:
            self._send_copied(end, pipe)
            return
        if not pipe:
            end.unsent = b""
            self._keep_pipe(pipe)

    def _send_copied(self, end: _End, pipe: Pipe) -> None:
        """Send a copy of what the pipe holds, because sending from the pipe was refused. Raises what is wrong."""
        end.unsent = pipe.empty()
        self._keep_pipe(pipe)
        self._send(end)
        self.splices = False

    def _take_pipe(self) -> Pipe | None:
        """An empty one; None where there is none."""
        pipe, self._pipe = self._pipe, None
        if pipe is None and self.splices:
            try:
                pipe = Pipe()
            except OSError:
                pass
        return pipe

    def _keep_pipe(self, pipe: Pipe) -> None:
        """Keep the pipe for the next large body, unless there is one, or it is not empty."""
        if self._pipe is None and self.splices and not pipe:
            self._pipe = pipe
        else:
            pipe.close()

    def _finish(self, end: _End) -> None:
        """Where the other side sends no more and all is sent, say so."""
        if end.other.closed and not end.unsent:
            end.socket.shutdown(_socket.SHUT_WR)

    def _accept(self) -> None:
        runtime = None
        try:
            runtime = self._listener.accept()
        except OSError as error:
            self._complain(f"the runtime's connection cannot be accepted: {error.strerror}")
        if runtime is not None:
            try:
                self._listener.with_spares(lambda: self._connect(runtime))
            except OSError as error:
                self._complain(f"no connection to the Runtime API: {error.strerror}")
                _break_off(runtime)
        self._listener.keep_spares()

    def _connect(self, runtime: _socket.socket) -> None:
        api = new_socket(self._address[0])
        api.setblocking(False)
        send_at_once(api)
        set_options(runtime)
        set_options(api)
        try:
            api.connect(self._address)
        except BlockingIOError:  # EINPROGRESS
            pass
        except OSError:
            api.close()
            raise
        pair = _Pair(_End(runtime), _End(api), RuntimeConnection(self.exact))
        self._ends[runtime.fileno()] = pair.runtime
        self._ends[api.fileno()] = pair.api

    def _complain(self, problem: str) -> None:
        """Log it, but not each time: it may come a hundred times a second."""
        if not self.problem:
            log("warn", problem)
        self.problem = problem

    def _pass_rest(self, pair: _Pair) -> None:
        """What a side has sent before it broke off is still the other one's: a refusal, before all was read."""
        for end in pair.runtime, pair.api:
            try:
                while not pair.connecting and not end.other.unsent and self._take(end):
                    pass
            except OSError:
                continue

    def _close(self, pair: _Pair, close: Callable[[_socket.socket], None]) -> None:
        for end in pair.runtime, pair.api:
            self._ends.pop(end.socket.fileno(), None)
            close(end.socket)
            if isinstance(end.unsent, Pipe):
                end.unsent.close()
                end.unsent = b""
        self._listener.keep_spares()
        self._did(pair.connection.closed)

    def _read_handshake(self) -> None:
        """The wrapper says where its runtime would have gone: another vendor's proxy, perhaps. Only the first one
        counts: it is sent before any code of the function runs."""
        try:
            text, control, flags, _ = self._listener.handshake.recvmsg(HANDSHAKE, CREDENTIALS_BYTES)
            address = parse_address(text.decode("ascii"))
        except (OSError, ValueError):
            return
        if self.runtime_pid or flags & _socket.MSG_TRUNC:
            return
        self._address = address
        for level, kind, data in control:
            if level == _socket.SOL_SOCKET and kind == _SCM_CREDENTIALS and len(data) >= 4:
                self.runtime_pid = int.from_bytes(data[:4], sys.byteorder)


def _raise_if_broken(socket: _socket.socket) -> None:
    """Raises OSError if the connection is gone, or was not made."""
    error = socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
    if error:
        raise OSError(error, "broken off")


def _break_off(socket: _socket.socket) -> None:
    try:
        socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, _BREAK_OFF)
        socket.close()
    except OSError:
        pass
