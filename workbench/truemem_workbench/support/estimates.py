"""What the standard library's `statistics` lacks: Student's t, the binomial's quantiles, Theil and Sen's slope, ranks.

scipy has all of it, in 143 MB and half a second. It judges these functions in the tests. Pure. Imports are
late, as the command line asks modules that need this one for their options alone.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

NEAR_ZERO = 1e-15
TINY = 1e-300
"""Stands for 0 as a divisor."""
HALVINGS = 60
"""Halvings of an interval that give a quantile all its bits."""


class Slope(NamedTuple):
    """Growth per unit of the places, with the ends of its interval. Equal to NaN where there is no pair of places."""

    slope: float
    low: float
    high: float


def theil_sen(levels: ArrayLike, places: ArrayLike, certain: float = 0.95) -> Slope:
    """The median of the slopes between all pairs of points (Theil 1950), and its interval (Sen 1968, formula 2.6, for
    places that differ).

    Takes memory for the square of the points.
    """
    from statistics import NormalDist

    import numpy as np

    y, x = np.asarray(levels, float), np.asarray(places, float)
    apart = x[:, None] - x
    slopes = np.sort((y[:, None] - y)[apart > 0] / apart[apart > 0])
    if not len(slopes):
        return Slope(math.nan, math.nan, math.nan)
    variance = (_terms(len(y)) - sum(map(_terms, np.unique(y, return_counts=True)[1].tolist()))) / 18
    half = NormalDist().inv_cdf((1 + certain) / 2) * math.sqrt(variance)
    low, high = max(round((len(slopes) - half) / 2) - 1, 0), min(round((len(slopes) + half) / 2), len(slopes) - 1)
    return Slope(float(np.median(slopes)), float(slopes[low]), float(slopes[high]))


def _terms(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """The rank of each value, from 1. Equal ones share the mean of theirs."""
    import numpy as np

    _, places, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    found: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return found


def t_above(value: float, free: int) -> float:
    """The probability that Student's t with so many degrees of freedom is above the value: to 9 digits, up to 100,000
    degrees of freedom."""
    square = value * value
    side = _beta(free / 2, 0.5, free / (free + square), square / (free + square)) / 2
    return side if value >= 0 else 1 - side


@cache
def t_quantile(part: float, free: int) -> float:
    """The value below which this part, 0.5 to 1, of Student's t with so many degrees of freedom is."""
    low, high = 0.0, 1.0
    while t_above(high, free) > 1 - part:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if t_above(middle, free) > 1 - part else (low, middle)
    return (low + high) / 2


def binomial_quantile(part: float, count: int, chance: float) -> int:
    """The least number of successes that is not exceeded with this part, in `count` trials of that chance."""
    return bisect_left(range(count), part, key=lambda most: _beta(count - most, most + 1, 1 - chance, chance))


def _beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (https://dlmf.nist.gov/8.17.E22). `rest` is
    1 - x, which has more digits where x is near 1."""
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below that
        return 1 - _beta(b, a, rest, x)
    if x <= 0:
        return 0.0
    fraction = c = 1.0
    d = change = step = 0.0
    while abs(change - 1) > NEAR_ZERO:  # Lentz's method
        step += 1
        m, is_odd = divmod(step, 2)
        over = -(a + m) * (a + b + m) if is_odd else m * (b - m)
        term = over * x / ((a + step - 1) * (a + step))
        d = 1 / (1 + term * d or TINY)
        c = 1 + term / c or TINY
        change = c * d
        fraction *= change
    ends = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(ends) / (a * fraction)
