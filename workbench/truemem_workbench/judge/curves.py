"""All that lines tell of one environment, as curves: a value by invocation, for each witness. Pure.

RSS is one witness of many. malloc, Python's objects, the heap of a runtime, processes, threads, descriptors, /tmp, each
extension, and the environment as a whole have curves of their own, and `finding` hears them all.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..printed.document import figure
from ..printed.growth import GrowthProfile, profile_in
from ..printed.line import Line
from ..support.failed_answer import way_of
from . import runtime_heap
from .drift import Curve, Point, median_of, point_of
from .heap import is_outside, malloc_heap, size_of
from .resources import Resource, ResourceHistory
from .runtime_heap import CollectedHeap, HeapReading, limit_advice, longest_life, reading
from .settled import GARBAGE, Cache, Kind, last_life
from .settled import Reading as Settled
from .thresholds import HALF, JVM_KIB

IN_USE, HELD, BLOCKS, FILES = "inUse", "held", "blocks", "files"
SMALL = "small"
"""What Python's small objects hold, where that is known: IN_USE has it in it then."""
PROCESSES, THREADS, DESCRIPTORS, TMP = "processes", "threads", "descriptors", "tmp"
RSS, MALLOC, HEAP, EXTERNAL, CLASSES = "rss", "malloc", "heap", "external", "classes"
"""Names in settled readings alone: malloc, and the parts that a runtime has beside it."""
SOFT, DIRECT, BUFFERS = "soft", "direct", "buffers"
"""Names in settled readings of a JVM: the number of its soft references, the KiB and the number of its direct buffers.
The first two are names of caches as well (`growth_causes.LIBRARY_CACHES`)."""
OF_THREADS = "ofThreads"
"""Name in settled readings alone: the part of what malloc holds free that is in arenas of threads, 0 to 1."""
UNREAD = "unread"
"""Name in settled readings alone: what of mapped files is not resident, KiB. Memory in /dev/shm is no such file."""
GOROUTINES, GOAL = "goroutines", "goal"
"""Names in settled readings of a program in Go: a number, and the size of its heap when garbage is collected, KiB."""
OWN_HEAP, GO = "ownHeap", "go"
"""Names in settled readings alone: 1 if a process has a heap that nothing from outside can settle; 1 if it is in Go."""
OUTSIDE = "outside"
"""Name in settled readings alone: 1 if malloc was read in a process as it was met."""
ENVIRONMENT = "environment"
PROFILED_INVOCATIONS, INVOCATIONS_BEHIND = 60, 8
"""Invocations of a profile of the lines that does not say how many it had; and those that the sidecar may be behind."""
BESIDE = 16
"""Points on each side of a profile whose median is the level there."""
EXTENSION = "extension "
"""Begin of the name of an extension's curve. Among them is `truemem`, the sidecar."""

MOST_ERRORS = 3
"""Errors that are told of those that failed."""
CRASH = "Extension.Crash"
HEAP_RAN_OUT = ("heap out of memory", "FatalProcessOutOfMemory", "OutOfMemoryError", "Reached heap limit")
"""Words of a runtime whose own heap has ended: Node.js, Java."""


@dataclass(frozen=True)
class Failed:
    """Invocations that failed, but not for memory."""

    said: Mapping[str, int] = field(default_factory=dict)
    """How many of them, by what they said."""
    answered: int = 0
    """How many more answered with an error, which the platform calls a success: their memory is well known."""
    in_init: bool = False
    """True if no invocation has a record: the init phase has failed."""
    is_hopeless: bool = False
    """True if no more were made for that."""

    @property
    def count(self) -> int:
        return sum(self.said.values())

    @property
    def in_all(self) -> int:
        return self.count + self.answered

    @property
    def first(self) -> str:
        """What most of them said."""
        return max(self.said, key=self.said.__getitem__, default="")

    def words(self) -> list[str]:
        """What most of them said, each as a short text."""
        most = sorted(self.said.items(), key=lambda each: -each[1])
        words = [f"{count:,} of them said: {said.rstrip('.')}" for said, count in most[:MOST_ERRORS]]
        rest = sum(count for _, count in most[MOST_ERRORS:])
        return words + ([f"{rest:,} of them said something else"] if rest else [])

    @classmethod
    def with_errors(cls, errors: Sequence[str]) -> Failed:
        """The failures with these errors, counted by type: a message may be another one each time, and the first is
        said."""
        kinds = [*map(way_of, errors)]
        examples = dict(zip(reversed(kinds), reversed(errors), strict=True))
        return cls({examples[kind]: count for kind, count in Counter(kinds).items()})


@dataclass(frozen=True, kw_only=True)
class Curves:
    """What is known of one environment."""

    invocations: int = 0
    rss: Sequence[Point] = ()
    """CurrentRSS of the function, KiB."""
    others: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """Curves of the witnesses beside RSS, by name. KiB, or numbers of blocks, processes, threads and descriptors."""
    readings: Sequence[HeapReading] = ()
    """Readings of a garbage-collected heap."""
    settled: Sequence[Settled] = ()
    """Readings of the settled process, of its last life."""
    every_life: Sequence[Settled] = ()
    """Readings of the settled process, of all its lives, as far as they were read."""
    new: Sequence[Settled] = ()
    """Readings of the settled process after passes of new events, the first after one of events that it had seen."""
    kinds: Sequence[Kind] = ()
    """What is kept of each kind of events, where that was asked."""
    reported: Sequence[Resource] = ()
    """What the sidecar itself says of /tmp, descriptors, threads and processes: of a calm one nothing."""
    limit_mib: float | None = None
    """The function's memory size."""
    failed: Failed = Failed()
    out_of_memory: Sequence[int] = ()
    """Numbers of the function's invocations that ran out of memory."""
    children: str = ""
    """Name of the child processes that stay, as far as known."""
    runtime: str = ""
    """`python`, or the runtime of a collected heap, as far as the witnesses tell; else empty."""
    profiles: Sequence[GrowthProfile] = ()
    """The lines of code that keep memory, where the environment was profiled."""
    killed: Sequence[int] = ()
    """Numbers of those in which something beside the function was killed for memory, or an extension ended."""
    ended: str = ""
    """The kills in all environments that are judged together, as a text; empty if this one is alone."""
    library: str = ""
    """File of a library that has a cache of its own (`growth_causes.LIBRARY_CACHES`); empty if none is known."""
    is_librarys: bool | None = None
    """True if nothing grew without the `library`'s cache; False: it grew as before; None: that was not tried."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The function's own environment variables, as far as known."""
    own_kib: float = 0.0
    """Steps of RSS at profiles of the lines, which are taken out of it here."""

    @cached_property
    def heap(self) -> CollectedHeap | None:
        """How the heap of a garbage-collected runtime went. None for others."""
        return runtime_heap.find_in(longest_life(self.readings)) if self.readings else None

    @property
    def limit_advice(self) -> str:
        """What to set where that heap may outgrow the function; empty if it cannot."""
        return limit_advice(self.readings[0]) if self.readings else ""

    @property
    def extensions(self) -> list[str]:
        """Names of the extensions that have a curve, the sidecar among them."""
        return [name.removeprefix(EXTENSION) for name in self.others if name.startswith(EXTENSION)]


def curves_of(lines: Iterable[Line], *, judged: Collection[Line] | None = None) -> Curves:
    """The curves of one environment's lines, in their order. `judged`: those of them that count for growth, if not all
    do (a warm-up)."""
    builder, counting = CurveBuilder(), None if judged is None else set(map(id, judged))
    for place, line in enumerate(lines, 1):
        builder.add(line.invocation or place, line, is_judged=counting is None or id(line) in counting)
    return builder.curves()


def profiled_in(number: int, profile: GrowthProfile) -> tuple[int, int]:
    """The first invocation and the last of those that were profiled, by the number of the line that says so."""
    return number - (profile.invocations or PROFILED_INVOCATIONS) - INVOCATIONS_BEHIND, number


def without_profiles(curves: Curves, profiled: Iterable[tuple[int, int]]) -> Curves:
    """The curves without these invocations, and without what their profile took and left behind: it is no growth of the
    function's. RSS keeps the room of its tables and its code, which the function uses again."""
    own = 0.0
    for first, last in profiled:
        rss, step = _taken_out(Curve.of(curves.rss), first, last, has_room=True)
        others = {
            name: _taken_out(Curve.of(curve), first, last, has_room=name in (HELD, ENVIRONMENT))[0]
            for name, curve in curves.others.items()
        }
        settled = [each for each in curves.settled if not first <= each.invocation <= last]
        own += step
        curves = replace(curves, rss=rss, others=others, settled=settled, own_kib=own)
    return curves


def _taken_out(curve: Curve, first: int, last: int, *, has_room: bool) -> tuple[Curve, float]:
    """The curve with a straight line in place of these invocations, and the step that it has there, KiB, which is taken
    out if it `has_room`. Where nothing follows them they are left out."""
    numbers, levels = curve.invocation, curve.current_kib
    reset = numbers[curve.begins & (numbers >= first)].min(initial=math.inf)
    before, after = numbers < first, (numbers > last) & (numbers < reset)
    inside = ~before & (numbers <= last) & (numbers < reset) & ~curve.died
    if not before.any() or not after.any():
        return curve[~inside], 0.0
    step = 0.0
    if has_room and before.sum() > 2 * BESIDE and after.sum() >= BESIDE:
        begin, end, then = levels[before][:BESIDE], levels[before][-BESIDE:], levels[after][:BESIDE]
        rate = (median_of(end) - median_of(begin)) / (numbers[before][-BESIDE] - numbers[before][0])
        gap = numbers[after][0] - numbers[before][-BESIDE]
        step = max(0.0, median_of(then) - median_of(end) - rate * gap)
    made = curve.lowered(np.where(after, step, 0.0))
    line = np.interp(numbers, numbers[~inside], made.current_kib[~inside])
    return made.lowered(np.where(inside, made.current_kib - line, 0.0)), step


class CurveBuilder:
    """Makes the curves of one environment from its lines, one after the other, in few bytes for each."""

    def __init__(self) -> None:
        self._count = self._latest = 0
        self._rss = [array("d") for _ in range(5)]
        """Numbers, times, levels, peaks (NaN: unknown), and flags: 1 certain, 2 new processes, 4 out of memory."""
        self._others, self._resources = Others(), ResourceHistory()
        self._readings: list[HeapReading] = []
        self._settled: list[Settled] = []
        self._lives = 0
        self._failed: Counter[str] = Counter()
        self._answered = 0
        self._died: list[int] = []
        self._killed: list[int] = []
        self.profiles: list[GrowthProfile] = []
        self._profiled: list[tuple[int, int]] = []
        self._runtime = ""
        self._limit: float | None = None

    def add(self, number: int, line: Line, *, is_judged: bool = True) -> None:
        """Add the line of this invocation. One that is not judged counts for the heap and what failed alone."""
        self._count += 1
        if line.out_of_memory:
            self._died.append(number)
        elif line.status not in (None, "success") and line.error_type != CRASH:
            self._failed[line.error_type or line.status or ""] += 1
        elif line.members.get("handlerError") is True:
            self._answered += 1
        if was_killed(line):
            self._killed.append(number)
        if (found := reading(line.members, self._count)) is not None:
            self._readings.append(found)
        self._lives += line.begins
        if (kept := settled_on(line, number, self._lives)) is not None:
            self._settled.append(kept)
        if (profile := profile_in(line.members)) is not None:
            self.profiles.append(profile)
            self._profiled.append(profiled_in(number, profile))
        self._runtime = self._runtime or runtime_of(line)
        self._limit = line.memory_limit or self._limit
        if not is_judged:
            return
        self._latest = max(self._latest, number)
        self._others.add(number, line)
        self._resources.add(number, line.members.get("resources"))
        if (point := point_of(line, number)) is not None:
            peak = math.nan if point.peak_kib is None else point.peak_kib
            flags = point.certain + 2 * point.begins + 4 * point.died
            for column, value in zip(self._rss, (number, point.time_ms, point.current_kib, peak, flags), strict=True):
                column.append(value)

    def curves(self) -> Curves:
        """The curves, in the order of the invocations."""
        *columns, flags = map(np.array, self._rss)
        marks = (flags.astype(int) & bit for bit in (1, 2, 4))
        curves = Curves(
            invocations=self._count,
            rss=Curve.made(*columns, *marks),
            others=self._others.curves(),
            readings=sorted(self._readings, key=lambda each: each.number),
            settled=last_life(sorted(self._settled, key=lambda each: each.invocation)),
            runtime=self._runtime,
            reported=self._resources.found(self._latest),
            limit_mib=self._limit,
            failed=Failed(self._failed, self._answered),
            out_of_memory=sorted(self._died),
            profiles=self.profiles,
            killed=sorted(self._killed),
        )
        return without_profiles(curves, self._profiled)


class Others:
    """Collects the curves beside RSS, from one line after the other."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[array[float], array[float], bytearray]] = {}
        """For each witness: numbers of the invocations, values, and flags: 1 if processes are new, 2 if it was
        killed."""
        self._begins = False

    def add(self, number: int, line: Line) -> None:
        """Add a line. What the last line of an environment says is left out, because its processes had ended."""
        self._begins |= line.begins
        if line.closed_by == "shutdown" or line.recovered:
            return
        killed = 2 * was_killed(line)
        for name, value in _values(line):
            numbers, values, flags = self._found.setdefault(name, (array("d"), array("d"), bytearray()))
            numbers.append(number)
            values.append(value)
            flags.append(self._begins | (killed if name.startswith(EXTENSION) else 0))
        self._begins = False

    def curves(self) -> dict[str, Curve]:
        """The curves by name, in the order of their invocations."""
        found = {}
        for name, (numbers, values, flags) in self._found.items():
            marks = np.array(flags)
            found[name] = Curve.made(numbers, 0.0, values, begins=marks & 1, died=marks & 2)
        return found


def library_of(readings: Sequence[Settled]) -> str:
    """Whose cache may be what grows: SOFT if most invocations leave a soft reference, DIRECT if direct buffers hold
    ever more and are no more of them, or else a library that is mapped; empty if there is none."""
    for before, now in zip(readings[:1], readings[-1:], strict=True):
        names = SOFT, DIRECT, BUFFERS
        soft, direct, buffers = (now.kept.get(name, 0.0) - before.kept.get(name, 0.0) for name in names)
        many = HALF * (now.invocation - before.invocation)
        if before.process == now.process and (soft > many or (direct > JVM_KIB and buffers < many)):
            return SOFT if soft > many else DIRECT
    return next((each.library for each in readings if each.library), "")


def is_settled(line: Line) -> bool:
    """True of a line that says what a process keeps."""
    heap = line.members.get("heap")
    return isinstance(heap, Mapping) and "kept" in heap


def settled_on(line: Line, number: int, process: int) -> Settled | None:
    """What a process keeps that the probe has settled, of the line of this invocation, or what malloc has in one
    without a probe; None of others. `process` tells one life of the environment from another."""
    heap = line.members.get("heap")
    if isinstance(heap, Mapping) and is_outside(heap):
        sizes = [size_of(heap.get(name)) for name in ("inUse", "mapped", "held")]
        in_use, mapped, held = (math.nan if size is None else size * 1024 for size in sizes)
        return (
            None
            if math.isnan(in_use + mapped + held)
            else Settled(number, {IN_USE: in_use + mapped, HELD: held, OUTSIDE: 1.0}, {}, process)
        )
    if not isinstance(heap, Mapping) or (kept := size_of(heap.get("kept"))) is None:
        return None
    rss, room = line.members.get("rss"), figure(heap.get("room"))
    known = {
        HEAP: size_of(heap.get("used")),
        EXTERNAL: size_of(heap.get("external")),
        FILES: size_of(rss.get("file")) if "used" in heap and isinstance(rss, Mapping) else None,
        GARBAGE: size_of(heap.get("garbage")),
    }
    found = {name: value * 1024 for name, value in known.items() if value is not None} | {IN_USE: kept * 1024}
    if (blocks := size_of(heap.get("blocks"))) is not None:
        found[BLOCKS] = blocks
    if (small := size_of(heap.get("small"))) is not None:
        found[SMALL] = small * 1024
    return Settled(number, found, {} if room is None else {"": Cache("", -int(room), 0)}, process)


def runtime_of(line: Line) -> str:
    """The runtime, as far as the heap on this line tells; else empty."""
    heap = line.members.get("heap")
    return str(heap.get("runtime", "" if is_outside(heap) else "python")) if heap and isinstance(heap, Mapping) else ""


def was_killed(line: Line) -> bool:
    """True if something beside the function was killed for memory in this invocation, or an extension has ended."""
    return bool(line.environment_kills) or line.error_type == CRASH


def _values(line: Line) -> Iterator[tuple[str, float]]:
    """What a line says of each witness."""
    heap = line.members.get("heap")
    if (of_malloc := malloc_heap(line.members)) is not None:
        yield IN_USE, of_malloc.used * 1024
        yield HELD, of_malloc.held * 1024
    if isinstance(heap, Mapping) and (blocks := size_of(heap.get("blocks"))) is not None:
        yield BLOCKS, blocks
    if isinstance(heap, Mapping) and (small := size_of(heap.get("small"))) is not None:
        yield SMALL, small * 1024
    rss = line.members.get("rss")
    if isinstance(rss, Mapping) and (files := size_of(rss.get("file"))) is not None:
        yield FILES, files * 1024
    processes, threads = (figure(line.members.get(name)) for name in (PROCESSES, THREADS))
    if processes is not None:
        yield PROCESSES, processes + (_resource(line, PROCESSES, "zombies") or 0.0)
    if threads is not None:
        yield THREADS, threads
    if (used := _resource(line, TMP, "used")) is not None:
        yield TMP, used * 1024
    if (opened := _resource(line, DESCRIPTORS, "open")) is not None:
        yield DESCRIPTORS, opened
    for name, held in line.extensions_hold.items():
        yield f"{EXTENSION}{name}", held * 1024
    if line.sidecar_holds is not None:
        yield f"{EXTENSION}truemem", line.sidecar_holds * 1024
    environment = line.members.get(ENVIRONMENT)
    if isinstance(environment, Mapping) and (used := size_of(environment.get("used"))) is not None:
        yield ENVIRONMENT, used * 1024


def _resource(line: Line, kind: str, name: str) -> float | None:
    reported = line.members.get("resources")
    members = reported.get(kind) if isinstance(reported, Mapping) else None
    value = figure(members.get(name)) if isinstance(members, Mapping) else None
    return value if value is not None and value >= 0 else None
