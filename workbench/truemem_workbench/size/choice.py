"""What was seen at each memory size, what speaks against a size, and which of the rest to take. Pure.

It does not matter where the invocations ran. The strategies have the names and the meaning of AWS Lambda Power Tuning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, Protocol

from ..judge.finding import TOO_FEW, Finding
from ..judge.prices import GB_SECOND, MILLION, computing
from ..judge.sizing import HEADROOM
from ..runs.measurement import Measurement
from ..runs.passes import HOPELESS
from ..support.terminal import mib

Strategy = Literal["cost", "speed", "balanced"]
STRATEGIES: tuple[Strategy, ...] = ("cost", "speed", "balanced")
SAME = 0.05
"""A size that costs, or takes, no more than this share above the least is as good: then the other figure decides."""
BALANCED_WEIGHT = 0.5
LEAST_MARKS = 8
"""Invocations from which on a rise from quarter to quarter is more than chance."""
RISEN = 0.1
"""Rise of Max Memory Used, as a share of what was needed before it, from which on growth is not excluded."""

FAILED = 0.05
"""Share of failed invocations from which on a size is out. If all have that: so much above the least of them."""

Reason = Literal["killed", "timeout", "failed", "slow", "headroom", "unmeasured", "untried"]


class Reported(Protocol):
    """What counts of an invocation's report."""

    @property
    def max_memory_used_mib(self) -> int: ...

    @property
    def init_duration_ms(self) -> float | None: ...

    @property
    def duration_ms(self) -> float: ...

    @property
    def status(self) -> str: ...

    @property
    def error_type(self) -> str | None: ...


@dataclass(kw_only=True)
class Trial:
    """What was seen at one memory size, so far. Sizes in MiB, durations in ms. None: not known. Without `invocations`:
    the sweep has ended before this size."""

    memory: int
    warm_up: int = 0
    """Invocations whose durations do not count."""
    looks: int = 0
    """Those of them that looked for the peak, in an environment of their own."""
    durations: list[float] = field(default_factory=list)
    """Of the invocations after the warm-up that did not fail."""
    init: float | None = None
    invocations: int = 0
    """Warm-up and failures included."""
    failures: int = 0
    killed: int = 0
    """Failures for memory."""
    timeouts: int = 0
    error: str = ""
    """The last failure."""
    marks: list[int] = field(default_factory=list)
    """Max Memory Used of each invocation that has a report."""
    peak: float | None = None
    """Most that an invocation or the init phase can have needed: of the function alone."""
    current: float | None = None
    """Median of what invocations left behind."""
    others: float = 0.0
    """Most that the sidecar and other extensions held."""
    rise: float = 0.0
    """How much Max Memory Used rose in the invocations after those that the peak is of."""
    is_rising: bool = False
    """True if Max Memory Used rose from each quarter of the invocations to the next."""
    finding: Finding | None = None

    @property
    def is_out(self) -> bool:
        """True if more invocations would say no more: it was killed, timed out, or has only failed."""
        hopeless = self.failures == self.invocations >= HOPELESS
        return bool(self.killed or self.timeouts) or hopeless

    def add(self, report: Reported | None, error: str) -> None:
        """Count an invocation. `error` is empty if it did not fail. A later cold start warms up another environment."""
        self.invocations += 1
        if report is not None:
            self.marks.append(report.max_memory_used_mib)
            if self.invocations == 1:
                self.init = report.init_duration_ms
        if error:
            self.failures += 1
            self.killed += report is not None and report.error_type == "Runtime.OutOfMemory"
            self.timeouts += report is not None and report.status == "timeout"
            self.error = error
            return
        if report is None or self.invocations <= self.warm_up:
            return
        if report.init_duration_ms is None or not self.warm_up:
            self.durations.append(report.duration_ms)

    @property
    def is_broken(self) -> bool:
        """True if all invocations failed, and none for memory or time, of which another size may have more."""
        return self.failures == self.invocations and not self.killed and not self.timeouts

    def judged(self, measurement: Measurement) -> Trial:
        """The same with what the sidecar's lines say."""
        lines = [each.line for each in measurement.seen]
        needs = [line.peak_rss if line.peak_upper is None else line.peak_upper for line in lines]
        needs += [line.init_peak_rss for line in lines]
        return replace(
            self,
            killed=max(self.killed, len(measurement.out_of_memory)),
            peak=max((need for need in needs if need is not None), default=None),
            current=measurement.usual_current,
            rise=self._rise(),
            is_rising=_is_rising(self.marks[self.warm_up :]),
            others=max(((line.sidecar_holds or 0.0) + sum(line.extensions_hold.values()) for line in lines), default=0),
            finding=measurement.finding if lines or (self.is_broken and measurement.failures) else None,
        )

    def _rise(self) -> float:
        """How much Max Memory Used rose after as many timed invocations as have looked for the peak, MiB."""
        timed = self.marks[self.looks :]
        return float(max(timed) - max(timed[: self.looks])) if self.looks and timed else 0.0

    @property
    def held(self) -> float | None:
        """Most of the memory size that was needed."""
        return None if self.peak is None else self.peak + self.others + self.rise

    @property
    def may_grow(self) -> bool:
        """True if it rose, and too few invocations are known for a finding."""
        is_judged = self.finding is not None and self.finding.pattern != TOO_FEW
        return not is_judged and (self.is_rising or self.rise > RISEN * ((self.held or 0) - self.rise))

    @property
    def headroom(self) -> float | None:
        """Memory that is left, as a share of what was needed. Not known of a size at which it was killed."""
        return None if not self.held or self.killed else max(0.0, self.memory / self.held - 1)

    @property
    def is_tried(self) -> bool:
        """False if the sweep has ended before an invocation of this size could be timed."""
        return bool(self.durations or self.failures or self.killed)

    @property
    def failed(self) -> float:
        """Share of invocations that failed."""
        return self.failures / self.invocations if self.invocations else 0.0

    @property
    def p50(self) -> float:
        return self.percentile(50)

    def percentile(self, percent: int) -> float:
        """A duration that occurred (nearest rank). NaN if none is known."""
        ranked = sorted(self.durations)
        return ranked[max(0, math.ceil(percent * len(ranked) / 100) - 1)] if ranked else math.nan

    def cost(self, architecture: str) -> float:
        """USD per million invocations, without requests and init phases; the slowest 5 % count as p95. NaN if no
        duration is known."""
        if not self.durations:
            return math.nan
        slowest = self.percentile(95)  # one pause of the machine would decide it otherwise
        billed = sum(math.ceil(min(each, slowest)) for each in self.durations) / len(self.durations)
        return MILLION * computing(self.memory, billed, GB_SECOND[architecture])


def _is_rising(marks: Sequence[int]) -> bool:
    """True if each quarter of them has a higher one than the quarter before."""
    ends = [len(marks) * quarter // 4 for quarter in range(5)]
    if len(marks) < LEAST_MARKS:
        return False
    highest = [max(marks[begin:end]) for begin, end in pairwise(ends)]
    return all(before < after for before, after in pairwise(highest))


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a size must have, and what to look for among those that have it."""

    strategy: Strategy = "cost"
    weight: float = BALANCED_WEIGHT
    """Of `balanced`: 1 counts cost alone, 0 duration alone."""
    architecture: str = "x86_64"
    max_duration: float | None = None
    """Highest p95 that is allowed, in ms."""


def reasons(trial: Trial, wanted: Wanted, most_failed: float = FAILED) -> dict[Reason, str]:
    """What speaks against a size, each in a few words. Empty if nothing does. From the share `most_failed` of failed
    invocations on they do."""
    found: dict[Reason, str] = {}
    if trial.killed:
        found["killed"] = f"killed for memory in {trial.killed} of {trial.invocations} invocations"
    if trial.timeouts:
        found["timeout"] = f"timed out in {trial.timeouts} of {trial.invocations} invocations"
    if not trial.is_tried:
        found["untried"] = "no invocation after the warm-up"
    elif not found and not trial.durations:
        found["failed"] = f"all invocations failed, the last with {trial.error}"
    elif not found and trial.failed >= most_failed:
        found["failed"] = f"{_failures(trial)}, the last with {trial.error}"
    if wanted.max_duration is not None and (slow := trial.percentile(95)) > wanted.max_duration:
        found["slow"] = f"p95 of {slow:,.0f} ms, {wanted.max_duration:g} are allowed"
    if trial.held is None and not found:
        found["unmeasured"] = "its peak is not known"
    if trial.headroom is not None and trial.headroom < HEADROOM:
        found["headroom"] = f"{trial.headroom:.0%} headroom over {mib(trial.held)} MiB, {HEADROOM:.0%} are wanted"
    return found


def _failures(trial: Trial) -> str:
    return f"{trial.failures} of {trial.invocations} invocations failed"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The sizes to take, of those that nothing speaks against. None: there is no such size."""

    wanted: Wanted
    trials: Sequence[Trial]
    against: Mapping[int, Mapping[Reason, str]]
    """What speaks against a size, by its MiB; empty for one that can be taken."""
    cheapest: Trial | None = None
    fastest: Trial | None = None
    suggested: Trial | None = None
    fails_everywhere: bool = False
    """True if FAILED or more fail at every size: then this speaks against none."""

    @property
    def grows(self) -> bool:
        """True if memory grows at one of the sizes: then none is safe for long, and none is chosen."""
        return any(each.finding is not None and each.finding.grows for each in self.trials)

    @property
    def is_tried(self) -> bool:
        """True if an invocation of some size could be timed."""
        return any(each.is_tried for each in self.trials)

    @property
    def untried(self) -> list[int]:
        """Sizes that the sweep has not come to."""
        return [each.memory for each in self.trials if not each.is_tried]

    def sentence(self) -> str:
        """The suggestion in one sentence."""
        if self.grows:
            return "No size is suggested: memory grows, so none is safe for long."
        if not self.is_tried:
            return "No size was tried."
        if self.suggested is None or self.cheapest is None or self.fastest is None:
            tried = "each that was tried" if self.untried else "each of them"
            return f"No size can be suggested: {tried} is out."
        said = f"Suggested: {self._said(self.suggested)}"
        if self.wanted.strategy == "balanced":
            said += f", the best balance of cost and duration (weight {self.wanted.weight:g})"
        roles = {id(self.cheapest): "the cheapest", id(self.fastest): "the fastest"}
        if self.cheapest is self.fastest:
            roles = {id(self.cheapest): "the cheapest and the fastest"}
        role = roles.pop(id(self.suggested), "")
        if self.wanted.strategy == "cost" and self.suggested is not self.cheapest:
            said += f", within {SAME:.0%} of the cheapest, and {role or 'faster'}"
        elif self.wanted.strategy == "speed" and self.suggested is not self.fastest:
            said += f", within {SAME:.0%} of the fastest, and {role or 'cheaper'}"
        elif role:
            said += f", {role}"
        named = {id(self.cheapest): self.cheapest, id(self.fastest): self.fastest}
        others = [f"{role} is {self._said(named[place])}" for place, role in roles.items()]
        caveats = []  # before the other sizes: they are about the suggested one
        if self.suggested.failures:
            caveats.append(f"{_failures(self.suggested)} there")
        if self.fails_everywhere:
            caveats.append("it fails at every size")
        if self.suggested.may_grow:
            caveats.append("its memory rose in these few invocations, so growth is not excluded")
        return "; ".join([said, *caveats, *others]) + "."

    def _said(self, trial: Trial) -> str:
        cost = usd(trial.cost(self.wanted.architecture))
        return f"{trial.memory:,} MB (${cost} a million, p50 {trial.p50:,.0f} ms)"


def usd(value: float) -> str:
    """Dollars and cents, and a digit more below a dollar."""
    return f"{value:,.2f}" if value >= 1 else f"{value:.3f}"


def choose(trials: Sequence[Trial], wanted: Wanted) -> Choice:
    """Choose among sizes. For cost, the fastest of those within SAME of the least cost is suggested; for speed, the
    cheapest of those within SAME of the shortest duration."""
    ran = [each for each in trials if each.invocations and not each.killed and not each.timeouts]
    least_failed = min((each.failed for each in ran), default=0.0)
    fails_everywhere = least_failed >= FAILED
    most_failed = least_failed + FAILED if fails_everywhere else FAILED
    against = {each.memory: reasons(each, wanted, most_failed) for each in trials}
    fit = [each for each in trials if not against[each.memory]]
    none = Choice(wanted=wanted, trials=trials, against=against, fails_everywhere=fails_everywhere)
    if none.grows or not fit:
        return none

    def cost(trial: Trial) -> float:
        return trial.cost(wanted.architecture)

    def duration(trial: Trial) -> float:
        return trial.p50

    dearest, slowest = max(map(cost, fit)), max(map(duration, fit))

    def balance(trial: Trial) -> float:
        return wanted.weight * cost(trial) / dearest + (1 - wanted.weight) * duration(trial) / slowest

    least_cost, least_duration = min(map(cost, fit)), min(map(duration, fit))
    if wanted.strategy == "cost":
        suggested = min((each for each in fit if cost(each) <= least_cost * (1 + SAME)), key=duration)
    elif wanted.strategy == "speed":
        suggested = min((each for each in fit if duration(each) <= least_duration * (1 + SAME)), key=cost)
    else:
        suggested = min(fit, key=balance)
    cheapest = min(fit, key=lambda each: (cost(each), duration(each)))
    fastest = min(fit, key=lambda each: (duration(each), cost(each)))
    return replace(none, cheapest=cheapest, fastest=fastest, suggested=suggested)
