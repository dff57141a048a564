"""What a soak found: the one answer of all environments, with the clock that growth follows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from truemem.verdict import COUNTED_KIB

from ..analysis.causes import find
from ..analysis.clocks import LONGER, Clock, Step, clock_of
from ..analysis.curves import DESCRIPTORS, IN_USE, PROCESSES, THREADS, Curves, curves_of
from ..analysis.drift import INSUFFICIENT, MATTERS_KIB, MINUTE_MS, Point, Verdict
from ..analysis.finding import COUNTED as COUNTS
from ..analysis.finding import Cause, Commands, Finding, most_urgent, unmeasured
from ..analysis.growth_lines import merged, named
from ..analysis.runtime_heap import kept_at_most
from ..analysis.witnesses import Witnesses
from ..check.limits import Rate
from ..lines.line import Line
from ..support.terminal import counted
from .tally import EnvironmentTally

COUNTED: dict[Cause, str] = {"descriptors": DESCRIPTORS, "processes": PROCESSES, "threads": THREADS}
"""Causes whose clock is that of a count."""
RSS, LIVE = "RSS", "live objects"
HEAP = {LIVE: "used", "buffers outside of the heap": "external", "classes": "metaspace"}
"""What a collected heap's findings hold, and which figure of it has that."""
UNCLEAR = ("none", "cache", "undecided", "page-cache")
"""Causes that do not explain growth by a clock: what looks level by invocation may rise by the minute."""
LEAST_KIB = 1024.0
"""Without a clock that is named, less is no growth: a warm-up may end after a short soak."""
UNKNOWN = "whether it follows invocations or a clock is not known yet"
PER = {"invocation": "invocation", "minute": "minute", "pause": "pause", "overlap": "invocation beside another"}
BY_A_CLOCK = "growth-by-a-clock"
"""Section of docs/patterns.md."""
REPAIRS = {
    "minute": "Look at what runs by the clock: timers, threads, caches with a time to live, connections that age.",
    "pause": "Look at what is made anew after a pause: clients, connections, sessions. The old one is still held.",
    "overlap": "Look at what each request holds while others run: contexts by task or thread, and pools that grow.",
}


@dataclass(frozen=True, kw_only=True)
class Judged:
    finding: Finding
    """The one answer."""
    clock: Clock
    """Which clock the growth follows; without a name where nothing grows, or several fit."""
    by_environment: Mapping[str, Finding]
    """Of those with a record. What grows by the clock is the finding of each."""
    per_minute: float | None
    """Invocations a minute that an environment served while it lived. None: not known."""
    rss: Verdict = INSUFFICIENT
    """On RSS in the environment that served most."""
    is_count: bool = False
    """True if the clock is that of a count: its rates are in COUNTED_KIB for one."""

    def rate(self, unit: Literal["invocation", "minute"]) -> Rate | None:
        """KiB per invocation or minute, with the 95 % interval: of what grows, else of RSS. None: not known."""
        clock, finding, seen = self.clock, self.finding, "invocation"
        values = finding.per_invocation_kib, finding.low_kib, finding.high_kib
        is_open = finding.grows or clock.grows or finding.cause in ("undecided", "failing")
        if self.is_count or finding.cause in COUNTS or not is_open:
            values = self.rss.per_invocation_kib, self.rss.low_kib, self.rss.high_kib
        elif clock.name in ("invocation", "minute"):
            seen, values = clock.name, (clock.rate_kib, clock.low_kib, clock.high_kib)
        value, low, high = values
        if value is None or low is None or high is None or (seen != unit and not self.per_minute):
            return None
        per_minute = self.per_minute or 1.0
        factor = 1.0 if seen == unit else per_minute if unit == "minute" else 1 / per_minute
        return Rate(value * factor, low * factor, high * factor)


def judge(environments: Sequence[EnvironmentTally], commands: Commands, allowed: Collection[str] = ()) -> Judged:
    """Judge each environment, and all of them together. `allowed`: causes that may grow."""
    lines = {each.id: each.lines for each in environments}
    known = [each for each in environments if lines[each.id]]
    curves = {each.id: _curves(each, lines[each.id]) for each in known}
    found = {name: find(each, commands, allowed=allowed) for name, each in curves.items()}
    if not found:
        nothing = unmeasured("No invocation has a record.", commands)
        if failed := sum(each.failed for each in environments):
            title = f"{counted(failed, 'invocation')} failed, and none has a record."
            nothing = unmeasured(title, replace(commands, again=commands.log or commands.again))
        return Judged(finding=nothing, clock=clock_of([]), by_environment={}, per_minute=None)
    first = most_urgent([(finding, curves[name].invocations) for name, finding in found.items()])
    first = named(first, merged([profile for each in curves.values() for profile in each.profiles]), commands)
    grown = _grown(first, [(each.steps(), curves[each.id]) for each in known], allowed)
    if commands.mixed == commands.longer:
        grown = replace(grown, clock=_has_mixed(grown.clock))
    clock = grown.clock
    finding = _with_clock(first, grown, commands, allowed)
    busiest = max(known, key=lambda each: each.served)
    return Judged(
        finding=finding,
        clock=clock,
        by_environment=dict.fromkeys(found, finding) if finding.pattern == BY_A_CLOCK else found,
        per_minute=_per_minute(known),
        rss=Witnesses(curves[busiest.id], is_patient=True).rss,
        is_count=grown.cause in COUNTED,
    )


def _curves(environment: EnvironmentTally, lines: Sequence[Line]) -> Curves:
    """What failed is counted of all invocations: lines are kept of some, and the end of the soak cuts the last one."""
    curves = curves_of(lines)
    failed, count = curves.failed, max(0, environment.failed - environment.killed)
    if failed.count:
        failed = replace(failed, count=count, alike=round(failed.alike / failed.count * count))
    return replace(curves, invocations=environment.served or curves.invocations, failed=failed)


@dataclass(frozen=True)
class _Grown:
    """What may grow by a clock."""

    cause: Cause
    what: str
    """A count, RSS, or what a heap holds."""
    clock: Clock

    def sentence(self) -> str:
        clock, rate = self.clock, self.clock.rate_kib or 0.0
        if self.cause in COUNTED:
            grown = f"{self.cause} grow by {rate / COUNTED_KIB:,.3g}"
        elif self.what == RSS:
            grown = f"RSS grows by {_kib(rate)}"
        else:
            grown = f"{_kib(rate)} more in {self.what}"
        return f"{grown} with each {PER[clock.name]}{clock.counted}"


def _kib(rate: float) -> str:
    return f"{rate:,.0f} KiB" if rate >= 1_000 else f"{rate:.3g} KiB"


def _grown(found: Finding, seen: Sequence[tuple[list[Step], Curves]], allowed: Collection[str]) -> _Grown:
    """What grows, by the witness that the finding is judged by. If it has no cause, a count and then a collected heap
    are asked before RSS, which does not tell what is kept."""
    is_open = found.cause in UNCLEAR and not found.grows
    cause: Cause = found.cause if found.grows else "leak"
    for count, name in COUNTED.items():
        if (found.cause == count or is_open) and count not in allowed:
            clock = clock_of([_counting(steps, curves.others.get(name, ())) for steps, curves in seen])
            if clock.grows or found.cause == count:
                return _Grown(count, count, clock)
    holder = LIVE if is_open else found.holder
    if holder in HEAP and any(curves.readings for _, curves in seen):
        kept = [_with(steps, kept_at_most(curves.readings, HEAP[holder])) for steps, curves in seen]
        clock = clock_of(kept, is_heap=True)
        if clock.grows or not is_open or found.holder == "heap":  # RSS may rise by garbage
            return _Grown(cause, holder, clock)
    if found.grows and found.hidden and any(IN_USE in curves.others for _, curves in seen):
        clock = clock_of([_with(steps, _by_number(curves.others.get(IN_USE, ()))) for steps, curves in seen])
        return _Grown(cause, "memory in use", clock)
    clock = clock_of([steps for steps, _ in seen])
    if not clock.name and max(_span(steps) for steps, _ in seen) < LEAST_KIB:
        clock = replace(clock, grows=False)
    return _Grown(cause, RSS, clock)


def _has_mixed(clock: Clock) -> Clock:
    """Of a soak whose traffic is mixed already: only more of it can tell."""
    if not clock.traffic:
        return clock
    return replace(clock, evidence=clock.evidence.replace(clock.traffic, LONGER), traffic=LONGER)


def _span(steps: Sequence[Step]) -> float:
    """KiB between the lowest and the highest reading."""
    held = [step.current_kib for step in steps if step.current_kib is not None]
    return max(held, default=0.0) - min(held, default=0.0)


def _counting(steps: Sequence[Step], counts: Sequence[Point]) -> list[Step]:
    """The same steps with a count in place of RSS, as large as the verdict takes one for (COUNTED_KIB)."""
    return _with(steps, {number: count * COUNTED_KIB for number, count in _by_number(counts).items()})


def _by_number(points: Sequence[Point]) -> dict[int, float]:
    return {point.invocation: point.current_kib for point in points}


def _with(steps: Sequence[Step], held: Mapping[int, float]) -> list[Step]:
    """The same steps with what each invocation left behind in place of RSS."""
    return [step._replace(current_kib=held.get(step.invocation)) for step in steps]


def _with_clock(found: Finding, grown: _Grown, commands: Commands, allowed: Collection[str]) -> Finding:
    """The finding, which says by which clock memory grows. A clock that is not the invocation's is an answer of its own
    where the finding has none: what hardly rises by invocation may rise by the minute. Whether growth by invocation
    ends is for the finding to say."""
    cause, clock = grown.cause, grown.clock
    if found.grows and not clock.grows and cause not in allowed:
        return replace(found, evidence=[*found.evidence, UNKNOWN])
    if not clock.grows or (not found.grows and found.cause not in UNCLEAR) or cause in allowed:
        return found
    if not found.grows and cause not in COUNTED and clock.name == "invocation" and (clock.high_kib or 0) < MATTERS_KIB:
        little = f"{grown.sentence()}: less than {MATTERS_KIB:g} KiB is not called a leak"
        return replace(found, evidence=[*found.evidence, little])
    if found.grows and clock.name in ("", "invocation"):
        return replace(found, evidence=[*found.evidence, clock.evidence.rstrip(".")])
    if clock.may_end or (clock.name == "invocation" and found.cause == "undecided"):  # a leak, or what fills
        longer = commands.longer if found.cause == "undecided" else found.next
        return replace(found, evidence=[*found.evidence, clock.evidence.rstrip(".")], next=longer)
    is_told = clock.name != ""
    if is_told:
        title = f"Leak{'' if clock.name == 'invocation' else ' by the clock'}: {grown.sentence()}."
    else:
        grow = "memory grows" if grown.what == RSS else "they grow"
        title = f"Leak by a clock, of {grown.what}: {clock.evidence.replace('Memory grows', grow, 1)}"
    telling = commands.longer if clock.traffic == LONGER else commands.mixed
    return replace(
        found,
        cause=cause,
        title=title,
        holder=found.holder or "function",
        evidence=[*([clock.evidence.rstrip(".")] if is_told else []), *found.evidence],
        repair=REPAIRS.get(clock.name, ""),
        next=(found.next if found.line else commands.profile or commands.again) if is_told else telling,
        invocations_left=None,
        grows=True,
        settled=is_told,
        pattern=BY_A_CLOCK,
    )


def _per_minute(environments: Sequence[EnvironmentTally]) -> float | None:
    served = sum(each.served for each in environments)
    times = [[step.time_ms for step in each.steps()] for each in environments]
    minutes = sum(each[-1] - each[0] for each in times if each) / MINUTE_MS
    return served / minutes if minutes > 0 else None
