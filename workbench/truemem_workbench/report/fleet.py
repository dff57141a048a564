"""Judges all environments of one function version together: finds leaks too small to see in one environment. Pure.

Each environment is a repetition of one experiment. Its evidence is a few levels: medians of what it holds, over parts
of its life that are the same for all. Growth is tested over environments, so nothing is assumed about how one
environment's memory moves. A function is accused only if every question about it has the answer of a leak: does it
grow, as much late as early, and in every part? Its p value is the highest of these tests, and covers them all.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from truemem.verdict import LEAST_KIB

from ..judge.drift import Point, lives, median_of
from ..support.estimates import t_above, t_quantile

Floats = NDArray[np.float64]
Evidence = dict[int, tuple[float, ...]]
"""One environment's levels in KiB, by the number of invocations in each level (WIDTHS)."""

LEVELS = 8
PARTS = LEVELS + 1
"""Equal parts of the judged invocations. The first part is left out: the first invocations import and connect."""
WIDTHS = tuple(width << octave for octave in range(12) for width in (16, 22))
"""Invocations in a part, by steps of about 1.4: 144, 198, 288, 396, ... invocations are judged. Never fewer: until
GROWING_FROM most caches grow as well."""
FILLED = 0.75
"""Least share of a part's invocations that must be known."""
LEAST = 8
"""Least number of environments."""
RATE = 0.001
"""False discovery rate over the functions of a report (Benjamini and Hochberg 1995)."""
REFUTED = 0.01
"""If a test says with this p value that it is no leak, fewer invocations are not asked."""
LASTING = 0.75
"""A leak's second half grows by at least this part of the first half's growth."""
EVEN = 0.4
"""A leak grows from each level to the next by at least this part of its mean growth."""
MATTERS_KIB = 64
"""Growth over the judged invocations below this is not reported."""
STANDS_OUT = 8
"""A change between levels is a move if it differs from the usual one by more than this multiple of the median
difference, and by MOVE_KIB; and always if it differs by more than LOAD_KIB."""
MOVE_KIB = LEAST_KIB / 2
LOAD_KIB = 1024
CALM = 0.5
"""Least share of environments without such a move. The others do not count."""
FELL = 0.05
"""Highest share of environments with a move down: a collector, or a cache that is emptied."""
FALLS = 0.75
"""Share of environments whose levels never fall by more than GIVEN_BACK of the growth from the first level to the last.
Otherwise a collector that has just begun, or that runs in all environments at the same age, would look like a leak."""
GIVEN_BACK = 0.5

_CENTRED: Floats = np.arange(LEVELS, dtype=np.float64) - (LEVELS - 1) / 2
_HALF = LEVELS // 2
_HALF_CENTRED: Floats = np.arange(_HALF, dtype=np.float64) - (_HALF - 1) / 2


@dataclass(frozen=True, kw_only=True)
class Together:
    """The growth of a function's environments together."""

    environments: int
    """Environments that counted."""
    invocations: int
    """Invocations of each that were judged."""
    per_invocation_kib: float
    low_kib: float
    high_kib: float
    """Mean growth per invocation, with its 95 % interval."""
    p: float
    """Probability of such evidence without a leak, at most."""
    grows: bool = False
    """True if it is a leak beyond doubt (`accuse`)."""

    def sentence(self) -> str:
        """The result as a sentence, if it grows."""
        return (
            f"its {self.environments:,} environments together grow by {self.per_invocation_kib:,.1f} KiB per invocation"
            f" (95 % interval {self.low_kib:,.1f} to {self.high_kib:,.1f})"
        )


def evidence(points: Sequence[Point]) -> Evidence:
    """The evidence of one environment: of its longest life, counted from the first invocation that is known."""
    life = max(lives(points), key=len)
    known = life[life.certain & ~life.died]
    if not len(known):
        return {}
    numbers, held = known.invocation - known.invocation[0], known.current_kib
    found: Evidence = {}
    for width in WIDTHS:
        if numbers[-1] < (PARTS - 1 + FILLED / 2) * width:
            break
        edges = np.searchsorted(numbers, np.arange(1, PARTS + 1) * width)
        if np.diff(edges).min() >= FILLED * width:
            found[width] = tuple(median_of(held[first:last]) for first, last in pairwise(edges.tolist()))
    return found


def pool(evidences: Sequence[Evidence]) -> Together | None:
    """Judge the environments of one function. None if too few are long enough.

    The longest lives are asked first. If they leave it open, shorter ones are asked too, because there are more. The p
    value counts how often was asked.
    """
    longest: Together | None = None
    asked = 0
    for width in reversed(WIDTHS):
        levels = np.array([each[width] for each in evidences if width in each])
        if len(levels) < LEAST:
            continue
        calm = _calm(levels)
        if calm is None:
            return longest
        asked += 1
        found, refuted = _judge(calm, width)
        found = dataclasses.replace(found, p=1.0 if refuted else min(1.0, found.p * asked))
        if found.p <= RATE:
            return found
        longest = longest or found
        if refuted:
            break
    return longest


def accuse(pooled: Sequence[Together | None]) -> list[Together | None]:
    """Say which of a report's functions grow, so that at most RATE of those named do not."""
    ordered = sorted(each.p for each in pooled if each is not None)
    limit = max((p for rank, p in enumerate(ordered, 1) if p <= RATE * rank / len(ordered)), default=-1.0)
    return [
        each
        if each is None
        else dataclasses.replace(
            each, grows=each.p <= limit and each.per_invocation_kib * each.invocations >= MATTERS_KIB
        )
        for each in pooled
    ]


def _calm(levels: Floats) -> Floats | None:
    """The environments whose levels have no move. None if the others are too many to ignore."""
    changes = np.diff(levels, axis=1)
    off = changes - np.median(changes, axis=1, keepdims=True)
    limit = np.clip(STANDS_OUT * np.median(np.abs(off), axis=1), MOVE_KIB, LOAD_KIB)
    calm: Floats = levels[np.abs(off).max(axis=1) <= limit]
    fell = int((off.min(axis=1) < -limit).sum())
    if len(calm) < max(LEAST, CALM * len(levels)) or fell > FELL * len(levels):
        return None
    return calm


def _judge(levels: Floats, width: int) -> tuple[Together, bool]:
    """The growth of calm environments, and whether it is refuted that it is a leak."""
    count = len(levels)
    slope = _slope(levels, _CENTRED)
    halves = _slope(levels[:, -_HALF:], _HALF_CENTRED) - LASTING * _slope(levels[:, :_HALF], _HALF_CENTRED)
    parts = np.diff(levels, axis=1) - EVEN * slope[:, None]
    tests = np.column_stack([slope, halves, parts])
    errors = np.maximum(tests.std(axis=0, ddof=1) / math.sqrt(count), 1e-9)
    p = t_above(float((tests.mean(axis=0) / errors).min()), count - 1)
    growth, error = float(slope.mean()) / width, float(errors[0]) / width
    reach = t_quantile(0.975, count - 1) * error
    together = Together(
        environments=count,
        invocations=PARTS * width,
        per_invocation_kib=growth,
        low_kib=growth - reach,
        high_kib=growth + reach,
        p=p,
    )
    falls = float(np.quantile((np.maximum.accumulate(levels, axis=1) - levels).max(axis=1), FALLS))
    if falls > GIVEN_BACK * growth * width * (LEVELS - 1):
        return dataclasses.replace(together, p=1.0), False
    return together, p >= 1 - REFUTED


def _slope(levels: Floats, centred: Floats) -> Floats:
    """Slope of each environment in KiB per level (least squares)."""
    made: Floats = levels @ centred / (centred @ centred)
    return made
