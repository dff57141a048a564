"""What was measured: an environment's invocations, and what there is to say about them. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..analysis import heap
from ..analysis.drift import Point, Verdict, judge, lives, points, trusted_of
from ..lines.line import Line
from .peaks import EXACT, PROBE, Peak

UNSETTLED = ("insufficient", "warming")
"""Verdicts that say nothing about growth in the long run."""


@dataclass(frozen=True)
class Failure:
    """An invocation that did not succeed."""

    number: int
    """From 1."""
    error: str
    """Its type, and what was said."""
    log: Sequence[str] = ()
    """The end of what it wrote, where that is known."""


@dataclass(frozen=True)
class Seen:
    """An invocation with its record."""

    number: int
    """Of the invocation in this run, from 1."""
    line: Line

    @property
    def peak(self) -> Peak:
        """With what would tell more of it."""
        lower, upper = self.line.bounds
        exact = self.line.mode == "exact" or (self.line.method == "vmhwm-sum" and not self.line.raced)
        return Peak(f"invocation {self.number}", lower, upper, PROBE if exact else EXACT)


@dataclass(frozen=True)
class Measurement:
    """One run. Sizes in MiB."""

    spec: str
    """What was checked."""
    seen: Sequence[Seen]
    """In the order of the invocations; those of the warm-up come first."""
    invocations: int
    """How many there were, the warm-up's included."""
    warm_up: int
    """How many of them were needed for it to settle; they count for peaks, and not for drift."""
    memory_mib: int | None
    seconds: float
    failures: Sequence[Failure] = ()
    notices: Sequence[str] = ()
    """What was not as in Lambda, or could not be done; in plain words."""
    last_words: str = "nothing"
    """The last line that the sidecar printed, if it printed no record."""
    asked: int | None = None
    """How many were to be judged, if somebody said; there are more where those did not decide it."""
    about: dict[str, object] = field(default_factory=dict)
    """What it ran with, for a baseline."""

    @cached_property
    def judged(self) -> list[Seen]:
        """After the warm-up, in the environment that served most of them: a second one would be a step in the curve."""
        later = [each for each in self.seen if each.number > self.warm_up]
        counted = Counter(each.line.environment for each in later)
        most = counted.most_common(1)[0][0] if counted else ""
        return [each for each in later if each.line.environment == most]

    @property
    def environments(self) -> int:
        """How many served them."""
        return len({each.line.environment for each in self.seen})

    @cached_property
    def points(self) -> list[Point]:
        return points(each.line for each in self.judged)

    @property
    def drawn(self) -> list[Line]:
        """Of the judged ones, those whose processes were not about to end: curves are made from these."""
        return [each.line for each in self.judged if each.line.closed_by != "shutdown"]

    @cached_property
    def in_a_row(self) -> int:
        """Invocations that the verdict can use, of the same processes: after a reset memory begins anew."""
        return max(len(trusted_of(life)) for life in lives(self.points))

    @property
    def more(self) -> int:
        """Invocations beyond those that were asked for."""
        return max(0, self.invocations - self.warm_up - self.asked) if self.asked else 0

    @cached_property
    def heap(self) -> str | None:
        """What the in-process probe says of memory that stays; or where that matters, that it is not there."""
        lines = [each.line for each in self.judged]
        if heap.readings(lines):
            return heap.explain(lines)
        return heap.UNKNOWN if self.verdict.name in ("growing", "warming") else None

    @cached_property
    def verdict(self) -> Verdict:
        return judge(self.points, self.memory_mib)

    @cached_property
    def peaks(self) -> list[Peak]:
        """Of invocations, warm-up and init phase alike. One without a record may have needed all that there is."""
        most = math.inf if self.memory_mib is None else self.memory_mib
        init = (each.line.init_peak_rss for each in self.seen)
        recorded = {each.number for each in self.seen}
        missing = (number for number in range(1, self.invocations + 1) if number not in recorded)
        return [
            *(each.peak for each in self.seen),
            *(Peak("the init phase", value, value) for value in init if value is not None),
            *(Peak(f"invocation {number}, which has no record,", 0.0, most) for number in missing),
        ]

    @cached_property
    def peak(self) -> tuple[str, float] | None:
        """Where memory was highest, and how high it surely was."""
        highest = max(self.peaks, key=lambda peak: peak.lower, default=None)
        return (highest.where, highest.lower) if highest is not None and highest.lower else None

    @cached_property
    def levels(self) -> list[float]:
        """Current RSS of each judged invocation, where it is certain."""
        return [point.current_kib / 1024 for point in self.points if point.certain]

    @property
    def highest_current(self) -> float | None:
        return max(self.levels, default=None)

    @property
    def usual_current(self) -> float | None:
        """The median."""
        return statistics.median(self.levels) if self.levels else None

    @property
    def out_of_memory(self) -> list[int]:
        """Numbers of the invocations that ran out of memory."""
        return [each.number for each in self.seen if each.line.out_of_memory]

    @property
    def uncertain_peaks(self) -> int:
        """Invocations whose peak is an interval, not a figure."""
        return sum(each.line.wide for each in self.seen)


def settled(lines: Sequence[Line]) -> bool:
    """Is the warm-up over: has the curve a shape that more invocations need not change?"""
    return judge(points(lines)).name not in UNSETTLED


def settling(lines: Sequence[Line], *, step: int, bound: int) -> int:
    """How many of the first invocations were the warm-up: a multiple of `step`, `bound` and half of them at most."""
    most = min(bound, len(lines) // 2)
    return next((taken for taken in range(step, most, step) if settled(lines[:taken])), most)


def told(payload: object, function_error: str | None) -> str:
    """What an answer with a function error says, in a line."""
    members = payload if isinstance(payload, dict) else {}
    said = [str(members[name]) for name in ("errorType", "errorMessage") if members.get(name)]
    return ": ".join(said) or function_error or "unknown error"
