"""The clocks of this machine, passed in as one object: a test passes another. And the time without the freezes."""

from __future__ import annotations

import time


class Clock:
    """Monotonic, wall and CPU time, all in ns."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    """For intervals. It goes on while the environment is frozen."""
    epoch_ns = staticmethod(time.time_ns)
    """As the platform's events tell it. It may be set back."""
    cpu_ns = staticmethod(time.process_time_ns)
    """CPU time of this process."""


BUSY_MS = 50.0
"""Longest time between two waits. What is done there takes some ms; a freeze that falls into it may last hours."""


class RunningClock:
    """Time that the environment has run, without its freezes. A wait that takes longer than its timeout shows one, and
    so does work that takes longer than BUSY_MS."""

    def __init__(self, clock: Clock) -> None:
        self._now_ns = clock.monotonic_ns
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
        self.running_ms += max(0.0, min(busy_ms, BUSY_MS)) + max(0.0, waited_ms)
