"""Holding an invocation open until the runtime is done, and letting go in time. Pure; times in monotonic ns.

Every hold has several ends that do not depend on each other. Where all that it relies on fails at once, it is let go
well before the function's deadline, and (`auto`) after no more than a multiple of what invocations took before.
"""

from __future__ import annotations

from .conversation import BEGUN, RESPONDING, WAITING

MS = 1_000_000
FOREVER = 1 << 62

SILENCE_NS = 1000 * MS
"""`always`: platform.start comes 25 ms after INVOKE. After this long without it, runtimeDone cannot be counted on."""

SILENCE_AUTO_NS = 45 * MS
"""The same under `auto`, where a hold costs nothing to give up."""

UNSEEN_NS = 20 * MS
"""`auto`: after this long the runtime must have been seen to get its event."""

QUIET_NS = 10 * MS
"""`auto`: something was sent, the runtime is not seen to wait, and nothing has moved for this long."""

MISSES = 3
"""Holds in a row that nothing ended which they waited for: then holding itself ends, for this environment."""


def patience_ns(longest_ms: float) -> int:
    """How long `auto` holds at most, where no invocation has taken longer than `longest_ms`."""
    return round((2 * longest_ms + 100) * MS)


class Hold:
    """The hold of one invocation."""

    __slots__ = ("_quiet_at", "_silent_at", "_unseen_at", "request_id", "until")

    def __init__(self, request_id: str, now_ns: int, remaining_ms: float, auto_for_ns: int = 0) -> None:
        """`remaining_ms` is what the invocation's deadline leaves; `auto_for_ns` the patience of `auto`, 0 for
        `always`."""
        self.request_id = request_id
        margin_ms = max(100.0, remaining_ms / 10)
        self.until = now_ns + max(0, round((remaining_ms - margin_ms) * MS))
        """Let go then, whatever has or has not been heard."""
        if auto_for_ns:
            self.until = min(self.until, now_ns + auto_for_ns)
        self._silent_at = now_ns + (SILENCE_AUTO_NS if auto_for_ns else SILENCE_NS)
        self._unseen_at = now_ns + UNSEEN_NS if auto_for_ns else FOREVER
        self._quiet_at = FOREVER

    def hear(self) -> None:
        """Telemetry about this invocation is coming: its end will come too."""
        self._silent_at = FOREVER

    def see(self, state: int, moved: bool, now_ns: int) -> None:
        """What a look at the connections showed."""
        if state != BEGUN:
            self._unseen_at = FOREVER
        if state not in (RESPONDING, WAITING):
            self._quiet_at = FOREVER
        elif moved or self._quiet_at == FOREVER:
            self._quiet_at = now_ns + QUIET_NS

    def ends_at(self) -> int:
        """When to let go if nothing more is heard or seen."""
        return min(self.until, self._silent_at, self._unseen_at, self._quiet_at)

    def quiet(self, now_ns: int) -> bool:
        """Has the response been sent, as far as can be told, and the end been missed?"""
        return now_ns >= self._quiet_at

    def why(self, now_ns: int) -> str:
        """Which of the ends has come."""
        if self.quiet(now_ns):
            return "the response was sent, and nothing has moved since"
        if now_ns >= self._unseen_at:
            return "the event was not seen to arrive"
        if now_ns >= self._silent_at:
            return "no telemetry comes"
        return "it takes too long" if now_ns >= self.until else "the runtime was not seen to come back"


class Purse:
    """What holding may cost: a share of the billed time, earned before it is spent. In ms."""

    LIMIT_MS = 50.0
    """No more is saved up than this."""
    FIRST_COST_MS = 1.5
    RUN = 8
    """Holds that must be affordable before there is the first: a hold ends its own window exactly and begins the next
    one, so that they are worth more one after the other."""

    def __init__(self, share: float) -> None:
        """`share` of billed time: 0.01 is 1 %."""
        self._share = share
        self._saved = 0.0
        self._cost = self.FIRST_COST_MS
        """What a hold costs, by experience."""
        self._running = False

    def earn(self, billed_ms: float) -> None:
        """So much time is billed, for whatever reason."""
        self._saved = min(self.LIMIT_MS, self._saved + max(0.0, billed_ms) * self._share)

    def spend(self, held_ms: float) -> None:
        """A hold was ended so long after the runtime was done."""
        self._saved -= held_ms
        self._cost += (min(held_ms, self.LIMIT_MS / 2) - self._cost) / 8

    def refund(self, ms: float) -> None:
        """So much less was spent than it had seemed."""
        self._saved += ms
        self._cost -= min(ms, self._cost) / 8

    def affords(self) -> bool:
        """Is there enough for one more hold?"""
        wanted = self._cost if self._running else min(self._cost * self.RUN, self.LIMIT_MS)
        self._running = self._saved >= wanted
        return self._running
