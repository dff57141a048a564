"""What a soak found: the one answer of all environments, with the clock that growth follows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from truemem.verdict import COUNTED_KIB, GROWING_FROM

from ..answer.limits import Rate
from ..judge.causes import OF_EXTENSION, find, find_by
from ..judge.curves import DESCRIPTORS, EXTENSION, IN_USE, PROCESSES, THREADS, Curves, Failed, curves_of
from ..judge.drift import INSUFFICIENT, MINUTE_MS, Point, Verdict
from ..judge.finding import AFTER_REPAIR, TOO_FEW, Cause, Commands, Finding, most_urgent, unmeasured
from ..judge.finding import COUNTED as COUNTS
from ..judge.growth_lines import merged, named
from ..judge.runtime_heap import kept_at_most
from ..judge.thresholds import MATTERS_KIB
from ..judge.witnesses import Witnesses
from ..runs.measurement import printable
from ..support.terminal import counted
from .clocks import LONGER, GrowthClock, Step, clock_of
from .tally import Tally

OUT_OF_MEMORY = "Runtime.OutOfMemory"
Unit = Literal["invocation", "minute"]
COUNTS_BY_CAUSE: dict[Cause, str] = {"descriptors": DESCRIPTORS, "processes": PROCESSES, "threads": THREADS}
"""Causes whose clock is that of a count."""
RSS, LIVE = "RSS", "live objects"
HEAP_FIGURES = {LIVE: "used", "buffers outside of the heap": "external", "classes": "metaspace"}
"""What a collected heap's findings hold, and which figure of it has that."""
UNCLEAR = ("none", "cache", "undecided", "page-cache")
"""Causes that do not explain growth by a clock: what looks level by invocation may rise by the minute."""
LEAST_SPAN_KIB = 1024.0
"""Least growth if no clock is named: a warm-up may end after a short soak."""
LONGER_FACTOR = 1.5
"""A longer run has so many times the invocations that are needed."""
CLOCK_UNKNOWN = "whether it follows invocations or a clock is not known yet"
PER = {"invocation": "invocation", "minute": "minute", "pause": "pause", "overlap": "invocation beside another"}
BY_A_CLOCK = "growth-by-a-clock"
"""Section of docs/patterns.md."""
REPAIRS = {
    "minute": "Look at what runs by the clock: timers, threads, caches with a time to live, connections that age.",
    "pause": "Look at what is made anew after a pause: clients, connections, sessions. The old one is still held.",
    "overlap": "Look at what each request holds while others run: contexts by task or thread, and pools that grow.",
}


@dataclass(frozen=True, kw_only=True)
class JudgedSoak:
    finding: Finding
    """The one answer."""
    clock: GrowthClock
    """Which clock the growth follows; without a name where nothing grows, or several fit."""
    by_environment: Mapping[str, Finding]
    """The findings of environments with a record, by id. What grows by the clock is the finding of each."""
    per_minute: float | None
    """Invocations a minute that an environment served while it lived. None: not known."""
    rss: Verdict = INSUFFICIENT
    """The verdict on RSS in the environment that the finding is from."""
    longer: str = ""
    """The command that runs for longer."""
    is_count: bool = False
    """True if the clock is that of a count: its rates are in COUNTED_KIB for one."""

    def rate(self, unit: Unit) -> Rate | None:
        """KiB per invocation or minute of this traffic, with the 95 % interval: of what grows, else of RSS. None: not
        known."""
        clock, finding, in_a_minute = self.clock, self.finding, self.per_minute
        value, low, high = finding.per_invocation_kib, finding.low_kib, finding.high_kib
        is_open = finding.grows or finding.cause in ("undecided", "failing") or (clock.grows and not clock.may_end)
        if self.is_count or finding.cause in COUNTS or not is_open:
            value, low, high = self.rss.per_invocation_kib, self.rss.low_kib, self.rss.high_kib
        elif clock.name:
            value, low, high = clock.rate_kib, clock.low_kib, clock.high_kib
            in_a_minute = in_a_minute if clock.name == "invocation" else clock.per_minute
        of_unit = 1.0 if unit == "minute" else self.per_minute
        if value is None or low is None or high is None or not in_a_minute or not of_unit:
            return None
        factor = in_a_minute / of_unit
        return Rate(value * factor, low * factor, high * factor)


def judge(tally: Tally, commands: Commands, allowed: Collection[str] = (), errors_percent: float = 0.0) -> JudgedSoak:
    """Judge each environment, and all of them together. `allowed`: causes that may grow. `errors_percent`: so many may
    fail."""
    failed = _failed(tally, errors_percent)
    curves = _curves(tally, failed)
    if not curves:
        nothing = unmeasured("No invocation has a record.", commands)
        if failed.count:
            nothing = find(Curves(invocations=tally.invocations, failed=replace(failed, in_init=True)), commands)
        return JudgedSoak(
            finding=nothing, clock=clock_of([]), by_environment={}, per_minute=None, longer=commands.longer
        )
    known = [each for each in tally.environments if each.id in curves]
    served = {each.id: each.served or len(each.kept_lines.kept) for each in known}
    steps = {each.id: each.steps() for each in known}
    per_minute = _per_minute(steps, served)
    found, first, rss = _found(curves, served, commands, allowed)
    while (name := _extension(first, curves.values())) and not first.grows:  # undecided
        clock = _clock_of_curve([(steps[each], curves[each]) for each in curves], name)
        if not _is_small(clock, per_minute) and "extension" not in allowed:
            break
        curves = {each: _without(of_it, name) for each, of_it in curves.items()}
        found, first, rss = _found(curves, served, commands, allowed)
    first = named(first, merged([profile for each in curves.values() for profile in each.profiles]), commands)
    grown = _grown(first, [(steps[name], each) for name, each in curves.items()], allowed)
    if commands.mixed == commands.longer:
        grown = replace(grown, clock=_has_mixed(grown.clock))
    finding = _with_clock(first, grown, commands, allowed)
    if finding.pattern == TOO_FEW and 2 * tally.throttled > tally.made:
        refused = f"{tally.throttled:,} of {counted(tally.made, 'request')} were throttled"
        finding = replace(finding, evidence=[refused, *finding.evidence])
    return JudgedSoak(
        finding=finding,
        clock=grown.clock,
        by_environment=dict.fromkeys(found, finding) if finding.pattern == BY_A_CLOCK else found,
        per_minute=per_minute,
        rss=rss,
        longer=commands.longer,
        is_count=grown.cause in COUNTS_BY_CAUSE,
    )


def longer_s(tally: Tally, for_s: float) -> float:
    """How long a longer run takes: at least twice as long, and until one environment has served enough to judge."""
    most = max(tally.environments, key=lambda each: each.served, default=None)
    if most is None or not most.served:
        return 2 * for_s
    until_s = tally.seconds if most.ended_s is None else most.ended_s
    served_s = max(1.0, until_s - most.began_s - (most.init_ms or 0.0) / 1000)
    return max(2 * for_s, LONGER_FACTOR * served_s * GROWING_FROM / most.served)


def _curves(tally: Tally, failed: Failed) -> dict[str, Curves]:
    """The curves of each environment with a record. What failed and what ran out of memory is that of all."""
    curves = {each.id: curves_of(lines) for each in tally.environments if (lines := each.lines)}
    ended = _ended(tally, curves.values())
    return {
        name: replace(each, invocations=tally.invocations or each.invocations, failed=failed, ended=ended)
        for name, each in curves.items()
    }


def _failed(tally: Tally, errors_percent: float) -> Failed:
    """What failed for another reason than memory; nothing if no more failed than may."""
    found = failed_in(tally)
    said = found.said if 100 * found.count > errors_percent * tally.invocations else {}
    return Failed({words: count for words, count in said.items() if not words.startswith(OUT_OF_MEMORY)})


def failed_in(tally: Tally) -> Failed:
    """What failed in all environments: errors of a type count together, and the first of them is said."""
    counts = list(tally.errors.items())  # a soak that is watched goes on counting
    return Failed({printable(tally.examples.get(kind, kind)): count for kind, count in counts})


def _found(
    curves: Mapping[str, Curves], served: Mapping[str, int], commands: Commands, allowed: Collection[str]
) -> tuple[dict[str, Finding], Finding, Verdict]:
    """The finding on each environment, the one to act on, and the verdict on RSS in its environment."""
    witnesses = {name: Witnesses(each) for name, each in curves.items()}
    found = {name: find_by(each, commands, allowed) for name, each in witnesses.items()}
    first = most_urgent([(finding, served[name]) for name, finding in found.items()])
    speaks = next(name for name, finding in found.items() if finding is first)
    return found, first, witnesses[speaks].rss


def _ended(tally: Tally, curves: Collection[Curves]) -> str:
    """What ran out of memory in all environments; empty if nothing did."""
    killed = sum(each.killed > 0 for each in tally.environments)
    beside = sum(bool(each.killed) for each in curves)
    of = f"of {counted(len(tally.environments), 'environment')}"
    said = [f"out of memory in {killed} {of}"] if killed else []
    said += [f"something beside the function ended {beside} {of}"] if beside else []
    return "; ".join(said)


def _extension(found: Finding, curves: Collection[Curves]) -> str:
    """The name of the curve of the extension that the finding is about; empty if it is about none."""
    name = f"{EXTENSION}{found.holder}"
    return name if any(name in each.others for each in curves) else ""


def _is_small(clock: GrowthClock, per_minute: float | None = None) -> bool:
    """True if growth that matters is ruled out: of what has warmed up, for the last third of lives. `per_minute`:
    invocations of an environment."""
    if clock.name:
        return clock.name == "invocation" and (clock.high_kib or 0.0) < MATTERS_KIB
    return clock.at_most_kib is not None and clock.at_most_kib < MATTERS_KIB * (per_minute or 0.0)


def _without(curves: Curves, name: str) -> Curves:
    return replace(curves, others={other: values for other, values in curves.others.items() if other != name})


@dataclass(frozen=True)
class _Grown:
    """What may grow by a clock."""

    cause: Cause
    what: str
    """A count, RSS, or what a heap holds."""
    clock: GrowthClock

    def sentence(self) -> str:
        clock, rate = self.clock, self.clock.rate_kib or 0.0
        if self.cause in COUNTS_BY_CAUSE:
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
    for count, name in COUNTS_BY_CAUSE.items():
        if (found.cause == count or is_open) and count not in allowed:
            clock = clock_of([_counting(steps, curves.others.get(name, ())) for steps, curves in seen])
            if clock.grows or found.cause == count:
                return _Grown(count, count, clock)
    holder = LIVE if is_open else found.holder
    if holder in HEAP_FIGURES and any(curves.readings for _, curves in seen):
        kept = [_with(steps, kept_at_most(curves.readings, HEAP_FIGURES[holder])) for steps, curves in seen]
        clock = clock_of(kept, is_heap=True)
        if clock.grows or not is_open or found.holder == "heap":  # RSS may rise by garbage
            return _Grown(cause, holder, clock)
    extension = _extension(found, [curves for _, curves in seen])
    if extension and found.grows:
        return _of_extension(found, seen, extension)
    if found.grows and found.hidden and any(IN_USE in curves.others for _, curves in seen):
        return _Grown(cause, "memory in use", _clock_of_curve(seen, IN_USE))
    clock = _clock_of([steps for steps, _ in seen])
    if extension and (not clock.grows or _is_small(clock)):
        return _of_extension(found, seen, extension)
    return _Grown(cause, RSS, clock)


def _of_extension(found: Finding, seen: Sequence[tuple[list[Step], Curves]], name: str) -> _Grown:
    return _Grown("extension", f"the extension {found.holder}", _clock_of_curve(seen, name))


def _has_mixed(clock: GrowthClock) -> GrowthClock:
    """True for a soak whose traffic is mixed already: only more of it can tell."""
    if not clock.traffic:
        return clock
    return replace(clock, evidence=clock.evidence.replace(clock.traffic, LONGER), traffic=LONGER)


def _span(steps: Sequence[Step]) -> float:
    """KiB between the lowest and the highest reading."""
    held = [step.current_kib for step in steps if step.current_kib is not None]
    return max(held, default=0.0) - min(held, default=0.0)


def _counting(steps: Sequence[Step], counts: Sequence[Point]) -> list[Step]:
    """These steps with a count in place of RSS, as large as the verdict takes one for (COUNTED_KIB)."""
    return _with(steps, {number: count * COUNTED_KIB for number, count in _by_number(counts).items()})


def _next(cause: Cause, found: Finding, commands: Commands) -> tuple[str, str]:
    """The next command, and what must be done before."""
    tells = commands.extensions if cause == "extension" else "" if found.line else commands.profile
    return (tells, "") if tells else (commands.again, AFTER_REPAIR)


def _clock_of(environments: Sequence[list[Step]]) -> GrowthClock:
    """The clock of memory that is no collected heap's."""
    clock = clock_of(environments)
    if clock.grows and not clock.name and max(map(_span, environments)) < LEAST_SPAN_KIB:
        return replace(clock, grows=False, at_most_kib=0.0)
    return clock


def _clock_of_curve(seen: Sequence[tuple[list[Step], Curves]], name: str) -> GrowthClock:
    return _clock_of([_with(steps, _by_number(curves.others.get(name, ()))) for steps, curves in seen])


def _by_number(points: Sequence[Point]) -> dict[int, float]:
    return {point.invocation: point.current_kib for point in points}


def _with(steps: Sequence[Step], held: Mapping[int, float]) -> list[Step]:
    """These steps with what each invocation left behind in place of RSS."""
    return [step._replace(current_kib=held.get(step.invocation)) for step in steps]


def _with_clock(found: Finding, grown: _Grown, commands: Commands, allowed: Collection[str]) -> Finding:
    """The finding, which says by which clock memory grows. A clock that is not the invocation's is an answer of its own
    where the finding has none: what hardly rises by invocation may rise by the minute. Whether growth by invocation
    ends is for the finding to say."""
    cause, clock = grown.cause, grown.clock
    if found.grows and not clock.grows and cause not in allowed:
        return replace(found, evidence=[*found.evidence, CLOCK_UNKNOWN])
    if not clock.grows or (not found.grows and found.cause not in UNCLEAR) or cause in allowed:
        return found
    if (
        not found.grows
        and cause not in COUNTS_BY_CAUSE
        and clock.name == "invocation"
        and (clock.high_kib or 0) < MATTERS_KIB
    ):
        little = f"{grown.sentence()}: less than {MATTERS_KIB:g} KiB is not called a leak"
        return replace(found, evidence=[*found.evidence, little])
    if found.grows and grown.what == RSS and clock.may_end and found.confidence is not None:  # a curve is a guess
        title = "Undecided: memory grows, but ever less, as a cache that fills does."
        open_ = replace(found, cause="undecided", title=title, grows=False, settled=False, repair="")
        return replace(open_, next=commands.longer, next_when="")
    if found.grows and clock.name in ("", "invocation"):
        return replace(found, evidence=[*found.evidence, _in_a_list(clock.evidence)])
    if found.cause == "undecided" and (clock.may_end or clock.name == "invocation"):  # a leak, or what fills
        evidence = [*found.evidence, _in_a_list(clock.evidence)]
        return replace(found, evidence=evidence, next=commands.longer, next_when="")
    if clock.may_end:
        return found
    is_told = clock.name != ""
    if is_told:
        title = f"Leak{'' if clock.name == 'invocation' else ' by the clock'}: {grown.sentence()}."
    else:
        grow = "memory grows" if grown.what == RSS else "they grow"
        title = f"Leak by a clock, of {grown.what}: {clock.evidence.replace('Memory grows', grow, 1)}"
    telling = commands.longer if clock.traffic == LONGER else commands.mixed
    following, when = _next(cause, found, commands) if is_told else (telling, "")
    return replace(
        found,
        cause=cause,
        title=title,
        holder=found.holder or "function",
        evidence=[*([_in_a_list(clock.evidence)] if is_told else []), *found.evidence],
        repair=OF_EXTENSION if cause == "extension" else REPAIRS.get(clock.name, ""),
        next=following,
        next_when=when,
        invocations_left=None,
        grows=True,
        settled=is_told,
        pattern=BY_A_CLOCK,
    )


def _in_a_list(sentence: str) -> str:
    """A sentence as one of several figures."""
    return f"{sentence[:1].lower()}{sentence[1:].rstrip('.')}"


def _per_minute(steps: Mapping[str, Sequence[Step]], served: Mapping[str, int]) -> float | None:
    minutes = sum(each[-1].time_ms - each[0].time_ms for each in steps.values() if each) / MINUTE_MS
    return sum(served.values()) / minutes if minutes > 0 else None
