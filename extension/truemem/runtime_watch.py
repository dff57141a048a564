"""Watches the runtime's talk with the Runtime API: looks, keeps the conversation's state, and what it is worth.

Whatever fails in here ends the watching, and nothing else.
"""

from __future__ import annotations

import time

from .conversation import BEGUN, BROKEN, WAITING, WORKING, Conversation
from .log import log
from .runtime_connections import RuntimeConnections
from .trust import Sight, Trust

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .inet_diag import Connection
    from .processes import ProcessTable
    from .procfs import Procfs
    from .telemetry import Event

MS = 1_000_000

PENDING = 8
"""Invocations whose platform.runtimeDone may still come."""

IDLE_LOOK_NS = 3 * MS
"""Where nothing is held: shortest interval of looks,"""
IDLE_LOOK_AGE = 8
"""and the part of an invocation's age that is their interval later."""


class RuntimeWatch:
    """One environment's. States are those of `conversation`."""

    def __init__(self, table: ProcessTable, proc: Procfs, wanted: bool = True) -> None:
        """`wanted=False` never looks."""
        self.trust = Trust()
        if not wanted:
            self.trust.contradict("not wanted")
        self.state = BEGUN
        self.worked_until_ns = 0
        """The last look that did not see it waiting: monotonic ns."""
        self.moved_ns = 0
        """The last look that saw anything move: monotonic ns."""
        self._table = table
        self._proc = proc
        self._connections: RuntimeConnections | None = None
        self._conversation = Conversation()
        self._sights: list[Sight] = []
        self._active = False
        self._began_ns = self._looked_ns = 0
        self._resting = False

    @property
    def watching(self) -> bool:
        """Is there an invocation to look at, and a signal that may be right?"""
        return self._active and not self.trust.ended

    def due(self, now_ns: int) -> bool:
        """Is it time for another look, where nothing is held? Each costs as much as a sample."""
        return self.watching and now_ns - self._looked_ns >= max(
            IDLE_LOOK_NS, (now_ns - self._began_ns) // IDLE_LOOK_AGE
        )

    @property
    def moved(self) -> bool:
        """Did the last look see anything move?"""
        return self._conversation.moved

    def begin(self, request_id: str, wanted: bool = True) -> None:
        """INVOKE has come. `wanted=False`: nobody will look at this one."""
        if self.trust.ended or not (wanted or self._active):
            return
        look = self._look()
        if look is None:
            return
        if self._active:
            self._sights[-1].completed = self._conversation.completed(look)
        self._active = wanted
        if not wanted:
            self._conversation.state = BEGUN  # what it knows will be old
            return
        self._sights = [*self._sights[1 - PENDING :], Sight(request_id)]
        self._resting = False
        self._conversation.begin(look, time.time_ns())
        self.state = self._conversation.state
        self.worked_until_ns = self.moved_ns = self._began_ns = self._looked_ns = time.monotonic_ns()

    def look(self, continuous: bool = False) -> int:
        """The state as of now. `continuous`: the environment cannot have been frozen since the last look."""
        if not self.watching:
            return BROKEN
        asked = time.time_ns()
        look = self._look()
        if look is None:
            return BROKEN
        if self._resting:
            self._check_rest(look)
            return self.state
        now, monotonic = time.time_ns(), time.monotonic_ns()
        self._looked_ns = monotonic
        self.state = self._conversation.observe(look, now, continuous, asked)
        if self.state == BROKEN:
            self._end(self._conversation.contradiction)
        # We may have been kept from running in between: it worked until the one at least, it waits since the other.
        sure = continuous and not self._conversation.guessed
        self._sights[-1].note(self.state, asked if self.state == WORKING else now, sure)
        if self.state != WAITING:
            self.worked_until_ns = monotonic
        if self._conversation.moved:
            self.moved_ns = monotonic
        return self.state

    def unmoved(self) -> bool | None:
        """Has the runtime sent nothing since it was last seen waiting? None if nobody knows: it may have sent the
        response to the next event already."""
        look = self._look() if self.watching and self.state == WAITING else None
        if look is None:
            return None
        rests = self._conversation.rests(look)
        self._sights[-1].proven = rests and self._resting
        disproven = self._conversation.sent_unasked(look) or self._conversation.asked(look)
        return True if rests else False if disproven else None

    def back_for_ms(self) -> float:
        """At most so long it has been waiting."""
        unseen_ms = (time.monotonic_ns() - self.worked_until_ns) / MS
        answered_ms = self._conversation.answered_ago_ms()
        return min(unseen_ms, answered_ms) if answered_ms is not None else unseen_ms

    def rest(self) -> None:
        """The window is closed: from now on it has nothing to send before the next event."""
        self._resting = True
        self._sights[-1].rested_ns = time.time_ns()

    def done(self, event: Event) -> bool:
        """The platform says that the runtime was done with an invocation. True where a rest was seen then, and not
        before."""
        for sight in self._sights:
            if sight.request_id == event.request_id and event.time_ns is not None and not self.trust.ended:
                confirmed = self.trust.judge(sight, event.time_ns)
                if self.trust.ended:
                    self._end(self.trust.ended)
                return confirmed
        return False

    def _check_rest(self, look: list[Connection]) -> None:
        """No event has come to us. If it has come to the runtime, it may be at work again: else it must rest."""
        if self._conversation.rests(look):
            return
        self.state = BEGUN
        if self._conversation.sent_unasked(look) and not self._conversation.asked(look):
            self._end("the runtime was seen waiting, and sent more before an event came")

    def _look(self) -> list[Connection] | None:
        try:
            if self._connections is None:
                self._connections = RuntimeConnections(self._table.runtime_address(), self._table, self._proc)
            return self._connections.look()
        except Exception as error:  # DiagError, or a bug of ours: in both cases there is nothing to rely on
            self._end(f"{error}")
            return None

    def _end(self, why: str) -> None:
        self.trust.contradict(why)
        self.state = BROKEN
        if self._connections is not None:
            self._connections.close()
            self._connections = None
        log("warn", f"the runtime's connections are not watched any more: {why}")
