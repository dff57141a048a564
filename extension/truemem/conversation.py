"""How far the talk between the runtime and the Runtime API has got, told by counts of bytes alone. Pure.

For each invocation bytes come in (the event), nothing moves while the handler works, bytes go out (the response),
come in (the answer to it), and go out again (the request for the next event). Clients differ: Python's keeps one
connection for everything; Node's opens a new one for each request for an event; curl opens one for each call.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .inet_diag import Connection

    Look = list[Connection]
    """The function's connections to the Runtime API, as of one moment."""

MS = 1_000_000

JIFFY_MS = 12
"""`received_ago_ms` may be wrong by this much: one jiffy of 10 ms, the longest there is, and rounding."""

STALE_MS = 20
"""Counts that have not aged over this time are not the kernel's."""

BESIDE_MS = 10
"""By then the runtime has its event, which is sent at the same time as ours."""

PIECE = 1400
"""Bytes: what is shorter than this comes in one piece."""

PIECES_MS = 20
"""An event may come in pieces, but not for longer than this. What comes later answers something that was sent."""

BEGUN = 0
"""An invocation has begun, and the runtime has not been seen to get its event."""
WORKING = 1
"""It has its event, and has sent nothing since."""
RESPONDING = 2
"""It has sent something: the response, part of it, or something else. Not seen to wait."""
WAITING = 3
"""It has asked for the next event. Where one connection serves for everything, it may be about to."""
BROKEN = 4
"""The counts contradict each other, or time: nothing can be told from them."""


class Conversation:
    """The state of one environment's talk. A look is what `RuntimeConnections.look` returns; times in ns."""

    def __init__(self) -> None:
        self.state = BEGUN
        self.contradiction = ""
        """Why it is BROKEN."""
        self.moved = False
        """Has anything changed between the last two looks?"""
        self.guessed = False
        """WORKING by the time of what came last alone, which may as well be the answer to the response: the runtime may
        be done already."""
        self._request = 0
        """Size of a request for an event: what a connection has sent that has never received anything."""
        self._began_ns = 0
        self._sure = False
        """The last invocation was seen to its end: whatever has come in since then is the event of this one."""
        self._event_on: frozenset[bytes] = frozenset()
        """The connections that it came on, where that was seen."""
        self._settled = False
        """The whole event has come, as far as can be told."""
        self._came_ns = 0
        """When the event was first seen to have come."""
        self._asking: tuple[bytes, ...] = ()
        """While WAITING: the connections on which it has asked."""
        self._reference: dict[bytes, Connection] = {}
        """As of the last moment at which the handler was known to have sent nothing."""
        self._last: dict[bytes, Connection] = {}
        self._still: dict[bytes, Connection] = {}
        """The first look that was like the last one,"""
        self._still_ns = 0
        """and when it was."""

    def begin(self, look: Look, now_ns: int) -> None:
        """An invocation begins: its event may or may not have reached the runtime."""
        before, asked = (self._last, self._asking) if self.state == WAITING else (None, ())
        sent = before is not None and any(_sent(made, before) for made in look)
        responded = sent and not self.asked(look)
        self.state = BEGUN
        self.moved = self.guessed = False
        self._began_ns = now_ns
        self._asking = ()
        self._event_on = frozenset()
        self._settled = False
        self._sure = before is not None
        for made in look:
            if made.sent and not made.received and not responded:
                self._request = made.sent
        if not self._request and len(look) == 1:  # the first event of all was there before us
            self._request = look[0].sent
        self._last = _by_identity(look)
        self._still, self._still_ns = self._last, now_ns
        self._refer(self._last)
        if not look:  # a runtime that waits has a connection: this one closes what its event has come on
            self.state, self._came_ns = WORKING, now_ns
        if before is None:
            return
        gone = not self._last.keys() >= set(asked)  # of a client that closes what its event came on
        if not (gone or any(_received(made, before) for made in look)):
            return
        if responded:  # it was quicker than we
            self.state, self._settled = RESPONDING, True
        else:
            self.state = WORKING
            self._arrive(look, before, now_ns)

    def observe(self, look: Look, now_ns: int, continuous: bool = False, asked_ns: int = 0) -> int:
        """The state after another look. `continuous`: the environment cannot have been frozen since the last.
        `asked_ns` is a time before the kernel was asked, where `now_ns` is one after it had answered."""
        self.contradiction = self.contradiction or self._contradiction(look, asked_ns or now_ns, continuous)
        if self.contradiction:
            self.state = BROKEN
            return BROKEN
        before, last = self._last, _by_identity(look)
        self._last = last
        self.moved = last.keys() != before.keys() or any(
            (made.sent, made.received) != (before[made.identity].sent, before[made.identity].received) for made in look
        )
        if self.moved:
            self._still, self._still_ns = last, now_ns
        if self.state == WAITING and not self.moved:
            return WAITING
        if self.state in (BEGUN, WORKING):
            self.state = self._early(look, last, now_ns)
        if self.state in (RESPONDING, WAITING):
            self._asking = self._unanswered(look)
            self.state = WAITING if self._asking else RESPONDING
        return self.state

    def completed(self, look: Look) -> bool:
        """At the next event: has something been sent since the handler was seen at work?"""
        return self.state in (RESPONDING, WAITING) or (self.state == WORKING and self._sent_since(look))

    def rests(self, look: Look) -> bool:
        """Has nothing been sent since the last `observe`, which saw it WAITING? An event can't come to a runtime that
        has not asked for one: if nothing was sent from then until an event came, it had asked before."""
        before = self._last
        present = {made.identity for made in look}
        return bool(self._asking) and present.issuperset(self._asking) and not any(_sent(made, before) for made in look)

    def answered_ago_ms(self) -> int | None:
        """At most so long before the last look the runtime got its last answer; None if that cannot be told."""
        ago = [made.received_ago_ms for made in self._last.values() if made.received]
        return min(ago) + JIFFY_MS if ago else None

    def sent_unasked(self, look: Look) -> bool:
        """Has something been sent since the last `observe`, without anything having come in?"""
        return any(_sent(made, self._last) for made in look) and not any(_received(made, self._last) for made in look)

    def asked(self, look: Look) -> bool:
        """Is all that was sent since the last `observe` one request for an event, where it was taken to have asked?"""
        sent = [made for made in look if _sent(made, self._last)]
        return (
            len(sent) == 1
            and sent[0].identity in self._asking
            and sent[0].sent - self._last[sent[0].identity].sent == self._request > 0
        )

    def _contradiction(self, look: Look, now_ns: int, continuous: bool) -> str:
        stale = continuous and now_ns - self._still_ns >= STALE_MS * MS
        for made in look:
            before = self._last.get(made.identity)
            if before is None:
                continue
            if made.sent < before.sent or made.received < before.received:
                return f"{before.sent}/{before.received} bytes became {made.sent}/{made.received}"
            if made.received > before.received:
                continue
            if made.received_ago_ms < before.received_ago_ms - JIFFY_MS:
                return f"data came {made.received_ago_ms} ms ago and was not counted"
            since = self._still.get(made.identity)
            if stale and since is not None and made.received_ago_ms <= since.received_ago_ms:
                return f"the counts do not age: {made.received_ago_ms} ms"
        return ""

    def _early(self, look: Look, last: dict[bytes, Connection], now_ns: int) -> int:
        """Still BEGUN, or WORKING, or has something been sent?"""
        reference = self._reference
        if self._sent_since(look):
            if self.state == BEGUN:  # event and response between two looks: which of them came in, nobody knows
                self._refer(last)
                self._settled = True
            return RESPONDING
        if self.state == WORKING:
            if not self.moved:
                self._settled = True
            elif any(_received(made, reference) for made in look):
                self._event_on = frozenset(made.identity for made in look if _received(made, reference))
            late_ms = (now_ns - self._came_ns) / MS - PIECES_MS
            if any(_received(made, reference) and made.received_ago_ms + JIFFY_MS < late_ms for made in look):
                self.contradiction = "an answer came to what was not sent"
                return BROKEN
            self._refer(last)
            return WORKING
        if last.keys() != reference.keys() or self._came(look, now_ns):
            self.guessed = last.keys() == reference.keys() and not any(_received(made, reference) for made in look)
            self._arrive(look, reference, now_ns)
            return WORKING
        return BEGUN

    def _arrive(self, look: Look, before: dict[bytes, Connection], now_ns: int) -> None:
        """The event, or its beginning, has come since `before`."""
        came = [made.received - before[made.identity].received for made in look if made.identity in before]
        self._settled = 0 < sum(came) < PIECE
        self._event_on = frozenset(
            made.identity for made in look if made.identity in before and _received(made, before)
        )
        self._came_ns = now_ns
        self._refer(_by_identity(look))

    def _refer(self, last: dict[bytes, Connection]) -> None:
        self._reference = {identity: made for identity, made in last.items() if made.sent}

    def _came(self, look: Look, now_ns: int) -> bool:
        """Has the event come? If it was there before the first look, nothing moves: then by the time of what came
        last, which may also be the answer to the response before, where the invocations follow each other closely."""
        if any(made.identity in self._reference and _received(made, self._reference) for made in look):
            return True
        age_ms = (now_ns - self._began_ns) / MS
        if self._sure or age_ms < BESIDE_MS:
            return False
        return any(made.received and made.received_ago_ms <= age_ms + JIFFY_MS for made in look)

    def _sent_since(self, look: Look) -> bool:
        return any(_sent(made, self._reference) for made in look)

    def _unanswered(self, look: Look) -> tuple[bytes, ...]:
        """The connections with a request for an event that nothing has answered."""
        reference = self._reference
        if any(made.unsent for made in look):
            return ()
        anew = [made for made in look if made.identity not in reference and not made.received]
        if anew:
            return tuple(made.identity for made in anew if made.sent == self._request > 0)
        if not self._settled:
            return ()  # what came in may be the rest of the event
        old = [made for made in look if made.identity in reference]
        answered = tuple(
            made.identity for made in old if _sent(made, reference) and _received(made, reference) and not made.unread
        )
        again = tuple(
            made.identity
            for made in old
            if made.sent - reference[made.identity].sent == self._request > 0 and not _received(made, reference)
        )
        if again:  # an old connection that was taken out of a pool
            return again if answered else ()
        if self._event_on:
            # else it asks on another connection than it answers on
            return answered if self._event_on.intersection(answered) else ()
        anew_each = any(made.sent == self._request and made.received for made in reference.values())
        return () if anew_each else answered


def _sent(made: Connection, before: dict[bytes, Connection]) -> bool:
    """Has more been sent on this connection than `before` knows of?"""
    return made.sent > (before[made.identity].sent if made.identity in before else 0) or made.unsent > 0


def _received(made: Connection, before: dict[bytes, Connection]) -> bool:
    """Has more come in on this connection than `before` knows of?"""
    return made.received > (before[made.identity].received if made.identity in before else 0)


def _by_identity(look: Look) -> dict[bytes, Connection]:
    return {made.identity: made for made in look}
