"""Reduces many readings to a few levels, each a median, for `truemem.records.drift.shape`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from truemem.records import drift


def edges(count: int, parts: int) -> list[int]:
    """Cut `count` values into equal parts: where each part begins, and where the last one ends."""
    return [round(count * at / parts) for at in range(parts + 1)]


def medians(values: Sequence[float], between: Sequence[int]) -> list[float]:
    """The median of the values between each two edges."""
    return [drift.median(values[first:last]) for first, last in pairwise(between)]


def usual_edges(count: int) -> list[int]:
    """Edges for as many levels as the sidecar would have, each of at least drift.MINIMUM readings."""
    return edges(count, min(drift.LEVELS, count // drift.BLOCK))
