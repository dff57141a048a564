"""Tells hoarding from leaking, by the figures of the in-process probe. Pure.

RSS counts memory in use and memory that malloc keeps after it was freed, so it cannot tell them apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from truemem.records import drift
from truemem.records.leak_verdict import GROWING, WARMING, LeakVerdict, levels_of
from truemem.records.trend import LEAST_KIB

from ..lines.record import Record

TAIL = 10
"""Number of readings whose median is one level."""

HELD_MIB, HELD_SHARE = 16.0, 0.05
"""Hoarding needs this much held memory, and this share of all that malloc has. Every heap keeps some for reuse."""

GROWTH_MIB, GROWTH_SHARE = 2.0, 0.02
"""A level has grown if the difference is more than both."""

THRESHOLD = 32768
"""Suggested threshold in bytes. It helped in the incident and in our measurements (sample_function/README.md)."""

HUGE_MIB = 2**30
"""Larger figures are not believed."""

UNKNOWN = (
    "RSS cannot tell how much of that is in use, and how much is freed but held by malloc. In a Python function,"
    " `import truemem_heap` can (docs/heap.md)."
)


@dataclass(frozen=True, kw_only=True)
class Heap:
    """One reading, or the median of several, in MiB."""

    in_use: float
    """Allocated, in the heaps of all arenas."""
    held: float
    """Freed, and kept by the allocator."""
    mapped: float
    """Allocated, in blocks with a mapping of their own."""
    other: float | None = None
    """RSS that is not malloc's: Python's small objects, stacks, mapped files. None if unknown."""

    @property
    def used(self) -> float:
        """All memory that is allocated with malloc."""
        return self.in_use + self.mapped


@dataclass(frozen=True, kw_only=True)
class Levels:
    """How much heap one environment holds now, how much it held before, and what else has grown."""

    now: Heap
    """Median of the last readings."""
    earlier: Heap | None
    """Median of as many readings before them. None if there are fewer."""
    growth: Sequence[str]
    """What else has grown, beside the memory that malloc holds, in words."""

    def told(self) -> str:
        """Say whether it is a leak, in words."""
        if self.earlier is None:
            return "more invocations can tell whether something leaks"
        if self.growth:
            return f"{', and '.join(self.growth)}: a cache that fills, or a leak"
        if self.now.other is None:
            return "what is in use does not grow"
        return "nothing else grows: not a leak"


@dataclass(frozen=True, kw_only=True)
class Hoarding:
    """A finding: malloc keeps much of what the function has freed."""

    levels: Levels

    @property
    def held(self) -> float:
        """Held memory in MiB."""
        return self.levels.now.held

    @property
    def alone(self) -> bool:
        """True if nothing else grows, as far as the readings tell."""
        return self.levels.earlier is not None and not self.levels.growth

    def sentence(self) -> str:
        """The finding as a sentence, with its fix."""
        earlier = self.levels.earlier
        more = f" ({earlier.held:.0f} before)" if earlier is not None and _grown(earlier.held, self.held) else ""
        return (
            f"{self.held:.0f} MiB{more} are freed but held by the allocator, beside {self.levels.now.used:.0f} MiB in"
            f" use: hoarding; {self.levels.told()}. Set MALLOC_MMAP_THRESHOLD_={THRESHOLD}."
        )


def readings(lines: Iterable[Record]) -> list[Heap]:
    """The readings of these lines, in their order. Lines without one are left out."""
    found = (reading(line.members) for line in lines)
    return [heap for heap in found if heap is not None]


def reading(members: Mapping[str, object]) -> Heap | None:
    """The reading of one line. None if its `heap` is absent or not valid."""
    heap = members.get("heap")
    if not isinstance(heap, Mapping):
        return None
    in_use, held, mapped = (_size(heap.get(name)) for name in ("inUse", "held", "mapped"))
    if in_use is None or held is None or mapped is None:
        return None
    rss = _size(members.get("CurrentRSS"))
    if rss is None or members.get("processes") != 1:  # RSS is that of all processes, the heap is one's
        return Heap(in_use=in_use, held=held, mapped=mapped)
    return Heap(in_use=in_use, held=held, mapped=mapped, other=max(0.0, rss - in_use - held - mapped))


def levels(heaps: Sequence[Heap]) -> Levels:
    """The levels of at least one reading."""
    earlier = heaps[-2 * TAIL : -TAIL]
    known = len(earlier) == TAIL
    return Levels(
        now=_median(heaps[-TAIL:]),
        earlier=_median(earlier) if known else None,
        growth=_growth(heaps) if known else (),
    )


def _growth(heaps: Sequence[Heap]) -> list[str]:
    """What has grown over the later half of the readings. Earlier, models are loaded and caches fill."""
    later = heaps[-max(drift.MINIMUM, len(heaps) // 2) :]
    curves = {
        "what is in use": [heap.used for heap in later],
        "what is not malloc's (Python's small objects, stacks, files)": [
            heap.other for heap in later if heap.other is not None
        ],
    }
    ends = {name: _risen(curve) for name, curve in curves.items() if len(curve) == len(later)}
    return [f"{name} grows, from {_span(*end)} MiB" for name, end in ends.items() if end is not None]


def _risen(curve: Sequence[float]) -> tuple[float, float] | None:
    """The first and the last level, if the curve has grown. Few readings are compared by two medians."""
    if len(curve) < drift.MINIMUM:
        before, after = statistics.median(curve[-2 * TAIL : -TAIL]), statistics.median(curve[-TAIL:])
        return (before, after) if _grown(before, after) else None
    made, floors = levels_of([mib * 1024 for mib in curve], min(drift.LEVELS, len(curve) // drift.BLOCK))
    verdict = LeakVerdict(is_patient=False)
    verdict.look(made, floors, len(curve))
    if verdict.name not in (GROWING, WARMING) or made[-1] - made[0] < LEAST_KIB:
        return None
    return made[0] / 1024, made[-1] / 1024


def _span(before: float, after: float) -> str:
    digits = 0 if after - before >= 2 else 1
    return f"{before:.{digits}f} to {after:.{digits}f}"


def hoarding(lines: Iterable[Record]) -> Hoarding | None:
    """Judge one environment's lines, in their order. None: no hoarding, or no readings."""
    return hoarding_in(readings(lines))


def hoarding_in(heaps: Sequence[Heap]) -> Hoarding | None:
    """Judge one environment's readings, as `hoarding` does."""
    if not heaps:
        return None
    found = levels(heaps)
    if found.now.held < max(HELD_MIB, HELD_SHARE * (found.now.used + found.now.held)):
        return None
    return Hoarding(levels=found)


def explain(lines: Sequence[Record]) -> str:
    """Explain one environment's memory in a sentence or two, or say what is missing for that."""
    return explained(readings(lines))


def explained(heaps: Sequence[Heap]) -> str:
    """Explain one environment's readings, as `explain` does."""
    if not heaps:
        return UNKNOWN
    found = hoarding_in(heaps)
    if found is not None:
        return found.sentence()
    of = levels(heaps)
    return (
        f"{of.now.used:.0f} MiB are in use, {of.now.held:.0f} MiB freed but held by the allocator: no hoarding;"
        f" {of.told()}."
    )


def _size(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < HUGE_MIB else None


def _median(heaps: Sequence[Heap]) -> Heap:
    other = [heap.other for heap in heaps if heap.other is not None]
    return Heap(
        in_use=statistics.median(heap.in_use for heap in heaps),
        held=statistics.median(heap.held for heap in heaps),
        mapped=statistics.median(heap.mapped for heap in heaps),
        other=statistics.median(other) if len(other) == len(heaps) else None,
    )


def _grown(before: float, after: float) -> bool:
    return after - before > max(GROWTH_MIB, GROWTH_SHARE * before)
