"""One reading of a garbage-collected heap, from the sidecar's line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from truemem.lifecycle.heap_limit import advice

from ..lines.record import Record
from .heap import size_of

RUNTIMES = ("java", "nodejs", "go", "dotnet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
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

    @property
    def outside(self) -> float:
        """What the runtime is known to hold outside of its heap."""
        return (self.metaspace or 0.0) + (self.external or 0.0)


def readings(lines: Iterable[Record]) -> list[Reading]:
    """The readings of these lines of one environment, in the order of their invocations."""
    found = (reading(line.members, place) for place, line in enumerate(lines, 1))
    return sorted((each for each in found if each is not None), key=lambda each: each.number)


def reading(members: Mapping[str, Any], place: int = 1) -> Reading | None:
    """The reading of one line, which is the `place`th. None if its `heap` is absent, not valid, or Python's."""
    heap = members.get("heap")
    if not isinstance(heap, Mapping) or heap.get("runtime") not in RUNTIMES:
        return None
    committed = size_of(heap.get("committed"))
    if committed is None:
        return None
    collections, invocation = size_of(heap.get("collections")), size_of(members.get("invocation"))
    return Reading(
        runtime=heap["runtime"],
        number=place if invocation is None else int(invocation),
        committed=committed,
        **{name: size_of(heap.get(name)) for name in ("used", "live", "limit", "external", "metaspace")},
        collections=None if collections is None else int(collections),
        gc_ms=size_of(heap.get("gcMs")),
        rss=size_of(members.get("CurrentRSS")) if members.get("processes") == 1 else None,
        memory=size_of(members.get("memoryLimit")),
        begins=members.get("coldStart") is True or members.get("suppressedInit") is True,
    )


def longest_life(found: Sequence[Reading]) -> Sequence[Reading]:
    """The readings of the process that lived longest, and of several the last: its counts do not fall."""
    begins = [0]
    for place, (before, after) in enumerate(pairwise(found), 1):
        fell = any(
            earlier is not None and later is not None and later < earlier
            for earlier, later in ((before.collections, after.collections), (before.gc_ms, after.gc_ms))
        )
        if fell or after.begins or after.runtime != before.runtime:
            begins.append(place)
    lives = [found[begin:end] for begin, end in pairwise([*begins, len(found)])]
    return max(reversed(lives), key=len)


def limit_advice(reading: Reading) -> str:
    """A sentence on a heap that may outgrow the function. Empty if it cannot, or if that is not known."""
    sizes = (reading.limit or 0.0, reading.memory or 0.0, reading.outside)
    said = advice(reading.runtime, *(round(size * 1024) for size in sizes))
    return f"{said[0].upper()}{said[1:]}." if said else ""
