"""What lines say of a heap, and whether a figure of it has grown and goes on. Pure. MiB.

`Heap` is malloc's, from the in-process probe of Python. A `Course` is judged in two forms: from a curve, which has a
value on each line; and from points, which are few and at odd times (what is live is known after each major collection).
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from truemem import verdict
from truemem.verdict import (
    GROWING,
    GROWING_FROM,
    LEAST_KIB,
    PLATEAU,
    WARMING,
    LeakVerdict,
    all_slopes,
    going_on,
    levels_of,
    middle,
    trend,
)

from ..lines.record import Record, figure

TAIL = 10
"""Number of readings whose median is one level."""
GROWTH_MIB, GROWTH_SHARE = 2.0, 0.02
"""A level has grown if the difference is more than both."""
HUGE_MIB = 2**30
"""Larger figures are not believed."""


@dataclass(frozen=True, kw_only=True)
class Heap:
    """One reading, or the median of several, in MiB."""

    in_use: float
    """Allocated, in the heaps of all arenas."""
    held: float
    """Freed, and kept by the allocator."""
    mapped: float
    """Allocated, in blocks with a mapping of their own."""

    @property
    def used(self) -> float:
        """All memory that is allocated with malloc."""
        return self.in_use + self.mapped


def malloc_heaps(lines: Iterable[Record]) -> list[Heap]:
    """The readings of these lines, in their order. Lines without one are left out."""
    found = (malloc_heap(line.members) for line in lines)
    return [heap for heap in found if heap is not None]


def malloc_heap(members: Mapping[str, object]) -> Heap | None:
    """The reading of one line. None if its `heap` is absent or not valid."""
    heap = members.get("heap")
    if not isinstance(heap, Mapping):
        return None
    in_use, held, mapped = (size_of(heap.get(name)) for name in ("inUse", "held", "mapped"))
    if in_use is None or held is None or mapped is None:
        return None
    return Heap(in_use=in_use, held=held, mapped=mapped)


def median_heap(heaps: Sequence[Heap]) -> Heap:
    """The median of the last readings, of at least one."""
    last = heaps[-TAIL:]
    return Heap(
        in_use=statistics.median(heap.in_use for heap in last),
        held=statistics.median(heap.held for heap in last),
        mapped=statistics.median(heap.mapped for heap in last),
    )


def size_of(value: object) -> float | None:
    """A figure in MiB of a line's heap; None if it is none."""
    size = figure(value)
    return size if size is not None and 0 <= size < HUGE_MIB else None


CourseName = Literal["unknown", "level", "filled", "filling", "growing"]

CoursePoint = tuple[float, float]
"""Number of the invocation, and MiB."""

FEWEST, FEW = 4, 8
"""Points that can show a leak; from FEW on, the engine of the drift verdict judges them."""
MOST = 24
"""Levels that points are made into."""
FILLED_MIB, FILLED_SHARE = 4.0, 0.2
"""A cache that has filled is named from both on."""
LATEST = 3
"""So many of the last points have to be above all of the former half, for growth that began late."""
LATER = 4
"""So many of the points of a leak are in the later half of the time."""
CERTAIN = 0.5
"""Few points have to rise by this part of the first: in what is live, there may be what an invocation needed."""
ABOVE = 1.5
"""Points have to rise by so much of what they go up and down."""
ALLOWED = 1.2
"""By how much of the movement a part's rise may differ by chance, as HALF_ALLOWED of the engine."""
MOST_PAIRED = 200
"""Points whose slopes are looked at, each with each."""
AGREE = {4: 1.0, 5: 0.8, 6: 0.7, 7: 0.7}
"""Few points: so much of all pairs, less those that fall, must rise (Kendall's tau). By chance 1 of 24 sets do."""
BEYOND = {6: 1, 7: 3}
"""Of few points: how many of all slopes lie beyond each end of the interval (Sen 1968). Of four it has 92 %."""
AFTERWARDS = 0.25
"""After the last point, so much of the time has to pass before a ceiling says whether growth went on."""
LATE = 0.7
"""Growth between points goes on if the later half rises by this part of the whole rate, so that a cache of random keys
is less than three quarters full,"""
GOES_ON, ENDED = 0.5, 0.35
"""and the last third by this part (of few points, the later half). It has ended if the later half is below the
other."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a figure went, in MiB."""

    name: CourseName
    """`filling`: it has grown, and a leak cannot be told from a cache yet. `filled`: it has grown, and stopped."""
    before: float = 0.0
    after: float = 0.0
    per_invocation_kib: float = 0.0
    low_kib: float | None = None
    high_kib: float | None = None
    """Ends of its interval; None where there is none."""

    @property
    def has_grown(self) -> bool:
        return self.name in ("growing", "filling")


UNKNOWN = Course(name="unknown")


def course_of_curve(
    numbers: Sequence[int], values: Sequence[float], *, is_proven: bool = False, invocations: int = 0
) -> Course:
    """The course of a figure that has a value on each of these lines, whose invocations have these numbers.
    `is_proven`: that it has grown by more than it goes up and down is known: the question is whether it goes on.
    `invocations` of the whole life, if the lines are a part of it."""
    if len(values) < verdict.MINIMUM:
        return UNKNOWN
    levels, floors = levels_of([mib * 1024 for mib in values], min(verdict.LEVELS, len(values) // verdict.BLOCK))
    return _judged(levels, floors, max(numbers[-1] - numbers[0] + 1, len(values), invocations), is_proven)


def course_of_points(points: Sequence[CoursePoint], invocations: int, ceiling: CoursePoint | None = None) -> Course:
    """The course of a figure that is known at these points only, in an environment of so many invocations. `ceiling`:
    at a later point, it was not above this. Of a level one, `before` and `after` are the lowest and the highest."""
    course = _of_points(points, invocations)
    if course.name == "filled":
        course = replace(course, before=min(value for _, value in points[:2]))
    if course.name == "level" and len(points) >= FEW:
        course = _risen_late(points) or course
    if course.name == "level":
        values = [value for _, value in points]
        course = replace(course, before=min(values), after=max(values))
    return course if ceiling is None or len(points) < 2 else _below(course, points, ceiling)


def _risen_late(points: Sequence[CoursePoint]) -> Course | None:
    """What has not grown as a leak does, but is above all that it was in the former half by now, is not level."""
    values = [value for _, value in points]
    early, late = values[: len(values) // 2], values[-max(LATEST, len(values) // 12) :]
    if not _differ(max(early), min(late)):
        return None
    return Course(name="filling", before=statistics.median(early), after=statistics.median(late))


def _below(course: Course, points: Sequence[CoursePoint], ceiling: CoursePoint) -> Course:
    """Growth has ended where the ceiling leaves room for little of it."""
    (first, before), (last, after), (late, highest) = points[0], points[-1], ceiling
    if course.name in ("level", "filled") or late - last < AFTERWARDS * (late - first):
        return course
    rate = (after - before) / max(1.0, last - first)
    if not _differ(before, after) or highest - after >= ENDED * rate * (late - last):
        return course if course.name == "unknown" else replace(course, name="filling")
    return Course(name="filled", before=before, after=after, per_invocation_kib=rate * 1024)


def _of_points(points: Sequence[CoursePoint], invocations: int) -> Course:
    if len(points) < 2:
        return UNKNOWN
    if len(points) < FEW:
        return _of_few(points, invocations)
    levels = [mib * 1024 for mib in _resampled(points, min(MOST, len(points)))]
    half = (points[0][0] + points[-1][0]) / 2
    if filled := _filled(points, levels):
        return filled
    course = _judged(levels, levels, invocations)
    if course.name == "level":
        return course
    name = _ahead(levels, invocations)
    if name == "growing" and sum(time > half for time, _ in points) < LATER:
        name = "filling"
    return at_rate(replace(course, name=name), _rate(points))


def at_rate(course: Course, rate: float) -> Course:
    """The course at this rate: its interval is as wide for its size."""
    scale = rate / course.per_invocation_kib if course.per_invocation_kib > 0 else 0.0
    if course.low_kib is None or course.high_kib is None or scale <= 0:
        return replace(course, per_invocation_kib=rate, low_kib=None, high_kib=None)
    return replace(course, per_invocation_kib=rate, low_kib=course.low_kib * scale, high_kib=course.high_kib * scale)


def _rate(points: Sequence[CoursePoint]) -> float:
    """KiB per invocation: the median of the slopes between points that lie well apart (Theil-Sen)."""
    apart = max((points[-1][0] - points[0][0]) / 4, 1.0)
    few = points[:: max(1, len(points) // MOST_PAIRED)]
    slopes = [
        (value - before) / (time - since) for since, before in few for time, value in few if time - since >= apart
    ]
    return statistics.median(slopes) * 1024 if slopes else 0.0


def _filled(points: Sequence[CoursePoint], levels: Sequence[float]) -> Course | None:
    """What had grown by the later half, by more than it goes up and down there, and hardly rises or falls in it."""
    early, late = min(value for _, value in points[:3]), [level / 1024 for level in levels[len(levels) // 2 :]]
    slope, rise = middle(all_slopes(late)), statistics.median(late) - early
    movement = _movement(late, slope)
    # What falls again as fast was needed for a while: no cache.
    if rise < max(FILLED_MIB, FILLED_SHARE * early, movement) or abs(slope) * len(levels) - movement > ENDED * rise:
        return None
    return Course(name="filled", before=early, after=early + rise)


def _ahead(levels: Sequence[float], invocations: int) -> CourseName:
    """Whether what has grown grows on. The engine's test is made for what goes up and down bit by bit. Here a level may
    lie on the way between two points, and have in it what an invocation needed."""
    slope, count = middle(all_slopes(levels)), len(levels)
    late, last = (middle(all_slopes(levels[-count // part :])) for part in (2, 3))
    movement = _movement(levels, slope)
    if late < ENDED * slope:
        return "level"
    if slope * count < ABOVE * movement:
        return "level"
    # Of the later half alone, around its own slope: a cache's curve would be taken for movement, and excuse its end.
    allowed = ALLOWED * _movement(levels[-count // 2 :], late) / count
    goes_on = late + 2 * allowed >= LATE * slope and last + 3 * allowed >= GOES_ON * slope
    return "growing" if goes_on and invocations >= GROWING_FROM else "filling"


def _movement(levels: Sequence[float], slope: float) -> float:
    """What eight of ten levels lie apart, without the slope."""
    off = sorted(level - slope * at for at, level in enumerate(levels))
    return off[-1 - len(off) // 10] - off[len(off) // 10]


def _judged(levels: list[float], floors: list[float], invocations: int, is_proven: bool = False) -> Course:
    verdict = LeakVerdict()
    verdict.look(levels, floors, invocations)
    first = max(2, len(levels) // 6)  # as the engine does: what is loaded at the start
    judged = levels[first:]
    rises, last = trend(judged), middle(all_slopes(judged[-(len(judged) // 3) :]))
    before = levels[1] / 1024 if verdict.name == PLATEAU else levels[first] / 1024
    after = statistics.median(levels[-max(1, len(levels) // 12) :]) / 1024
    name: CourseName = {GROWING: "growing", WARMING: "filling", PLATEAU: "filled"}.get(verdict.name, "level")  # type: ignore[assignment]
    certain = rises.slope * len(judged) > LEAST_KIB and rises.low > 0
    goes_on = (certain and going_on(levels, first, rises) > 0) or (is_proven and last >= LATE * rises.slope)
    if name == "filling" and goes_on and invocations >= GROWING_FROM:
        name = "growing"  # RSS needs more: there, slow movements are not seen in so few invocations
    if not _differ(before, after):
        name = "level"
    rate, low, high = verdict.growth
    return Course(name=name, before=before, after=after, per_invocation_kib=rate, low_kib=low, high_kib=high)


def _of_few(points: Sequence[CoursePoint], invocations: int) -> Course:
    values = [value for _, value in points]
    (first, before), (last, after), count = points[0], points[-1], len(points)
    rate = (after - before) / max(1.0, last - first)
    pairs = [later - earlier for at, earlier in enumerate(values) for later in values[at + 1 :]]
    agree = (sum(pair > 0 for pair in pairs) - sum(pair < 0 for pair in pairs)) / len(pairs)
    name: CourseName = "unknown"
    if not _differ(min(values[:2]), max(values[-2:])) or (count >= FEWEST and agree <= 0):
        name = "level"
    elif count == FEWEST - 1 and agree == 1:
        name = "filling"
    elif count >= FEWEST and _differ(before, min(values[-2:])):
        at_middle, middle = points[(count - 1) // 2]
        late = (after - middle) / max(1.0, last - at_middle)
        if late < ENDED * rate:
            name = "filled"
        elif agree >= AGREE[count]:
            is_certain = late >= GOES_ON * rate and after - before > CERTAIN * before
            name = "growing" if is_certain and invocations >= GROWING_FROM else "filling"
    slopes = sorted(
        (value - values[at]) / max(1.0, time - points[at][0]) * 1024
        for end, (time, value) in enumerate(points)
        for at in range(end)
    )
    beyond = BEYOND.get(count, 0)
    return Course(
        name=name,
        before=before,
        after=after,
        per_invocation_kib=rate * 1024,
        low_kib=slopes[beyond],
        high_kib=slopes[-1 - beyond],
    )


def _differ(before: float, after: float) -> bool:
    return after - before > max(GROWTH_MIB, GROWTH_SHARE * before)


def _resampled(points: Sequence[CoursePoint], count: int) -> list[float]:
    """So many levels, evenly spaced in time: the median of the points in each stretch; between points, on the line from
    the one before to the one after."""
    begin, end = points[0][0], points[-1][0]
    step = max(end - begin, 1e-9) / count
    levels = []
    for at in range(count):
        low, high = begin + at * step, begin + (at + 1) * step
        inside = [value for time, value in points if low <= time < high or (at == count - 1 and time >= low)]
        levels.append(statistics.median(inside) if inside else _between(points, (low + high) / 2))
    return levels


def _between(points: Sequence[CoursePoint], time: float) -> float:
    place = min(max(bisect_right(points, time, key=lambda point: point[0]), 1), len(points) - 1)
    (early, before), (late, after) = points[place - 1], points[place]
    share = (time - early) / (late - early) if late > early else 1.0
    return before + (after - before) * min(max(share, 0.0), 1.0)
