"""The verdict on each curve of an environment, by one engine, when it is asked for. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from truemem.verdict import COUNTED_KIB, LEAST_KIB, MINIMUM, NOISE_KIB

from . import settled
from .curves import (
    BLOCKS,
    CLASSES,
    DESCRIPTORS,
    ENVIRONMENT,
    EXTENSION,
    EXTERNAL,
    FILES,
    GO,
    GOROUTINES,
    HEAP,
    IN_USE,
    MALLOC,
    OUTSIDE,
    OWN_HEAP,
    PROCESSES,
    RSS,
    SMALL,
    THREADS,
    TMP,
    Curves,
)
from .drift import INSUFFICIENT, Curve, Floats, Point, Verdict, judge, lives, median_of
from .resources import Resource
from .thresholds import GOES_ON, GREW_KIB, HABIT, HALF, JVM_KIB, PASSES, SHORT_LIFE

BLOCK_KIB = 1 / 16
"""What a block of Python's own allocator stands for: objects have 64 bytes at the median."""


class Witnesses:
    """The verdict on each curve, when it is asked for."""

    def __init__(self, curves: Curves) -> None:
        self.curves = curves
        self._verdicts: dict[str, Verdict] = {}

    @cached_property
    def rss(self) -> Verdict:
        """The verdict on RSS."""
        known = self.curves
        if self.is_settled:  # where a runtime has a heap, that part of RSS alone in which it has no part
            kept = known.settled[-1].kept
            if name := RSS if RSS in kept else FILES if HEAP in kept and self.is_whole else "":
                return settled.verdict(known.settled, name)
        if self.has_own_heap and (found := settled.verdict(known.settled, RSS)).name != "insufficient":
            before, after = self.span(RSS)
            may_be_garbage = after - before < max(before, GREW_KIB)
            return replace(found, name="warming") if found.name == "growing" and may_be_garbage else found
        return self._rss_curve

    @cached_property
    def _rss_curve(self) -> Verdict:
        return judge(self.curves.rss)

    def of(self, name: str) -> Verdict:
        """The verdict on another witness, in KiB of its unit; INSUFFICIENT where it has too little to say."""
        if name not in self._verdicts:
            self._verdicts[name] = self._judged(name)
        return self._verdicts[name]

    def grows(self, name: str) -> bool:
        return self.of(name).name == "growing"

    def rate(self, name: str) -> float:
        """Growth per invocation in the curve's own unit; 0 where it has not grown."""
        if not self.grows(name) and (self.rose_to_the_end(name) or self.rises_with_rss(name)):
            life = self._longest_life(name)
            return (life[-1].current_kib - life[0].current_kib) / (life[-1].invocation - life[0].invocation)
        return (self.of(name).per_invocation_kib or 0.0) / _unit(name)

    def rose_to_the_end(self, name: str) -> bool:
        """True if a count rose evenly until the environment ran out of memory, too early for a verdict."""
        life = self._longest_life(name) if self.curves.out_of_memory else None
        if life is None or len(life) < SHORT_LIFE:
            return False
        counts = life.current_kib
        early, late = _halves(counts)
        rises = np.count_nonzero(np.diff(counts) > 0)
        return bool(early >= SHORT_LIFE / 4 and late >= GOES_ON * early and rises >= GOES_ON * HALF * len(counts))

    def rises_with_rss(self, name: str) -> bool:
        """True if a count rises evenly and never falls while RSS grows and memory in use does not, too slowly for a
        verdict of its own: a process in fifty invocations holds more than what a leak of one KiB keeps in each."""
        if self.rss.name != "growing" or self.grows(IN_USE):
            return False
        counts = self._longest_life(name).current_kib
        if len(counts) < MINIMUM:
            return False
        early, late = _halves(counts)
        return bool(early >= HABIT and late >= GOES_ON * early and np.diff(counts).min() >= 0)

    def _longest_life(self, name: str) -> Curve:
        """The longest life of a curve."""
        return max(lives(self.curves.others.get(name, ())), key=len)

    def knows(self, *names: str) -> bool:
        """True if all of these have enough to say."""
        return all(self.of(name).name != "insufficient" for name in names)

    def span(self, name: str) -> tuple[float, float]:
        """The level at the begin and at the end of the last life, in the curve's own unit."""
        known = [each.kept[name] for each in self.curves.settled if name in each.kept]
        if len(known) > PASSES or (known and self.is_outside):
            return known[0], known[-1]
        return span_of(self.curves.rss if name == "rss" else self.curves.others.get(name, ()))

    @cached_property
    def beside(self) -> Verdict:
        """The verdict on what RSS has beside memory in use, by the readings of a settled process that have both."""
        both = [each for each in self.curves.settled if RSS in each.kept and IN_USE in each.kept]
        kept = [replace(each, kept={RSS: each.kept[RSS] - each.kept[IN_USE]}) for each in both]
        return settled.verdict(kept, RSS)

    @cached_property
    def has_own_heap(self) -> bool:
        """True if a runtime has a heap that nothing has settled: RSS has its garbage."""
        kept = self.curves.settled[-1].kept if self.curves.settled else {}
        return OWN_HEAP in kept and HEAP not in kept

    @cached_property
    def is_go(self) -> bool:
        return bool(self.curves.settled) and GO in self.curves.settled[-1].kept

    @cached_property
    def is_settled(self) -> bool:
        """True if what is in use is known by readings of a settled process."""
        return not self.is_outside and settled.verdict(self.curves.settled, IN_USE).name != "insufficient"

    @cached_property
    def is_outside(self) -> bool:
        """True if malloc was read in a process without a probe. Growth there is a leak; but a runtime may have a heap
        beside it, so no growth there proves nothing."""
        return bool(self.curves.settled) and OUTSIDE in self.curves.settled[-1].kept

    @cached_property
    def objects(self) -> str:
        """The witness of Python's small objects: SMALL, which is in IN_USE as well, or else BLOCKS, which is not."""
        return SMALL if SMALL in (self.curves.settled[-1].kept if self.is_settled else self.curves.others) else BLOCKS

    @property
    def objects_kib(self) -> float:
        """What they hold more after each invocation, KiB."""
        return self.rate(self.objects) * _unit(self.objects)

    @property
    def is_whole(self) -> bool:
        """True if such readings tell of all memory. On a line, those of Node.js lack what malloc has given out."""
        kept = self.curves.settled[-1].kept if self.is_settled else {}
        return bool(kept) and (HEAP not in kept or MALLOC in kept or CLASSES in kept)

    @cached_property
    def has_jvm(self) -> bool:
        """True if settled readings tell of a JVM."""
        return bool(self.curves.settled) and CLASSES in self.curves.settled[-1].kept

    @cached_property
    def part(self) -> str | None:
        """Which part of what a runtime keeps grows most, where it has more than malloc; None for others."""
        if not self.is_settled or HEAP not in self.curves.settled[-1].kept:
            return None
        parts = (HEAP, CLASSES) if self.has_jvm else (HEAP, EXTERNAL, MALLOC)  # those that IN_USE has
        return max(parts, key=lambda name: self.of(name).per_invocation_kib or 0.0)

    def _judged(self, name: str) -> Verdict:
        judged = settled.growth if self.is_outside else settled.verdict
        kept = judged(self.curves.settled, name, _unit(name), self._noise_kib(name))
        if kept.name != "insufficient":
            return kept
        found = _even(self.curves.others.get(name, ()))
        if len(found) < MINIMUM:
            return INSUFFICIENT
        unit = _unit(name)
        values = found.current_kib
        # Of blocks a few tell whose memory it is: Python's objects or a library's.
        least = unit if name == BLOCKS else NOISE_KIB if unit == 1 and name != TMP else LEAST_KIB
        if (values.max() - values.min()) * unit < least:
            return replace(INSUFFICIENT, name="stable", per_invocation_kib=0.0, low_kib=0.0, high_kib=0.0)
        return judge(found.at_levels(values * unit))

    def _noise_kib(self, name: str) -> float:
        return JVM_KIB if name == MALLOC and self.has_jvm else 1.0

    @property
    def rss_shows(self) -> bool:
        """True if RSS grows for certain. Where the process was settled: if it has risen with what is kept as long as
        malloc held what was free, as in Lambda. The same after a profile of the lines, whose room is used first."""
        curve, own = self.untrimmed, self.curves.own_kib
        if (self.is_settled or own) and len(curve) >= MINIMUM:
            before, after = span_of(curve)
            after += own
            rate = max(self.of(IN_USE).per_invocation_kib or 0.0, self.rss.per_invocation_kib or 0.0)
            return bool(after - before >= HALF * rate * (curve.invocation[-1] - curve.invocation[0]))
        rss = self._rss_curve
        return "growing" in (self.rss.name, rss.name) or (rss.low_kib or 0.0) > 0

    @cached_property
    def untrimmed(self) -> Curve:
        """RSS until malloc was first asked to give back what is free: as it is in Lambda."""
        trimmed = (each.invocation for each in self.curves.settled if settled.TRIMMED in each.kept)
        curve = Curve.of(self.curves.rss)
        return curve[curve.invocation < next(trimmed, math.inf)]

    def memory_left(self, rate: float) -> int | None:
        """Invocations until function, extensions and sidecar together reach the memory size."""
        limit = self.curves.limit_mib
        if not limit or rate <= 0:
            return None
        return int(max(0.0, limit * 1024 - self.environment_kib()) / rate)

    def environment_left(self) -> int | None:
        """The same by the environment's own level; None where that does not grow for certain, or is not known."""
        limit, verdict = self.curves.limit_mib, self.of(ENVIRONMENT)
        if not limit or (verdict.low_kib or 0.0) <= 0:
            return None
        room = limit * 1024 - self.span(ENVIRONMENT)[1]
        return int(max(0.0, room) / (verdict.per_invocation_kib or math.inf))

    def environment_kib(self) -> float:
        """What function and extensions hold at the end; of the function its higher peaks."""
        curves = self.curves
        last = [max(point.peak_kib or 0.0, point.current_kib) for point in curves.rss[-MINIMUM:]]
        own = sorted(last)[int(0.9 * (len(last) - 1))] if last else 0.0
        return own + self.extensions_kib

    @property
    def extensions_kib(self) -> float:
        """What extensions hold at the end, the sidecar too."""
        return sum(self.span(f"{EXTENSION}{name}")[1] for name in self.curves.extensions)

    def left(self, name: str, reported: Resource | None) -> int | None:
        """Invocations until a count or /tmp reaches its own limit."""
        rate = self.rate(name)
        if reported is None or reported.limit is None or rate <= 0:
            return None
        unit = 1024 if name == TMP else 1
        return int(max(0.0, reported.limit * unit - self.curves.others[name][-1].current_kib) / rate)

    def memory_ends_before(self, left: int | None) -> bool:
        """True if memory grows as well, and ends sooner."""
        of_memory = self.of(IN_USE) if self.grows(IN_USE) else self.rss
        if of_memory.name != "growing":
            return False
        memory = self.memory_left(of_memory.per_invocation_kib or 0.0)
        return memory is not None and left is not None and memory < left


def _halves(counts: Floats) -> tuple[float, float]:
    """How much a count has risen in the first half of all invocations, and in the second."""
    middle = counts[len(counts) // 2]
    return middle - counts[0], counts[-1] - middle


def span_of(points: Sequence[Point]) -> tuple[float, float]:
    """The level at the begin and at the end of the last life: medians of an eighth of it. (0, 0) without points."""
    held = lives(points)[-1].current_kib
    part = max(1, len(held) // 8)
    return (median_of(held[:part]), median_of(held[-part:])) if len(held) else (0.0, 0.0)


def _even(points: Sequence[Point]) -> Curve:
    """The same curve at evenly spaced invocations of each life, which is what the engine expects. A slow probe reads
    ever more seldom, and a report reads some lines of many: by their place alone, a straight line has a bend."""
    found = Curve.of(points)
    numbers = found.invocation
    if not len(found) or numbers[-1] - numbers[0] < len(found):
        return found
    places, values = [], []
    for life in lives(found):
        places.append(np.linspace(life.invocation[0], life.invocation[-1], len(life)))
        values.append(np.interp(places[-1], life.invocation, life.current_kib))
    return found.at_levels(np.concatenate(values), np.rint(np.concatenate(places)))


def _unit(name: str) -> float:
    """What one of a curve's unit stands for in KiB, so that the thresholds of memory hold."""
    return (
        BLOCK_KIB if name == BLOCKS else COUNTED_KIB if name in (PROCESSES, THREADS, DESCRIPTORS, GOROUTINES) else 1.0
    )
