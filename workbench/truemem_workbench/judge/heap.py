"""What lines say of a heap, and whether a figure of it has grown and goes on. Pure. MiB.

`Heap` is malloc's, from the in-process probe of Python. A `Course` is judged in two forms: from a curve, which has a
value on each line; and from points, which are few and at odd times (what is live is known after each major collection).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from truemem import verdict

from ..printed.document import HUGE_MIB, figure
from .thresholds import (
    ABOVE,
    ENDED_SHARE,
    FEWEST,
    GOES_ON,
    GREW_KIB,
    GREW_SHARE,
    GROWTH_MIB,
    GROWTH_SHARE,
    MOST_LEVELS,
    TAIL_READINGS,
)

if TYPE_CHECKING:
    from ..printed.line import Line


@dataclass(frozen=True, kw_only=True)
class Heap:
    """One reading, or the median of several, in MiB."""

    used: float
    """All memory that is allocated: in arenas, in blocks with a mapping of their own, and as Python's small objects,
    which are not malloc's, where these are known."""
    held: float
    """Freed, and kept by the allocator."""


def malloc_heaps(lines: Iterable[Line]) -> list[Heap]:
    """The readings of these lines, in their order. Lines without one are left out."""
    found = (malloc_heap(line.members) for line in lines)
    return [heap for heap in found if heap is not None]


def malloc_heap(members: Mapping[str, object]) -> Heap | None:
    """The reading of one line. None if its `heap` is absent or not valid, or read from outside: too seldom for a
    curve."""
    heap = members.get("heap")
    if not isinstance(heap, Mapping) or is_outside(heap):
        return None
    in_use, held, mapped = (size_of(heap.get(name)) for name in ("inUse", "held", "mapped"))
    if in_use is None or held is None or mapped is None:
        return None
    return Heap(used=in_use + mapped + (size_of(heap.get("small")) or 0.0), held=held)


def is_outside(heap: Mapping[str, object]) -> bool:
    """True of a line's `heap` that the sidecar has read in a process without a probe."""
    return heap.get("source") == "outside"


def median_heap(heaps: Sequence[Heap]) -> Heap:
    """The median of the last readings, of at least one."""
    last = heaps[-TAIL_READINGS:]
    return Heap(used=statistics.median(heap.used for heap in last), held=statistics.median(heap.held for heap in last))


def size_of(value: object) -> float | None:
    """A figure in MiB of a line's heap; None if it is none."""
    size = figure(value)
    return size if size is not None and 0 <= size < HUGE_MIB else None


CourseName = Literal["unknown", "level", "filled", "filling", "growing"]

CoursePoint = tuple[float, float]
"""Number of the invocation, and MiB."""


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


UNKNOWN_COURSE = Course(name="unknown")


def course_of_curve(numbers: Sequence[int], values: Sequence[float], invocations: int = 0) -> Course:
    """The course of a figure that has a value on each of these lines, whose invocations have these numbers.
    `invocations` of the whole life, if the lines are a part of it."""
    if len(values) < verdict.MINIMUM:
        return UNKNOWN_COURSE
    skipped = len(values) // 6  # what is loaded at the start
    points = list(zip(map(float, numbers), values, strict=True))[skipped:]
    return course_of_points(points, max(numbers[-1] - numbers[0] + 1, len(values), invocations))


def course_of_points(points: Sequence[CoursePoint], invocations: int, ceiling: CoursePoint | None = None) -> Course:
    """The course of a figure that is known at these points, in an environment of so many invocations. `ceiling`: at a
    later point, it was not above this. Of a level one, `before` and `after` are the lowest and the highest."""
    if len(points) < 2:
        return UNKNOWN_COURSE
    levels = _levels(points)
    slope, error = _slope(levels)
    (last, size), (late_at, most) = levels[-1], ceiling or levels[-1]
    if late_at > last and most < size + slope * (late_at - last):
        levels = [*levels, (late_at, most)]
        slope, error = _slope(levels)
    half = (levels[0][0] + levels[-1][0]) / 2
    at = max(1, sum(number < half for number, _ in levels))
    early, late = levels[: at + 1], levels[at - 1 :]
    late_slope = _slope(late)[0]
    span, movement = levels[-1][0] - levels[0][0], _movement(levels, slope)
    sizes = [size for _, size in levels]
    before, after = statistics.median(sizes[:2]), statistics.median(sizes[-2:])
    grown = Course(
        name="filling",
        before=before,
        after=after,
        per_invocation_kib=slope * 1024,
        low_kib=(slope - error) * 1024,
        high_kib=(slope + error) * 1024,
    )
    rises = slope * span > max(GROWTH_MIB, ABOVE * movement) and slope > error
    if rises and late_slope >= ENDED_SHARE * slope:
        goes_on = late_slope >= GOES_ON * slope and _slope(early)[0] >= ENDED_SHARE * slope
        is_leak = goes_on and len(points) >= FEWEST and invocations >= verdict.GROWING_FROM
        return replace(grown, name="growing") if is_leak else grown
    start, rest = min(sizes[:3]), [size for _, size in late]
    rise = statistics.median(rest) - start
    steady = abs(late_slope) * span - _movement(late, late_slope) <= ENDED_SHARE * rise
    if rise >= max(GREW_KIB / 1024, GREW_SHARE * start, _movement(late, late_slope)) and steady:
        return replace(grown, name="filled", before=start, after=start + rise)
    if _differ(max(sizes[: len(sizes) // 2]), min(sizes[-max(2, len(sizes) // 12) :])):
        return replace(grown, before=statistics.median(sizes[: len(sizes) // 2]))
    return Course(name="level", before=min(sizes), after=max(sizes))


def _slope(levels: Sequence[CoursePoint]) -> tuple[float, float]:
    """MiB per invocation of a line through these levels, and half of its 95 % interval, which is not narrower than a
    part of it: leaks come by chance and in steps."""
    from .settled import line_through  # it needs numpy, which a help text does not wait for

    if len(levels) < 3:
        (first, before), (last, after) = levels[0], levels[-1]
        return (after - before) / max(1.0, last - first), 0.0
    slope, error = line_through(levels)
    return slope, max(error, verdict.LEAST_ERROR * abs(slope))


def _movement(levels: Sequence[CoursePoint], slope: float) -> float:
    """What eight of ten levels lie apart, without the slope."""
    off = sorted(size - slope * time for time, size in levels)
    return off[-1 - len(off) // 10] - off[len(off) // 10]


def _differ(before: float, after: float) -> bool:
    return after - before > max(GROWTH_MIB, GROWTH_SHARE * before)


def _levels(points: Sequence[CoursePoint]) -> list[CoursePoint]:
    """At most MOST_LEVELS medians of points that follow each other."""
    count = min(MOST_LEVELS, len(points))
    edges = [round(len(points) * at / count) for at in range(count + 1)]
    parts = (zip(*points[first:last], strict=True) for first, last in pairwise(edges))
    return [(statistics.median(numbers), statistics.median(sizes)) for numbers, sizes in parts]
