"""Checks the limits of a soak. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Collection
from dataclasses import dataclass

from ..answer.baseline import AllowedGrowth, Baseline
from ..answer.limits import LimitCheck, check_errors, check_growth, check_p99
from ..judge.finding import COUNTED
from ..judge.latency import Latency, percentage
from ..runs.measurement import Outcome
from ..support.terminal import counted, some
from ..support.typed_command import following
from .judging import JudgedSoak, Unit, failed_in
from .tally import Tally


@dataclass(frozen=True, kw_only=True)
class SoakLimits:
    """The limits of a soak. None: not set. Without a limit on drift, nothing may grow."""

    drift_kib: float | None = None
    """Growth allowed per invocation."""
    drift_per_minute_kib: float | None = None
    peak_mib: float | None = None
    p99_ms: float | None = None
    errors_percent: float = 0.0
    """Share of failed invocations that is allowed."""
    throttles_percent: float | None = None
    """Share of throttled requests that is allowed. None: any."""
    growth: AllowedGrowth | None = None
    """Growth allowed over a baseline."""
    allowed: Collection[str] = ()
    """Causes that may grow."""


def find(tally: Tally, judged: JudgedSoak, limits: SoakLimits, was: Baseline | None = None) -> list[LimitCheck]:
    """Check all limits that are set, and those that always are: growth, errors, out of memory. `was`: the baseline."""
    made = [*_out_of_memory(tally), *_growth(judged, limits), _errors(tally, limits.errors_percent)]
    if limits.peak_mib is not None:
        made.append(_peak(tally, limits.peak_mib))
    if limits.p99_ms is not None:
        made.append(check_p99(latency_of(tally), limits.p99_ms, more="a longer --for"))
    if limits.throttles_percent is not None:
        made.append(_throttles(tally, limits.throttles_percent))
    if was is not None:
        made += _over_baseline(baseline_of(tally), was, limits.growth or AllowedGrowth())
    return made


def latency_of(tally: Tally) -> Latency | None:
    """Latency of all invocations, from when they were due, in ms. None if there were none."""
    count = tally.latency.count
    return Latency.by_rank(count, lambda rank: tally.latency.percentile((rank - 0.5) / count) or 0.0) if count else None


def baseline_of(tally: Tally) -> Baseline | None:
    """What a baseline keeps of a soak. None if nothing was measured."""
    peaks = [each.peak_mib for each in tally.environments if each.peak_mib is not None]
    levels = [each.last_mib for each in tally.environments if each.last_mib is not None]
    if not peaks or not levels:
        return None
    failed = sum(tally.errors.values()) / max(1, tally.invocations)
    current = statistics.median(levels)
    return Baseline(round(max(peaks), 2), round(current, 2), {}, latency_of(tally), round(failed, 4))


def _over_baseline(now: Baseline | None, was: Baseline, allowed: AllowedGrowth) -> list[LimitCheck]:
    if now is None:
        sentence = "There is no record to compare with the baseline."
        return [LimitCheck("max-growth", str(allowed), "unknown", "unknown", sentence)]
    figures = (("peak", now.peak, was.peak), ("current", now.current, was.current))
    return [check_growth(name, value, before, allowed) for name, value, before in figures]


def _growth(judged: JudgedSoak, limits: SoakLimits) -> list[LimitCheck]:
    """Check what grows: against the limits in KiB if there are any, else nothing may."""
    finding, found = judged.finding, []
    is_limited = limits.drift_kib is not None or limits.drift_per_minute_kib is not None
    if not is_limited or (finding.cause in COUNTED and finding.cause not in limits.allowed):
        outcome: Outcome = "kept"
        if finding.grows and finding.cause not in limits.allowed:
            outcome = "broken" if finding.settled else "unknown"
        elif finding.cause in ("undecided", "failing"):
            outcome = "unknown"
        found.append(LimitCheck("growth", "none", finding.cause, outcome, finding.paragraph()))
    if limits.drift_kib is not None:
        found.append(_rate("max-drift", judged, "invocation", limits.drift_kib))
    if limits.drift_per_minute_kib is not None:
        found.append(_rate("max-drift-per-minute", judged, "minute", limits.drift_per_minute_kib))
    return found


def _rate(name: str, judged: JudgedSoak, unit: Unit, limit: float) -> LimitCheck:
    allowed, rate = f"{limit:g} KiB", judged.rate(unit)
    if rate is None:
        sentence = f"{name}: growth is not known yet. {following(judged.finding.next, judged.finding.next_when)}"
        return LimitCheck(name, allowed, "unknown", "unknown", sentence)
    per = f"{'in each invocation' if unit == 'invocation' else 'a minute'} of this traffic"
    sentence = f"It grows by {rate} {per}, and {allowed} are allowed."
    outcome: Outcome = "broken" if rate.low > limit else "kept" if rate.high <= limit or rate.low <= 0 else "unknown"
    if outcome == "unknown":
        sentence += f" Undecided: the limit is within the interval. {following(judged.longer)}"
    return LimitCheck(name, allowed, str(rate), outcome, sentence, rate.value)


def _out_of_memory(tally: Tally) -> list[LimitCheck]:
    killed = [each.id for each in tally.environments if each.killed]
    if not killed:
        return []
    sentence = f"Out of memory in {counted(len(killed), 'environment')}: {some(killed)}."
    return [LimitCheck("out-of-memory", "never", counted(len(killed), "environment"), "broken", sentence)]


def _errors(tally: Tally, limit: float) -> LimitCheck:
    if not tally.invocations:
        return LimitCheck("max-errors", f"{limit:g} %", "none served", "unknown", "No invocation was served.")
    failed = failed_in(tally)
    said = f" {'; '.join(failed.words())}." if failed.count else ""
    return check_errors(failed.count, tally.invocations, limit, said)


def _peak(tally: Tally, limit: float) -> LimitCheck:
    peaks = [each.peak_mib for each in tally.environments if each.peak_mib is not None]
    # one that was killed for memory had all of it, whatever its last lines say
    peaks += [each.limit_mib for each in tally.environments if each.killed and each.limit_mib is not None]
    if not peaks:
        return LimitCheck("max-peak", f"{limit:g} MiB", "unknown", "unknown", "No peak was measured.")
    outcome: Outcome = "broken" if max(peaks) > limit else "kept"
    sentence = f"The highest peak was {max(peaks):,.1f} MiB, and {limit:g} MiB are allowed."
    return LimitCheck("max-peak", f"{limit:g} MiB", f"{max(peaks):,.1f} MiB", outcome, sentence, max(peaks))


def _throttles(tally: Tally, limit: float) -> LimitCheck:
    share = tally.throttled / max(1, tally.made)
    outcome: Outcome = "broken" if 100 * share > limit else "kept"
    sentence = f"{tally.throttled:,} of {counted(tally.made, 'request')} were throttled, and {limit:g} % are allowed."
    return LimitCheck("max-throttles", f"{limit:g} %", percentage(share), outcome, sentence, 100 * share)
