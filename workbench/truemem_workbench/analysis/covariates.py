"""What of a curve is explained by something else on the lines: the event, the model, threads, files. Pure.

Something that moves by tens of MiB hides a leak of some KiB, and can look like one. Invocations that are alike in it
are compared with each other, early ones with late ones. So a leak is never explained away: where threads leak, each
number of threads is there only once, and explains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from truemem.records.leak_verdict import levels_of
from truemem.records.trend import all_slopes, middle

from ..lines.record import Record, figure

Floats = NDArray[np.float64]
Value = str | float | None

MEMBERS = ("threads", "sharedBy", "rss.file", "heap.held", "requestBytes")
"""Members of the line that move memory. Not its peaks and marks: in 46 recorded programs they explain nothing."""

GROUPS = 24
"""Most groups of a number's values."""
LEAST = 12
"""Invocations that a group needs."""
EARLY_AND_LATE = 0.1
"""A group counts if this part of it, or more, is in the first third, and in the last."""
COVERED = 0.8
"""So much of all invocations must be in groups that count."""
EXPLAINS = 0.7
"""What is left moves by this part of the whole movement, or by less."""
LEAST_MOVEMENT_KIB = 1024
"""Smaller movements hide no leak for long."""
ROUNDS = 12


def beside(lines: Iterable[Record]) -> dict[str, dict[int, Value]]:
    """What stands on an environment's lines beside the levels: by member, then by the invocation's number."""
    numbered = [(line.invocation or number, line) for number, line in enumerate(lines, 1)]
    return {name: {number: member(line, name) for number, line in numbered} for name in MEMBERS}


def member(line: Record, name: str) -> float | None:
    """The figure in this member; None if there is none."""
    found: object = line.members
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return figure(found)


def rest_of(held: Sequence[float], beside: Mapping[str, Sequence[Value]]) -> tuple[str, list[float]] | None:
    """What is left of the levels, in KiB, without what one of the columns beside them explains, and the name of that
    column: the one that explains most. None if none explains much. A column has a value for each level; None: not
    known."""
    levels = np.asarray(held, dtype=np.float64)
    slope = _slope(levels)
    movement = _movement(levels, slope)
    if movement < LEAST_MOVEMENT_KIB:
        return None
    found: dict[str, tuple[float, Floats]] = {}
    for name, values in beside.items():
        groups = _groups(values)
        if groups is not None:
            rest = _fitted(levels, groups, slope)
            found[name] = _movement(rest, _slope(rest)), rest
    if not found:
        return None
    name, (left, rest) = min(found.items(), key=lambda each: each[1][0])
    return (name, rest.tolist()) if left <= EXPLAINS * movement else None


def _groups(values: Sequence[Value]) -> NDArray[np.intp] | None:
    """The group of each level, from 0; -1 where it is in none that counts. None where these explain nothing."""
    if all(isinstance(value, (int, float)) or value is None for value in values):
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        known = numbers[np.isfinite(numbers)]
        edges = np.unique(known)
        if len(edges) > GROUPS:
            edges = np.unique(np.quantile(known, np.linspace(0, 1, GROUPS + 1)[:-1]))
        codes = np.where(np.isfinite(numbers), np.searchsorted(edges, numbers, side="right") - 1, -1)
    else:
        texts = np.array(["" if value is None else str(value) for value in values])
        codes = np.unique(texts, return_inverse=True)[1]
    third = len(codes) // 3
    counts = 0
    made = np.full(len(codes), -1)
    for code in np.unique(codes[codes >= 0]):
        inside = codes == code
        least = max(1.0, EARLY_AND_LATE * inside.sum())
        if inside.sum() >= LEAST and inside[:third].sum() >= least and inside[-third:].sum() >= least:
            made[inside] = counts
            counts += 1
    return made if counts > 1 and np.mean(made >= 0) >= COVERED else None


def _fitted(levels: Floats, groups: NDArray[np.intp], slope: float) -> Floats:
    """The levels without their groups' offsets, which are fitted together with a slope in time, by medians."""
    at = np.arange(len(levels))
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    rest = levels
    for _ in range(ROUNDS):
        flat = levels - slope * at
        whole = float(np.median(flat))
        rest = levels.copy()
        for inside in members:
            rest[inside] -= np.median(flat[inside]) - whole
        slope = _slope(rest)
    return rest


def _slope(levels: Floats) -> float:
    """KiB per level, by the median of the slopes between some medians (Theil-Sen)."""
    parts = levels_of(levels.tolist(), 24)[0]
    return middle(all_slopes(parts)) * len(parts) / len(levels)


def _movement(levels: Floats, slope: float) -> float:
    """What eight of ten levels lie apart, without the slope."""
    low, high = np.quantile(levels - slope * np.arange(len(levels)), [0.1, 0.9])
    return float(high - low)
