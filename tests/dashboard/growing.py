"""An alarm on the metric MemoryGrowing, evaluated as CloudWatch does, on labelled curves of environments."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from truemem.verdict import GROWING
from truemem_workbench.judge.drift import Point

from testing.drift.compositions import MIB, Floats, noise
from testing.drift.judged import drifts

MS = 200
"""Between invocations."""


def _leak(kib: float) -> Callable[[Floats], Floats]:
    return lambda at: at * kib


LEAKS = {f"{kib} KiB": _leak(kib) for kib in (4, 8, 64, 1024)}
KINDS: dict[str, Callable[[Floats], Floats]] = {
    **LEAKS,
    "steady": lambda at: 0 * at,
    "settling": lambda at: -12 * MIB * np.expm1(-at / 2),
    "sawtooth": lambda at: at % 23 * MIB,
    "model swap": lambda at: at // 37 % 2 * 30 * MIB,
    "one step": lambda at: np.where(at > 110, 20 * MIB, 0),
    "full cache": lambda at: -60 * MIB * np.expm1(-at / 40),
    "filling cache": lambda at: -400 * MIB * np.expm1(-at / 6000),
}
"""Memory after each invocation, KiB, by its number."""


def curve_of(kind: str, seed: int, life: int) -> list[Point]:
    """A curve of that kind above 60 MiB, with noise."""
    at = np.arange(1.0, life + 1)
    held = 60 * MIB + KINDS[kind](at) + noise(np.random.default_rng(seed), life, "noise alone")
    return [Point(number, number * MS, kib, kib + 500) for number, kib in enumerate(held.tolist(), 1)]


def told(curve: Iterable[Point]) -> Iterator[int]:
    """The invocations of one life whose line has MemoryGrowing."""
    curve = list(curve)
    for point, drift in zip(curve, drifts(curve), strict=True):
        if point.certain and drift.due() and drift.verdict.name == GROWING:
            yield point.invocation


@cache
def told_of(kind: str, seed: int, life: int) -> Sequence[int]:
    """The same of a made-up curve."""
    return [*told(curve_of(kind, seed, life))]


def replaced(kind: str, seed: int, life: int, count: int) -> list[int]:
    """The same of `count` invocations, where an environment is replaced after each `life`, not all at once."""
    first = -(life // 3) * (seed % 3) if life < count else 0
    begins = range(first, count, life)
    numbers = (begin + number for at, begin in enumerate(begins) for number in told_of(kind, 10 * seed + at, life))
    return [number for number in numbers if 0 < number <= count]


def goes_off(alarm: Mapping[str, Any], environments: Iterable[Iterable[int]], per_minute: float) -> bool:
    """Does the alarm go off? `environments`: the invocations of each that MemoryGrowing is written with, at so many
    invocations per minute."""
    assert alarm["MetricName"] == "MemoryGrowing"
    assert (alarm["Statistic"], alarm["Threshold"]) == ("Sum", 1)
    assert (alarm["ComparisonOperator"], alarm["TreatMissingData"]) == ("GreaterThanOrEqualToThreshold", "notBreaching")
    minutes, of, wanted = alarm["Period"] / 60, alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]
    breaching = {int((number - 1) / per_minute / minutes) for numbers in environments for number in numbers}
    return any(len(breaching & set(range(end - of + 1, end + 1))) >= wanted for end in breaching)
