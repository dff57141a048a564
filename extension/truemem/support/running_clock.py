"""Time that the environment has run: the monotonic clock without the freezes, as far as a process can tell."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class RunningClock:
    """What a wait took beyond its timeout was a freeze."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self.running_ms = 0.0
        """Time that has passed for us."""
        self._timeout_ms = 0
        self._asked = self._woke = self._now_ns()

    def before_wait(self, timeout_ms: int) -> None:
        """Call just before waiting for at most `timeout_ms`."""
        self._timeout_ms = timeout_ms
        self._asked = self._now_ns()

    def after_wait(self) -> None:
        """Call just after waiting."""
        busy_ms = (self._asked - self._woke) / 1e6
        self._woke = self._now_ns()
        waited_ms = min((self._woke - self._asked) / 1e6, self._timeout_ms + 1)
        # After a restore from a snapshot, even this clock may have gone back (clock_gettime(2) does not know of those).
        self.running_ms += max(0.0, busy_ms) + max(0.0, waited_ms)
