"""Leak or not: a verdict on the growth of CurrentRSS over the life of the function's processes. Pure.

A level is the median of CurrentRSS, in KiB, over a few invocations. Levels are evenly spaced over all invocations: when
there are LEVELS of them, each two are replaced by their mean. So a few hundred bytes of state are enough. A reset
starts new processes, and a new history.
"""

from __future__ import annotations

from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

STABLE = "stable"
WARMING = "warming"
PLATEAU = "plateau"
GROWING = "growing"
SPIKY = "spiky"
INSUFFICIENT = "insufficient"

BLOCK = 4
"""Invocations in a level at first; it doubles when levels are replaced by their means."""
LEVELS = 48
"""Levels kept, at most."""
FIRST = 8
"""Levels that a verdict needs."""
MINIMUM = BLOCK * FIRST
"""Invocations that a verdict needs."""
GROWING_FROM = 128
"""Invocations before growth may be called a leak: until then most caches grow as well."""
STEP = 4
"""Levels from one verdict to the next. A verdict takes 0.2 ms of CPU time."""
EVERY = 16
"""A verdict is printed with each invocation whose number is a multiple of this, and with the last."""

FLOOR_KIB = 512
"""Less than this is not growth: it is twice KERNEL_SLACK_KIB (measure/race)."""
NOISE = 3
"""Growth below this multiple of one level's noise is not growth either."""
SMALL_KIB = 128
"""Growth below this is not reported, though it may be even and above noise; early, below 1 KiB per invocation."""
DECELERATED = 0.7
"""Growth slows down if the second half grows by less than this part of the first half's growth, beyond noise."""
UNEVEN = 0.6
"""Growth comes in a few steps if its parts vary by more than this (standard deviation by mean, without noise), or if
two of eleven parts have half of it."""
SPIKE_KIB = 16 * 1024
"""A peak this far above CurrentRSS before and after it is a spike, if that is a quarter of CurrentRSS as well."""


class Shape(NamedTuple):
    """The verdict on some levels, and their slope."""

    name: str
    slope: float
    """KiB per level, of the judged part; with its 95 % interval."""
    low: float
    high: float


class Drift:
    """The drift of the processes that run now."""

    def __init__(self) -> None:
        self._block: list[int] = []
        """CurrentRSS of the invocations since the last median."""
        self._sum = 0.0
        """Sum of the medians that are to become one level, and their number."""
        self._summed = 0
        self._levels: list[float] = []
        self._stride = BLOCK
        """Invocations in one level."""
        self._first_ms = self._last_ms = 0
        self._held_kib = 0
        self._spikes = self._seen = 0
        """Spikes and invocations so far, and those of them whose CurrentRSS counts."""
        self.count = 0
        self.verdict = ""
        """The last one; empty while there is too little to judge."""
        self.growth = (0.0, 0.0, 0.0)
        """KiB per invocation, and its 95 % interval: that of the last verdict."""

    def see(self, held_kib: int, peak_kib: int) -> None:
        """Count an invocation: its CurrentRSS, as far as it is known, and its peak."""
        self._seen += 1
        self._spikes += is_spike(peak_kib, max(self._held_kib, held_kib))
        self._held_kib = held_kib

    def add(self, held_kib: int, time_ms: int) -> None:
        """Add the CurrentRSS of an invocation that began at `time_ms`, where it is known for certain."""
        self._first_ms = self._first_ms or time_ms
        self._last_ms = time_ms
        self.count += 1
        self._block.append(held_kib)
        if len(self._block) == BLOCK:
            self._sum += median(self._block)
            self._summed += 1
            self._block.clear()
            if self._summed * BLOCK == self._stride:
                self._add_level(self._sum / self._summed)
                self._sum, self._summed = 0.0, 0

    def due(self) -> bool:
        """Is a verdict to be printed with this invocation?"""
        return bool(self.verdict) and self.count % EVERY == 0

    def document(self, room_kib: int) -> dict[str, object]:
        """The verdict as the line has it; empty without one. `room_kib` is left until the memory limit, and not above 0
        where the limit is not known."""
        if not self.verdict:
            return {}
        growth, low, high = self.growth
        members: dict[str, object] = {"verdict": self.verdict, "perInvocationKiB": round(growth, 2) + 0.0}
        if self.verdict not in (GROWING, WARMING):  # every byte of a line is paid for
            return members
        members["low"], members["high"] = round(low, 2), round(high, 2)
        if self._last_ms > self._first_ms:
            members["perMinuteKiB"] = round(growth * (self._seen - 1) * 60_000 / (self._last_ms - self._first_ms), 2)
        if self.verdict == GROWING and growth > 0 and room_kib > 0:
            members["invocationsLeft"] = int(room_kib / growth)
        return members

    def _add_level(self, level: float) -> None:
        self._levels.append(level)
        if len(self._levels) >= FIRST and len(self._levels) % STEP == 0:
            seen = shape(self._levels, self.count, self._spikes)
            self.verdict = seen.name
            per_level = self._stride * self._seen / self.count  # invocations, with those between that are left out
            self.growth = seen.slope / per_level, seen.low / per_level, seen.high / per_level
        if len(self._levels) == LEVELS:
            self._levels = [(self._levels[at] + self._levels[at + 1]) / 2 for at in range(0, LEVELS, 2)]
            self._stride *= 2


def is_spike(peak_kib: float, held_kib: float) -> bool:
    """Is a peak far above the CurrentRSS before and after it?"""
    return peak_kib - held_kib > max(SPIKE_KIB, held_kib / 4)


def median(values: Sequence[float]) -> float:
    """The median of at least one value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def shape(levels: Sequence[float], invocations: int, spikes: int = 0) -> Shape:
    """The verdict, here and in the workbench: of at least FIRST levels, evenly spaced over all `invocations`.

    `spikes`: how many had one. Where most do, that is what an invocation needs, and no spike."""
    first, judged = judged_part(levels)
    whole = [*levels[1:first], *judged]  # that something was loaded early must show: it may go on, ever more slowly
    slope, low, high = theil_sen(judged)
    high += (levels[-1] - judged[-1]) / (len(judged) - 1)  # what was left out may have been growth
    grows = []
    if _grows(judged, slope, low):
        grows.append(whole)
    floor = _floor(judged)
    if _grows(floor, *theil_sen(floor)[:2]):
        grows.append(_floor(whole))
    if not grows:
        name = _settled(levels, judged, low, min(invocations, SMALL_KIB))
        return Shape(SPIKY if 0 < 2 * spikes <= invocations and name == STABLE else name, slope, low, high)
    growth, fall = slope * (len(judged) - 1), -min(_rises(judged))
    falls_back = max(levels[1:first]) - judged[0] > max(growth / 2, 2 * fall)  # it has been there before, once
    goes_on = not falls_back and not slows(whole) and any(map(evenly, grows))
    return Shape(GROWING if goes_on and invocations >= GROWING_FROM else WARMING, slope, low, high)


def judged_part(levels: Sequence[float]) -> tuple[int, list[float]]:
    """The index of the first level to be judged, and the levels from there on, without one-time steps."""
    first = max(2, len(levels) // 6)
    return first, without_steps(levels[first:])


def without_steps(levels: Sequence[float]) -> list[float]:
    """The levels without the one or two steps up that stand out from all others and stay: something was loaded once."""
    made = list(levels)
    rises = _rises(made)
    usual = median(rises)
    spread = median([abs(rise - usual) for rise in rises])
    limit = usual + max(8 * spread, FLOOR_KIB / 2)
    for rise, at in sorted(((rise, at) for at, rise in enumerate(rises)), reverse=True)[:2]:
        if rise > limit and rise >= -2 * min(rises) and min(levels[at + 1 :]) > levels[at] + rise / 2:
            for later in range(at + 1, len(made)):
                made[later] -= rise - usual
    return made


def noise_of(levels: Sequence[float]) -> float:
    """Standard deviation of one level, KiB, from how far each lies off its two neighbours: growth cancels out."""
    off = [abs(levels[at] - (levels[at - 1] + levels[at + 1]) / 2) for at in range(1, len(levels) - 1)]
    return median(off) * 1.4826 / 1.2247 if off else 0.0


def theil_sen(levels: Sequence[float]) -> tuple[float, float, float]:
    """The median of all slopes, KiB per level, and its 95 % interval (Sen 1968, without ties)."""
    count = len(levels)
    if count < 2:
        return 0.0, 0.0, 0.0
    slopes = sorted([(b - a) / (at + 1) for first, a in enumerate(levels) for at, b in enumerate(levels[first + 1 :])])
    sigma = (count * (count - 1) * (2 * count + 5) / 18) ** 0.5
    reach = round(1.96 * sigma / 2)
    middle = len(slopes) // 2
    return median(slopes), slopes[max(0, middle - reach)], slopes[min(len(slopes) - 1, middle + reach)]


def _floor(levels: Sequence[float]) -> list[float]:
    """The lowest of each four levels: what a garbage collection leaves."""
    return [min(levels[at : at + 4]) for at in range(len(levels) % 4, len(levels), 4)]


def _grows(levels: Sequence[float], slope: float, low: float) -> bool:
    """Do the levels grow by more than noise, from third to third, to the end, without giving it back?"""
    growth = slope * (len(levels) - 1)
    if len(levels) < 6 or low <= 0 or growth < max(FLOOR_KIB, NOISE * noise_of(levels)):
        return False
    parts = _parts(levels, 3)
    thirds = [median(part) for part in parts]
    still = theil_sen(parts[2])[0] * (len(levels) - 1) > growth / 10
    return still and thirds[0] < thirds[1] < thirds[2] and _kept(levels) > growth / 2


def evenly(levels: Sequence[float]) -> bool:
    """Does the growth come evenly, and not in a few steps?"""
    parts = [median(part) for part in _parts(levels, min(12, len(levels)))]
    rises = _rises(parts)
    growth = parts[-1] - parts[0]
    mean = growth / len(rises)
    variance = sum((rise - mean) ** 2 for rise in rises) / len(rises) - 2 * noise_of(levels) ** 2
    return sum(sorted(rises)[-2:]) <= growth / 2 and variance <= (UNEVEN * mean) ** 2


def slows(levels: Sequence[float]) -> bool:
    """Is the growth of the second half much less than that of the first?"""
    rises = _rises([median(part) for part in _parts(levels, min(12, len(levels)))])
    half = len(rises) // 2
    early, late = sum(rises[:half]), sum(rises[-half:])
    return late < DECELERATED * early - NOISE * noise_of(levels)


def _kept(levels: Sequence[float]) -> float:
    """By how much the lowest of all later levels rises, from the first to the last sixth."""
    floor = list(levels)
    for at in range(len(floor) - 2, -1, -1):
        floor[at] = min(floor[at], floor[at + 1])
    sixth = max(1, len(floor) // 6)
    return median(floor[-sixth:]) - median(floor[:sixth])


def _settled(levels: Sequence[float], judged: Sequence[float], low: float, floor: float) -> str:
    """The verdict where no large growth goes on: PLATEAU if there was some, WARMING if a small one is beyond doubt."""
    noise = noise_of(judged)
    start = levels[max(1, len(levels) // 24)]
    last = levels[-(len(levels) // 3) :]
    rise = median(last) - start
    settled = STABLE
    if rise > max(2 * FLOOR_KIB, 6 * noise, start / 50) and min(last) - start > rise / 2:
        settled = PLATEAU
        judged = without_steps(judged)[-(len(judged) // 3) :]  # there may have been more than two loads
        low = theil_sen(judged)[1]
    return WARMING if low * len(judged) > max(floor, NOISE * noise) else settled


def _parts(levels: Sequence[float], count: int) -> list[Sequence[float]]:
    edges = [round(len(levels) * at / count) for at in range(count + 1)]
    return [levels[edges[at] : edges[at + 1]] for at in range(count)]


def _rises(levels: Sequence[float]) -> list[float]:
    return [levels[at + 1] - levels[at] for at in range(len(levels) - 1)]
