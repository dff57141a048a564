"""May holds be ended by what the connections show? Only after it has agreed with platform.runtimeDone. Pure.

One contradiction ends it, for the rest of the environment's life. Times are epoch ns, by the platform's clock, which
is ours: both run in the same machine.
"""

from __future__ import annotations

from .conversation import WAITING, WORKING

MS = 1_000_000

AGREEMENTS = 3
"""Invocations that must have agreed before the first hold."""

EARLY_NS = 20 * MS
"""Waiting seen longer than this before the runtime was done: the signal is wrong. (The platform notes the end when it
gets to it.)"""

CONFIRMED_NS = 2 * MS
"""Within this time of the runtime's end a rest is borne out by it. (Event times are in whole ms, cut off.)"""

LATE_NS = 10 * MS
"""The same for work seen after it was done."""


class Sight:
    """What the looks showed in one invocation."""

    __slots__ = ("completed", "proven", "request_id", "rested_ns", "waited_ns", "worked_first_ns", "worked_ns")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.worked_first_ns = 0
        self.worked_ns = 0
        """The first and the last look that saw the handler at work; 0: none did."""
        self.waited_ns = 0
        """The first look of those that saw the runtime waiting until now; 0: none did."""
        self.rested_ns = 0
        """When the window was closed for that; 0: it was not."""
        self.proven = False
        """It was a rest: nothing was sent between it and the next event."""
        self.completed = False
        """By the next event it had sent something."""

    def note(self, state: int, now_ns: int, sure: bool = True) -> None:
        """One more look. `sure`: where it saw work, it was this invocation's; the environment cannot have been frozen
        and thawed with the next event since the last, nor this one have been over before it was first looked at."""
        if state == WORKING:
            self.worked_first_ns = self.worked_first_ns or now_ns
            if sure:
                self.worked_ns = now_ns
        if state != WAITING:
            self.waited_ns = 0
        elif not self.waited_ns:
            self.waited_ns = now_ns


class Trust:
    """Grows by agreement, ends by contradiction."""

    def __init__(self) -> None:
        self.agreed = 0
        self.ended = ""
        """Why the signal is not used any more, or ""."""

    @property
    def usable(self) -> bool:
        """May a hold rely on it?"""
        return not self.ended and self.agreed >= AGREEMENTS

    def judge(self, sight: Sight, done_ns: int) -> bool:
        """Compare what was seen of an invocation with the platform's own word, `done_ns`. True where a rest was
        seen, and the platform bears it out."""
        waited_ns = sight.rested_ns or sight.waited_ns
        if waited_ns and waited_ns < done_ns - EARLY_NS and not sight.proven:
            self.contradict(f"seen waiting {(done_ns - waited_ns) / MS:.0f} ms before platform.runtimeDone")
        elif sight.worked_ns > done_ns + LATE_NS:
            self.contradict(f"seen working {(sight.worked_ns - done_ns) / MS:.0f} ms after platform.runtimeDone")
        elif 0 < sight.worked_first_ns < done_ns and (waited_ns or sight.completed):
            self.agreed += 1
        return bool(sight.rested_ns) and sight.rested_ns >= done_ns - CONFIRMED_NS

    def contradict(self, why: str) -> None:
        """The signal is wrong."""
        self.ended = self.ended or why
