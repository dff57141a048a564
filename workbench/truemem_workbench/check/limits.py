"""Checks all limits on a measurement. Pure.

`peaks` judges a peak, `growth` judges drift.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import growth, resources
from .baseline import Baseline, Growth
from .growth import Finding
from .measurement import Measurement
from .peaks import Outcome, worst
from .peaks import undecided as undecided_peak
from .text import printable

HOPELESS = 100
"""Number of invocations without any record after which the run does not wait for records any more."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a run. None: not set. Without a limit on drift, the verdict must not be `growing`."""

    drift_kib: float | None = None
    """Growth allowed per invocation."""
    drift_per_minute_kib: float | None = None
    peak_mib: float | None = None
    """Highest peak allowed, of every invocation and the init phase."""
    current_mib: float | None = None
    """Highest current allowed, after every invocation but the warm-up."""
    tmp_mib: float | None = None
    """Most that may be in /tmp after an invocation."""
    descriptors_drift: float | None = None
    """Growth of open descriptors allowed per invocation."""
    growth: Growth | None = None
    """Growth allowed over a baseline."""
    errors: bool = False
    """True if invocations may fail."""


def find(measurement: Measurement, limits: Limits, baseline: Baseline | None = None) -> list[Finding]:
    """Check all limits that are set."""
    findings = [_errors(measurement)] if measurement.failures and not limits.errors else []
    if not measurement.seen:
        return findings or [_nothing(measurement)]
    drift = growth.drift(measurement, limits.drift_kib, limits.drift_per_minute_kib)
    if findings:  # that drift is unknown as well is no news
        drift = [each for each in drift if each.outcome != "unknown"]
    findings += [_out_of_memory(measurement)] if measurement.out_of_memory else []
    findings += drift
    if limits.peak_mib is not None:
        findings.append(_peak(measurement, limits.peak_mib))
    if limits.current_mib is not None:
        findings.append(_current(measurement, limits.current_mib))
    if limits.tmp_mib is not None:
        findings.append(resources.tmp(measurement.in_tmp, len(measurement.seen), limits.tmp_mib))
    if limits.descriptors_drift is not None:
        findings.append(resources.descriptors_drift(measurement.descriptors, limits.descriptors_drift))
    if baseline is not None:
        findings += _growth(measurement, baseline, limits.growth or Growth())
    return findings


def undecided(measurement: Measurement, limits: Limits) -> str:
    """Why more invocations are needed, in a few words. Empty if they are not needed, or would not help."""
    if measurement.failures and not limits.errors:
        return ""
    if not measurement.seen:  # a line comes an invocation late, and later where nothing waits for it
        return "no record yet" if measurement.invocations < HOPELESS else ""
    return growth.undecided(find(measurement, limits))


def _errors(measurement: Measurement) -> Finding:
    """The finding that invocations failed: a function that does not work was not measured."""
    first, last = measurement.failures[0], measurement.failures[-1]
    sentence = f"{len(measurement.failures)} of {measurement.invocations} invocations failed,"
    sentence += f" the first of them number {first.number}," if first is not last else ""
    sentence += f" the last of them number {last.number}: {printable(last.error)}."
    sentence += " Fix that, or try --allow-errors if it is meant to fail."
    return Finding("errors", "none", f"{len(measurement.failures)}", "unknown", sentence)


def _nothing(measurement: Measurement) -> Finding:
    sentence = f"None of {measurement.invocations} invocations has a record. The sidecar's last line: "
    return Finding("records", "", "none", "unknown", sentence + printable(measurement.last_words))


def _out_of_memory(measurement: Measurement) -> Finding:
    numbers = measurement.out_of_memory
    sentence = f"Out of memory in invocation {numbers[0]}"
    sentence += f", and in {len(numbers) - 1} more" if len(numbers) > 1 else ""
    size = f" of {measurement.memory_mib} MiB" if measurement.memory_mib else ""
    return Finding(
        "out-of-memory", "never", f"{len(numbers)} times", "broken", f"{sentence}: over its memory size{size}."
    )


def _peak(measurement: Measurement, limit: float) -> Finding:
    if measurement.peak is None:
        return _unmeasured("max-peak", limit)
    outcome, peak = worst(measurement.peaks, limit)
    sentence = f"The highest peak was {peak}, in {peak.where}, and {limit:g} MiB are allowed."
    if outcome == "unknown":
        sentence = undecided_peak(peak, limit)
    return Finding("max-peak", f"{limit:g} MiB", str(peak), outcome, sentence, peak.lower)


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
        if name == "peak" and outcome == "kept":
            limit = was + allowed.mib(was)
            outcome, peak = worst(measurement.peaks, limit)
            sentence = undecided_peak(peak, limit) if outcome == "unknown" else sentence
        findings.append(Finding(f"max-growth ({name})", str(allowed), f"{grown:+.1f} MiB", outcome, sentence, grown))
    return findings


def _over(value: float, limit: float) -> Outcome:
    return "broken" if value > limit else "kept"


def _unmeasured(name: str, limit: float) -> Finding:
    return Finding(name, f"{limit:g} MiB", "unknown", "unknown", f"Nothing was measured for {name}.")
