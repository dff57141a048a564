"""Checks the limits on drift. Pure.

Nothing passes without a verdict: an undecided limit is `unknown`, and more invocations may decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from truemem.records.leak_verdict import GATE_KIB as NOTHING_KIB
from truemem.records.leak_verdict import GROWING_FROM

from .measurement import Measurement
from .peaks import Outcome


@dataclass(frozen=True)
class Finding:
    """One limit and its result."""

    name: str
    """Name of the option."""
    allowed: str
    measured: str
    outcome: Outcome
    sentence: str
    """The result as a sentence for the user."""
    value: float | None = None
    """Measured value, in the limit's own unit."""
    note: str | None = None
    """What makes the result less reliable."""
    why: str | None = None
    """Why it is unknown, in a few words, if more invocations may decide it."""


@dataclass(frozen=True)
class Rate:
    """Growth with its 95 % interval, in KiB per invocation or per minute."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} KiB ({self.low:.1f} to {self.high:.1f})"


def drift(measurement: Measurement, per_invocation: float | None, per_minute: float | None) -> list[Finding]:
    """Check both limits in KiB, if they are set. Without any limit, memory must not grow."""
    verdict = measurement.verdict
    name = "max-drift" if per_invocation is not None else "max-drift-per-minute" if per_minute is not None else "growth"
    value, low, high = verdict.per_invocation_kib, verdict.low_kib, verdict.high_kib
    if measurement.in_a_row < GROWING_FROM or value is None or low is None or high is None:
        return [_too_few(name, measurement.in_a_row)]
    rate = Rate(value, low, high)
    if per_invocation is None and per_minute is None:
        return [_growth(measurement, rate)]
    findings = []
    if per_invocation is not None:
        findings.append(_limited(measurement, name, rate, per_invocation, "per invocation"))
    if per_minute is not None:
        by_the_clock = verdict.per_minute_kib
        if by_the_clock is None:
            sentence = "Drift by the minute cannot be judged: the records have no times."
            findings.append(Finding("max-drift-per-minute", f"{per_minute:g} KiB", "", "unknown", sentence))
        else:  # the interval is that of the growth per invocation, scaled
            scale = by_the_clock / value if value else 0.0
            scaled = Rate(by_the_clock, low * scale, high * scale)
            findings.append(_limited(measurement, "max-drift-per-minute", scaled, per_minute, "a minute"))
    return findings


def undecided(findings: Sequence[Finding]) -> str:
    """Why more invocations are needed, in a few words. Empty if they are not needed."""
    if any(finding.outcome == "broken" and not finding.why for finding in findings):
        return ""
    return next((finding.why for finding in findings if finding.why), "")


def _too_few(name: str, count: int) -> Finding:
    sentence = (
        f"Drift cannot be judged: {count} invocations of the same processes can be used, and {GROWING_FROM} are needed,"
        " because before that a leak looks like a cache that fills. Try more --invocations."
    )
    return Finding(name, "", "too few", "unknown", sentence, why="too few to judge")


def _growth(measurement: Measurement, rate: Rate) -> Finding:
    verdict = measurement.verdict
    if verdict.name != "warming" or rate.high < NOTHING_KIB:
        outcome: Outcome = "broken" if verdict.name == "growing" else "kept"
        return Finding("growth", "none", str(rate), outcome, verdict.sentence(), rate.value)
    sentence = (
        f"Leak or not is undecided after {measurement.in_a_row} invocations. {verdict.sentence()} Try more"
        " --invocations, or allow some growth with --max-drift KiB."
    )
    return Finding("growth", "none", str(rate), "unknown", sentence, rate.value, why="still warming")


def _limited(measurement: Measurement, name: str, rate: Rate, limit: float, per: str) -> Finding:
    """Check a limit: it is broken if even the lower end of the interval is above it.

    If `why` asks for more invocations, the outcome is that of a run that may not make any more.
    """
    verdict, allowed = measurement.verdict, f"{limit:g} KiB"
    sentence = f"It grows by {rate} {per}, and {limit:g} KiB are allowed."
    if verdict.name in ("growing", "warming"):
        sentence += f" {verdict.sentence()}"

    def finding(outcome: Outcome, said: str = sentence, note: str | None = None, why: str | None = None) -> Finding:
        return Finding(name, allowed, str(rate), outcome, said, rate.value, note, why)

    within = f"after {measurement.in_a_row} invocations the interval still has the limit in it"
    if rate.low > limit:
        return finding("broken", why="still warming" if verdict.name == "warming" else None)
    if rate.high <= limit or (rate.low <= 0 and rate.value <= limit):
        return finding("kept")
    if rate.value > limit:
        return finding("unknown", f"{sentence} Undecided: {within}. Try more --invocations.", why="near the limit")
    return finding("kept", note=f"{name}: {within}", why="near the limit")
