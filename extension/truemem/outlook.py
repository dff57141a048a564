"""When will this invocation end? From how long the last ones took: where to look often, and where hardly. Pure; ms."""

from __future__ import annotations

KEPT = 32
"""Invocations that are remembered."""

SHORTEST_MS = 0.5
"""Between two looks."""


class Outlook:
    """The durations of the last invocations."""

    def __init__(self) -> None:
        self._durations: list[float] = []
        self._sorted: list[float] = []

    @property
    def longest_ms(self) -> float:
        """Of those that are remembered; 0 if there are none."""
        return self._sorted[-1] if self._sorted else 0.0

    def add(self, duration_ms: float) -> None:
        """One more invocation has ended."""
        self._durations = [*self._durations[1 - KEPT :], duration_ms]
        self._sorted = sorted(self._durations)

    def interval_ms(self, age_ms: float, look_ms: float) -> float:
        """Time until the next look at an invocation of this age, where a look costs `look_ms` of CPU time.

        Far from the earliest end that is to be expected: three quarters of the way there. From there on, as often as
        costs least, the looks and the time lost between the end and the next look taken together: where ends are to
        be expected at a rate h, that is every sqrt(2 * look_ms / h).
        """
        durations = self._sorted
        first = 0
        while first < len(durations) and durations[first] <= age_ms:
            first += 1
        left = len(durations) - first
        if not left:  # longer than any before
            return max(SHORTEST_MS, age_ms / 100)
        near = max(1, left // 4)
        rate = near / left / max(durations[first + near - 1] - age_ms, SHORTEST_MS)
        return float(max(SHORTEST_MS, (durations[first] - age_ms) * 3 / 4, (2 * look_ms / rate) ** 0.5))
