"""Checks the limits of a soak. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..check.limits import LimitCheck, Rate
from ..check.measurement import Outcome
from ..support.terminal import counted, some
from .judging import Judged
from .tally import Tally


@dataclass(frozen=True, kw_only=True)
class Limits:
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
    allowed: Collection[str] = ()
    """Causes that may grow."""


def find(tally: Tally, judged: Judged, limits: Limits) -> list[LimitCheck]:
    """Check all limits that are set, and those that always are: growth, errors, out of memory."""
    made = [*_out_of_memory(tally), *_growth(judged, limits), _errors(tally, limits.errors_percent)]
    if limits.peak_mib is not None:
        made.append(_peak(tally, limits.peak_mib))
    if limits.p99_ms is not None:
        made.append(_p99(tally, limits.p99_ms))
    if limits.throttles_percent is not None:
        made.append(_throttles(tally, limits.throttles_percent))
    return made


def _growth(judged: Judged, limits: Limits) -> list[LimitCheck]:
    if limits.drift_kib is None and limits.drift_per_minute_kib is None:
        finding = judged.finding
        outcome: Outcome = "kept"
        if finding.grows and finding.cause not in limits.allowed:
            outcome = "broken" if finding.settled else "unknown"
        elif finding.cause in ("undecided", "failing"):
            outcome = "unknown"
        return [LimitCheck("growth", "none", finding.cause, outcome, finding.paragraph())]
    found = []
    if limits.drift_kib is not None:
        found.append(_rate("max-drift", judged.rate("invocation"), limits.drift_kib, "in each invocation"))
    if limits.drift_per_minute_kib is not None:
        limit = limits.drift_per_minute_kib
        found.append(_rate("max-drift-per-minute", judged.rate("minute"), limit, "a minute"))
    return found


def _rate(name: str, rate: Rate | None, limit: float, per: str) -> LimitCheck:
    allowed = f"{limit:g} KiB"
    if rate is None:
        sentence = f"{name}: growth is not known yet. Try a longer --for."
        return LimitCheck(name, allowed, "unknown", "unknown", sentence)
    sentence = f"It grows by {rate} {per}, and {allowed} are allowed."
    outcome: Outcome = "broken" if rate.low > limit else "kept" if rate.high <= limit or rate.low <= 0 else "unknown"
    if outcome == "unknown":
        sentence += " The limit is in the interval: try a longer --for."
    return LimitCheck(name, allowed, str(rate), outcome, sentence, rate.value)


def _out_of_memory(tally: Tally) -> list[LimitCheck]:
    killed = [each.id for each in tally.environments if each.killed]
    if not killed:
        return []
    sentence = f"Out of memory in {counted(len(killed), 'environment')}: {some(killed)}."
    return [LimitCheck("out-of-memory", "never", counted(len(killed), "environment"), "broken", sentence)]


def _errors(tally: Tally, limit: float) -> LimitCheck:
    failed = sum(tally.errors.values())
    share = 100 * failed / tally.invocations if tally.invocations else 0.0
    if not tally.invocations:
        return LimitCheck("errors", f"{limit:g} %", "none served", "unknown", "No invocation was served.")
    sentence = f"{failed:,} of {counted(tally.invocations, 'invocation')} failed ({share:.2g} %)"
    if failed:
        most = max(tally.errors, key=tally.errors.__getitem__)
        sentence += f", most of them with {most}"
    outcome: Outcome = "broken" if share > limit else "kept"
    return LimitCheck("errors", f"{limit:g} %", f"{failed:,}, {share:.2g} %", outcome, f"{sentence}.", share)


def _peak(tally: Tally, limit: float) -> LimitCheck:
    peaks = [each.peak_mib for each in tally.environments if each.peak_mib is not None]
    if not peaks:
        return LimitCheck("max-peak", f"{limit:g} MiB", "unknown", "unknown", "No peak was measured.")
    outcome: Outcome = "broken" if max(peaks) > limit else "kept"
    sentence = f"The highest peak was {max(peaks):,.1f} MiB, and {limit:g} MiB are allowed."
    return LimitCheck("max-peak", f"{limit:g} MiB", f"{max(peaks):,.1f} MiB", outcome, sentence, max(peaks))


def _p99(tally: Tally, limit: float) -> LimitCheck:
    p99 = tally.latency.percentile(0.99)
    if p99 is None:
        return LimitCheck("max-p99", f"{limit:g} ms", "unknown", "unknown", "No invocation was answered.")
    outcome: Outcome = "broken" if p99 > limit else "kept"
    sentence = f"The p99 of the latency was {p99:,.0f} ms, cold starts included, and {limit:g} ms are allowed."
    return LimitCheck("max-p99", f"{limit:g} ms", f"{p99:,.0f} ms", outcome, sentence, p99)


def _throttles(tally: Tally, limit: float) -> LimitCheck:
    share = 100 * tally.throttled / max(1, tally.made)
    outcome: Outcome = "broken" if share > limit else "kept"
    sentence = f"{tally.throttled:,} of {counted(tally.made, 'request')} were throttled, and {limit:g} % are allowed."
    return LimitCheck("max-throttles", f"{limit:g} %", f"{share:.2g} %", outcome, sentence, share)
