"""The flight recorder: the curve of one window, kept for the case that the invocation dies. Pure.

Dense where it is young, thinner the longer ago: the last moments tell most.
"""

from __future__ import annotations

KEPT = 64
"""Samples kept as they are; as many older ones are thinned."""

SHOWN = 32
"""Samples of a tail."""

STEP = 1.15
"""In a tail, a sample that is at least this many times as long ago as the one after it."""

RATE_NS = 100_000_000
"""The growth rate is that of the samples of this time."""

DRAWN = 1 / 16
"""The journal's curve is drawn anew when the level has moved by this share of the limit,"""
DRAWN_URGENT = 1 / 64
"""or by this where the limit is near."""
UNLIMITED_KIB = 256 * 1024
"""In place of a limit that is not known."""


class Drawn:
    """When is the curve of the invocation that runs to be written down? First at its first sample."""

    __slots__ = ("_level", "_limit")

    def __init__(self, limit_kib: int) -> None:
        self._limit = limit_kib or UNLIMITED_KIB
        self._level = -1

    def begin(self) -> None:
        """An invocation begins."""
        self._level = -1

    def due(self, level_kib: int, urgent: bool) -> bool:
        """`urgent`: may the invocation be about to die?"""
        moved = abs(level_kib - self._level)
        if self._level >= 0 and moved < self._limit * (DRAWN_URGENT if urgent else DRAWN):
            return False
        self._level = level_kib
        return True


class Flight:
    """Samples of the function's level: (epoch ns, KiB), oldest first."""

    __slots__ = ("samples",)

    def __init__(self) -> None:
        self.samples: list[tuple[int, int]] = []

    def see(self, at_ns: int, level_kib: int) -> None:
        """One sample more."""
        self.samples.append((at_ns, level_kib))
        if len(self.samples) > 2 * KEPT:
            del self.samples[1:KEPT:2]

    def last_ns(self) -> int:
        """When the last sample was, 0 without one."""
        return self.samples[-1][0] if self.samples else 0

    def tail(self, since_ns: int, end_ns: int) -> list[list[float]]:
        """At most SHOWN pairs of (ms before `end_ns`, MiB), oldest first; none from before `since_ns`."""
        shown: list[list[float]] = []
        wanted_ns = 0.0
        for at_ns, level in reversed(self.samples):
            ago_ns = max(0, end_ns - at_ns)
            if at_ns < since_ns or len(shown) == SHOWN:
                break
            if ago_ns >= wanted_ns:
                shown.append([round(ago_ns / 1e6, 1), round(level / 1024, 2)])
                if len(shown) >= SHOWN // 4:  # the last ones all, then ever fewer
                    wanted_ns = ago_ns * STEP
        return shown[::-1]

    def ns_until(self, level_kib: int) -> float | None:
        """Time from the last sample until this level, at the rate of the last two; None if it does not grow."""
        if len(self.samples) < 2:
            return None
        (before_ns, before), (last_ns, last) = self.samples[-2:]
        return max(0, level_kib - last) * (last_ns - before_ns) / (last - before) if last > before else None

    def growth_kib_per_s(self) -> float | None:
        """Over the last 100 ms before the last sample, or the last two samples; None without two."""
        if len(self.samples) < 2:
            return None
        last_ns, last = self.samples[-1]
        first_ns, first = self.samples[-2]
        for at_ns, level in reversed(self.samples):
            if last_ns - at_ns > RATE_NS:
                break
            if at_ns < first_ns:
                first_ns, first = at_ns, level
        return (last - first) * 1e9 / (last_ns - first_ns) if last_ns > first_ns else None
