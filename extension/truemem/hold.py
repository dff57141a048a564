"""Holding an invocation open until the runtime is done (`TRUEMEM_HOLD=always`), and letting go in time. Pure.

Every hold ends: by platform.runtimeDone, by a silence of telemetry, or well before the function's deadline.
"""

from __future__ import annotations

MS = 1_000_000

SILENCE_NS = 1000 * MS
"""platform.start comes 25 ms after INVOKE. After this long without it, runtimeDone cannot be counted on."""

MISSES = 3
"""Holds in a row that telemetry did not end: then holding itself ends, for this environment."""


class Hold:
    """The hold of one invocation; times in ns of the monotonic clock."""

    __slots__ = ("_heard", "_silent_at", "request_id", "until")

    def __init__(self, request_id: str, now_ns: int, remaining_ms: float) -> None:
        """`remaining_ms` is what the invocation's deadline leaves."""
        self.request_id = request_id
        margin_ms = max(100.0, remaining_ms / 10)
        self.until = now_ns + max(0, round((remaining_ms - margin_ms) * MS))
        """Let go then, whatever has or has not been heard."""
        self._silent_at = now_ns + SILENCE_NS
        self._heard = False

    def hear(self) -> None:
        """Telemetry about this invocation is coming: its end will come too."""
        self._heard = True

    def ends_at(self) -> int:
        """When to let go if nothing more is heard."""
        return self.until if self._heard else min(self.until, self._silent_at)
