"""What Max Memory Used alone can prove of growth, and ages at which memory ran out. Pure. The reasoning: docs/marks.md.

The mark of an environment never falls. Its life is told by its runs: the values of the mark, each with the invocations
that had it. Three statements follow, each weaker and sharper than the one before:

- proven: memory after N invocations is at most the mark;
- likely (95 %): where peaks are alike from begin to end, the late ones are not all below the first few by chance. A
  start that needs more than all that follows is not alike, and hides growth;
- grows: without growth the i-th of equal parts of a life raises the mark with probability 1/i at most, whatever the
  distribution of peaks. Parts and not invocations: between two collections a heap raises it again and again.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from statistics import NormalDist, fmean, median, stdev
from typing import Literal, NamedTuple

KIB = 1024
ROUNDED_MB = 1
"""The mark is in whole MB: a rise may be by so much less than it says."""
PARTS = 8
"""A life is divided into so many. With more, a collector's cycle must be shorter for parts to be alike."""
MOST_EXACT = 200
"""Lives up to which the law is not approximated."""
GROWS_BELOW = 0.001
"""Chance of so many rises without growth, from which on memory is said to grow."""
EARLY = 1 / 40
"""This part of a life is compared with its second half: of two windows the first has the highest peak by chance in
(first / both) of the cases, 1 of 21."""
LEAST_INVOCATIONS = 40
"""A life is compared with at least so many invocations."""
YOUNG = 10
"""Age at which lives that began at different times are compared."""
LEAST_LIVES = 8
"""Lives from which on their order in time says something."""
LOAD_BELOW = 0.01
SLOWER, SLOWER_OF_FEW = 1.1, 1.25
"""The second half of a life is slower by so much."""
AT_START = 2
"""An environment that is killed in its first invocations needs more memory from the start."""
OLDER_BELOW = 0.01
MOST_SUMMED = 15
"""Up to which a sum of uniform numbers is not approximated."""

Pattern = Literal["start", "regular", "irregular", "few"]


class Run(NamedTuple):
    """Invocations in a row with the same mark."""

    mark: int
    """MB."""
    invocations: int
    duration_ms: float = math.nan
    """Their mean duration."""


@dataclass(frozen=True)
class Life:
    """An environment from its first invocation, or since its runtime began anew, to its end or the next such begin."""

    runs: Sequence[Run]
    """In order; marks rise."""
    began_ms: float | None = None
    from_birth: bool = True
    """False if the log begins later than the environment, or the mark went on: peaks before are in it as well."""
    killed: bool = False
    """In its last invocation, for lack of memory as far as that is known."""
    ends: list[int] = field(init=False, repr=False)
    """Invocations until the end of each run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", list(accumulate(run.invocations for run in self.runs)))

    @property
    def invocations(self) -> int:
        return self.ends[-1]

    def mark_at(self, age: int) -> int:
        """The mark after so many invocations, MB."""
        return self.runs[bisect_left(self.ends, age)].mark

    def late_rises(self, parts: int = PARTS) -> int:
        """In how many of the last half of so many equal parts the mark has risen. The first part is longer by what is
        left."""
        part = self.invocations // parts
        marks = [self.mark_at(self.invocations - part * left) for left in range(parts // 2, -1, -1)]
        return sum(later > sooner for sooner, later in pairwise(marks))

    def slowing(self) -> float:
        """Mean duration of the second half, as a share of that of the first; NaN if it is not known."""
        half = self.invocations / 2
        parts, begun = [0.0, 0.0], 0
        for run, end in zip(self.runs, self.ends, strict=True):
            first = max(0.0, min(half, end) - begun)
            parts[0] += first * run.duration_ms
            parts[1] += (run.invocations - first) * run.duration_ms
            begun = end
        return parts[1] / parts[0] if parts[0] > 0 else math.nan

    def before_kill(self) -> Life | None:
        """The same without the invocation that was killed, whose peak is the highest for that reason alone. None if
        nothing is left."""
        if not self.killed:
            return self
        last = self.runs[-1]
        runs = [*self.runs[:-1], *([last._replace(invocations=last.invocations - 1)] if last.invocations > 1 else [])]
        return replace(self, runs=runs, killed=False) if runs else None


class Growth(NamedTuple):
    """What the marks of a function's environments say of growth per invocation."""

    rises: int
    """Parts in the second half of each life in which the mark rose."""
    parts: int
    """Parts in the second half of all lives."""
    expected: float
    """At most so many without growth, on average."""
    chance: float
    """At most so likely are so many without growth."""
    about_kib: float | None
    """How fast the marks rise in second halves, KiB per invocation: memory may grow faster below the mark."""
    likely_kib: float | None
    """It is no more than that in any environment with 95 %, if the work is alike from begin to end. None: not enough is
    known."""
    proven_kib: float | None
    """It was no more than that, on the average over the longest life."""
    longest: int
    """Invocations of the longest life."""
    load: str
    """Why rises need not be growth: what else rises in that time. Empty for nothing that is known."""

    @property
    def grows(self) -> bool:
        """True if chance does not explain the rises, and no load that rises does."""
        return self.rises_too_often and not self.load

    @property
    def rises_too_often(self) -> bool:
        return self.chance < GROWS_BELOW


def growth(lives: Sequence[Life]) -> Growth | None:
    """Judge the lives of environments with one function, version and memory size. None if none had an invocation that
    ended."""
    whole = [each for life in lives if (each := life.before_kill()) is not None]
    if not whole:
        return None
    long = [life for life in whole if life.invocations >= LEAST_INVOCATIONS]
    rises = sum(life.late_rises() for life in long)
    longest = max(whole, key=lambda life: life.invocations)
    were_killed = any(life.killed for life in lives)
    return Growth(
        rises=rises,
        parts=PARTS // 2 * len(long),
        expected=sum(_LATE) * len(long),
        chance=_at_least(rises, len(long)),
        about_kib=_about(long),
        likely_kib=None if were_killed else _likely([life for life in long if life.from_birth]),
        proven_kib=_proven(longest),
        longest=longest.invocations,
        load=_load(whole),
    )


_LATE = [1 / i for i in range(PARTS // 2 + 1, PARTS + 1)]
"""Probability that a part has the highest peak so far, of the second half."""


def _at_least(rises: int, lives: int) -> float:
    """Probability of so many rises in so many lives, or more."""
    if lives > MOST_EXACT:
        spread = math.sqrt(lives * sum(p * (1 - p) for p in _LATE))
        return 1 - NormalDist(lives * sum(_LATE), spread).cdf(rises - 0.5)
    chances = [1.0]
    for p in _LATE * lives:
        chances = [stays * (1 - p) + comes * p for stays, comes in zip([*chances, 0.0], [0.0, *chances], strict=True)]
    return min(1.0, sum(chances[rises:]))


def _about(lives: Sequence[Life]) -> float | None:
    rates = [
        (life.mark_at(life.invocations) - life.mark_at(life.invocations // 2)) * KIB / (life.invocations / 2)
        for life in lives
    ]
    return fmean(rates) if rates else None


def _proven(life: Life) -> float | None:
    """Memory was at least 0 after the first invocation, and is at most the mark after the last."""
    left = life.invocations - 1
    return (life.mark_at(life.invocations) + ROUNDED_MB) * KIB / left if left > 0 else None


def _likely(lives: Sequence[Life]) -> float | None:
    """If g is the growth, and the highest peak of a life's second half is no lower than that of its first invocations
    (without g), then the mark has risen by g times what lies between. That is so in 95 % of lives, also in the one that
    grows most: its bound is no more than the highest."""
    bounds = []
    for life in lives:
        early, late = max(1, int(EARLY * life.invocations)), life.invocations // 2
        risen = life.mark_at(life.invocations) - life.mark_at(early) + ROUNDED_MB
        bounds.append(risen * KIB / (life.invocations - late - early))
    return max(bounds, default=None)


def _binomial_tail(least: int, of: int, chance: float) -> float:
    """Probability of at least so many."""
    if of > 1000:
        spread = math.sqrt(of * chance * (1 - chance))
        return 1 - NormalDist(of * chance, spread).cdf(least - 0.5)
    return sum(math.comb(of, k) * chance**k * (1 - chance) ** (of - k) for k in range(least, of + 1))


def _load(lives: Sequence[Life]) -> str:
    from ..support.estimates import ranks

    young = [life for life in lives if life.began_ms is not None and life.invocations >= YOUNG]
    if len(young) >= LEAST_LIVES:
        born, marks = ranks([life.began_ms or 0.0 for life in young]), ranks([life.mark_at(YOUNG) for life in young])
        if (spread := stdev(born) * stdev(marks)) > 0:
            middle = (len(young) + 1) / 2
            together = fmean((x - middle) * (y - middle) for x, y in zip(born, marks, strict=True)) / spread
            if 1 - NormalDist().cdf(together * math.sqrt(len(young) - 1)) < LOAD_BELOW:
                return "environments that began later need more from their first invocations on"
    slowing = [s for life in lives if life.invocations >= LEAST_INVOCATIONS and not math.isnan(s := life.slowing())]
    if slowing:
        slower = sum(each > SLOWER for each in slowing)
        is_so = (
            _binomial_tail(slower, len(slowing), 0.5) < LOAD_BELOW and median(slowing) > SLOWER
            if len(slowing) >= LEAST_LIVES
            else min(slowing) > SLOWER_OF_FEW
        )
        if is_so:
            return f"invocations take {median(slowing) - 1:.0%} longer in the second half of an environment's life"
    return ""


def pattern(ages: Sequence[int], survived: Sequence[int] = ()) -> Pattern:
    """At which ages, in invocations, environments were killed: in the first ones, at ages at which a kill has become
    more likely than chance allows, or at any; or too few kills for that. `survived`: the ages that the others had
    reached."""
    if not ages:
        return "few"
    young = sum(age <= AT_START for age in ages)
    if young > len(ages) / 2 and young >= (len(ages) + len(survived)) / 2:
        return "start"
    if len(ages) < 3:
        return "few"
    if _older(ages, survived) < OLDER_BELOW:
        return "regular"
    return "irregular" if len(ages) >= LEAST_LIVES else "few"


def _older(ages: Sequence[int], survived: Sequence[int]) -> float:
    """How likely kills come that late where each invocation is as dangerous as the others: by the number of invocations
    of all environments up to the age of a kill (total time on test), kills are then anywhere alike (Laplace's test)."""
    until = max(ages)
    known = sorted([*ages, *survived])
    sums = [0, *accumulate(known)]

    def on_test(age: int) -> int:
        younger = bisect_left(known, age)
        return sums[younger] + age * (len(known) - younger)

    is_last = known[-1] <= until  # where nothing is older, the last kill is at the end whatever happens
    points = sorted(on_test(age) for age in ages)[: len(ages) - is_last]
    early = len(points) - sum(points) / (on_test(until) if is_last else on_test(known[-1]))
    return _sum_below(early, len(points))


def _sum_below(least: float, of: int) -> float:
    """Probability that the sum of so many uniform numbers is at most that (Irwin and Hall 1927)."""
    if of > MOST_SUMMED:
        return NormalDist(of / 2, math.sqrt(of / 12)).cdf(least)
    terms = (math.comb(of, k) * math.pow(least - k, of) for k in range(int(least) + 1))
    return math.fsum(-term if k % 2 else term for k, term in enumerate(terms)) / math.factorial(of)


class Approach(NamedTuple):
    """How marks came to the memory size in environments that were killed: what most of them did."""

    rises: bool
    """The mark rose in most of the late parts of their lives."""
    at_once: bool
    """More was missing before the invocation that was killed than the mark had risen since the first one."""


def approach(lives: Sequence[Life], size_mb: int) -> Approach:
    """How marks came to the size, in the lives that were killed."""
    killed = [life for life in lives if life.killed]
    rises = at_once = 0
    for life in killed:
        if (before := life.before_kill()) is None:
            at_once += 1
            continue
        parts = min(PARTS, before.invocations)
        rises += before.late_rises(parts) > parts // 2 / 2
        reached = before.runs[-1].mark
        at_once += size_mb - reached > reached - before.runs[0].mark
    return Approach(rises > len(killed) / 2, at_once > len(killed) / 2)
