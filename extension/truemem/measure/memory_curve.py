"""The flight recorder: the curve of one window, kept for the case that the invocation dies. Pure.

Dense where it is young, thinner the longer ago: the last moments tell most.
"""

from __future__ import annotations

from ..support.units import mib

DYING_NS = 500_000_000
"""Processes of an environment that dies end one after the other. After one has ended, the others are no picture of what
the function held, for so long."""

KEPT = 64
"""Samples kept as they are; as many older ones are thinned."""

SHOWN = 32
"""Samples of a tail."""

LAST = 8
"""Samples at the end of a tail that are all there."""

RATE_NS = (100_000_000, 1_000_000_000)
"""The growth rate is the higher one of these times: of a burst, or of memory that is taken piece by piece."""

CHECKPOINT = 1 / 16
"""The curve is written to the journal again when the level has moved by this share of the limit,"""
CHECKPOINT_URGENT = 1 / 64
"""or by this share where the limit is near,"""
CHECKPOINT_NS = 1_000_000_000
"""and after this time in any case: a level that has not moved since is news as well."""
UNLIMITED_KIB = 256 * 1024
"""In place of a limit that is not known."""


class WholePicture:
    """When was all of the function seen? Its processes end one after the other when it dies: what is seen then is only
    a part. Some functions end processes all the time: a picture may be that of a part if the last one is too old.
    Times are epoch ns, by a clock that may be set back."""

    def __init__(self) -> None:
        self._ended_ns = -DYING_NS
        self.seen_ns = 0
        """When the last whole picture was taken."""

    def process_ended(self, now_ns: int) -> None:
        """A process of the function was seen to have ended."""
        self._ended_ns = now_ns

    def is_dying(self, now_ns: int) -> bool:
        """Has a process of the function ended just now?"""
        return 0 <= now_ns - self._ended_ns < DYING_NS

    def take(self, now_ns: int) -> bool:
        """Processes of the function are seen now: is this the picture to keep?"""
        if self.is_dying(now_ns) and 0 <= now_ns - self.seen_ns < DYING_NS:
            return False
        self.seen_ns = now_ns
        return True


class CurveCheckpoint:
    """Decides when the curve of the invocation that runs is written to the journal: at its first sample, and later as
    its level moves."""

    def __init__(self, limit_kib: int) -> None:
        self._limit = limit_kib or UNLIMITED_KIB
        self._level = -1
        self._at_ns = 0

    def begin(self) -> None:
        """An invocation begins."""
        self._level = -1

    def due(self, level_kib: int, urgent: bool, at_ns: int = 0) -> bool:
        """Is it to be written at this level? `urgent`: the invocation may be about to die. `at_ns`: now, monotonic."""
        moved = abs(level_kib - self._level)
        is_old = at_ns - self._at_ns >= CHECKPOINT_NS
        if self._level >= 0 and not is_old and moved < self._limit * (CHECKPOINT_URGENT if urgent else CHECKPOINT):
            return False
        self._level, self._at_ns = level_kib, at_ns
        return True


class MemoryCurve:
    """Samples of the function's level: (epoch ns, KiB), oldest first."""

    def __init__(self) -> None:
        self.samples: list[tuple[int, int]] = []

    def see(self, at_ns: int, level_kib: int) -> None:
        """Add a sample, unless its level is 0: that was not read."""
        if level_kib <= 0:
            return
        self.samples.append((at_ns, level_kib))
        if len(self.samples) > 2 * KEPT:
            del self.samples[1:KEPT:2]

    def last_ns(self) -> int:
        """When the last sample was, 0 without one."""
        return self.samples[-1][0] if self.samples else 0

    def tail(self, since_ns: int, end_ns: int) -> list[list[float]]:
        """The samples of `thinned` as pairs of (ms before `end_ns`, MiB)."""
        return [[round(max(0, end_ns - at_ns) / 1e6, 1), mib(level)] for at_ns, level in self.thinned(since_ns, end_ns)]

    def thinned(self, since_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """At most SHOWN of the samples, oldest first, and the more of them the closer to `end_ns`; none from before
        `since_ns` but for the last one, if there was none since."""
        told = [sample for sample in reversed(self.samples) if sample[0] >= since_ns] or self.samples[-1:]
        agos = [max(0, end_ns - at_ns) for at_ns, _ in told]
        step = 0.0
        if len(told) > SHOWN:  # the last ones all, then ever fewer, back to the first
            step = (agos[-1] / max(1, agos[LAST - 1])) ** (1 / (SHOWN - LAST))
        shown: list[tuple[int, int]] = []
        wanted_ns = 0.0
        for ago_ns, sample in zip(agos, told, strict=True):
            if ago_ns >= wanted_ns and len(shown) < SHOWN:
                shown.append(sample)
                if len(shown) >= LAST:
                    wanted_ns = ago_ns * step
        return shown[::-1]

    def ns_until(self, level_kib: int) -> float | None:
        """Time from the last sample until this level, at the rate of the last two; None if it does not grow."""
        if len(self.samples) < 2:
            return None
        (before_ns, before), (last_ns, last) = self.samples[-2:]
        return max(0, level_kib - last) * (last_ns - before_ns) / (last - before) if last > before else None

    def growth_kib_per_s(self) -> float | None:
        """Over one of RATE_NS before the last sample, or since the one before it; None without two."""
        rates = [rate for rate in map(self._rate, RATE_NS) if rate is not None]
        return max(rates) if rates else None

    def _rate(self, span_ns: int) -> float | None:
        if len(self.samples) < 2:
            return None
        last_ns, last = self.samples[-1]
        first_ns, first = self.samples[-2]
        for at_ns, level in reversed(self.samples):
            if last_ns - at_ns > span_ns:
                break
            if at_ns < first_ns:
                first_ns, first = at_ns, level
        return (last - first) * 1e9 / (last_ns - first_ns) if last_ns > first_ns else None
