"""Leak or not: looks at an environment's levels, one after the other. Pure.

The floors of the levels (minima) are what is judged: what a collector, a swap or a wave moves is above them, and a leak
raises them as well. Growth is called a leak if two things hold: its 95 % interval is above 0, and it goes on at the end
as before. So no verdict contradicts the interval that stands beside it.
"""

from __future__ import annotations

from .trend import LEAST_KIB, Trend, going_on, median, next_step, parts_of, trend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

STABLE = "stable"
WARMING = "warming"
PLATEAU = "plateau"
GROWING = "growing"
SPIKY = "spiky"
INSUFFICIENT = "insufficient"

GROWING_FROM = 128
"""Invocations before growth may be called a leak: until then most caches grow as well."""
URGENT_UNTIL = 1024
"""Until then only if the memory limit is near, or not known: most that grows so far is a cache, and there is time."""
NEAR = 4
"""The limit is near if growth reaches it within this multiple of the invocations so far."""
SLOW_KIB = 1.25
"""Growth per invocation that is not called a leak while the limit is far: caches end as slowly."""
GATE_KIB = 1.0
"""The same for a gate."""
GIVEN_BACK = 0.5
"""Growth has been given back if so much of it is gone."""
CERTAIN_KIB = 0.01
"""Growth is certain if the low end of its interval is above this: the line has two decimals."""
SMALL_KIB, EARLY_KIB, RUNTIME_KIB = 128, 1.0, 0.3
"""Certain growth is not reported below this in all, nor, early, below EARLY_KIB per invocation, nor later below
RUNTIME_KIB: clients of a runtime keep as much of each invocation (glibc's setenv, for the trace id)."""
LEAST_LEVELS = 6
"""A trend needs so many."""
OPEN_KIB = 16
"""Where as much growth per invocation as this is within the interval, it is too early for `stable` and `plateau`."""

LEVELLED_OFF = "levelled off"
FELL_BACK = "fell back"

CONFIDENCE = ((4096, 0.94), (1024, 0.88), (0, 0.84))
"""Of verdicts `growing` after so many invocations, so many were right (benchmarks/results/drift.md, "Confidence")."""


class LeakVerdict:
    """The verdict on one life of an environment: from a look to the next."""

    def __init__(self, is_patient: bool = True) -> None:
        """`is_patient`: does a leak have to be urgent, or long, to be called one? A gate that chooses its own events
        is not patient."""
        self._is_patient = is_patient
        self._base = self._top = 0.0
        """Where growth began, and its highest level since, KiB."""
        self.name = ""
        """Empty before the first look."""
        self.growth = (0.0, 0.0, 0.0)
        """KiB per invocation, and its 95 % interval. Where it has stopped, that of the time since."""
        self.since = 0
        """The invocation at which it was called growing; 0 if it is not."""
        self.grown_kib = 0.0
        """What it has grown by in all."""
        self.confidence = 0.0
        self.ended = ""
        """Why it is not called growing any more."""

    def look(
        self,
        levels: Sequence[float],
        floors: Sequence[float],
        invocations: int,
        room_kib: float | None = None,
        spikes: int = 0,
    ) -> None:
        """Judge at least eight levels, KiB, evenly spaced over all `invocations` of this life, and the floors of the
        same. `room_kib` is left until the memory limit; None where that is not known. `spikes`: how many invocations
        had one."""
        first = max(2, len(levels) // 6)  # what is loaded and imported at the start
        judged = floors[first:]
        per_level = invocations / len(levels)
        seen = self._see(judged, per_level)
        rate, low, _ = self.growth
        is_certain = low > CERTAIN_KIB
        is_large = seen.slope * len(judged) > LEAST_KIB
        going = going_on(floors, first, seen)
        if self.since:
            self._withdraw(going, levels)
        elif is_certain and is_large and going > 0 and self._is_leak(rate, invocations, room_kib):
            self.since, self.ended = invocations, ""
            self._base, self._top = min(judged), max(levels[first:])
        if self.since and is_certain:
            self.name, self.grown_kib = GROWING, max(0.0, levels[-1] - self._base)
            self.confidence = next(share for least, share in CONFIDENCE if invocations >= least)
            return
        self.name = self._settled(levels, judged, per_level)
        if 0 < 2 * spikes <= invocations and self.name == STABLE:
            self.name = SPIKY  # where most have one, that is what an invocation needs

    def _see(self, judged: Sequence[float], per_level: float) -> Trend:
        """Set the growth to that of some levels."""
        seen = trend(judged, len(judged) * per_level)
        self.growth = (seen.slope / per_level, seen.low / per_level, seen.high / per_level)
        return seen

    def _is_leak(self, rate: float, invocations: int, room_kib: float | None) -> bool:
        """Is certain growth that goes on a leak?"""
        if invocations < GROWING_FROM:
            return False
        if room_kib is not None and room_kib <= NEAR * invocations * rate:
            return True
        if not self._is_patient:
            return rate >= GATE_KIB
        return rate >= SLOW_KIB and (invocations >= URGENT_UNTIL or room_kib is None)

    def _withdraw(self, going: float, levels: Sequence[float]) -> None:
        """End it if it has been given back, or does not go on."""
        self._top = max(self._top, levels[-1])
        half = self._base + GIVEN_BACK * (self._top - self._base)
        if going <= 0 or median(levels[-max(1, len(levels) // 6) :]) < half:
            self.ended = FELL_BACK if levels[-1] < half else LEVELLED_OFF
            self.since = 0

    def _settled(self, levels: Sequence[float], judged: Sequence[float], per_level: float) -> str:
        """The verdict where nothing is called a leak: WARMING while growth is certain, or while the interval is too
        wide to deny it. Else PLATEAU if there was growth."""
        whole, step = self.growth, next_step(judged)
        small_kib = max(RUNTIME_KIB, min(EARLY_KIB, SMALL_KIB / (len(judged) * per_level)))
        for since in (0, len(judged) // 2, len(judged) * 2 // 3):
            late = judged[since:]
            if len(late) < LEAST_LEVELS:
                break
            self._see(late, per_level)
            rate, low, high = self.growth
            high = max(high, step / (len(late) * per_level))  # the next step may be due
            self.growth = (rate, low, high)
            if (low <= 0 or rate <= small_kib) and high <= OPEN_KIB:
                start = levels[max(1, len(levels) // 24)]
                last = parts_of(levels, 3)[2]
                rise = median(last) - start
                grew = rise > max(2 * LEAST_KIB, 6 * noise_of(levels), start / 50) and min(last) - start > rise / 2
                return PLATEAU if grew else STABLE
        self.growth = whole
        return WARMING


def levels_of(values: Sequence[float], count: int) -> tuple[list[float], list[float]]:
    """So many levels of the values, or fewer, and their floors: where all values are there at once."""
    parts = parts_of(values, min(count, len(values)))
    return [median(part) for part in parts], [min(part) for part in parts]


def noise_of(levels: Sequence[float]) -> float:
    """Standard deviation of one level, KiB, from how far each lies off its two neighbours: growth cancels out."""
    off = [abs(levels[at] - (levels[at - 1] + levels[at + 1]) / 2) for at in range(1, len(levels) - 1)]
    return median(off) * 1.4826 / 1.2247 if off else 0.0
