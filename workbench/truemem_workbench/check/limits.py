"""The limits, and whether a measurement keeps them. Pure.

A limit is broken only where the measurement leaves no doubt: drift by the lower end of its 95 % interval, a peak by
its lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .baseline import Baseline, Growth
from .measurement import Measurement

Outcome = Literal["kept", "broken", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """None: not asked for. Without either limit on drift, the verdict must not be `growing`."""

    drift_kib: float | None = None
    """Per invocation."""
    drift_per_minute_kib: float | None = None
    peak_mib: float | None = None
    """Of every invocation and the init phase."""
    current_mib: float | None = None
    """Of what every invocation after the warm-up leaves behind."""
    growth: Growth | None = None
    """Against a baseline."""
    errors: bool = False
    """Invocations may fail."""


@dataclass(frozen=True)
class Finding:
    """One limit, and what became of it."""

    name: str
    """As the option is called."""
    allowed: str
    measured: str
    outcome: Outcome
    sentence: str
    """The whole of it for a person."""
    value: float | None = None
    """What was measured, in the limit's own unit."""


def find(measurement: Measurement, limits: Limits, baseline: Baseline | None = None) -> list[Finding]:
    """A finding for each limit that there is."""
    findings = [_errors(measurement)] if measurement.failures and not limits.errors else []
    if not measurement.seen:
        return [*findings, _nothing(measurement)]
    findings += [_out_of_memory(measurement)] if measurement.out_of_memory else []
    findings += _drift(measurement, limits)
    if limits.peak_mib is not None:
        findings.append(_peak(measurement, limits.peak_mib))
    if limits.current_mib is not None:
        findings.append(_current(measurement, limits.current_mib))
    if baseline is not None:
        findings += _growth(measurement, baseline, limits.growth or Growth())
    return findings


def _errors(measurement: Measurement) -> Finding:
    """Not a matter of memory: but a function that does not work was not measured either."""
    first = measurement.failures[0]
    count = f"{len(measurement.failures)} of {measurement.invocations} invocations"
    sentence = f"{count} failed, the first of them number {first.number}: {first.error}."
    return Finding("errors", "none", f"{len(measurement.failures)}", "unknown", sentence)


def _nothing(measurement: Measurement) -> Finding:
    sentence = f"No record of {measurement.invocations} invocations came. The last that the sidecar said: "
    return Finding("records", "", "none", "unknown", sentence + measurement.last_words)


def _out_of_memory(measurement: Measurement) -> Finding:
    numbers = measurement.out_of_memory
    sentence = f"Out of memory in invocation {numbers[0]}"
    sentence += f", and in {len(numbers) - 1} more" if len(numbers) > 1 else ""
    size = f" of {measurement.memory_mib} MiB" if measurement.memory_mib else ""
    return Finding(
        "out-of-memory", "never", f"{len(numbers)} times", "broken", f"{sentence}: over its memory size{size}."
    )


def _drift(measurement: Measurement, limits: Limits) -> list[Finding]:
    verdict = measurement.verdict
    per_invocation, low = verdict.per_invocation_kib, verdict.low_kib
    asked = limits.drift_kib is not None or limits.drift_per_minute_kib is not None
    if verdict.name == "insufficient" or per_invocation is None or low is None:
        others = limits.peak_mib is not None or limits.current_mib is not None
        if others and not asked:
            return []
        name = "max-drift" if asked else "growth"
        return [Finding(name, "", "too few", "unknown", f"Drift cannot be judged. {verdict.sentence()}")]
    findings = []
    measured = f"{per_invocation:.1f} KiB ({low:.1f} to {verdict.high_kib or per_invocation:.1f})"
    if not asked:
        outcome: Outcome = "broken" if verdict.name == "growing" else "kept"
        findings.append(Finding("growth", "none", measured, outcome, verdict.sentence(), per_invocation))
    if (limit := limits.drift_kib) is not None:
        sentence = f"It grows by {measured} per invocation, and {limit:g} KiB are allowed."
        sentence += f" {verdict.sentence()}" if verdict.name == "growing" else ""
        findings.append(Finding("max-drift", f"{limit:g} KiB", measured, _over(low, limit), sentence, per_invocation))
    if (limit := limits.drift_per_minute_kib) is not None:
        findings.append(_per_minute(verdict.per_minute_kib, per_invocation, low, limit))
    return findings


def _per_minute(rate: float | None, per_invocation: float, low: float, limit: float) -> Finding:
    """The interval of the rate is that of the growth per invocation, scaled."""
    allowed = f"{limit:g} KiB"
    if rate is None:
        sentence = "Drift by the minute cannot be judged: the records have no times."
        return Finding("max-drift-per-minute", allowed, "unknown", "unknown", sentence)
    surely = rate * low / per_invocation if per_invocation else 0.0
    sentence = f"It grows by {rate:.1f} KiB a minute (at least {surely:.1f}), and {limit:g} KiB are allowed."
    measured = f"{rate:.1f} KiB (from {surely:.1f})"
    return Finding("max-drift-per-minute", allowed, measured, _over(surely, limit), sentence, rate)


def _peak(measurement: Measurement, limit: float) -> Finding:
    if measurement.peak is None:
        return _unmeasured("max-peak", limit)
    where, value = measurement.peak
    sentence = f"The highest peak was {value:.1f} MiB, in {where}, and {limit:g} MiB are allowed."
    return Finding("max-peak", f"{limit:g} MiB", f"{value:.1f} MiB", _over(value, limit), sentence, value)


def _current(measurement: Measurement, limit: float) -> Finding:
    value = measurement.highest_current
    if value is None:
        return _unmeasured("max-current", limit)
    sentence = f"Up to {value:.1f} MiB were left behind by an invocation, and {limit:g} MiB are allowed."
    return Finding("max-current", f"{limit:g} MiB", f"{value:.1f} MiB", _over(value, limit), sentence, value)


def _growth(measurement: Measurement, baseline: Baseline, allowed: Growth) -> list[Finding]:
    now = Baseline.of(measurement)
    if now is None:
        return [
            Finding(
                "max-growth", str(allowed), "unknown", "unknown", "There is no record to compare with the baseline."
            )
        ]
    findings = []
    for name, value, was in (("peak", now.peak, baseline.peak), ("current", now.current, baseline.current)):
        grown = value - was
        sentence = (
            f"{name.capitalize()} RSS is {value:.1f} MiB, in the baseline it was {was:.1f}:"
            f" {grown:+.1f} MiB, and {allowed} are allowed."
        )
        outcome = _over(grown, allowed.mib(was))
        findings.append(Finding(f"max-growth ({name})", str(allowed), f"{grown:+.1f} MiB", outcome, sentence, grown))
    return findings


def _over(value: float, limit: float) -> Outcome:
    return "broken" if value > limit else "kept"


def _unmeasured(name: str, limit: float) -> Finding:
    return Finding(name, f"{limit:g} MiB", "unknown", "unknown", f"Nothing was measured for {name}.")
