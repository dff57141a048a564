"""Does a series of levels rise, by how much, and does it go on? Pure.

The levels are evenly spaced. Nothing is assumed of their distribution: the rate is the median of all slopes, and
whether there is one is told by ranks.
"""

from __future__ import annotations

from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_KIB = 512
"""A smaller rise is none: it is twice KERNEL_SLACK_KIB (measure/race)."""
BEYOND_CHANCE = 2.4
"""Standard deviations of Kendall's S that a rise needs."""
ABOVE_MOVEMENT = 0.35
"""A rise is at least this part of the movement around it."""
SLOWS = 0.93
"""It slows down if its second half rises by less than this part of the first half, beyond the movement,"""
ENDS = 0.65
"""or its last third by less than this part of the whole,"""
AT_ONCE = 0.65
"""or if a quarter of the levels brings more than this part."""
HALF_ALLOWED, THIRD_ALLOWED = 1.2, 1.3
"""By how much of the movement halves and thirds may differ by chance."""

ERRORS = 1.8
"""Half of the interval is so many standard errors. Student's distribution asks for 2.05 of about 28 levels: measured on
open curves, that is too wide after thousands of invocations."""
PARTS = 6
"""Parts whose rises tell how evenly it rises."""
UNEVEN = 0.6
"""The interval is at least so many standard errors of these rises wide, to each side."""
LATE_ERRORS = 1.3
"""The same of the second half's own interval, which only widens the whole one."""


class Trend(NamedTuple):
    """How some levels rise. KiB, and KiB per level."""

    slope: float
    low: float
    high: float
    """Ends of the 95 % interval."""
    late_high: float
    """Upper end of the interval of the second half alone."""
    last: float
    """Slope of the last third."""
    is_rising: bool
    """Beyond chance, and by more than LEAST_KIB."""
    goes_on: bool
    """It also rises at the end as it did before, and bit by bit."""


def trend(levels: Sequence[float]) -> Trend:
    """The trend of at least six levels, in KiB."""
    count = len(levels)
    slopes = all_slopes(levels)
    slope = middle(slopes)
    rise = slope * (count - 1)
    half, third = count // 2, count // 3
    late, last = middle(all_slopes(levels[-half:])), middle(all_slopes(levels[-third:]))
    margin, late_margin = _margin(levels, slope), LATE_ERRORS * _error(levels[-half:], late)
    low, high = min(slope - margin, late - late_margin), max(slope + margin, late + late_margin)
    movement = _movement(levels, slope)
    # Cheap tests first: ranks are not looked at where nothing rises.
    is_rising = rise > max(LEAST_KIB, ABOVE_MOVEMENT * movement) and _score(levels, slopes, slope) > BEYOND_CHANCE
    goes_on = is_rising and (
        late + HALF_ALLOWED * movement / count > SLOWS * middle(all_slopes(levels[:half]))
        and last + THIRD_ALLOWED * movement / count > ENDS * slope
        and _largest_step(levels) < AT_ONCE * rise
    )
    return Trend(slope, low, high, late + late_margin, last, is_rising, goes_on)


def all_slopes(levels: Sequence[float]) -> list[float]:
    """The slope between each two levels, in order (Sen 1968)."""
    found = []
    for gap in range(1, len(levels)):
        found += [(late - early) / gap for late, early in zip(levels[gap:], levels, strict=False)]
    found.sort()
    return found


def middle(ordered: Sequence[float]) -> float:
    """The median of values that are in order; 0 of none."""
    if not ordered:
        return 0.0
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median(values: Sequence[float]) -> float:
    """The median of at least one value."""
    return middle(sorted(values))


def parts_of(levels: Sequence[float], count: int) -> list[Sequence[float]]:
    """So many parts of about the same length."""
    edges = [round(len(levels) * at / count) for at in range(count + 1)]
    return [levels[edges[at] : edges[at + 1]] for at in range(count)]


def _score(levels: Sequence[float], slopes: Sequence[float], slope: float) -> float:
    """Kendall's S in standard deviations (Mann 1945), with the variance that the levels' autocorrelation gives it
    (Hamed and Rao 1998, "A modified Mann-Kendall trend test for autocorrelated data")."""
    count = len(levels)
    balance = sum([one > 0 for one in slopes]) - sum([one < 0 for one in slopes])
    off = [level - slope * at for at, level in enumerate(levels)]
    ranks = [0.0] * count
    for rank, at in enumerate(sorted(range(count), key=off.__getitem__)):
        ranks[at] = rank - (count - 1) / 2
    whole = sum([rank * rank for rank in ranks])
    wider = 1.0
    for lag in range(1, count // 3 + 1):
        memory = sum([late * early for late, early in zip(ranks[lag:], ranks, strict=False)]) / whole
        if memory * memory > 1.96 * 1.96 / count:
            left = count - lag
            wider += 2 * left * (left - 1) * (left - 2) * memory / (count * (count - 1) * (count - 2))
    variance = count * (count - 1) * (2 * count + 5) / 18 * max(wider, 0.05)
    return max(balance - 1, 0) / float(variance**0.5)


def _movement(levels: Sequence[float], slope: float) -> float:
    """What eight of ten levels lie apart, without the trend."""
    off = sorted([level - slope * at for at, level in enumerate(levels)])
    tenth = len(off) // 10
    return off[-1 - tenth] - off[tenth]


def _largest_step(levels: Sequence[float]) -> float:
    """The largest rise from one quarter to the next."""
    quarters = [median(part) for part in parts_of(levels, 4)]
    return max(_rises(quarters))


def _error(levels: Sequence[float], slope: float) -> float:
    """Standard error of a slope, if what is off the line remembers a part of itself."""
    count = len(levels)
    off = [level - slope * (at - (count - 1) / 2) for at, level in enumerate(levels)]
    mean = sum(off) / count
    off = [one - mean for one in off]
    squares = sum([one * one for one in off])
    if not squares:
        return 0.0
    memory = sum([late * early for late, early in zip(off[1:], off, strict=False)]) / squares
    memory += (1 + 4 * memory) / count  # what a short series hides of it (Kendall 1954)
    memory = min(max(memory, 0.0), 0.97)
    return float((squares / (count - 2) / (count * (count * count - 1) / 12) * (1 + memory) / (1 - memory)) ** 0.5)


def _margin(levels: Sequence[float], slope: float) -> float:
    """Half of the slope's 95 % interval: from what is off the line, or from how unevenly the parts rise."""
    parts = [median(part) for part in parts_of(levels, PARTS)]
    rises = _rises(parts)
    mean = sum(rises) / len(rises)
    variance = sum([(rise - mean) ** 2 for rise in rises]) / (len(rises) - 1)
    uneven = float((variance / len(rises)) ** 0.5) / (len(levels) / PARTS)
    return max(ERRORS * _error(levels, slope), UNEVEN * uneven)


def _rises(levels: Sequence[float]) -> list[float]:
    return [levels[at + 1] - levels[at] for at in range(len(levels) - 1)]
