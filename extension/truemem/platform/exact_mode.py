"""Exact mode reads along between the runtime and the Runtime API: which bytes are an event, and which ask for the next
one.

A window opens before the first byte of an event is handed on to the runtime, and closes before its request for the next
event is handed on to the Runtime API ("Using the Lambda runtime API", developer guide: next, response, error). In
between lies the invocation and nothing else. An answer that turns out to be no whole event opens nothing: the runtime
asks again. What cannot be understood ends the understanding: the bytes pass on, and memory is measured the default way.
"""

from __future__ import annotations

from .http1 import Framing, Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_INVOCATION = b"/runtime/invocation/"
_NEXT, _ANSWER, _OTHER = range(3)

REQUEST_ID = b"lambda-runtime-aws-request-id"
MOST_RUNNING = 4096
"""Invocations that may run, as far as we know them."""
MOST_PIPELINED = 64
"""Requests that may wait for their answer on one connection. Runtimes have one."""


class PassingInvocation:
    """One event on its way through the runtime."""

    def __init__(self, connection: RuntimeConnection) -> None:
        self.connection = connection
        self.request_id = ""
        self.event: Message | None = None
        """Head of the answer that the event came in, once it is whole."""
        self.size: int | None = None
        self.answer: Message | None = None
        self.elsewhere = False
        """The runtime answers it on another connection, so it may ask for the next event on yet another one."""
        self.failed = False
        """The runtime answered with an error: the handler raised."""
        self.unsure = False
        """True if it is not known that the window opened with the event that the runtime has taken."""

    @property
    def whole(self) -> bool:
        """Has all of the event passed? A runtime that answers it has taken it as whole."""
        return self.answer is not None or (self.event is not None and self.event.complete)


class Moment:
    """The function was read and reset here: `begun` is the invocation whose window opens, `ended` are those whose
    window closes. Where it was no event after all, it was a sample of the open window, and no more."""

    def __init__(self, measured: Any, begun: PassingInvocation | None, ended: list[PassingInvocation]) -> None:
        self.measured = measured
        self.begun = begun
        self.ended = ended
        self.is_sample = False
        self.looks: list[Any] = []
        """What was looked at afterwards, before this was worked out."""


class ExactMode:
    def __init__(self, measure: Callable[[], Any] | None = None, pooled: bool = False) -> None:
        """`pooled`: there is one worker, whose client may ask on any connection of its pool, as that of Rust does."""
        self._pooled = pooled
        self.measure = measure
        """Reads and resets the function's watermarks, and says what it has read; None where nothing is measured."""
        self.look: Callable[[], None] | None = None
        """Looks at the function's threads while the runtime waits; None where that is not asked for."""
        self.begun = 0
        """Events that were handed on so far."""
        self.moments: list[Moment] = []
        """What was measured, in its order, for the loop to work out when there is time."""
        self.running: list[PassingInvocation] = []
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
            each for each in self.running if (each.elsewhere or self._pooled) and each.answer and each.answer.complete
        ]
        if ended or not self._asked:
            self.running = [invocation for invocation in self.running if invocation not in ended]
            self._add_moment(None, ended)
        self._asked = True

    def begins(self, connection: RuntimeConnection) -> PassingInvocation:
        """The first bytes of an event are about to be handed on."""
        self.asking -= 1
        self.begun += 1
        invocation = PassingInvocation(connection)
        self.running = [*self.running[1 - MOST_RUNNING :], invocation]
        invocation.unsure = not self._add_moment(invocation, [])
        return invocation

    def delivers(self, invocation: PassingInvocation, head: Message) -> None:
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

    def interim(self, invocation: PassingInvocation) -> None:
        """An interim answer (1xx) has passed: the event is still to come."""
        self.asking += 1
        self.forget(invocation)

    def answers(self, connection: RuntimeConnection, request_id: str, head: Message, failed: bool) -> None:
        for invocation in self.running:
            if invocation.request_id == request_id:
                invocation.answer, invocation.failed = head, failed
                invocation.elsewhere |= invocation.connection is not connection

    def rests(self) -> None:
        """The runtime has sent its response and waits for the answer, which is about to be handed on."""
        if self.look is not None:
            try:
                self.look()
            except Exception:
                self.failures += 1

    def forget(self, invocation: PassingInvocation) -> None:
        """Forget what was no event after all, or one that another worker has got already."""
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

    def _of(self, connection: RuntimeConnection) -> list[PassingInvocation]:
        """Invocations that run, and were delivered on this connection."""
        return [invocation for invocation in self.running if invocation.connection is connection]

    def _add_moment(self, begun: PassingInvocation | None, ended: list[PassingInvocation]) -> bool:
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
        self._event: PassingInvocation | None = None
        """The event whose head passes."""

    @property
    def lost(self) -> bool:
        return self._requests.lost or self._responses.lost

    @property
    def asking(self) -> int:
        return self._waiting.count(_NEXT) - (self._event is not None)

    def body_left(self, of_runtime: bool) -> int:
        """Bytes that are sure to belong to the body that the runtime, or the Runtime API, sends: none of them means
        anything."""
        return (self._requests if of_runtime else self._responses).body_left

    def skip(self, of_runtime: bool, size: int) -> None:
        """Note that `size` bytes of the body on its way (body_left) have passed."""
        (self._requests if of_runtime else self._responses).skip(size)

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
        if self._requests.lost or len(self._waiting) > MOST_PIPELINED:
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
            kind = self._waiting.pop(0)
            if kind == _NEXT:
                event, self._event = self._event or self._exact.begins(self), None
                self._exact.delivers(event, head)
            elif kind == _ANSWER:
                self._exact.rests()
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
