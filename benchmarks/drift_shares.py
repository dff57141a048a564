"""Shares of what was measured of the verdict on drift: for its tables, and for its promises."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from truemem.records.leak_verdict import GROWING

from benchmarks.drift_series import GROUPS, LIFE, Real, Result

TOLD_FROM = 96
"""A leak that is killed earlier leaves too little time for a verdict."""
IN_TIME = 0.8
"""A leak is told in time before this share of its life."""
COVERED_FROM = 512
"""Invocations from which the interval must cover."""


def share(said: Iterable[bool]) -> float | None:
    """Part of those that are true; None of nothing."""
    every = list(said)
    return sum(every) / len(every) if every else None


def percent(part: float | None) -> str:
    """For a table."""
    return "" if part is None else f"{part * 100:.1f} %"


def called(results: Iterable[Result], method: str, count: int, group: str) -> float | None:
    """The share of a group that a method calls growing at that length."""
    return share(each.heard.growing[method][count] for each in results if each.group == group)


def called_kind(results: Iterable[Result], method: str, count: int, kind: str) -> float | None:
    """The same of a kind."""
    return share(each.heard.growing[method][count] for each in results if each.kind == kind)


def accused(results: Iterable[Result], group: str) -> float | None:
    """The share of a group that the sidecar ever calls growing in a life."""
    return share(each.heard.first is not None for each in results if each.group == group)


def killed(results: Iterable[Result], groups: Sequence[str]) -> list[tuple[int, int | None]]:
    """Of the leaks that reach their limit, not too early: when they do, and when they are told."""
    return [
        (each.killed, each.heard.first)
        for each in results
        if each.group in groups and each.killed is not None and TOLD_FROM <= each.killed <= LIFE
    ]


def told_in_time(lives: Iterable[tuple[int, int | None]]) -> float | None:
    """The share of them that are told before IN_TIME of their life."""
    return share(told is not None and told < IN_TIME * end for end, told in lives)


def intervals(results: Iterable[Result], form: str, count: int, group: str) -> list[tuple[float, float, float]]:
    """Low end, high end and true rate of each steady leak that has an interval."""
    made = []
    for each in results:
        told = each.heard.told[form][count]
        if each.group == group and each.rate is not None and math.isfinite(told.low) and told.verdict != "insufficient":
            made.append((told.low, told.high, each.rate))
    return made


def coverage(of: Iterable[tuple[float, float, float]]) -> float | None:
    """The share of intervals that hold the true rate."""
    return share(low <= rate <= high for low, high, rate in of)


def width(of: Sequence[tuple[float, float, float]]) -> float | None:
    """The median width of the intervals, as a part of the true rate."""
    widths = sorted((high - low) / rate for low, high, rate in of)
    return widths[len(widths) // 2] if widths else None


def confidences(results: Sequence[Result], form: str, leaks: Sequence[str]) -> dict[float, tuple[int, float]]:
    """By confidence of a verdict `growing`, at any length: the number of them, and the share that were leaks.

    Each group counts alike, as if half of all memory leaked.
    """
    sizes = {group: sum(each.group == group for each in results) for group in GROUPS}
    counts: dict[float, int] = {}
    weights: dict[float, list[float]] = {}
    for each in results:
        for told in each.heard.told[form].values():
            if told.verdict != GROWING or told.confidence is None:
                continue
            confidence, weight = round(told.confidence, 2), 1 / sizes[each.group]
            counts[confidence] = counts.get(confidence, 0) + 1
            right, of = weights.setdefault(confidence, [0.0, 0.0])
            weights[confidence] = [right + weight * (each.group in leaks), of + weight]
    return {confidence: (counts[confidence], weights[confidence][0] / weights[confidence][1]) for confidence in counts}


def called_real(real: Iterable[Real], method: str, leaks: bool, half: bool = False) -> tuple[int, int]:
    """How many of the recorded leaks (or of the others) a method calls growing, and how many there are."""
    said = [each.heard.growing[method][each.half if half else each.end] for each in real if each.leaks == leaks]
    return sum(said), len(said)
