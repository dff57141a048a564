"""Passes bytes between the runtime and the Runtime API, both ways, unchanged.

The most dangerous part of truemem, hence the smallest: if these bytes stop, the function stops. Bytes first, what they
mean second. Every connection of the runtime gets one of ours to the API; what one side sends, closes or breaks
off the other side sees. Nothing here waits: what the one side does not take is kept, and no more is read until it does.

Exact mode reads which of the bytes are the runtime's event, and its request for the next one. A window opens before the
first byte of an event is handed on to the runtime, and closes before its request for the next event is handed on to the
Runtime API ("Using the Lambda runtime API", developer guide: next, response, error). In between lies the invocation and
nothing else. An answer that turns out to be no whole event opens nothing: the runtime asks again. What cannot be
understood ends the understanding: the bytes pass on, and memory is measured the default way.
"""

from __future__ import annotations

import _socket
import select
import sys
import time

from ..support.log import log, reason
from .http1 import Framing, Message
from .tcp import Listener, new_socket, parse_address, set_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..linux.process_table import ProcessTable

_INVOCATION = b"/runtime/invocation/"
_NEXT, _ANSWER, _OTHER = range(3)

REQUEST_ID = b"lambda-runtime-aws-request-id"
MOST = 4096
"""Invocations that may run, as far as we know them."""
PIPELINED = 64
"""Requests that may wait for their answer on one connection. Runtimes have one."""


class Invocation:
    """One event on its way through the runtime."""

    def __init__(self, connection: RuntimeConnection) -> None:
        self.connection = connection
        self.request_id = ""
        self.event: Message | None = None
        """Of the answer that it came in, once the head is whole."""
        self.size: int | None = None
        self.answer: Message | None = None
        self.elsewhere = False
        """The runtime answers it on another connection, so it may ask for the next event on yet another one."""
        self.failed = False
        """It answered with an error: the handler raised."""
        self.unsure = False
        """It is not known that the window opened with the event that the runtime has taken."""

    @property
    def whole(self) -> bool:
        """Has all of the event passed? Who answers it has taken it as whole."""
        return self.answer is not None or (self.event is not None and self.event.complete)


class Moment:
    """The function was read and reset here: `begun` is the invocation whose window opens, `ended` are those whose
    window closes. Where it was no event after all, it was a sample of the open window, and no more."""

    def __init__(self, measured: Any, begun: Invocation | None, ended: list[Invocation]) -> None:
        self.measured = measured
        self.begun = begun
        self.ended = ended
        self.is_sample = False


class ExactMode:
    def __init__(self, measure: Callable[[], Any] | None = None) -> None:
        self.measure = measure
        """Reads and resets the function's watermarks, and says what it has read; None where nothing is measured."""
        self.moments: list[Moment] = []
        """What was measured, in its order, for the loop to work out when there is time."""
        self.running: list[Invocation] = []
        """Invocations whose event has been handed on and whose runtime has not asked for another. More than one on
        Managed Instances alone."""
        self.asking = 0
        """Requests for an event that have no answer yet."""
        self.failures = 0
        """Measurements that failed: counted, and the bytes passed on."""
        self._asked = False
        """Has the runtime asked for an event? The first time ends the init phase."""

    @property
    def engaged(self) -> bool:
        """Does the runtime talk through us, as far as we understand it?"""
        return bool(self.asking or self.running)

    @property
    def answered(self) -> bool:
        """Have the responses of all invocations that run passed, to their last byte?"""
        return bool(self.running) and all(each.answer is not None and each.answer.complete for each in self.running)

    def asks(self, connection: RuntimeConnection) -> None:
        """A request for the next event is about to be handed on. It ends the invocation that this connection has
        delivered; else those that were answered on another connection than the one that has delivered them. One that
        was not answered has not ended: its event was not taken."""
        self.asking += 1
        self._forget_unanswered(connection)
        ended = self._of(connection) or [
            each for each in self.running if each.elsewhere and each.answer and each.answer.complete
        ]
        if ended or not self._asked:
            self.running = [invocation for invocation in self.running if invocation not in ended]
            self._add_moment(None, ended)
        self._asked = True

    def begins(self, connection: RuntimeConnection) -> Invocation:
        """The first bytes of an event are about to be handed on."""
        self.asking -= 1
        invocation = Invocation(connection)
        self.running = [*self.running[1 - MOST :], invocation]
        invocation.unsure = not self._add_moment(invocation, [])
        return invocation

    def delivers(self, invocation: Invocation, head: Message) -> None:
        """The head of its answer is about to be handed on. The Runtime API gives an event again to a worker that asks
        meanwhile: of those that are not answered the first that is whole counts."""
        invocation.event = head
        invocation.request_id = head.headers.get(REQUEST_ID, b"").decode("latin-1")
        length = head.headers.get(b"content-length", b"")
        invocation.size = int(length) if length.isdigit() else None
        if head.status != 200 or not invocation.request_id:
            self.forget(invocation)
            return
        for each in self.running:
            if each.request_id == invocation.request_id and each is not invocation and each.answer is None:
                each.unsure |= each.elsewhere  # the same worker, perhaps, on another connection
                self.forget(invocation if each.whole else each)

    def interim(self, invocation: Invocation) -> None:
        """It was an interim answer (1xx): the event is still to come."""
        self.asking += 1
        self.forget(invocation)

    def answers(self, connection: RuntimeConnection, request_id: str, head: Message, failed: bool) -> None:
        for invocation in self.running:
            if invocation.request_id == request_id:
                invocation.answer, invocation.failed = head, failed
                invocation.elsewhere |= invocation.connection is not connection

    def forget(self, invocation: Invocation) -> None:
        """It was no event after all, or one that another worker has got already."""
        self.running = [each for each in self.running if each is not invocation]
        for moment in self.moments:
            moment.is_sample |= moment.begun is invocation

    def left(self, connection: RuntimeConnection, lost: bool) -> None:
        """A connection is gone: the runtime may answer on another one. Or it is `lost`, not understood any more: then
        the end of what it had delivered may never be seen."""
        self.asking -= connection.asking
        self.cut_off(connection)
        if lost:
            self._forget_unanswered(connection)
            self.running = [each for each in self.running if each.connection is not connection]

    def cut_off(self, connection: RuntimeConnection) -> None:
        """No more answers come on this connection."""
        self._forget_unanswered(connection, even_whole=False)
        self.moves(connection)

    def moves(self, connection: RuntimeConnection) -> None:
        """The runtime answers and asks on another connection from now on."""
        for invocation in self._of(connection):
            invocation.elsewhere = True

    def due(self, limit: int) -> bool:
        """Is there a moment to work out? Not while its event still passes: that may be cut off. Of an event that has
        not passed when `limit` moments wait, no more will come."""
        return bool(self.moments) and (len(self.moments) >= limit or not self._passes(self.moments[0]))

    def take(self, limit: int) -> Moment | None:
        if not self.due(limit):
            return None
        moment = self.moments[0]
        if moment.begun is not None and self._passes(moment):
            self.forget(moment.begun)
        return self.moments.pop(0)

    def _passes(self, moment: Moment) -> bool:
        begun = moment.begun
        return begun is not None and not begun.whole and begun in self.running

    def _forget_unanswered(self, connection: RuntimeConnection, even_whole: bool = True) -> None:
        for invocation in self._of(connection):
            if invocation.answer is None and (even_whole or not invocation.whole):
                self.forget(invocation)

    def _of(self, connection: RuntimeConnection) -> list[Invocation]:
        """Those that run, and were delivered on it."""
        return [invocation for invocation in self.running if invocation.connection is connection]

    def _add_moment(self, begun: Invocation | None, ended: list[Invocation]) -> bool:
        """Measure; False where that fails."""
        if self.measure is None:
            return True
        try:
            self.moments.append(Moment(self.measure(), begun, ended))
        except Exception:  # whatever fails in measuring, the bytes pass
            self.failures += 1
            return False
        return True


class RuntimeConnection:
    """One connection of the runtime. Its methods are called before what they tell of is handed on, and never raise."""

    def __init__(self, exact: ExactMode) -> None:
        self._exact = exact
        self._requests = Framing(requests=True)
        self._responses = Framing(requests=False)
        self._waiting: list[int] = []
        """Kinds of the requests that have no answer yet."""
        self._event: Invocation | None = None
        """The event whose head passes."""

    @property
    def lost(self) -> bool:
        return self._requests.lost or self._responses.lost

    @property
    def asking(self) -> int:
        return self._waiting.count(_NEXT) - (self._event is not None)

    def sent(self, piece: memoryview) -> None:
        """Bytes of the runtime."""
        if self.lost:
            return
        for head in self._requests.feed(piece):
            kind, request_id, failed = _kind(head.start_line)
            self._waiting.append(kind)
            if kind == _NEXT:
                self._exact.asks(self)
            elif kind == _ANSWER:
                self._exact.answers(self, request_id, head, failed)
        if self._requests.lost or len(self._waiting) > PIPELINED:
            self._give_up(lost=True)

    def received(self, piece: memoryview) -> None:
        """Bytes of the Runtime API."""
        if self.lost:
            return
        for head in self._responses.feed(piece):
            if not self._waiting:
                self._responses.give_up()
                break
            if head.status < 200:
                if self._event is not None:
                    self._exact.interim(self._event)
                    self._event = None
                continue
            if self._waiting.pop(0) == _NEXT:
                event, self._event = self._event or self._exact.begins(self), None
                self._exact.delivers(event, head)
        beginning = self._responses.beginning
        if self._responses.lost or (beginning and not self._waiting):  # or more than was asked for
            self._give_up(lost=True)
        elif beginning and self._waiting[0] == _NEXT and self._event is None:
            self._event = self._exact.begins(self)

    def ended(self) -> None:
        """The Runtime API has closed the connection: nothing more comes."""
        self._responses.end()
        self._exact.cut_off(self)

    def finished(self) -> None:
        """The runtime sends no more."""
        self._exact.moves(self)

    def closed(self) -> None:
        if not self.lost:
            self._give_up(lost=False)

    def lose(self) -> None:
        if not self.lost:
            self._give_up(lost=True)

    def _give_up(self, lost: bool) -> None:
        self._exact.left(self, lost)
        if self._event is not None:  # its head was not whole: the runtime has not seen it
            self._exact.forget(self._event)
        self._requests.give_up()
        self._responses.give_up()


def _kind(start_line: bytes) -> tuple[int, str, bool]:
    """What a request is; of an answer also the request id, and whether it is an error."""
    method, _, rest = start_line.partition(b" ")
    path = rest.partition(b" ")[0].partition(_INVOCATION)[2]
    first, _, second = path.partition(b"/")
    if method == b"GET" and first == b"next" and not second:
        return _NEXT, "", False
    if method == b"POST" and second in (b"response", b"error"):
        return _ANSWER, first.decode("latin-1"), second == b"error"
    return _OTHER, "", False


PIECE = 131_072
"""Bytes that are received at once, and kept at most in each direction of a connection."""
AT_ONCE = 64
"""Pieces that are passed on before anything else is looked at: a whole event of 6 MB."""
PAUSE_S = 0.01
"""No connection is accepted for so long where the system has no descriptor or no memory left."""
SPARE = 8
"""Descriptors kept for the runtime's connections, should there be no other any more."""
NAME = "\0truemem/exact/"
"""Of the datagram socket: an abstract name (unix(7)), which is gone when this process is. Then the address of the
Runtime API and our port."""
HANDSHAKE = 256
"""Bytes of what the wrapper sends: an address."""
CREDENTIALS = 32
"""Bytes of what the kernel says of its sender (unix(7)): there is no room for descriptors."""

_IN, _OUT = select.POLLIN, select.POLLOUT
_SO_PASSCRED, _SCM_CREDENTIALS = 16, 2
"""The kernel says who sends (unix(7))."""
_BREAK_OFF = b"\x01\0\0\0\0\0\0\0"
"""SO_LINGER on, for no time: close sends a reset (socket(7))."""


class ProxyListener(Listener):
    """Where the runtime finds the proxy: it must be there before `register`, after which the runtime is started.

    The wrapper /opt/truemem/exact looks for the name of the datagram socket, which has the port in it, and sends the
    address that the runtime would have talked to (layer/exact.c)."""

    def __init__(self, api_address: str) -> None:
        """Raises OSError or ValueError where it cannot be had: then there is no exact mode."""
        parse_address(api_address)
        super().__init__("127.0.0.1", PAUSE_S, SPARE)
        self.handshake = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        self.handshake.setsockopt(_socket.SOL_SOCKET, _SO_PASSCRED, 1)
        self.handshake.bind(f"{NAME}{api_address}/{self.port}".encode("latin-1"))
        self.handshake.setblocking(False)


def open_listener(api_address: str) -> ProxyListener | None:
    """None where it cannot be had."""
    try:
        return ProxyListener(api_address)
    except (OSError, ValueError):
        return None


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
        self._buffer = memoryview(bytearray(PIECE))
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
        """What to wait for: poll's events by descriptor."""
        listener = self._listener
        wanted = {listener.handshake.fileno(): _IN}
        self.patience_s = PAUSE_S if listener.paused_until else float("inf")
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
        return wanted

    def serve(self, descriptor: int) -> bool:
        """Do what a ready descriptor asks for; False if it is none of ours. Never blocks, never raises."""
        end = self._ends.get(descriptor)
        try:
            if end is not None:
                self._pass(end)
            elif descriptor == self._listener.socket.fileno():
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
        for _ in range(AT_ONCE):
            if end.closed or end.other.unsent:
                break
            try:
                size = end.socket.recv_into(self._buffer)
            except BlockingIOError:
                break
            if not size:
                end.closed = True
                self._did(pair.connection.ended if end is pair.api else pair.connection.finished)
                self._finish(end.other)
                break
            self._hand_on(end, self._buffer[:size])
        if pair.runtime.closed and pair.api.closed and not pair.runtime.unsent and not pair.api.unsent:
            self._close(pair, _socket.socket.close)

    def _hand_on(self, end: _End, piece: memoryview) -> None:
        connection = end.pair.connection
        if not self._did(connection.sent if end is end.pair.runtime else connection.received, piece):
            self._did(connection.lose)
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
        self._listener.keep_spares()
        self._did(pair.connection.closed)

    def _read_handshake(self) -> None:
        """The wrapper says where its runtime would have gone: another vendor's proxy, perhaps. Only the first one
        counts: it is sent before any code of the function runs."""
        try:
            text, control, flags, _ = self._listener.handshake.recvmsg(HANDSHAKE, CREDENTIALS)
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
