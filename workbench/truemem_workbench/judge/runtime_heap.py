"""Leak, or a garbage collector that has had no need to run? From the lines of one environment. Pure.

RSS cannot tell: it has what is live, what is garbage, and what is no heap at all. Each is judged by a curve of its own:

- What is live is known after major collections only, so it is judged at points (`live_points`), one for each time
  between two of them. What the objects use is never less than what is live: where it was lower, that counts.
- Metaspace and memory outside of the heap that objects own (`external`): as the lines have them.
- Native memory is what RSS has beyond the heap, and two bounds are known of it (`_native`), for pages that the heap has
  taken may not have been touched yet. Native memory grows where the lower bound does, above what the upper one was.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

from truemem import verdict
from truemem.verdict import heap_limit_advice

from .heap import UNKNOWN_COURSE, Course, CoursePoint, course_of_curve, course_of_points, size_of
from .thresholds import (
    FULL_OLD_SHARE,
    GREW_KIB,
    GROWTH_MIB,
    HALF,
    HEAP_SHARE,
    LAZY_SHARE,
    OUTSIDE_SHARE,
    STEP_MIB,
    TAIL_READINGS,
)

SUFFIX_KIB = {"": 1 / 1024, "k": 1.0, "m": 1024.0, "g": 1024.0**2, "t": 1024.0**3}
"""A size with this suffix, in KiB."""
MOST_KIB = 2**40
"""A heap has no PiB."""


@dataclass(frozen=True)
class HeapLimit:
    """The limit of a heap, and the setting that says so."""

    runtime: str
    """`java`, `nodejs`, `go` or `dotnet`."""
    kib: int
    evidence: str
    """The variable and its part."""

    def advice(self, memory_mib: float) -> str:
        """What to set, if the heap may outgrow a function of this size. Empty if it fits."""
        return _advised(self.runtime, self.kib, int(memory_mib * 1024))


class _Setting(NamedTuple):
    """How variables of a function set the limit of a runtime's heap."""

    runtime: str
    variables: Sequence[str]
    """The last one that sets it counts, and of several words in one the last."""
    pattern: re.Pattern[str]
    """A number, and perhaps a suffix of SUFFIX_KIB."""
    unit: str = ""
    """Unit of a number without a suffix: one of SUFFIX_KIB, or `%` of the memory size."""
    base: int = 10


_OF_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16})", re.ASCII)
_SETTINGS = (
    _Setting("java", _OF_JAVA, re.compile(r"(?:-Xmx|-XX:MaxHeapSize=)(\d{1,18})([kmgt]?)", re.ASCII | re.IGNORECASE)),
    _Setting("java", _OF_JAVA, re.compile(r"-XX:MaxRAMPercentage=(\d{1,3}(?:\.\d{1,9})?)", re.ASCII), "%"),
    _Setting("nodejs", ("NODE_OPTIONS",), re.compile(r'--max[-_]old[-_]space[-_]size="?(\d{1,18})', re.ASCII), "m"),
    _Setting("go", ("GOMEMLIMIT",), re.compile(r"(\d{1,18})(?:([KMGT])iB|B)?", re.ASCII)),
    _Setting("dotnet", ("COMPlus_GCHeapHardLimit", "DOTNET_GCHeapHardLimit"), _HEX, base=16),
    _Setting("dotnet", ("COMPlus_GCHeapHardLimitPercent", "DOTNET_GCHeapHardLimitPercent"), _HEX, "%", base=16),
)
"""Settings of the heap's limit. If several are set, the first counts: a size wins over a percentage. The forms: the
page of the JDK's `java` command; Node.js, "Command-line API"; Go, package runtime, "Environment Variables"; .NET,
"Runtime configuration options for garbage collection" (numbers are hexadecimal: `75` is 117 %)."""


def heap_limits(variables: Mapping[str, object], memory_mib: float) -> list[HeapLimit]:
    """The limits that a function's variables set, one for each runtime that they name. What cannot be read is left
    out, and so is a percentage of 100 or more: no JVM starts with it, and .NET passes over it."""
    found: dict[str, HeapLimit] = {}
    for each in _SETTINGS:
        if limits := [*_limits_by(each, variables, memory_mib)]:
            found.setdefault(each.runtime, limits[-1])
    return [*found.values()]


def _limits_by(setting: _Setting, variables: Mapping[str, object], memory_mib: float) -> Iterator[HeapLimit]:
    kib_of_unit = {**SUFFIX_KIB, "%": memory_mib * 1024 / 100}
    for name in setting.variables:
        text = variables.get(name)
        for word in (text.split() if "OPTIONS" in name else [text]) if isinstance(text, str) else ():
            if (parts := setting.pattern.fullmatch(word.strip("\"'"))) is None:
                continue
            number, *suffix = parts.groups("")
            value = int(number, 16) if setting.base == 16 else float(number)
            kib = round(value * kib_of_unit["".join(suffix).lower() or setting.unit])
            if 0 < kib < MOST_KIB and (setting.unit != "%" or value < 100):
                yield HeapLimit(setting.runtime, kib, f"{name}: {word}")


HEAP_RUNTIMES = ("java", "nodejs", "go", "dotnet", "ruby", "php")


class HeapReading(NamedTuple):
    """What one line says of the heap of its runtime (docs/metrics.md, `heap`). Sizes in MiB; None: it does not say."""

    runtime: str
    number: int
    """Number of the invocation in its environment."""
    committed: float
    used: float | None = None
    live: float | None = None
    limit: float | None = None
    external: float | None = None
    metaspace: float | None = None
    collections: int | None = None
    gc_ms: float | None = None
    rss: float | None = None
    """CurrentRSS, if it is that of one process, as the heap is."""
    memory: float | None = None
    """The function's memory size."""
    begins: bool = False
    """True if the processes are new."""
    overlaps: bool = False
    """True on Managed Instances: readings need not be in the order in which requests began."""

    @property
    def outside(self) -> float:
        """What the runtime is known to hold outside of its heap."""
        return (self.metaspace or 0.0) + (self.external or 0.0)


def reading(members: Mapping[str, Any], place: int = 1) -> HeapReading | None:
    """The reading of one line, which is the `place`th. None if its `heap` is absent, not valid, or Python's."""
    heap = members.get("heap")
    if not isinstance(heap, Mapping) or heap.get("runtime") not in HEAP_RUNTIMES:
        return None
    committed = size_of(heap.get("committed"))
    if committed is None:
        return None
    collections, invocation = size_of(heap.get("collections")), size_of(members.get("invocation"))
    return HeapReading(
        runtime=heap["runtime"],
        number=place if invocation is None else int(invocation),
        committed=committed,
        **{name: size_of(heap.get(name)) for name in ("used", "live", "limit", "external", "metaspace")},
        collections=None if collections is None else int(collections),
        gc_ms=size_of(heap.get("gcMs")),
        rss=size_of(members.get("CurrentRSS")) if members.get("processes") == 1 else None,
        memory=size_of(members.get("memoryLimit")),
        begins=members.get("coldStart") is True or members.get("suppressedInit") is True,
        overlaps=members.get("sharedBy") is not None,
    )


def longest_life(found: Sequence[HeapReading]) -> Sequence[HeapReading]:
    """The readings of the process that lived longest, and of several the last: its counts do not fall."""
    return max(reversed(_lives(found)), key=len)


def _lives(found: Sequence[HeapReading]) -> list[Sequence[HeapReading]]:
    begins = [0, *(place for place, (before, after) in enumerate(pairwise(found), 1) if _is_new(before, after))]
    return [found[begin:end] for begin, end in pairwise([*begins, len(found)])]


def _is_new(before: HeapReading, after: HeapReading) -> bool:
    """Is the second one of another process?"""
    fell = _fell(before.collections, after.collections) or _fell(before.gc_ms, after.gc_ms)
    return (fell and not after.overlaps) or after.begins or after.runtime != before.runtime


def _fell(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after < before


def kept_at_most(found: Sequence[HeapReading], name: str = "used") -> dict[int, float]:
    """KiB that each reading may have kept, by its number: what was used is not kept if less was used later. Readings
    after the last major collection of a process are left out if that was in the earlier half, and all if there was
    none: what has grown since may be garbage."""
    held: dict[int, float] = {}
    for life in _lives(found):
        collected = [at for at, (a, b) in enumerate(pairwise(life), 1) if (a.collections or 0) < (b.collections or 0)]
        last = collected[-1] if collected else -1
        until = len(life) if last > HALF * len(life) else last + 1
        least = math.inf
        for at, each in reversed([*enumerate(life)]):
            size = getattr(each, name)
            least = least if size is None else min(least, size * 1024)
            if at < until and least < math.inf:
                held[each.number] = least
    return held


def limit_advice(reading: HeapReading) -> str:
    """A sentence on a heap that may outgrow the function. Empty if it cannot, or if that is not known."""
    sizes = (reading.limit or 0.0, reading.memory or 0.0, reading.outside)
    return _advised(reading.runtime, *(round(size * 1024) for size in sizes))


def _advised(*limit: Any) -> str:
    said = heap_limit_advice(*limit)
    return f"{said[0].upper()}{said[1:]}." if said else ""


Kind = Literal["leak", "classes", "external", "native", "filling", "filled", "lazy", "level"]
LEAKS = ("leak", "classes", "external", "native")


@dataclass(frozen=True, kw_only=True)
class CollectedHeap:
    """How the heap of one process went, as its runtime tells it. MiB."""

    last: HeapReading
    invocations: int
    live: Course
    live_now: float | None
    """What the last major collection that is known has left."""
    since_live: int
    """Invocations since the last point at which something is known of what is live."""
    used_now: float | None
    metaspace: Course
    is_metaspace_kept: bool
    """True if a major collection left what it has grown by; else it may be garbage."""
    external: Course
    native: Course
    used: Course
    rss_before: float | None
    rss_after: float | None
    collections: int
    """Major collections from the first of these lines to the last."""

    @cached_property
    def kind(self) -> Kind:
        return _kind(self)

    @property
    def is_recent(self) -> bool:
        return self.since_live <= HALF * self.invocations

    @property
    def is_contradicted(self) -> bool:
        """True if objects use less now than what is said to be live."""
        return self.used_now is not None and self.used_now < self.live.before


def find_in(found: Sequence[HeapReading]) -> CollectedHeap:
    """Judge the readings of one process, at least one, in the order of the invocations."""
    numbers = [each.number for each in found]
    invocations = numbers[-1] - numbers[0] + 1
    points = list(live_points(found))
    rss = [each.rss for each in found if each.rss is not None]
    metaspace, external = _metaspace(found, invocations), _dense(found, "external")
    is_kept = _is_kept(found, "external")
    if external.name == "growing" and not is_kept:
        external = replace(external, name="filling")
    return CollectedHeap(
        last=found[-1],
        invocations=invocations,
        live=course_of_points(points, invocations, _ceiling(found)),
        live_now=next((each.live for each in reversed(found) if each.live is not None), None),
        since_live=numbers[-1] - int(points[-1][0] if points else numbers[0]),
        used_now=next((each.used for each in reversed(found) if each.used is not None), None),
        metaspace=metaspace,
        is_metaspace_kept=_is_kept(found, "metaspace"),
        external=external,
        native=UNKNOWN_COURSE if metaspace.has_grown else _native(found),
        used=_dense(found, "used"),
        rss_before=statistics.median(rss[:3]) if rss else None,
        rss_after=statistics.median(rss[-TAIL_READINGS:]) if rss else None,
        collections=(found[-1].collections or 0) - (found[0].collections or 0) if found[-1].collections else 0,
    )


def _kind(seen: CollectedHeap) -> Kind:
    if seen.metaspace.name == "growing":
        return "classes"
    for kind, course in (("leak", seen.live), ("external", seen.external), ("native", seen.native)):
        if course.name == "growing":
            return kind  # type: ignore[return-value]
    if seen.live.name == "filling" and not seen.is_contradicted:
        return "filling"
    risen = 0.0
    if seen.rss_before is not None and seen.rss_after is not None:
        risen = seen.rss_after - seen.rss_before
    if seen.live.name == "filled" and seen.live.after - seen.live.before > LAZY_SHARE * risen:
        return "filled"
    outside = [course for course in (seen.metaspace, seen.external, seen.native) if course.name == "filling"]
    if any(course.after - course.before > OUTSIDE_SHARE * risen for course in outside):
        return "filling"
    if risen > max(GROWTH_MIB, LAZY_SHARE * (seen.rss_before or 0.0)):
        return "lazy"
    return "lazy" if seen.used.has_grown and (seen.rss_before is None or risen > GROWTH_MIB) else "level"


def live_points(found: Sequence[HeapReading]) -> Iterator[CoursePoint]:
    """What was live, at most, in each time between two major collections: where it began. Before the first one only
    what was used is known: it is left out if less was live afterwards."""
    points = list(_points(found))
    return iter(points[1:] if not found[0].collections and len(points) > 1 and points[0][1] > points[1][1] else points)


def _points(found: Sequence[HeapReading]) -> Iterator[CoursePoint]:
    for count, group in groupby(found, key=lambda each: each.collections):
        stretch = list(group)
        used = [(each.used, each.number) for each in stretch if each.used is not None]
        live = [each.live for each in stretch if each.live is not None] if count else []
        if live:
            at, limit, lowest = float(stretch[0].number), stretch[0].limit, [size for size, _ in used]
            is_full = limit is not None and live[0] > FULL_OLD_SHARE * limit and bool(lowest)
            yield at, min(lowest) if is_full else min([live[0], *lowest])
        elif used:
            size, number = min(used)
            yield float(number), size


def _ceiling(found: Sequence[HeapReading]) -> CoursePoint | None:
    """What is live in the last part is not above what objects use then."""
    used = [(each.used, each.number) for each in found[-max(TAIL_READINGS, len(found) // 6) :] if each.used is not None]
    if not used:
        return None
    size, number = min(used)
    return float(number), size


def _dense(found: Sequence[HeapReading], name: str) -> Course:
    """The course of a figure that is on each line, once it is on them."""
    known = [(each.number, getattr(each, name)) for each in found if getattr(each, name) is not None]
    return course_of_curve([number for number, _ in known], [size for _, size in known])


def _is_kept(found: Sequence[HeapReading], name: str) -> bool:
    """Did a major collection leave most of what this figure had grown by? Until then, that may be garbage. True where
    the runtime does not tell of its collections."""
    known: list[tuple[int | None, float]] = [
        (each.collections, getattr(each, name)) for each in found if getattr(each, name) is not None
    ]
    if not known or any(count is None for count, _ in known):
        return True
    before = min(size for _, size in known[:3])
    stretches = [[size for _, size in group] for _, group in groupby(known, key=lambda each: each[0])]
    if len(stretches) < 2:
        return False
    grown, left = max(stretches[-2]) - before, min(stretches[-1]) - before
    return grown > GROWTH_MIB and left > HALF * grown


def _metaspace(found: Sequence[HeapReading], invocations: int) -> Course:
    """Java tells it as of the last collection: only where it has changed, it is known."""
    known = [(each.number, each.metaspace) for each in found if each.metaspace is not None]
    changed = [known[at] for at in range(len(known)) if at == 0 or known[at][1] != known[at - 1][1]]
    if not changed:
        return UNKNOWN_COURSE
    longest = max((after[0] - before[0] for before, after in pairwise(changed)), default=0)
    if known[-1][0] - changed[-1][0] > 2 * longest:
        changed.append(known[-1])
    return course_of_points([(float(number), size) for number, size in changed], invocations)


def _native(found: Sequence[HeapReading]) -> Course:
    """The course of what RSS has beyond the heap and what its objects own.

    The heap has touched no more than `committed`, and no less than objects have used at most so far. So what is native
    lies between RSS less the one, and RSS less the other. Where the lower bound is above what the upper one was at
    first, and stays there, it has grown for certain, and the lower bound shows how."""
    known = [each for each in found if each.rss is not None]
    if len(known) < verdict.MINIMUM:
        return UNKNOWN_COURSE
    beside = [(each.rss or 0.0) - (each.external or 0.0) for each in known]
    lower = [size - each.committed for size, each in zip(beside, known, strict=True)]
    at_first = statistics.median(size - top for size, top in zip(beside[:TAIL_READINGS], _touched(known), strict=False))
    begin = max((at + 1 for at, size in enumerate(lower) if size < at_first), default=0)
    allowed = GREW_KIB / 1024 + HEAP_SHARE * known[-1].committed
    if len(known) - begin < verdict.MINIMUM or statistics.median(lower[-TAIL_READINGS:]) - at_first <= allowed:
        return Course(name="level")
    course = course_of_curve([each.number for each in known[begin:]], lower[begin:], len(known))
    # Where RSS falls while the heap rests, what has grown was the heap's, or is over.
    rests = _rate(known, beside)
    return replace(course, name="filling") if course.has_grown and rests is not None and rests < 0 else course


def _rate(known: Sequence[HeapReading], beside: Sequence[float]) -> float | None:
    """KiB per invocation of RSS, where the heap took and gave back nothing. None if it always did."""
    slopes = [
        (beside[at + TAIL_READINGS] - beside[at]) / (known[at + TAIL_READINGS].number - known[at].number)
        for at in range(len(known) - TAIL_READINGS)
        if abs(known[at + TAIL_READINGS].committed - known[at].committed) < STEP_MIB
        and known[at + TAIL_READINGS].number > known[at].number
    ]
    return statistics.median(slopes) * 1024 if slopes else None


def _touched(known: Sequence[HeapReading]) -> Iterator[float]:
    """What the heap has touched at least: the most that objects have used, less what it has given back since."""
    most = 0.0
    for each in known:
        most = max(min(most, each.committed), min(each.used or 0.0, each.committed))
        yield most
