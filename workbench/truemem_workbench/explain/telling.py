"""Which line of a stack tells what stays from what does not: a helper that is called from many places allocates for
all of them, and one of them keeps it. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from .attribution import FALL_SHARE, LEAST_LOOKS, SKIPPED_SHARE, Stack

FEW = 0.02
"""Share of what a line has gained, below which one of the ways to it gains nothing: a sample or two is chance."""


def keeps_nothing(levels: Sequence[float], gained: float) -> bool:
    """Has a way that was taken no more than it had before, by its bytes at each look? Those at the begin do not count:
    what is filled once fills then. True too where most of what it had gained has gone again. Else it keeps what it
    makes, though it may be taken seldom: unless that is almost nothing of what all ways to the same line have
    `gained`."""
    since = levels[min(int(len(levels) * SKIPPED_SHARE), max(0, len(levels) - LEAST_LOOKS)) :]
    gain = since[-1] - since[0]
    fall = max(high - level for high, level in zip(itertools.accumulate(since, max), since, strict=True))
    return gain <= FEW * gained or fall > FALL_SHARE * gain


def telling(way: Stack, others: Iterable[Stack]) -> int:
    """The place in `way` (the user's frames, outermost first) of the innermost line that `others`, which keep nothing,
    have not passed. The last place if they have passed all of them: then no line tells them apart."""
    passed = {frame for other in others for frame in other}
    last = len(way) - 1
    return next((place for place in range(last, -1, -1) if way[place] not in passed), last)
