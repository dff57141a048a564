"""Does a series of levels rise, by how much, and does it go on? Pure.

The levels are evenly spaced. Nothing is assumed of their distribution: the rate is the median of all slopes, and how
sure it is tells how evenly the parts of the series rise. The thresholds were chosen on composed curves
(benchmarks/results/drift.md, "Thresholds").
"""

from __future__ import annotations

from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_KIB = 512
"""A smaller rise is none: it is twice KERNEL_SLACK_KIB (measure/race)."""
NOISE_KIB = 64
"""A rise counts as this at least where something is told as a part of it."""
PARTS = 6
"""Parts of a series whose rises tell how evenly it rises."""
LEAST_ERROR = 0.05
"""The interval is at least this part of the slope wide, to each side: leaks come by chance and in steps."""
SHORT = 400
"""An interval is wider by this many invocations to those seen: slow movements are not seen yet."""
LEAST_BEGUN, MOST_BEGUN = -0.3, 1.5
BEGUN = 0.2
"""Of the part of the rise that came at first, so much is held against what comes at the end."""
ENOUGH = 0.16
"""It goes on if the last third brings more than this part of the rise: of a straight line it is a third."""
EVEN = 0.8
"""It rises evenly if the low end of the interval is above this part of the slope. Then what came at first may have been
large: it goes on if the last third brings more than"""
EVEN_TAIL = 0.24
"""of the rise since."""


class Trend(NamedTuple):
    """How some levels rise, KiB per level."""

    slope: float
    low: float
    high: float
    """Ends of the 95 % interval."""


def trend(levels: Sequence[float], invocations: float = float("inf")) -> Trend:
    """The trend of at least six levels, KiB, of so many invocations: without it nothing moves slowly."""
    count = len(levels)
    slope = middle(all_slopes(levels))
    edges = [round(count * at / PARTS) for at in range(PARTS + 1)]
    parts = [median(levels[edges[at] : edges[at + 1]]) for at in range(PARTS)]
    # parts may differ by a level: of each rise only what the slope does not make of its length
    off = [parts[at + 1] - parts[at] - slope * (edges[at + 2] - edges[at]) / 2 for at in range(PARTS - 1)]
    mean = sum(off) / (PARTS - 1)
    variance = sum([(one - mean) ** 2 for one in off]) / (PARTS - 2)
    error = float((variance / (PARTS - 1)) ** 0.5) * PARTS / count
    margin = max(error, LEAST_ERROR * abs(slope)) * (1 + SHORT / invocations)
    return Trend(slope, slope - margin, slope + margin)


def going_on(levels: Sequence[float], first: int, seen: Trend) -> float:
    """How much of the rise of at least eight levels the last third brings, beyond what it takes to go on: above 0, it
    goes on. `seen` is the trend of all but the `first` ones, at which much is loaded; what they brought counts against
    it, except where the others rise evenly."""
    judged = levels[first:]
    if max(levels[1 : len(levels) // 3]) >= max(levels[-(len(levels) // 4) :]):
        return -1.0  # it has been as high before
    beyond = tail(levels[1:]) - BEGUN * begun(levels, first, seen.slope) - ENOUGH
    return max(beyond, tail(judged) - EVEN_TAIL) if seen.low > EVEN * seen.slope else beyond


def tail(levels: Sequence[float]) -> float:
    """The part of their rise that the last third brings."""
    last, third = median(levels[-3:]), len(levels) * 2 // 3
    return (last - median(levels[third - 1 : third + 2])) / max(last - levels[0], NOISE_KIB)


def begun(levels: Sequence[float], first: int, slope: float) -> float:
    """What the `first` levels brought, as a part of the rise of the others."""
    brought = median(levels[first : first + 3]) - levels[1]
    return min(max(brought / max(slope * (len(levels) - first), NOISE_KIB), LEAST_BEGUN), MOST_BEGUN)


def next_step(levels: Sequence[float]) -> float:
    """The second largest step between levels that was never given back, if such a step may be due: one may be a load,
    two are a habit, until twice the time between them has passed. Else 0."""
    steps, above = [], levels[-1]
    for at in range(len(levels) - 2, -1, -1):
        lower = min(levels[at], above)
        steps.append((above - lower, at))
        above = lower
    size = sorted(steps)[-2][0]
    alike = [at for step, at in steps if step >= size / 2]
    apart = (alike[0] - alike[-1]) / (len(alike) - 1)
    return size if len(levels) - 1 - alike[0] <= 2 * apart else 0.0


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
