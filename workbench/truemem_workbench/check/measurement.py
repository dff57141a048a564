"""The measurement of a run: the invocations of an environment, and all that follows from them. Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..analysis import covariates, heap, resources, runtime_heap
from ..analysis.drift import Point, Verdict, judge, lives, points, trusted_of
from ..analysis.runtime_finding import Finding
from ..lines.line import Line
from .peaks import EXACT, PROBE, Peak

UNSETTLED = ("insufficient", "warming")
"""Verdicts that say nothing about growth in the long run."""


@dataclass(frozen=True)
class Failure:
    """An invocation that failed."""

    number: int
    """Number of the invocation, from 1."""
    error: str
    """Type and message of the error."""
    log: Sequence[str] = ()
    """The end of its log, if known."""


@dataclass(frozen=True)
class Seen:
    """An invocation with its record."""

    number: int
    """Number of the invocation in this run, from 1."""
    line: Line

    @property
    def peak(self) -> Peak:
        """The peak, and what would give narrower bounds."""
        lower, upper = self.line.bounds
        tells = EXACT if self.line.mode != "exact" and (self.line.raced or self.line.method != "vmhwm-sum") else PROBE
        if self.line.method == "vmhwm-threads" and self.line.mode == "exact":
            tells = ""  # nothing is known to
        return Peak(f"invocation {self.number}", lower, upper, tells)


@dataclass(frozen=True)
class Measurement:
    """The measurement of one run. Sizes in MiB."""

    spec: str
    """The function as the user named it."""
    seen: Sequence[Seen]
    """Invocations with records, in their order, the warm-up first."""
    invocations: int
    """Number of invocations, the warm-up included."""
    warm_up: int
    """Number of invocations in the warm-up. They count for peaks, not for drift."""
    memory_mib: int | None
    seconds: float
    failures: Sequence[Failure] = ()
    notices: Sequence[str] = ()
    """Differences from Lambda, and what could not be done, as sentences."""
    last_words: str = "nothing"
    """The sidecar's last line, if it printed no record."""
    events: Sequence[str] = ()
    """The event of each invocation, as JSON."""
    asked: int | None = None
    """Number of invocations that were to be judged, if the user set it. If they did not decide it, there are more."""
    left_in_tmp: Mapping[int, float] = field(default_factory=dict)
    """MiB in /tmp after an invocation, by its number, where something else tells it than the lines."""
    about: dict[str, object] = field(default_factory=dict)
    """Conditions of the run, for a baseline."""

    @cached_property
    def judged(self) -> list[Seen]:
        """The judged invocations: those after the warm-up, of the environment that served most."""
        later = [each for each in self.seen if each.number > self.warm_up]
        counted = Counter(each.line.environment for each in later)
        most = counted.most_common(1)[0][0] if counted else ""
        return [each for each in later if each.line.environment == most]

    @property
    def environments(self) -> int:
        """Number of environments that served."""
        return len({each.line.environment for each in self.seen})

    @cached_property
    def points(self) -> list[Point]:
        return points(each.line for each in self.judged)

    @property
    def drawn(self) -> list[Line]:
        """The judged invocations that curves show: those whose processes were not about to end."""
        return [each.line for each in self.judged if each.line.closed_by != "shutdown"]

    @cached_property
    def in_a_row(self) -> int:
        """Longest series of invocations of the same processes that the verdict can use."""
        return max(len(trusted_of(life)) for life in lives(self.points))

    @property
    def more(self) -> int:
        """Number of invocations beyond those that were asked for."""
        return max(0, self.invocations - self.warm_up - self.asked) if self.asked else 0

    @cached_property
    def runtime_heap(self) -> Finding | None:
        """What was found about the heap of a garbage-collected runtime. None for others. The warm-up counts: what was
        used in it is the first that is known of what is live."""
        judged = {each.line.environment for each in self.judged}
        return runtime_heap.find(each.line for each in self.seen if each.line.environment in judged)

    @cached_property
    def heap(self) -> str | None:
        """What the function's runtime or the in-process probe says, or, if memory grows, that it is missing."""
        if self.runtime_heap is not None:
            return self.runtime_heap.sentence
        lines = [each.line for each in self.judged]
        if heap.readings(lines):
            return heap.explain(lines)
        return heap.UNKNOWN if self.verdict.name in ("growing", "warming") else None

    @cached_property
    def verdict(self) -> Verdict:
        beside = covariates.beside(each.line for each in self.judged)
        if len(set(self.events)) > 1:
            beside["event"] = {
                each.line.invocation or place: self.events[each.number - 1] for place, each in enumerate(self.judged, 1)
            }
        return judge(self.points, self.memory_mib, is_patient=False, beside=beside)  # events are chosen, it ends soon

    @cached_property
    def in_tmp(self) -> Mapping[int, float]:
        """MiB in /tmp after each invocation of which that is known, by its number."""
        told = ((each.number, resources.tmp_of(each.line)) for each in self.seen)
        return self.left_in_tmp or {number: used for number, used in told if used is not None}

    @cached_property
    def descriptors(self) -> list[Point]:
        """Open descriptors after each judged invocation."""
        return resources.descriptor_points([each.line for each in self.judged])

    @cached_property
    def peaks(self) -> list[Peak]:
        """All peaks, warm-up and init phase included. An invocation without a record can have any peak."""
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
        """Where the peak was highest, and its lower bound."""
        highest = max(self.peaks, key=lambda peak: peak.lower, default=None)
        return (highest.where, highest.lower) if highest is not None and highest.lower else None

    @cached_property
    def levels(self) -> list[float]:
        """Current RSS of each judged invocation, if it is certain."""
        return [point.current_kib / 1024 for point in self.points if point.certain]

    @property
    def highest_current(self) -> float | None:
        return max(self.levels, default=None)

    @property
    def usual_current(self) -> float | None:
        """Median of what judged invocations left behind."""
        return statistics.median(self.levels) if self.levels else None

    @property
    def out_of_memory(self) -> list[int]:
        """Numbers of the invocations that ran out of memory."""
        return [each.number for each in self.seen if each.line.out_of_memory]

    @property
    def uncertain_peaks(self) -> int:
        """Number of invocations whose peak is an interval."""
        return sum(each.line.wide for each in self.seen)


def settled(lines: Sequence[Line]) -> bool:
    """True if the warm-up is over: more invocations need not change the shape of the curve."""
    return judge(points(lines)).name not in UNSETTLED


def settling(lines: Sequence[Line], *, step: int, bound: int) -> int:
    """Length of the warm-up: a multiple of `step`, at most `bound`, and at most half of the lines."""
    most = min(bound, len(lines) // 2)
    return next((taken for taken in range(step, most, step) if settled(lines[:taken])), most)


def told(payload: object, function_error: str | None) -> str:
    """The message of an answer with a function error, in one line."""
    members = payload if isinstance(payload, dict) else {}
    said = [str(members[name]) for name in ("errorType", "errorMessage") if members.get(name)]
    return ": ".join(said) or function_error or "unknown error"
