"""Judges from one environment's invocations whether memory leaks.

Values in, a value out. The verdict is the sidecar's (`truemem.records.leak_verdict`), look after look. The sidecar's
last look may be some time ago; here the last one is at all points. So the two can differ about the end; and where the
lines say what moves the curve (`covariates`), about the rest, which `explained` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from truemem.records.drift import BLOCK, FIRST, LEVELS, MINIMUM, STEP, is_spike
from truemem.records.leak_verdict import GROWING_FROM, URGENT_UNTIL, LeakVerdict, levels_of

from ..lines.line import Line
from .covariates import Value, rest_of
from .killed_lives import SHORT, grew_into_the_limit

Name = Literal["stable", "warming", "plateau", "growing", "spiky", "insufficient"]
Floats = NDArray[np.float64]

NEARLY = 0.9
"""A look at so many of all readings, or more, gives way to the one at the end."""
LAST = 32
"""Levels of the look at the end of a long life. With more of them its interval comes out too narrow."""
MINUTE_MS = 60_000
MATTERS_KIB = 4.0
"""Growth per invocation that matters to a gate: smaller growth is often that of a runtime."""
SURE = 0.87
"""Confidence from which `growing` is certain enough for a gate."""


class Point(NamedTuple):
    """One invocation, as the verdict needs it."""

    invocation: int
    """Number in its environment, from 1."""
    time_ms: float
    """Begin of the invocation, in epoch milliseconds."""
    current_kib: float
    """RSS when its window closed: what it left behind."""
    peak_kib: float | None
    """Highest RSS in the invocation, or None if unknown."""
    certain: bool = True
    """False if `current_kib` may contain another invocation's memory, or is of a dying process."""
    begins: bool = False
    """True if the function's processes are new: at a cold start, and first after a reset."""
    died: bool = False
    """True if this invocation ran out of memory."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one environment."""

    name: Name
    per_invocation_kib: float | None
    """Growth per invocation over the judged part (Theil-Sen). For `stable`, `plateau` and `spiky`, the part since it
    stopped. None without a verdict."""
    low_kib: float | None
    high_kib: float | None
    """Ends of its 95 % interval: that often it has the true rate. `low_kib` is above 0 for `growing`; for `stable`,
    `plateau` and `spiky`, `high_kib` is at most leak_verdict.OPEN_KIB."""
    per_minute_kib: float | None
    """Growth per minute, freezes included. None if the times are not known."""
    invocations_left: int | None
    """Invocations until the memory limit at this rate. Only for `growing`."""
    confidence: float | None = None
    """Of verdicts `growing` like this one, so many were right (benchmarks/results/drift.md). Only for `growing`, as
    the two below."""
    since: int | None = None
    """The invocation at which it was called growing."""
    grown_kib: float | None = None
    """What it has grown by in all."""
    ended: str | None = None
    """Why it is not called growing any more, if it was."""
    explained: str | None = None
    """What moves with the memory, and was taken away before it was judged, if that made another verdict of it."""

    @property
    def settled(self) -> bool:
        """Is the curve certain enough to pass or fail a gate? If not, more invocations will tell.

        True for `growing` where at least SURE of such verdicts are right, or where lives ended at the limit. True for
        every other verdict where even the interval's upper end is below MATTERS_KIB. False without an interval, and
        where growth of MATTERS_KIB or more can be neither shown nor denied, whatever the verdict is.
        """
        if self.name == "growing":
            return self.confidence is None or self.confidence >= SURE
        return self.high_kib is not None and self.high_kib < MATTERS_KIB


INSUFFICIENT = Verdict("insufficient", None, None, None, None, None)


def judge(
    points: Sequence[Point],
    limit_mib: int | None = None,
    is_patient: bool = True,
    beside: Mapping[str, Mapping[int, Value]] = MappingProxyType({}),
) -> Verdict:
    """Judge one environment's invocations, given in any order.

    Each life (the time between two resets) is judged on its own. A leak in any life is a leak; else the verdict is that
    of the last life that is long enough. Of the lives that ran out of memory before they were long enough, at least
    half must have grown into the limit. `is_patient`: see LeakVerdict; a gate is not. `beside`: by name, what may move
    with the memory: a value by the invocation's number.
    """
    all_lives = list(lives(points))
    judged = (_judge(life, limit_mib, is_patient, beside) for life in all_lives)
    told = [verdict for verdict in judged if verdict.name != "insufficient"]
    growing = [verdict for verdict in told if verdict.name == "growing"]
    killed = [life for life in all_lives if SHORT <= len(life) < GROWING_FROM and life[-1].died]
    return (growing or _of_killed(killed) or told or [INSUFFICIENT])[-1]


def lives(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Split points into lives: invocations of the same processes. At least one life, which may be empty."""
    life: list[Point] = []
    for point in sorted(points, key=lambda point: point.invocation):
        if point.begins and life:
            yield life
            life = []
        life.append(point)
    yield life


def trusted_of(life: list[Point], least: int = MINIMUM) -> list[Point]:
    """The points that are certain, if there are at least `least` of them; else all points."""
    certain = [point for point in life if point.certain]
    return certain if len(certain) >= least else life  # doubtful is better than not at all: medians bear some of it


def _judge(
    life: list[Point], limit_mib: int | None, is_patient: bool, beside: Mapping[str, Mapping[int, Value]]
) -> Verdict:
    trusted = trusted_of(life)
    if len(trusted) < MINIMUM:
        return INSUFFICIENT
    spikes = _spikes(life)
    plain = _looked(trusted, life[0].invocation, spikes, limit_mib, is_patient)
    if not beside or len(trusted) < GROWING_FROM:
        return plain
    columns = {name: [values.get(point.invocation) for point in trusted] for name, values in beside.items()}
    explained = rest_of([point.current_kib for point in trusted], columns)
    if explained is None:
        return plain
    by, rest = explained
    bare = [point._replace(current_kib=held) for point, held in zip(trusted, rest, strict=True)]
    of_the_rest = _looked(bare, life[0].invocation, spikes, limit_mib, is_patient)
    if (of_the_rest.name == "growing") == (plain.name == "growing"):
        return plain
    return replace(of_the_rest, explained=by)


def _looked(trusted: list[Point], first: int, spikes: int, limit_mib: int | None, is_patient: bool) -> Verdict:
    """The verdict on the points of a life that began at the invocation `first`."""
    seen = LeakVerdict(is_patient)
    for count, levels, floors in _looks(np.array([point.current_kib for point in trusted], dtype=float)):
        room_kib = limit_mib * 1024 - levels[-1] if limit_mib else None
        seen.look(levels, floors, trusted[count - 1].invocation - first + 1, room_kib, spikes)
    name, (growth, low, high) = cast(Name, seen.name), seen.growth
    made = Verdict(name, growth, low, high, per_minute(growth, trusted), None, ended=seen.ended or None)
    if name != "growing":
        return made
    left = None
    if limit_mib and growth > 0:
        highest = np.quantile([point.peak_kib or point.current_kib for point in trusted[-MINIMUM:]], 0.9)
        left = max(0, math.floor((limit_mib * 1024 - highest) / growth))
    return replace(
        made,
        invocations_left=left,
        confidence=seen.confidence,
        since=first + seen.since - 1,
        grown_kib=seen.grown_kib,
    )


def _looks(held: Floats) -> Iterator[tuple[int, list[float], list[float]]]:
    """The looks that the sidecar takes (truemem.records.drift), and one at all readings in place of the last. Of each:
    the number of readings, the levels and their floors."""
    whole = held[: len(held) // BLOCK * BLOCK].reshape(-1, BLOCK)
    middles, lowest = np.median(whole, axis=1), whole.min(axis=1)
    blocks, count = 1, FIRST
    while blocks * count * BLOCK <= NEARLY * len(held):
        first = middles[: blocks * count].reshape(count, blocks), lowest[: blocks * count].reshape(count, blocks)
        yield blocks * count * BLOCK, first[0].mean(axis=1).tolist(), first[1].min(axis=1).tolist()
        if count == LEVELS:
            blocks, count = blocks * 2, LEVELS // 2
        count += STEP
    most = LEVELS if len(held) < URGENT_UNTIL else LAST
    yield len(held), *levels_of(held.tolist(), min(most, len(held) // BLOCK))


def _of_killed(lives: list[list[Point]]) -> list[Verdict]:
    """The verdict of each life that grew into the limit, if these show a leak."""
    curves = []
    for life in lives:
        *before, last = life
        trusted = trusted_of(before, SHORT - 1)
        numbers, held = ([point[at] for point in trusted] for at in (0, 2))
        curves.append((np.array(numbers, float), np.array(held, float), max(last.current_kib, last.peak_kib or 0)))
    return [
        Verdict("growing", *growth, per_minute(growth.slope, lives[at]), None)
        for at, growth in grew_into_the_limit(curves)
    ]


def per_minute(growth: float, points: Sequence[Point]) -> float | None:
    """Growth per minute; None if the times are not known."""
    span = (points[-1].time_ms - points[0].time_ms) / MINUTE_MS
    return growth * (points[-1].invocation - points[0].invocation) / span if span > 0 else None


def _spikes(points: Sequence[Point]) -> int:
    return sum(
        point.peak_kib is not None and is_spike(point.peak_kib, max(before.current_kib, point.current_kib))
        for before, point in pairwise(points)
    )


def points(lines: Iterable[Line]) -> list[Point]:
    """Make the points of one environment. An invocation that ran out of memory has at least its last level."""
    made = []
    for number, line in enumerate(lines, 1):
        current = line.peak_rss if line.current_rss is None and line.out_of_memory else line.current_rss
        if current is None:
            continue
        made.append(
            Point(
                invocation=line.invocation or number,
                time_ms=line.time_ms or 0.0,
                current_kib=current * 1024,
                peak_kib=None if line.peak_rss is None else line.peak_rss * 1024,
                certain=line.certain,
                begins=line.begins,
                died=line.out_of_memory,
            )
        )
    return made
