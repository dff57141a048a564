"""Judges from one environment's invocations whether memory leaks. Values in, a value out.

The verdict is the sidecar's (`truemem.verdict`), of one look at all points. The sidecar's last look may be some time
ago, and it takes what it has called growing back with delay. So the two can differ about the end.

Lives that ran out of memory too early for a verdict are judged by how they grew into the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from truemem.verdict import (
    GROWING_FROM,
    LEAST_KIB,
    LEVEL_INVOCATIONS,
    MINIMUM,
    MOST_LEVELS_KEPT,
    SPIKE_KIB,
    LeakVerdict,
    Trend,
    median,
    parts_of,
)

from ..printed.line import Line
from ..support.estimates import ranks, theil_sen
from .thresholds import (
    EVEN,
    GOES_ON,
    LAST_LEVELS,
    LONG_LIFE_INVOCATIONS,
    MATTERS_KIB,
    SEVERAL_LIVES,
    SHORT_LIFE,
    SURE,
)

Floats = NDArray[np.float64]

MINUTE_MS = 60_000


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


class Curve(Sequence[Point]):
    """Points in the order of their invocations, a column for each member; `peak_kib` is NaN where it is not known.

    A report judges millions of points: as objects they would take ten times as long.
    """

    def __init__(self, *columns: NDArray[Any]) -> None:
        self.invocation, self.time_ms, self.current_kib, self.peak_kib, self.certain, self.begins, self.died = columns
        self._columns = columns

    @classmethod
    def made(
        cls,
        invocation: ArrayLike,
        time_ms: ArrayLike,
        current_kib: ArrayLike,
        peak_kib: ArrayLike = math.nan,
        certain: ArrayLike = True,
        begins: ArrayLike = False,
        died: ArrayLike = False,
    ) -> Curve:
        """A curve of columns whose rows are in any order. One value may stand for a whole column."""
        numbers = np.asarray(invocation, float)
        order = np.argsort(numbers, kind="stable")
        given = (time_ms, current_kib, peak_kib, certain, begins, died)
        columns = (
            np.asarray(each, kind) for each, kind in zip(given, (float, float, float, bool, bool, bool), strict=True)
        )
        return cls(numbers[order], *(each[order] if each.ndim else np.full(len(order), each) for each in columns))

    @classmethod
    def of(cls, points: Sequence[Point]) -> Curve:
        """The curve of these points, given in any order."""
        if isinstance(points, Curve):
            return points
        numbers, times, levels, peaks, *flags = zip(*points, strict=True) if points else [()] * len(Point._fields)
        return cls.made(numbers, times, levels, [math.nan if peak is None else peak for peak in peaks], *flags)

    def __len__(self) -> int:
        return len(self.invocation)

    def __iter__(self) -> Iterator[Point]:
        numbers, times, levels, peaks, *flags = (column.tolist() for column in self._columns)
        known = [None if math.isnan(peak) else peak for peak in peaks]
        return map(Point._make, zip(map(int, numbers), times, levels, known, *flags, strict=True))

    @overload
    def __getitem__(self, at: int) -> Point: ...
    @overload
    def __getitem__(self, at: slice | NDArray[np.bool_]) -> Curve: ...
    def __getitem__(self, at: int | slice | NDArray[np.bool_]) -> Point | Curve:
        if isinstance(at, (slice, np.ndarray)):
            return Curve(*(column[at] for column in self._columns))
        return next(iter(self[at : at + 1 or None]))

    def at_levels(self, current_kib: Floats, invocation: Floats | None = None) -> Curve:
        """This curve with other levels, and perhaps with other numbers."""
        return Curve(
            self.invocation if invocation is None else invocation, self.time_ms, current_kib, *self._columns[3:]
        )

    def lowered(self, by: Floats) -> Curve:
        """This curve with levels and peaks lower by so much, KiB."""
        return Curve(*self._columns[:2], self.current_kib - by, self.peak_kib - by, *self._columns[4:])


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
    confidence: float | None = None
    """Share of verdicts `growing` like this one that were right (benchmarks/results/drift.md). Only for `growing`."""

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


INSUFFICIENT = Verdict("insufficient", None, None, None)


def judge(points: Sequence[Point]) -> Verdict:
    """Judge one environment's invocations, given in any order.

    Each life (the time between two resets) is judged on its own. A leak in any life is a leak; else the verdict is that
    of the last life that is long enough. Of the lives that ran out of memory before they were long enough, at least
    half must have grown into the limit.
    """
    all_lives = lives(points)
    known = [verdict for verdict in map(_judge, all_lives) if verdict.name != "insufficient"]
    growing = [verdict for verdict in known if verdict.name == "growing"]
    killed = [life for life in all_lives if SHORT_LIFE <= len(life) < GROWING_FROM and life.died[-1]]
    return (growing or _of_killed(killed) or known or [INSUFFICIENT])[-1]


def lives(points: Sequence[Point]) -> list[Curve]:
    """Split points into lives: invocations of the same processes. At least one life, which may be empty."""
    curve = Curve.of(points)
    if not curve.begins[1:].any():
        return [curve]
    edges = [0, *(np.flatnonzero(curve.begins[1:]) + 1).tolist(), len(curve)]
    return [curve[first:last] for first, last in pairwise(edges)]


def trusted_of(life: Curve, least: int = MINIMUM) -> Curve:
    """The points that are certain, if there are at least `least` of them; else all points."""
    if life.certain.all():
        return life
    certain = life[life.certain]
    return certain if len(certain) >= least else life  # doubtful is better than not at all: medians bear some of it


def _judge(life: Curve) -> Verdict:
    """The verdict on the points of one life."""
    trusted = trusted_of(life)
    if len(trusted) < MINIMUM:
        return INSUFFICIENT
    seen = _Look()
    most = MOST_LEVELS_KEPT if len(trusted) < LONG_LIFE_INVOCATIONS else LAST_LEVELS
    levels, floors = _levels_of(trusted.current_kib, min(most, len(trusted) // LEVEL_INVOCATIONS))
    seen.look(levels, floors, int(trusted.invocation[-1]) - int(life.invocation[0]) + 1, _spikes(life))
    return Verdict(cast(Name, seen.name), *seen.growth, seen.confidence if seen.name == "growing" else None)


class _Look(LeakVerdict):
    """The same verdict: numpy takes a fifth of the time for all pairs of levels."""

    def slope_of(self, levels: Sequence[float]) -> float:
        late, early, gaps = _pairs(len(levels))
        values = np.array(levels)
        return median_of((values[late] - values[early]) / gaps)


@cache
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """The places of all pairs among so many, the later one first, and how far they are apart."""
    late, early = np.tril_indices(count, -1)
    return late, early, (late - early).astype(float)


def _levels_of(values: Floats, count: int) -> tuple[list[float], list[float]]:
    """The values, all there at once and at least `count`, as so many levels, and the levels' floors."""
    inside, lengths = _parts(len(values), count)
    parts = np.sort(np.where(inside >= 0, values[inside], np.inf), axis=1)
    rows = np.arange(count)
    medians = (parts[rows, (lengths - 1) // 2] + parts[rows, lengths // 2]) / 2
    return medians.tolist(), parts[:, 0].tolist()


@lru_cache(maxsize=16)
def _parts(count: int, parts: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """A row for each of so many parts of about the same length: the places in it, -1 behind them; and its length."""
    edges = np.array([round(count * at / parts) for at in range(parts + 1)])
    lengths = np.diff(edges)
    places = np.arange(lengths.max())
    return np.where(places < lengths[:, None], edges[:-1, None] + places, -1), lengths


def median_of(values: Floats) -> float:
    """The median of at least one value. numpy's own takes ten times as long."""
    ordered = values.copy()
    ordered.sort()
    return float(ordered.item((len(ordered) - 1) // 2) + ordered.item(len(ordered) // 2)) / 2


def per_minute(growth: float, points: Sequence[Point]) -> float | None:
    """Growth per minute; None if the times are not known."""
    span = (points[-1].time_ms - points[0].time_ms) / MINUTE_MS
    return growth * (points[-1].invocation - points[0].invocation) / span if span > 0 else None


def _spikes(life: Curve) -> int:
    """Peaks that `is_spike` is true of."""
    held = np.maximum(life.current_kib[:-1], life.current_kib[1:])
    return int(np.count_nonzero(life.peak_kib[1:] - held > np.maximum(SPIKE_KIB, held / 4)))


def points(lines: Iterable[Line]) -> list[Point]:
    """Make the points of one environment."""
    made = (point_of(line, line.invocation or number) for number, line in enumerate(lines, 1))
    return [point for point in made if point is not None]


def point_of(line: Line, number: int) -> Point | None:
    """The point of this invocation; None if no level is known. One that ran out of memory has at least its last."""
    current = line.peak_rss if line.current_rss is None and line.out_of_memory else line.current_rss
    if current is None:
        return None
    return Point(
        invocation=number,
        time_ms=line.time_ms or 0.0,
        current_kib=current * 1024,
        peak_kib=None if line.peak_rss is None else line.peak_rss * 1024,
        certain=line.certain,
        begins=line.begins,
        died=line.out_of_memory,
    )


def _of_killed(killed: Sequence[Curve]) -> list[Verdict]:
    """The verdict on each of these lives, which ran out of memory, that shows a leak: those that grew evenly into the
    limit, if they are at least half of all. If there are several, it is enough that, taken together, they grew as much
    late as early."""
    grew = [(held, growth) for life in killed for held, growth in _into_the_limit(life)]
    even = [Verdict("growing", *growth) for held, growth in grew if _grew_evenly(held.tolist())]
    if even and 2 * len(even) >= len(killed):
        return even
    early = sum(held[len(held) // 2] - held[0] for held, _ in grew)
    late = sum(held[-1] - held[-1 - len(held) // 2] for held, _ in grew)
    several = len(grew) >= SEVERAL_LIVES and 2 * len(grew) >= len(killed) and late >= GOES_ON * early
    return [Verdict("growing", *growth) for _, growth in grew] if several else []


def _into_the_limit(life: Curve) -> Iterator[tuple[Floats, Trend]]:
    """The levels of a life that ran out of memory, but for the last, and how they grew; nothing if it did not grow into
    the limit.

    It must have grown by at least half of the way, and by no more than a third of that at once. A spike that kills, a
    load, and a cache that was nearly full are not growth.
    """
    trusted, last = trusted_of(life[:-1], SHORT_LIFE - 1), life[-1]
    numbers, held = trusted.invocation, trusted.current_kib
    growth = _growth_to_limit(numbers, held)
    grown = growth.slope * (float(numbers[-1]) + 1 - float(numbers[0]))
    way = max(last.current_kib, last.peak_kib or 0) - float(held[0])
    if growth.low > 0 and grown >= max(way / 2, LEAST_KIB) and np.diff(held).max() <= grown / 3:
        yield held, growth


def _grew_evenly(levels: Sequence[float]) -> bool:
    """Does the growth come evenly, not in a few steps, and as much late as early?"""
    parts = [median(part) for part in parts_of(levels, min(12, len(levels)))]
    rises = np.diff(parts)
    half = len(rises) // 2
    if float(rises[-half:].sum()) < GOES_ON * float(rises[:half].sum()):
        return False
    mean = float(rises.mean())
    return float(np.sort(rises)[-2:].sum()) <= (parts[-1] - parts[0]) / 2 and float(rises.std()) <= EVEN * mean


def _growth_to_limit(numbers: Floats, held: Floats) -> Trend:
    slope, low, high = theil_sen(held, numbers)
    off = ranks(held - slope * numbers)  # ranks: one outlier must not hide what all others remember
    memory = float(np.corrcoef(off[:-1], off[1:])[0, 1]) if np.ptp(off[:-1]) and np.ptp(off[1:]) else 0.0
    memory = min(max(memory, 0.0), 0.95)
    wider = math.sqrt((1 + memory) / (1 - memory))
    return Trend(slope, slope - (slope - low) * wider, slope + (high - slope) * wider)


Name = Literal["stable", "warming", "plateau", "growing", "spiky", "insufficient"]
