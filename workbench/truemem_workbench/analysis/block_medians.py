"""Many readings as a few levels, each a median: what `truemem.records.drift.shape` judges. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from truemem.records import drift


def edges(count: int, parts: int) -> list[int]:
    """Where each of so many equal parts begins, and the last ends."""
    return [round(count * at / parts) for at in range(parts + 1)]


def medians(values: Sequence[float], between: Sequence[int]) -> list[float]:
    """Of the values between each two edges."""
    return [drift.median(values[first:last]) for first, last in pairwise(between)]


def usual_edges(count: int) -> list[int]:
    """Of as many levels as the sidecar would have, of at least drift.MINIMUM readings."""
    return edges(count, min(drift.LEVELS, count // drift.BLOCK))
