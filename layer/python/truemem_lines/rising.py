"""Does it grow steadily? The same as in the workbench's explain/attribution.py, without SciPy."""

from __future__ import annotations

import itertools
import operator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_LOOKS = 4
SKIPPED_SHARE, RISING_SHARE, IN_EACH_HALF, STEADY_SHARE, FALL_SHARE = 0.25, 0.6, 2, 0.5, 0.5
"""What rises: the figures of the workbench's explain/attribution.py, which says what they mean."""


def rising(at: Sequence[int], values: Sequence[int]) -> float:
    """Growth per invocation, if it is steady; else 0."""
    if len(values) < len(at):
        return 0.0
    begin = min(int(len(at) * SKIPPED_SHARE), max(0, len(at) - LEAST_LOOKS))
    places, levels = at[begin:], values[begin:]
    if len(levels) < LEAST_LOOKS:
        return 0.0
    steps = [after - before for before, after in itertools.pairwise(levels)]
    half = len(levels) // 2
    halves = (steps[:half], steps[half:])
    in_steps = min(steps) >= 0 and min(sum(step > 0 for step in of) for of in halves) >= IN_EACH_HALF
    if sum(step > 0 for step in steps) < RISING_SHARE * len(steps) and not in_steps:
        return 0.0
    highest = itertools.accumulate(levels, max)
    if max(map(operator.sub, highest, levels)) > FALL_SHARE * (levels[-1] - levels[0]):
        return 0.0
    pairs = itertools.combinations(zip(places, levels), 2)  # noqa: B905
    slopes = sorted((last[1] - first[1]) / (last[0] - first[0]) for first, last in pairs)
    middle = len(slopes) // 2
    rate = (slopes[middle] + slopes[~middle]) / 2  # Theil-Sen
    if in_steps and rate == 0:
        rate = (levels[-1] - levels[0]) / (places[-1] - places[0])
    later = (levels[-1] - levels[half]) / (places[-1] - places[half])
    return rate if later > STEADY_SHARE * rate else 0.0
