"""Both verdicts on a curve: the workbench's, from all points, and the sidecar's, from some hundred numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from truemem.drift import Drift
from truemem.verdict import GROWING, INSUFFICIENT, LeakVerdict
from truemem_workbench.judge.drift import Point, judge

from .compositions import Composition, Floats


class Told(NamedTuple):
    """A verdict on a curve."""

    verdict: str
    low: float
    high: float
    """The 95 % interval of the growth, KiB per invocation."""
    confidence: float | None


def points(made: Composition, count: int | None = None) -> list[Point]:
    """The points that the first `count` lines of that environment would give; of all of them without it."""
    return list(_points(made.current[:count], made.peak[:count], made.time_ms[:count]))


def workbench(curve: Sequence[Point]) -> str:
    """The workbench's verdict, where no limit is known."""
    return judge(curve).name


def sidecar(curve: Iterable[Point]) -> str:
    """The sidecar's verdict at the end."""
    return list(on_the_way(curve))[-1]


def on_the_way(curve: Iterable[Point]) -> Iterable[str]:
    """The sidecar's verdict after each invocation: a reset ends its history with the processes."""
    for made in drifts(curve):
        yield made.verdict.name or INSUFFICIENT


def drifts(curve: Iterable[Point]) -> Iterator[Drift]:
    """The sidecar's drift after each invocation."""
    made = Drift()
    for point in curve:
        if point.begins:
            made = Drift()
        made.see(round(point.current_kib), round(point.peak_kib or 0))
        if point.certain:
            made.add(round(point.current_kib), round(point.time_ms))
        yield made


def sidecar_at(
    current: Floats, peak: Floats, time_ms: Floats, lengths: Sequence[int]
) -> tuple[dict[int, Told], int | None]:
    """The sidecar's verdict after each of these numbers of invocations, and the first invocation at which it said
    growing, or None. KiB and ms."""
    told, first = {}, None
    for number, made in enumerate(drifts(_points(current, peak, time_ms)), 1):
        if first is None and made.verdict.name == GROWING:
            first = number
        if number in lengths:
            told[number] = _told(made.verdict)
    return told, first


def _told(verdict: LeakVerdict) -> Told:
    _, low, high = verdict.growth
    return Told(verdict.name or INSUFFICIENT, low, high, verdict.confidence if verdict.name == GROWING else None)


def _points(current: Floats, peak: Floats, time_ms: Floats) -> Iterator[Point]:
    rows = zip(current.tolist(), peak.tolist(), time_ms.tolist(), strict=True)
    for number, (held, most, time) in enumerate(rows, 1):
        yield Point(number, time, held, most)
