"""How what is kept grows, by settled readings of one environment: the differences from pass to pass. Pure.

A reading of a settled process has no noise of an allocator or a collector in it, so no curve is fitted: the differences
are the growth, and their spread is its error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, linear_regression, median, stdev

from truemem.verdict import GATE_KIB

from ..support.estimates import t_quantile
from .drift import INSUFFICIENT, Verdict
from .thresholds import ENDED_SHARE, EVEN, FILLS, GOES_ON, GROWS_KIB, HALF, PASSES, TOLD

GARBAGE, TRIMMED = "garbage", "trimmed"
"""What all collections have freed, and what allocators have given back, KiB."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571)
CERTAIN = 0.9995
"""Quantile of Student's t for what was read from outside: the next invocation's needs may be in each reading."""


@dataclass(frozen=True)
class Cache:
    """A cache of the function's with a bound of its own."""

    name: str
    entries: int
    bound: int
    unit: str = "entries"
    """What is counted."""


@dataclass(frozen=True)
class Reading:
    """What is kept after this invocation. KiB, or numbers of blocks, processes, threads and descriptors, by the names
    of curves."""

    invocation: int
    kept: Mapping[str, float]
    caches: Mapping[str, Cache] = field(default_factory=dict)
    """By an id that stays while the process lives."""
    process: int = 0
    """Pid of the runtime's process."""
    held: Mapping[str, float] = field(default_factory=dict)
    """KiB that each allocator held free until then, by its name: what it gave back when it was asked, and the rest
    where that is known."""
    library: str = ""
    """File of a mapped library that has a cache of its own; empty if none is known."""
    unsaid: str = ""
    """The name of an allocator that does not say what is in use; empty if all do."""


def last_life(readings: Sequence[Reading]) -> list[Reading]:
    """The readings of the process that lives: what an earlier one kept went with it. Of two in a row the second: what a
    finalizer lets go of, the next collection frees. Their numbers rise: a log that was changed may have one twice."""
    own = [each for each in readings if each.process == readings[-1].process]
    kept: list[Reading] = []
    is_second = True
    for each in own:
        if kept and each.invocation <= kept[-1].invocation:
            continue
        is_second = not is_second and each.invocation == kept[-1].invocation + 1
        kept[-1:] = [each] if is_second else [*kept[-1:], each]
    return kept


@dataclass(frozen=True)
class Kind:
    """A kind of events, with what the settled process kept before and after a pass of them alone."""

    name: str
    before: Reading
    after: Reading

    def rate(self, name: str) -> float:
        """Growth per invocation of what the readings have under this name."""
        passed = self.after.invocation - self.before.invocation
        return (self.after.kept.get(name, 0.0) - self.before.kept.get(name, 0.0)) / passed


def kinds_of(readings: Sequence[Reading], names: Mapping[int, str]) -> list[Kind]:
    """The kinds of which one process was read before and after. `names`: each kind by the last invocation of its pass;
    the first pass is of all of them."""
    asked = [each for each in readings if each.invocation in names]
    pairs = [(a, b) for a, b in pairwise(asked) if a.process == b.process]
    return [Kind(names[b.invocation], a, b) for a, b in pairs] if len(pairs) == len(names) - 1 else []


def keepers(kinds: Sequence[Kind], name: str, rate: float) -> tuple[dict[str, float], float]:
    """Growth per invocation by the kinds of events that keep something, the most first, and the most that one of the
    others keeps. Each kind was asked twice. Without any where all keep alike, where they do not explain the `rate` of
    all together, and where the two times do not say the same: a table has doubled, or what is kept was exchanged."""
    twice: dict[str, list[float]] = {}
    for each in kinds:
        twice.setdefault(each.name, []).append(each.rate(name))
    most = max((min(rates) for rates in twice.values()), default=0.0)
    keep, others = dict[str, float](), [0.0]
    for kind, rates in twice.items():
        if min(rates) > TOLD * most and max(rates) < min(rates) / HALF:
            keep[kind] = fmean(rates)
        elif max(map(abs, rates)) <= TOLD * most:
            others += rates
        else:
            return {}, 0.0
    if most <= HALF * rate or len(keep) == len(twice):
        return {}, 0.0
    return dict(sorted(keep.items(), key=lambda each: -each[1])), max(others)


def verdict(readings: Sequence[Reading], name: str, unit: float = 1.0, noise_kib: float = 1.0) -> Verdict:
    """The verdict on what these readings have under a name, in KiB: `unit` KiB for each, where that is a number. It may
    move by `noise_kib` where nothing is kept. Named `growing`, `stable`, or `warming` where more passes must tell;
    INSUFFICIENT with less than PASSES."""
    known = [(each.invocation, each.kept[name] * unit) for each in readings if name in each.kept]
    if len(_late(known)) < PASSES:
        return INSUFFICIENT
    full = _since_full(readings)
    known = [each for each in known if each[0] >= full[0].invocation]
    late = _late(known)
    if len(late) < PASSES:
        return Verdict("warming", None, None, None, None)
    mean, half = _mean(late)
    slope, error = line_through(known[-1 - len(late) :])
    if mean - half > GROWS_KIB and mean >= GATE_KIB and late[-1] >= GOES_ON * mean:
        rate, half = min((mean, half), (slope, error), key=lambda each: each[1])
        return Verdict("growing", rate, rate - half, rate + half, None)
    if (steps := _steps(known, noise_kib)) is not None:
        return steps
    # Where one level is off, two differences are: a line through all levels knows better that nothing grows.
    if slope + error < mean + half:
        mean, half = slope, error
    return Verdict("stable" if mean + half < GATE_KIB else "warming", mean, mean - half, mean + half, None)


def growth(readings: Sequence[Reading], name: str, unit: float = 1.0, noise_kib: float = 1.0) -> Verdict:
    """The same of a process that was read as it was met, so that what an invocation needs may be in a level: growth
    alone, and only if a line through the levels rises for CERTAIN; else INSUFFICIENT."""
    found = verdict(readings, name, unit, noise_kib)
    if found.name != "growing":
        return INSUFFICIENT
    known = [(each.invocation, each.kept[name] * unit) for each in readings if name in each.kept]
    known = known[-1 - len(_late(known)) :]
    slope, half = line_through(known)
    wider = t_quantile(CERTAIN, len(known) - 2) / t_quantile(0.975, len(known) - 2)
    return found if slope - half * wider > GROWS_KIB else INSUFFICIENT


def _mean(rates: Sequence[float]) -> tuple[float, float]:
    """Their mean, and half of its 95 % interval."""
    return fmean(rates), _student(len(rates) - 1) * stdev(rates) / math.sqrt(len(rates))


def line_through(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of a line through at least three points, and half of its 95 % interval."""
    numbers, levels = zip(*points, strict=True)
    slope, begin = linear_regression(numbers, levels)
    left = sum((level - begin - slope * number) ** 2 for number, level in points)
    free, middle = len(points) - 2, fmean(numbers)
    return slope, _student(free) * math.sqrt(left / free / sum((number - middle) ** 2 for number in numbers))


def _student(free: int) -> float:
    """The 0.975 quantile of Student's t with so many degrees of freedom, to 1 % (its tables)."""
    return STUDENT[free - 1] if free <= len(STUDENT) else 1.96 + 2.37 / free + 2.82 / free**2


def _late(known: Sequence[tuple[int, float]]) -> list[float]:
    """Growth per invocation in the passes that count."""
    rates = [(b - a) / (after - before) for (before, a), (after, b) in pairwise(known)]
    return rates[max(0, min(len(rates) // 3, len(rates) - PASSES)) :]


def _steps(known: Sequence[tuple[int, float]], noise_kib: float) -> Verdict | None:
    """The verdict on what grows in steps, as a table that doubles; None on what does not. Each double of the run has a
    step of its own; the interval is that of the rates of both halves."""
    quarter, half = (_nearest(known, part) for part in (0.25, 0.5))
    is_short = known[quarter][0] > (1 + TOLD) * known[-1][0] / 4
    if is_short or not 0 <= quarter < half or _falls([level for _, level in known], noise_kib):
        return None
    before, after = (_rate(known[quarter], known[half]), _rate(known[half], known[-1]))
    is_noise = min(known[half][1] - known[quarter][1], known[-1][1] - known[half][1]) < noise_kib
    if is_noise or min(before, after) < max(EVEN * max(before, after), GATE_KIB):
        return None
    rate = _rate(known[quarter], known[-1])
    if _rests(known[quarter:], rate):
        return None
    return Verdict("growing", rate, min(before, after), max(before, after), None)


def _rests(known: Sequence[tuple[int, float]], rate: float) -> bool:
    """True if what grew by this `rate` has rested for more passes than steps explain. A table that doubles rests twice
    as long as before, and a pass that has a step may rest for a part; a ring of slots has not rested until it is full.
    """
    rests = [0]
    for before, after in pairwise(known):
        if _rate(before, after) < min(ENDED_SHARE * rate, GATE_KIB):
            rests[-1] += 1
        else:
            rests.append(0)
    longest = max(rests[:-1], default=0)
    return rests[-1] > (2 * (longest + 1) if longest else 0)


def _rate(before: tuple[int, float], after: tuple[int, float]) -> float:
    """Growth per invocation between two levels with their invocations."""
    return (after[1] - before[1]) / (after[0] - before[0])


def _falls(levels: Sequence[float], noise_kib: float) -> bool:
    """True if they fall by more than half of what they have risen by before: a map in Go that doubles keeps its old
    table for a while, beside one of twice the size."""
    bottom, top = 0.0, levels[0]
    for before, now in pairwise(levels):
        if before < top and now > before:  # the fall is over
            bottom, top = before, now
        top = max(top, now)
        if top - now > max(noise_kib, HALF * (top - bottom)):
            return True
    return False


def _nearest(known: Sequence[tuple[int, float]], part: float) -> int:
    """The place of the reading nearest to this part of all invocations, but the last."""
    aim = part * known[-1][0]
    return min(range(len(known) - 1), key=lambda at: abs(known[at][0] - aim))


def garbage_kib(readings: Sequence[Reading]) -> float:
    """What is freed when the process is settled after a pass, at the median, KiB."""
    freed = [each.kept[GARBAGE] for each in readings if GARBAGE in each.kept]
    return median(after - before for before, after in pairwise(freed)) if len(freed) > 1 else 0.0


def held_kib(readings: Sequence[Reading]) -> float | None:
    """What malloc had held when it was asked first to give it back, KiB; None if it was not asked. Later ones have held
    it for a pass alone."""
    return next((each.held["malloc"] for each in readings if TRIMMED in each.kept and "malloc" in each.held), None)


def holder(readings: Sequence[Reading]) -> tuple[str, float]:
    """The allocator that has held most at once, and how much, KiB; ("", 0.0) where that is not known."""
    held, name = max(((kib, name) for each in readings for name, kib in each.held.items()), default=(0.0, ""))
    return name, held


@dataclass(frozen=True)
class Filling:
    """A cache that fills."""

    cache: Cache
    per_invocation: float
    """Entries."""

    @property
    def invocations_left(self) -> int:
        return math.ceil((self.cache.bound - self.cache.entries) / self.per_invocation)


def filling(readings: Sequence[Reading]) -> Filling | None:
    """The cache with a bound of its own, and not full, that has gained most entries since the last reading; None if
    none has gained one in FILLS of all invocations."""
    if len(readings) <= PASSES:
        return None
    before, now = readings[-2:]
    passed = now.invocation - before.invocation
    found = [
        Filling(cache, (cache.entries - before.caches[key].entries) / passed)
        for key, cache in now.caches.items()
        if key in before.caches and cache.entries < cache.bound
    ]
    most = max(found, key=lambda each: each.per_invocation, default=None)
    return most if most is not None and most.per_invocation >= FILLS else None


@dataclass(frozen=True)
class Filled:
    """A cache that was filled."""

    cache: Cache
    first: Reading
    """In which it was seen first."""
    full: Reading
    """In which it was full first."""
    gained: int
    """Entries, between these two."""

    def kib(self, name: str) -> float:
        """How large it is, by what the readings have under this name; if nothing else grew while it filled."""
        grew = self.full.kept.get(name, 0.0) - self.first.kept.get(name, 0.0)
        return grew * self.cache.bound / self.gained


def filled(readings: Sequence[Reading]) -> Filled | None:
    """The cache with a bound of its own that was full last, of those that these readings saw fill; None of none."""
    found = []
    for key, cache in readings[-1].caches.items() if readings else ():
        seen = [each for each in readings if key in each.caches]
        gains = [now for before, now in pairwise(seen) if now.caches[key].entries > before.caches[key].entries]
        if cache.entries >= cache.bound and gains:
            gained = gains[-1].caches[key].entries - seen[0].caches[key].entries
            found.append(Filled(cache, seen[0], gains[-1], gained))
    return max(found, key=lambda each: each.full.invocation, default=None)


def _since_full(readings: Sequence[Reading]) -> Sequence[Reading]:
    """The readings since the caches that are full by now were filled."""
    last = filled(readings)
    return [each for each in readings if last is None or each.invocation >= last.full.invocation]
