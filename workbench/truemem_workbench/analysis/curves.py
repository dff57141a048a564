"""All that lines tell of one environment, as curves: a value by invocation, for each witness. Pure.

RSS is one witness of many. malloc, Python's objects, the heap of a runtime, processes, threads, descriptors, /tmp, each
extension, and the environment as a whole have curves of their own, and `finding` hears them all.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..lines.line import Line
from ..lines.record import Record, figure
from . import covariates, runtime_heap
from .drift import Point, points
from .heap import reading, size_of
from .resources import Resource, resources
from .runtime_heap import CollectedHeap
from .runtime_reading import Reading, limit_advice, longest_life, readings

IN_USE, HELD, BLOCKS, FILES = "inUse", "held", "blocks", "files"
PROCESSES, THREADS, DESCRIPTORS, TMP = "processes", "threads", "descriptors", "tmp"
ENVIRONMENT = "environment"
EXTENSION = "extension "
"""Begin of the name of an extension's curve. Among them is `truemem`, the sidecar."""

CRASH = "Extension.Crash"
HEAP_RAN_OUT = ("heap out of memory", "FatalProcessOutOfMemory", "OutOfMemoryError", "Reached heap limit")
"""Words of a runtime whose own heap has ended: Node.js, Java."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Invocations that failed, but not for memory."""

    count: int = 0
    said: str = ""
    """What most of them said."""
    alike: int = 0
    """How many said that."""

    @classmethod
    def of(cls, said: Mapping[str, int]) -> Failed:
        """Of the number of invocations by what they said."""
        if not said:
            return cls()
        most = max(said, key=said.__getitem__)
        return cls(count=sum(said.values()), said=most, alike=said[most])


@dataclass(frozen=True, kw_only=True)
class Curves:
    """What is known of one environment."""

    function: str = ""
    invocations: int = 0
    rss: Sequence[Point] = ()
    """CurrentRSS of the function, KiB."""
    beside: Mapping[str, Mapping[int, covariates.Value]] = field(default_factory=dict)
    """What may move RSS, by name, then by the invocation's number."""
    others: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """The other witnesses by name. KiB, or numbers of blocks, processes, threads and descriptors."""
    readings: Sequence[Reading] = ()
    """Of a garbage-collected heap."""
    told: Sequence[Resource] = ()
    """What the sidecar itself says of /tmp, descriptors, threads and processes: of a calm one nothing."""
    limit_mib: float | None = None
    """The function's memory size."""
    failed: Failed = Failed()
    out_of_memory: Sequence[int] = ()
    """Numbers of the function's invocations that ran out of memory."""
    freed: float | None = None
    """Which part of the growth of what is in use a collection of garbage has freed; None where there was none."""
    children: str = ""
    """Name of the child processes that stay, as far as known."""
    is_collected: bool = False
    """True if garbage was collected before each reading: what is in use is what is kept."""
    runtime: str = ""
    """`python`, or the runtime of a collected heap, as far as the witnesses tell; else empty."""
    killed: Sequence[int] = ()
    """Numbers of those in which something beside the function was killed for memory, or an extension ended."""

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


def curves_of(lines: Iterable[Line], *, judged: Sequence[Line] | None = None) -> Curves:
    """The curves of one environment's lines, in their order. `judged`: those of them that count for growth, if not all
    do (a warm-up)."""
    every = list(lines)
    counted = every if judged is None else judged
    numbered = [(line.invocation or place, line) for place, line in enumerate(counted, 1)]
    died = [line.invocation or place for place, line in enumerate(every, 1) if line.out_of_memory]
    killed = [line.invocation or place for place, line in enumerate(every, 1) if was_killed(line)]
    return Curves(
        function=next((line.function for line in every if line.function), ""),
        invocations=len(every),
        rss=points(counted),
        beside=covariates.beside(counted),
        others=others_of(numbered),
        readings=readings(every),
        runtime=runtime_of(every),
        told=resources(((number, line.members.get("resources")) for number, line in numbered), _latest(numbered)),
        limit_mib=next((line.memory_limit for line in reversed(every) if line.memory_limit), None),
        failed=failed_of((line.status, line.error_type) for line in every if not line.out_of_memory),
        out_of_memory=died,
        killed=killed,
    )


class Others:
    """Collects the curves beside RSS, from one line after the other."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[array[float], array[float], bytearray]] = {}
        """Of each: numbers of the invocations, values, and flags: 1 where processes are new, 2 where it was killed."""
        self._begins = False

    def add(self, number: int, line: Record) -> None:
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

    def curves(self) -> dict[str, Sequence[Point]]:
        """The curves by name, in the order of their invocations."""
        return {
            name: [
                Point(int(number), 0.0, value, None, True, bool(flag & 1), bool(flag & 2))
                for number, value, flag in sorted(zip(*columns, strict=True))
            ]
            for name, columns in self._found.items()
        }


def others_of(numbered: Iterable[tuple[int, Record]]) -> dict[str, Sequence[Point]]:
    """The curves beside RSS of lines with their numbers."""
    others = Others()
    for number, line in numbered:
        others.add(number, line)
    return others.curves()


def runtime_of(lines: Iterable[Record]) -> str:
    """The runtime, as far as the heap on these lines tells."""
    for line in lines:
        if (heap := line.members.get("heap")) and isinstance(heap, Mapping):
            return str(heap.get("runtime", "python"))
    return ""


def was_killed(line: Record) -> bool:
    """True if something beside the function was killed for memory in this invocation, or an extension has ended."""
    return bool(line.environment_kills) or line.error_type == CRASH


def failed_of(outcomes: Iterable[tuple[str | None, str | None]]) -> Failed:
    """What failed, of pairs of a status and what it says."""
    failed = (error or status for status, error in outcomes if status not in (None, "success") and error != CRASH)
    return Failed.of(Counter(each or "" for each in failed))


def _values(line: Record) -> Iterator[tuple[str, float]]:
    """What a line says of each witness."""
    heap = line.members.get("heap")
    if (of_malloc := reading(line.members)) is not None:
        yield IN_USE, of_malloc.used * 1024
        yield HELD, of_malloc.held * 1024
    if isinstance(heap, Mapping) and (blocks := size_of(heap.get("blocks"))) is not None:
        yield BLOCKS, blocks
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


def _latest(numbered: Sequence[tuple[int, Record]]) -> int:
    return max((number for number, _ in numbered), default=0)


def _resource(line: Record, kind: str, name: str) -> float | None:
    told = line.members.get("resources")
    members = told.get(kind) if isinstance(told, Mapping) else None
    value = figure(members.get(name)) if isinstance(members, Mapping) else None
    return value if value is not None and value >= 0 else None
