"""What the in-process probe says of malloc's heap: in use, held, mapped (`heap` of a line in Python). Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..lines.record import Record

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


def readings(lines: Iterable[Record]) -> list[Heap]:
    """The readings of these lines, in their order. Lines without one are left out."""
    found = (reading(line.members) for line in lines)
    return [heap for heap in found if heap is not None]


def reading(members: Mapping[str, object]) -> Heap | None:
    """The reading of one line. None if its `heap` is absent or not valid."""
    heap = members.get("heap")
    if not isinstance(heap, Mapping):
        return None
    in_use, held, mapped = (size_of(heap.get(name)) for name in ("inUse", "held", "mapped"))
    if in_use is None or held is None or mapped is None:
        return None
    return Heap(in_use=in_use, held=held, mapped=mapped)


def level(heaps: Sequence[Heap]) -> Heap:
    """The median of the last readings, of at least one."""
    last = heaps[-TAIL:]
    return Heap(
        in_use=statistics.median(heap.in_use for heap in last),
        held=statistics.median(heap.held for heap in last),
        mapped=statistics.median(heap.mapped for heap in last),
    )


def size_of(value: object) -> float | None:
    """A figure in MiB of a line's heap; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < HUGE_MIB else None
