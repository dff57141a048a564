"""The measurement of a run: its invocations, their peaks, and all that follows from them. Pure.

A peak is an interval, often a narrow one. It keeps a limit if all of it does, and breaks the limit if none of it keeps
it. A limit within the interval is undecided, and never counts as kept.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from ..judge.causes import find
from ..judge.curves import (
    CLASSES,
    DESCRIPTORS,
    HEAP,
    HEAP_RAN_OUT,
    IN_USE,
    TMP,
    Curves,
    Failed,
    curves_of,
    library_of,
    was_killed,
)
from ..judge.drift import Point, Verdict, judge, lives, per_minute, points, trusted_of
from ..judge.finding import Commands, Finding, most_urgent, unmeasured
from ..judge.latency import Latency
from ..judge.resources import Resource
from ..judge.settled import Reading, kinds_of, last_life
from ..judge.witnesses import Witnesses, span_of
from ..printed.line import Line
from ..support.document import rounded
from ..support.platform_facts import TMP_MIB
from ..support.terminal import counted
from ..support.untrusted_text import visible

Outcome = Literal["kept", "broken", "unknown"]  # result of a limit

EXACT = "exact mode (AWS_LAMBDA_EXEC_WRAPPER=/opt/truemem/exact in Lambda; here it is on, unless with --no-exact)"
PROBE = (
    "the heap probe (truemem attach NAME --heap; here it is on, unless with --no-probe), which in Python knows how"
    " large child processes were"
)
SHOWN_MIB = 0.05  # bounds that are nearer than this are printed as one figure with one decimal


@dataclass(frozen=True)
class Peak:
    """The peak of an invocation or of the init phase, in MiB."""

    where: str
    lower: float
    """Lower bound."""
    upper: float
    """Upper bound; infinite if there is none."""
    tells: str = ""
    """What would give narrower bounds. Empty if nothing is known to."""

    def __str__(self) -> str:
        if self.upper - self.lower < SHOWN_MIB:
            return f"{self.lower:.1f} MiB"
        if math.isinf(self.upper):
            return f"{self.lower:.1f} MiB or more"
        return f"{self.lower:.1f} to {self.upper:.1f} MiB"


def against_limit(peak: Peak, limit: float) -> Outcome:
    """Check one peak."""
    if peak.lower > limit:
        return "broken"
    return "kept" if peak.upper <= limit else "unknown"


def worst_peak(peaks: Sequence[Peak], limit: float) -> tuple[Outcome, Peak]:
    """Check all peaks, at least one. Returns the result, and the peak that decides it."""
    highest = max(peaks, key=lambda peak: peak.lower)
    if against_limit(highest, limit) == "broken":
        return "broken", highest
    widest = max(peaks, key=lambda peak: (peak.upper, peak.lower))
    return against_limit(widest, limit), widest


def undecided_peak(peak: Peak, limit: float) -> str:
    """Say why a peak leaves a limit undecided, and what to do, in one sentence."""
    ways = [peak.tells] if peak.tells else []
    ways += [f"a limit of {math.ceil(peak.upper):,} MiB"] if math.isfinite(peak.upper) else []
    sentence = f"Undecided: the peak of {peak.where} is {peak}, which may be above {limit:g} MiB."
    return f"{sentence[:-1]}: try {', or '.join(ways)}." if ways else sentence


LAST_LINES = 10  # lines of a log that are shown
LONGEST = 500  # characters of a line or a message that are shown


def printable(text: str) -> str:
    """The text on one line, shortened."""
    shown = visible(" ".join(text[:LONGEST].splitlines()))
    return shown if len(text) <= LONGEST else f"{shown}..."


def end_of_log(texts: Iterable[str]) -> list[str]:
    """The last lines. Python's runtime client joins some of them by carriage returns, and prints the head of a
    traceback alone for a module that is not there."""
    lines = [line.expandtabs() for text in texts for line in text.splitlines() if line.strip()]
    if lines and lines[-1].startswith("Traceback "):
        lines.pop()
    return [printable(line) for line in lines[-LAST_LINES:]]


BARS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""Bars for a terminal or a file that is not in UTF."""
WIDTH = 60
LEAST_SPAN = 0.05  # least span of the curve's height, as a share of the level: noise must not look like growth


def curve(values: Sequence[float], *, width: int = WIDTH, plain: bool = False, highest: bool = False) -> str:
    """Draw values from the lowest to the highest bar. Each column is a median, or with `highest` a maximum."""
    if not values:
        return ""
    bars = PLAIN if plain else BARS
    columns = min(width, len(values))
    pick = max if highest else statistics.median
    levels = [pick(values[len(values) * n // columns : len(values) * (n + 1) // columns]) for n in range(columns)]
    bottom = min(levels)
    span = max(max(levels) - bottom, LEAST_SPAN * max(levels)) or 1
    return "".join(bars[min(len(bars) - 1, int((level - bottom) / span * len(bars)))] for level in levels)


UNSETTLED = ("insufficient", "warming")  # verdicts that say nothing about growth in the long run


@dataclass(frozen=True)
class FailedInvocation:
    """An invocation that failed."""

    number: int
    """Number of the invocation, from 1."""
    error: str
    """Type and message of the error."""
    log: Sequence[str] = ()
    """The end of its log, if known."""


@dataclass(frozen=True)
class Recorded:
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


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What an environment held whose requests run at once, as on Managed Instances. MiB; pages that several processes
    map count once, but in `rss`."""

    at_once: int
    """Requests in a round."""
    workers: int
    forked: bool
    """Workers are processes, one request each. Else threads of one process serve."""
    once: float
    """The most that was held between two rounds."""
    rss: float
    """The sum of all processes' RSS at that moment."""
    own: float
    """What one worker has of it that nothing else maps: the mean."""
    adds: float
    """The most that one worker's process has taken beyond that while it served."""
    peak: float
    """The most that a round needs if all of its requests are at their highest at once."""

    def sentence(self, limit: int | None) -> str:
        """What each part needs."""
        of = f" of {limit:,}" if limit else ""
        who = counted(self.workers, "worker") if self.forked else "one process"
        text = f"{counted(self.at_once, 'request')} at once, by {who}: {self.once:,.1f} MiB are held between two rounds"
        if not self.forked:
            return f"{text}, {self.peak:,.1f}{of} at most."
        return (
            f"{text}, shared pages counted once (RSS {self.rss:,.1f}); each worker has {self.own:,.1f} of its own, and"
            f" takes up to {self.adds:,.1f} more for a request. If all are at their highest at once, {self.peak:,.1f}"
            f" MiB{of} are needed."
        )

    def document(self) -> dict[str, object]:
        return {
            "requestsAtOnce": self.at_once,
            "workers": self.workers,
            "held": rounded(self.once, 2),
            "heldRSS": rounded(self.rss, 2),
            "ownOfWorker": rounded(self.own, 2),
            "requestAdds": rounded(self.adds, 2),
            "allAtTheirHighest": rounded(self.peak, 2),
        }


@dataclass(frozen=True)
class Measurement:
    """The measurement of one run. Sizes in MiB."""

    spec: str
    """The function as the user named it."""
    seen: Sequence[Recorded]
    """Invocations with records, in their order, the warm-up first."""
    invocations: int
    """Number of invocations, the warm-up included."""
    warm_up: int
    """Number of invocations in the warm-up. They count for peaks, not for drift."""
    memory_mib: int | None
    seconds: float
    signal: int = 0
    """Number of the signal that has ended it early; 0 if none has."""
    given_up: str = ""
    """Why it has stopped before it had all that it asks for, in a few words; empty if it has not."""
    settled: Sequence[Reading] = ()
    """What was kept after each pass of invocations, the process settled."""
    uncollected: Sequence[Recorded] = ()
    """Invocations of another environment, whose garbage the runtime alone collects: their levels count as well."""
    new_from: int | None = None
    """From this invocation on passes are of events that the function had not seen, but for the first one."""
    kinds: Mapping[int, str] = field(default_factory=dict)
    """Which kind of events it was asked about in a pass, by the number of the pass's last invocation."""
    is_librarys: bool | None = None
    """See Curves.is_librarys."""
    slowed: Collection[int] = ()
    """Numbers of the invocations at whose end it was settled: their durations do not count."""
    children: str = ""
    """Name of the child processes that stay, as far as known."""
    failures: Sequence[FailedInvocation] = ()
    allowed: Collection[str] = ()
    """Causes that may grow."""
    judged_until: int | None = None
    """Number of the last invocation that is judged: at the look that decided, or before events that were new. None: all
    are."""
    errors_percent: float = 0.0
    """How many of 100 invocations may fail: they are measured as all others."""
    notices: Sequence[str] = ()
    """Differences from Lambda, and what could not be done, as sentences."""
    last_words: str = "nothing"
    """The sidecar's last line, if it printed no record."""
    shared: Shared | None = None
    """How many requests the environment serves at once: each invocation here is a round of so many."""
    workers: Sequence[Measurement] = ()
    """The same for each worker by itself, where several processes serve."""
    asked: int | None = None
    """Number of invocations that were to be judged, if the user set it. If they did not decide it, there are more."""
    left_in_tmp: Mapping[int, float] = field(default_factory=dict)
    """MiB in /tmp after an invocation, by its number, where something else tells it than the lines."""
    tmp_mib: int = TMP_MIB
    """Size of /tmp there."""
    reported_ms: Mapping[int, float] = field(default_factory=dict)
    """Duration of an invocation as its REPORT has it, by its number. Without it the line tells it, if it came in time.
    """
    variables: Mapping[str, str] = field(default_factory=dict)
    """The function's own environment variables, as far as known."""
    places: Sequence[int] = ()
    """Which of the events each invocation had, from 1, where there are several."""
    about: dict[str, object] = field(default_factory=dict)
    """Conditions of the run, for a baseline."""
    commands: Commands = field(default_factory=lambda: Commands(again="truemem check"))
    """What can be typed next."""

    def ended_by(self, signal: int, before: str = "") -> Measurement:
        """The same of a run that this signal has ended, after the invocations or `before` something that follows."""
        until = f"the figures are of the {counted(self.invocations, 'invocation')} until then"
        told = f"it was ended before {before}" if before else f"it was ended early: {until}"
        return replace(self, signal=signal, notices=(*self.notices, told))

    def stopped(self, why: str) -> Measurement:
        """The same of a run that made no more invocations for this reason."""
        told = f"it stopped after {counted(self.invocations, 'invocation')}: {why}"
        return replace(self, given_up=why, notices=(*self.notices, told))

    @cached_property
    def judged(self) -> list[Recorded]:
        """The judged invocations: those after the warm-up, of the environment that served most."""
        last = self.judged_until or math.inf
        later = [each for each in self.seen if self.warm_up < each.number <= last]
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
    def is_collected(self) -> bool:
        """True if garbage of a runtime's heap was collected after each pass: in Lambda, peaks are higher."""
        return any(HEAP in each.kept for each in self.settled)

    @property
    def is_jvm(self) -> bool:
        """True if what is executed has a JVM that can be attached to."""
        return any(CLASSES in each.kept for each in self.settled)

    @property
    def drawn(self) -> list[Line]:
        """The judged invocations that curves show: those whose processes were not about to end."""
        return [each.line for each in self.judged if each.line.closed_by != "shutdown"]

    @cached_property
    def in_a_row(self) -> int:
        """Longest series of invocations of the same processes that the verdict can use."""
        if self.workers:
            return self.loudest.in_a_row
        return max(len(trusted_of(life)) for life in lives(self.points))

    @cached_property
    def curves(self) -> Curves:
        """All that is known of the environment that served most. The warm-up counts for a heap: what was used in it is
        the first that is known of what is live."""
        judged = {each.line.environment for each in self.judged or self.seen}
        every = [each.line for each in self.seen if each.line.environment in judged]
        made = curves_of(every, judged=[each.line for each in self.judged])
        others, resources = dict(made.others), made.reported
        if self.left_in_tmp:  # what the lines have is the disk below, which is this machine's
            others[TMP] = [
                Point(number, 0.0, mib * 1024, None)
                for number, mib in sorted(self.left_in_tmp.items())
                if number > self.warm_up
            ]
            resources = [each for each in resources if each.name != TMP] + [_disk(others[TMP], self.tmp_mib)]
        # A line may come some invocations late: the look that decides and the answer are made of the same readings.
        until = self.judged_until or (self.seen[-1].number if self.seen else 0)
        settled = [each for each in self.settled if each.invocation <= until]
        asked = [each for each in self.settled if each.invocation not in self.kinds]
        is_allowed = self.seen and 100 * len(self.failures) <= self.errors_percent * self.invocations
        return replace(
            made,
            invocations=self.invocations,
            others=others,
            reported=resources,
            limit_mib=self.memory_mib,
            failed=self._failed if not is_allowed else Failed() if self.errors_percent else made.failed,
            settled=last_life(settled) or made.settled,
            every_life=settled,
            new=last_life([each for each in asked if each.invocation >= (self.new_from or math.inf)]),
            library=library_of(settled),
            is_librarys=self.is_librarys,
            kinds=kinds_of(self.settled, self.kinds),
            variables=self.variables,
            children=self.children,
        )

    @property
    def _failed(self) -> Failed:
        errors = [printable(each.error) for each in self.failures if each.number not in self.out_of_memory]
        logs = (line for failure in self.failures for line in failure.log)
        of_heap = next((line for line in logs if any(words in line for words in HEAP_RAN_OUT)), "")
        failed = Failed({of_heap: len(errors)}) if of_heap else Failed.with_errors(errors)
        return replace(failed, in_init=not self.seen, is_hopeless=bool(self.given_up))

    @cached_property
    def loudest(self) -> Measurement:
        """The worker whose finding is to be acted on; itself where one process serves."""
        told = most_urgent([(each.finding, each.invocations) for each in self.workers]) if self.workers else None
        return next((each for each in self.workers if each.finding is told), self)

    @cached_property
    def finding(self) -> Finding:
        """The one answer. Events are chosen, and it ends soon: a gate is not patient."""
        if self.workers:
            return self._of_workers()
        if not self.seen and not self.failures:
            said = f"None of {self.invocations} invocations has a record. The sidecar's last line:"
            return unmeasured(f"{said} `{printable(self.last_words)}`.", self.commands)
        return find(self.curves, self.commands, self.allowed)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on RSS alone."""
        if self.workers:
            return self.loudest.verdict
        return Witnesses(self.curves).rss

    @cached_property
    def kept(self) -> Verdict:
        """The verdict on all that a settled process keeps; where that is not known, on RSS."""
        if self.workers:
            return self.loudest.kept
        witnesses = Witnesses(self.curves)
        return witnesses.of(IN_USE) if witnesses.is_whole else witnesses.rss

    def _of_workers(self) -> Finding:
        """The finding on the loudest worker, with how many are alike. Invocations left are those of all together."""
        told = replace(self.loudest, commands=self.commands).finding
        if len(self.workers) == 1:
            return told
        alike = sum(each.finding.cause == told.cause for each in self.workers)
        each = f"so in {alike} of {counted(len(self.workers), 'worker')}"
        of_all = len(self.workers) ** 2 / max(1, alike)  # each was judged with an equal part of the memory that is left
        left = None if told.invocations_left is None else round(told.invocations_left * of_all)
        return replace(told, evidence=[each, *told.evidence], invocations_left=left)

    @cached_property
    def untrimmed_mib(self) -> float:
        """What invocations left behind before malloc was first asked to give back what is free, as in Lambda: RSS, MiB;
        0 if nothing was measured."""
        return span_of(Witnesses(self.curves).untrimmed)[1] / 1024

    @cached_property
    def per_minute(self) -> float | None:
        """Invocations a minute, with all pauses. None if the times are not known."""
        return per_minute(1.0, self.points) if len(self.points) > 1 else None

    @property
    def in_tmp(self) -> Mapping[int, float]:
        """MiB in /tmp after each invocation of which that is known, by its number."""
        known = curves_of(each.line for each in self.seen).others.get(TMP, ())
        return self.left_in_tmp or {point.invocation: point.current_kib / 1024 for point in known}

    @property
    def descriptors(self) -> Sequence[Point]:
        """Open descriptors after each judged invocation."""
        return self.curves.others.get(DESCRIPTORS, ())

    @cached_property
    def peaks(self) -> list[Peak]:
        """All peaks, warm-up and init phase included. An invocation without a record can have any peak."""
        most = math.inf if self.memory_mib is None else self.memory_mib
        init = (each.line.init_peak_rss for each in self.seen)
        recorded = {each.number for each in self.seen}
        missing = (number for number in range(1, self.invocations + 1) if number not in recorded)
        return [
            *(each.peak for each in self.seen),
            *(replace(each.peak, where=f"invocation {each.number} without settling") for each in self.uncollected),
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
        others = points(each.line for each in self.uncollected)
        return max([*self.levels, *(each.current_kib / 1024 for each in others if each.certain)], default=None)

    @property
    def usual_current(self) -> float | None:
        """Median of what judged invocations left behind."""
        return statistics.median(self.levels) if self.levels else None

    @cached_property
    def took(self) -> Mapping[int, float]:
        """Duration of each invocation of which it is known, ms, by its number: as in REPORT, so with the sidecar's part
        in it."""
        lines = {each.number: each.line.duration_ms for each in self.seen if each.line.duration_ms is not None}
        return dict(sorted({**lines, **self.reported_ms}.items()))

    @cached_property
    def durations(self) -> list[float]:
        """Durations of the invocations after the warm-up, failed ones too, but not of those that were slowed, ms."""
        return [
            duration for number, duration in self.took.items() if self.warm_up < number and number not in self.slowed
        ]

    @cached_property
    def latency(self) -> Latency | None:
        """Percentiles of the durations. None if none is known."""
        return Latency.of(self.durations)

    @property
    def untimed(self) -> int:
        """Number of invocations whose duration should be known, and is not."""
        slowed = sum(1 for number in self.slowed if number > self.warm_up)
        return self.invocations - self.warm_up - slowed - len(self.durations)

    @property
    def out_of_memory(self) -> list[int]:
        """Numbers of the invocations that ran out of memory."""
        return [each.number for each in self.seen if each.line.out_of_memory]

    @property
    def too_large(self) -> list[int]:
        """Which events need more memory at once than there is: each invocation with one of them ran out, the first one
        too, and none with another. Empty if not so, as in a leak."""
        killed = {*self.out_of_memory}
        with_it = {place for number, place in enumerate(self.places, 1) if number in killed}
        others = {place for number, place in enumerate(self.places, 1) if number not in killed}
        return sorted(with_it) if not with_it & others else []

    @property
    def ended(self) -> list[int]:
        """Numbers of the invocations in which an extension ended, or was killed for memory."""
        return [each.number for each in self.seen if was_killed(each.line)]

    @property
    def served_at_once(self) -> int:
        """Most requests that ran at once, where lines say it: those of Managed Instances do. 0 elsewhere."""
        return int(max((each.line.shared_by or 0 for each in self.seen), default=0))

    @property
    def uncertain_peaks(self) -> int:
        """Number of invocations whose peak is an interval."""
        return sum(each.line.wide for each in self.seen)


def _disk(used: Sequence[Point], size_mib: int) -> Resource:
    """/tmp as Lambda has it, of what a run has left there."""
    levels = [point.current_kib / 1024 for point in used] or [0.0]
    return Resource(
        name=TMP,
        used=levels[-1],
        highest=max(levels),
        limit=size_mib,
        growing=False,
        per_invocation=None,
        invocations_left=None,
    )


def settled(lines: Sequence[Line]) -> bool:
    """True if the warm-up is over: more invocations need not change the shape of the curve."""
    return judge(points(lines)).name not in UNSETTLED


def settling(lines: Sequence[Line], *, step: int, bound: int) -> int:
    """Length of the warm-up: a multiple of `step`, at most `bound`, and at most half of the lines."""
    most = min(bound, len(lines) // 2)
    return next((taken for taken in range(step, most, step) if settled(lines[:taken])), most)
