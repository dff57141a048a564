"""Leak or not: looks at an environment's levels, one after the other, and a verdict that does not forget. Pure.

Two curves are looked at: the levels (medians) and their floors (minima). What a collector, a swap or a wave moves is in
the levels; a leak raises the floor as well.
"""

from __future__ import annotations

from .trend import LEAST_KIB, Trend, median, parts_of, trend

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
"""Until then only if the whole interval is above 0, and the memory limit is near, or not known: most that grows so far
is a cache, and there is time."""
NEAR = 4
"""The limit is near if growth reaches it within this multiple of the invocations so far,"""
IMMINENT = 1.5
"""and so near within this one that one look must do."""
SLOW_KIB = 1.25
"""Growth per invocation that is not called a leak while the limit is far: runtime clients themselves keep up to 0.3 KiB
of each invocation (glibc's setenv, for the trace id), and caches end as slowly."""
GATE_KIB = 1.0
"""The same for a gate."""
AGREE, OF = 2, 3
"""Looks of the last ones that must agree, if the slope of one is not certain, and the limit is not imminent."""
LEVELLED = 0.65
"""It has levelled off if its later half rises by less than this part of the rate at which it was called growing, for
certain,"""
GIVEN_BACK = 0.5
"""and it has been given back if so much of the growth is gone."""
STILL = 0.1
"""What is no leak is warming while its last third still rises by this part of the whole."""
SMALL_KIB = 128
"""Growth below this is not reported, though it may be even; early, below 1 KiB per invocation."""

LEVELLED_OFF = "levelled off"
FELL_BACK = "fell back"

SHORT = 600
"""The interval of so many invocations is twice as wide as their levels say: slow movements are not seen yet. That of
more of them is wider by less."""

CONFIDENCE = ((4096, 0.99), (1024, 0.95), (0, 0.75))
"""Of verdicts `growing` after so many invocations, so many were right (benchmarks/results/drift.md, "Confidence")."""


class LeakVerdict:
    """The verdict on one life of an environment: from a look to the next."""

    def __init__(self, is_patient: bool = True) -> None:
        """`is_patient`: does a leak have to be urgent, or long, to be called one? A gate that chooses its own events
        is not patient."""
        self._is_patient = is_patient
        self._looks: list[bool] = []
        """Of the last looks: did it grow?"""
        self._called_at = 0.0
        """The rate at which it was called growing, KiB per invocation,"""
        self._base = self._top = 0.0
        """and where growth began, and its highest level since, KiB."""
        self.name = ""
        """Empty before the first look."""
        self.growth = (0.0, 0.0, 0.0)
        """KiB per invocation, and its 95 % interval."""
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
        judged, judged_floors = levels[first:], floors[first:]
        of_levels, of_floors = trend(judged), trend(judged_floors)
        seen = of_floors if of_floors.goes_on and not of_levels.goes_on else of_levels
        per_level = invocations / len(levels)
        wider = (1 + SHORT / invocations) / per_level
        self.growth = (
            seen.slope / per_level,
            (seen.slope / per_level) - (seen.slope - seen.low) * wider,
            (seen.slope / per_level) + (seen.high - seen.slope) * wider,
        )
        has_been_there = max(levels[1 : len(levels) // 3]) >= max(levels[-(len(levels) // 4) :])
        goes_on = (of_levels.goes_on or of_floors.goes_on) and not has_been_there
        self._looks = [*self._looks, goes_on][-OF:]
        if self.since:
            self._withdraw(goes_on, levels, of_levels, per_level)
        elif goes_on and self._is_leak(seen.low > 0, invocations, room_kib):
            self.since, self.ended = invocations, ""
            self._called_at, self._base, self._top = self.growth[0], min(judged_floors), max(judged)
        if self.since:
            self.name, self.grown_kib = GROWING, max(0.0, levels[-1] - self._base)
            self.confidence = next(share for least, share in CONFIDENCE if invocations >= least)
        elif of_levels.is_rising and of_levels.last > STILL * of_levels.slope:
            self.name = WARMING
        else:
            self.name = _settled(levels, judged, of_levels, min(invocations, SMALL_KIB))
            if 0 < 2 * spikes <= invocations and self.name == STABLE:
                self.name = SPIKY  # where most have one, that is what an invocation needs

    def _is_leak(self, is_certain: bool, invocations: int, room_kib: float | None) -> bool:
        """Is growth that goes on a leak? `is_certain`: the levels' own interval is above 0."""
        rate, low, _ = self.growth
        if invocations < GROWING_FROM:
            return False
        room = room_kib / (invocations * rate) if room_kib is not None else None
        if room is not None and room <= IMMINENT:
            return True
        if not (is_certain or sum(self._looks) >= AGREE) or (invocations < URGENT_UNTIL and low <= 0):
            return False
        if room is not None and room <= NEAR:
            return True
        if not self._is_patient:
            return rate >= GATE_KIB
        return rate >= SLOW_KIB and (invocations >= URGENT_UNTIL or room_kib is None)

    def _withdraw(self, goes_on: bool, levels: Sequence[float], seen: Trend, per_level: float) -> None:
        """Only a level ends it: another form of growth does not."""
        self._top = max(self._top, levels[-1])
        sixth = max(1, len(levels) // 6)
        if median(levels[-sixth:]) < self._base + GIVEN_BACK * (self._top - self._base):
            self.ended = FELL_BACK
        elif not goes_on and seen.late_high / per_level < LEVELLED * self._called_at:
            self.ended = LEVELLED_OFF
        if self.ended:
            self.since, self._looks = 0, []


def levels_of(values: Sequence[float], count: int) -> tuple[list[float], list[float]]:
    """So many levels of the values, or fewer, and their floors: where all values are there at once."""
    parts = parts_of(values, min(count, len(values)))
    return [median(part) for part in parts], [min(part) for part in parts]


def noise_of(levels: Sequence[float]) -> float:
    """Standard deviation of one level, KiB, from how far each lies off its two neighbours: growth cancels out."""
    off = [abs(levels[at] - (levels[at - 1] + levels[at + 1]) / 2) for at in range(1, len(levels) - 1)]
    return median(off) * 1.4826 / 1.2247 if off else 0.0


def _settled(levels: Sequence[float], judged: Sequence[float], seen: Trend, floor_kib: float) -> str:
    """The verdict where no large growth goes on: PLATEAU if there was some, WARMING if a small one is beyond doubt."""
    noise = noise_of(judged)
    start = levels[max(1, len(levels) // 24)]
    last = parts_of(levels, 3)[2]
    rise = median(last) - start
    low, settled = seen.low, STABLE
    if rise > max(2 * LEAST_KIB, 6 * noise, start / 50) and min(last) - start > rise / 2:
        settled = PLATEAU
        end = trend(judged[-max(6, len(judged) // 3) :])
        low = end.low
    return WARMING if low * len(judged) > max(floor_kib, 3 * noise) else settled
