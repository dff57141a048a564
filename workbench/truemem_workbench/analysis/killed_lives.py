"""Judges lives that ran out of memory too early for a verdict: did they grow into the limit? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from truemem.records.trend import LEAST_KIB, median, parts_of

Floats = NDArray[np.float64]

SHORT = 8
"""Least length of such a life."""
SEVERAL = 3
"""Number of such lives that are judged together, if one alone is not enough."""
SLOWS = 0.7
"""Growth slows down if its second half is less than this part of its first half."""
UNEVEN = 0.6
"""Growth comes in a few steps if its parts vary by more than this (standard deviation by mean), or if two of eleven
parts have half of it."""


class Growth(NamedTuple):
    """KiB per invocation, and its 95 % interval."""

    slope: float
    low: float
    high: float


def grew_into_the_limit(lives: Sequence[tuple[Floats, Floats, float]]) -> list[tuple[int, Growth]]:
    """Which of these lives show a leak, by their places, and how each grew: those that grew evenly into the limit, if
    they are at least half of all. If there are several, it is enough that, taken together, they grew as much late as
    early.

    A life: the numbers and levels (KiB) of its invocations but the last, and what the last one reached, KiB."""
    grew = {at: growth for at, life in enumerate(lives) if (growth := _into_the_limit(*life)) is not None}
    even = [(at, growth) for at, growth in grew.items() if _is_even(lives[at][1].tolist())]
    if even and 2 * len(even) >= len(lives):
        return even
    curves = [lives[at][1] for at in grew]
    early = sum(held[len(held) // 2] - held[0] for held in curves)
    late = sum(held[-1] - held[-1 - len(held) // 2] for held in curves)
    several = len(grew) >= SEVERAL and 2 * len(grew) >= len(lives) and late >= SLOWS * early
    return list(grew.items()) if several else []


def _into_the_limit(numbers: Floats, held: Floats, reached: float) -> Growth | None:
    """How one life that ran out of memory grew; None if it did not grow into the limit.

    It must have grown by at least half of the way, and by no more than a third of that at once. A spike that kills, a
    load, and a cache that was nearly full are not growth.
    """
    growth = _growth(numbers, held)
    grown = growth.slope * (float(numbers[-1]) + 1 - float(numbers[0]))
    way = reached - float(held[0])
    if growth.low <= 0 or grown < max(way / 2, LEAST_KIB) or np.diff(held).max() > grown / 3:
        return None
    return growth


def _is_even(levels: Sequence[float]) -> bool:
    """Does the growth come evenly, not in a few steps, and as much late as early?"""
    parts = [median(part) for part in parts_of(levels, min(12, len(levels)))]
    rises = np.diff(parts)
    half = len(rises) // 2
    if float(rises[-half:].sum()) < SLOWS * float(rises[:half].sum()):
        return False
    mean = float(rises.mean())
    return float(np.sort(rises)[-2:].sum()) <= (parts[-1] - parts[0]) / 2 and float(rises.std()) <= UNEVEN * mean


def _growth(numbers: Floats, held: Floats) -> Growth:
    from scipy import stats  # half a second, which a command's first output need not wait for

    slope, _, low, high = stats.theilslopes(held, numbers, 0.95)
    off = stats.rankdata(held - slope * numbers)  # ranks: one outlier must not hide what all others remember
    memory = float(np.corrcoef(off[:-1], off[1:])[0, 1]) if np.ptp(off[:-1]) and np.ptp(off[1:]) else 0.0
    memory = min(max(memory, 0.0), 0.95)
    wider = math.sqrt((1 + memory) / (1 - memory))
    return Growth(float(slope), float(slope - (slope - low) * wider), float(slope + (high - slope) * wider))
