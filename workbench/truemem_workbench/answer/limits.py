"""Checks all limits on a measurement. Pure.

Growth is what the finding says (`judge.finding`). Nothing passes without it: an undecided limit is `unknown`, and
more invocations may decide it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from truemem.verdict import COUNTED_KIB, GROWING_FROM

from ..judge.drift import Point, judge, lives, trusted_of
from ..judge.finding import COUNTED, Cause, Finding
from ..judge.latency import Latency, failed_share, ms, rank
from ..printed.running import ran_out_at
from ..runs.measurement import Measurement, Outcome, printable, undecided_peak, worst_peak
from ..runs.passes import Decision
from .baseline import AllowedGrowth, Baseline

MOST_EVENTS = 5  # numbers of events in a sentence
HOPELESS = 100  # number of invocations without any record after which the run does not wait for records any more
ENOUGH = 0.9
"""Share of the invocations with a record that must tell of /tmp: of an environment that ends, the last one does not."""
UNTOLD = (
    "The lines do not tell it. For a deployed function set TRUEMEM_RESOURCES=always (truemem attach NAME --set"
    " resources=always)."
)


ERRORS = ("errors", "max-errors")
"""Names of the check of errors: without a limit, and with one."""
GROWTH = "growth"
OUT_OF_MEMORY = "out-of-memory"
P99 = "max-p99"
RECORDS = "records"
"""Name of the check that there are any."""


@dataclass(frozen=True)
class LimitCheck:
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


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a run. None: not set. Without a limit on drift, nothing may grow."""

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
    growth: AllowedGrowth | None = None
    """Growth allowed over a baseline."""
    p99_ms: float | None = None
    """Highest p99 allowed of the durations."""
    errors_percent: float | None = None
    """How many of 100 invocations may fail. None: if one does, the result is unknown. 100: any number."""
    allowed: Collection[str] = ()
    """Causes that do not break the gate."""


@dataclass(frozen=True)
class Rate:
    """Growth with its 95 % interval, per invocation or per minute."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} KiB ({self.low:.1f} to {self.high:.1f})"


def find(measurement: Measurement, limits: Limits, baseline: Baseline | None = None) -> list[LimitCheck]:
    """Check all limits that are set."""
    made = _errors(measurement, limits)
    is_failing = any(each.outcome != "kept" for each in made)
    if not measurement.seen:
        return made if is_failing else [_nothing(measurement)]
    drift = _drift(measurement, limits)
    if is_failing:  # that drift is unknown as well is no news
        drift = [each for each in drift if each.outcome != "unknown"]
    made += [_out_of_memory(measurement)] if measurement.out_of_memory else []
    made += [_ended(measurement)] if measurement.ended and "extension" not in limits.allowed else []
    made += drift
    if limits.peak_mib is not None:
        made.append(_peak(measurement, limits.peak_mib))
    if limits.current_mib is not None:
        made.append(_current(measurement, limits.current_mib))
    if limits.p99_ms is not None:
        made.append(check_p99(measurement.latency, limits.p99_ms, unknown=measurement.untimed))
    if limits.tmp_mib is not None:
        made.append(check_tmp(measurement.in_tmp, len(measurement.seen), limits.tmp_mib))
    if limits.descriptors_drift is not None:
        made.append(descriptors_drift(measurement.descriptors, limits.descriptors_drift))
    if baseline is not None:
        made += _growth_over(measurement, baseline, limits.growth or AllowedGrowth())
    return made


def undecided(measurement: Measurement, limits: Limits) -> str:
    """Why more invocations are needed, in a few words. Empty if they are not needed, or would not help."""
    if any(each.outcome != "kept" for each in _errors(measurement, limits)):
        return ""
    if not measurement.seen:  # a line comes an invocation late, and later where nothing waits for it
        return "no record yet" if measurement.invocations < HOPELESS else ""
    found = find(measurement, limits)
    if any(each.outcome == "broken" and not each.why for each in found):
        return ""
    return next((each.why for each in found if each.why), "")


class LimitsDecision(Decision):
    """Decided by two looks, one after the other, that find the same."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.errors_percent, self.allowed = limits.errors_percent or 0.0, limits.allowed
        self.needs_all = any(each is not None for each in (limits.peak_mib, limits.p99_ms, limits.growth))
        self.asks_peaks = any(each is not None for each in (limits.peak_mib, limits.current_mib))
        self._before: Cause = "undecided"

    def why(self, measurement: Measurement) -> str:
        """Why more invocations are needed, in a few words; empty if they are not."""
        finding = measurement.finding
        found = undecided(measurement, self._limits)
        if finding.cause in ("leak", "native") and measurement.invocations < self.full_by:
            found = found or "it may end"
        if not found and finding.cause not in ("failing", self._before) and measurement.seen:
            found = "looking once more"
        self._before = finding.cause
        self.until = measurement.seen[-1].number if measurement.seen and not found else None
        return found


def _drift(measurement: Measurement, limits: Limits) -> list[LimitCheck]:
    """Check what grows: against the limits in KiB if there are any, else nothing may."""
    finding = measurement.finding
    if limits.drift_kib is None and limits.drift_per_minute_kib is None:
        return [_growth(finding, limits)]
    found = []
    if finding.cause in COUNTED and not _is_allowed(finding, limits):
        found.append(_growth(finding, limits))
    rate, is_open = _rate(measurement, limits), finding.cause == "undecided"
    is_unknown = is_open and finding.per_invocation_kib is None and bool(finding.holder)
    for name, limit, scale, per in (
        ("max-drift", limits.drift_kib, 1.0, "per invocation"),
        ("max-drift-per-minute", limits.drift_per_minute_kib, measurement.per_minute, "a minute"),
    ):
        if limit is None:
            continue
        if scale is None:
            sentence = "Drift by the minute cannot be judged: the records have no times."
            found.append(LimitCheck(name, f"{limit:g} KiB", "", "unknown", sentence))
        elif is_unknown or (is_open and rate is not None and rate.low * scale <= limit < rate.high * scale):
            found.append(LimitCheck(name, f"{limit:g} KiB", "undecided", "unknown", finding.title, why="undecided"))
        elif rate is None:
            found.append(_too_few(name, measurement.in_a_row))
        else:
            scaled = Rate(rate.value * scale, rate.low * scale, rate.high * scale)
            sentence = f"It grows by {scaled} {per}, and {limit:g} KiB are allowed."
            check = LimitCheck(name, f"{limit:g} KiB", str(scaled), "kept", sentence, scaled.value)
            doubt = "undecided" if is_open else None
            count = measurement.in_a_row
            found.append(
                against_interval(check, scaled.low, scaled.high, limit, count=count, doubt=doubt, near="near the limit")
            )
    return found


def _growth(finding: Finding, limits: Limits) -> LimitCheck:
    """Nothing may grow that is not allowed by name."""
    measured: str = finding.cause
    if finding.grows and finding.per_invocation_kib is not None:
        measured += f", {finding.per_invocation_kib:,.1f} KiB"

    def check(outcome: Outcome, why: str | None = None) -> LimitCheck:
        return LimitCheck(GROWTH, "none", measured, outcome, finding.paragraph(), finding.per_invocation_kib, None, why)

    if finding.grows:
        if _is_allowed(finding, limits):
            return check("kept")
        return check("broken", None if finding.settled else "a leak, or a cache that fills")
    if finding.cause in ("undecided", "failing"):
        return check("unknown", "too few to judge" if finding.pattern == "too-few-invocations" else finding.cause)
    return check("kept", None if finding.settled else "the interval is wide")


def _is_allowed(finding: Finding, limits: Limits) -> bool:
    named = finding.cause in limits.allowed
    own = {"descriptors": limits.descriptors_drift, "tmp": limits.tmp_mib}
    return named or own.get(finding.cause) is not None


def _rate(measurement: Measurement, limits: Limits) -> Rate | None:
    """Growth of what the finding is known from; else of what is kept. None with too few invocations."""
    finding, kept = measurement.finding, measurement.kept
    is_judged = (finding.grows and not _is_allowed(finding, limits)) or finding.cause == "undecided"
    for value, low, high in (
        (finding.per_invocation_kib, finding.low_kib, finding.high_kib) if is_judged else (None, None, None),
        (kept.per_invocation_kib, kept.low_kib, kept.high_kib),
    ):
        if value is not None and low is not None and high is not None and measurement.in_a_row >= GROWING_FROM:
            return Rate(value, low, high)
    return None


def _too_few(name: str, count: int) -> LimitCheck:
    sentence = (
        f"Drift cannot be judged: {count} invocations of the same processes can be used, and {GROWING_FROM} are needed,"
        " because before that a leak looks like a cache that fills. Try more --invocations."
    )
    return LimitCheck(name, "", "too few", "unknown", sentence, why="too few to judge")


def against_interval(
    check: LimitCheck,
    low: float,
    high: float,
    limit: float,
    *,
    count: int,
    near: str,
    doubt: str | None = None,
    more: str = "more --invocations",
) -> LimitCheck:
    """The check with its outcome: broken if even the lower end of the interval is above the limit. `check.value` is in
    the interval.

    `why` asks for more invocations: `doubt` if a broken limit may be one, `near` if the limit is in the interval. The
    outcome is that of a run that may not make any more, and the sentence has what to try then: `more`.
    """
    within = f"after {count} invocations the limit is still within the interval"
    value = check.value or 0.0
    if low > limit:
        return replace(check, outcome="broken", why=doubt)
    if high <= limit or (low <= 0 and value <= limit):
        return check
    if value > limit:
        said = f"{check.sentence} Undecided: {within}. Try {more}."
        return replace(check, outcome="unknown", sentence=said, why=near)
    return replace(check, note=f"{check.name}: {within}", why=near)


def _errors(measurement: Measurement, limits: Limits) -> list[LimitCheck]:
    """Check how many invocations failed. Without a limit, one that did leaves the result unknown."""
    if limits.errors_percent is None:
        return [_failures(measurement)] if measurement.failures else []
    if limits.errors_percent >= 100:
        return []
    said = f" The last one said: {printable(measurement.failures[-1].error)}." if measurement.failures else ""
    return [check_errors(len(measurement.failures), measurement.invocations, limits.errors_percent, said)]


def check_errors(failed: int, of: int, percent: float, said: str) -> LimitCheck:
    """Check the share of invocations that failed in this run. `said`: a sentence with an example, or nothing."""
    share = 100 * failed / max(1, of)
    measured = failed_share(failed, of)
    sentence = f"{measured} invocations failed, and {percent:g} % are allowed.{said}"
    return LimitCheck(ERRORS[1], f"{percent:g} %", measured, _over(share, percent), sentence, share)


def check_p99(
    latency: Latency | None, limit: float, *, unknown: int = 0, more: str = "more --invocations"
) -> LimitCheck:
    """Check p99 of the durations, by its interval. `unknown`: invocations whose duration is not known. If they are
    more than 1 %, so is p99. `more`: what to try if it is undecided."""
    name, allowed = P99, f"{limit:g} ms"
    if latency is None or 99 * unknown > latency.invocations:
        known = latency.invocations if latency else 0
        sentence = f"p99 is unknown: {unknown} of {known + unknown} invocations have no duration."
        return LimitCheck(name, allowed, "unknown", "unknown", sentence)
    p99, count = latency.p99, latency.invocations
    measured = f"{ms(p99.value)} ms ({ms(p99.low)} to {ms(p99.high)})"
    which = "the highest of" if rank(99, count) == count else "of"
    sentence = f"p99 is {measured}, {which} {count} invocations, and {allowed} are allowed."
    check = LimitCheck(name, allowed, measured, "kept", sentence, p99.value)
    return against_interval(check, p99.low, p99.high, limit, count=count, near="p99 near the limit", more=more)


def _failures(measurement: Measurement) -> LimitCheck:
    """That invocations failed: a function that does not work was not measured."""
    first, last = measurement.failures[0], measurement.failures[-1]
    sentence = f"{len(measurement.failures)} of {measurement.invocations} invocations failed"
    sentence += f", the first was number {first.number}" if first is not last else ""
    sentence += f", the last number {last.number}: {printable(last.error)}."
    sentence += " Fix that, or try --allow-errors if it is meant to fail."
    if measurement.finding.cause == "failing":
        sentence = measurement.finding.paragraph()
    measured = failed_share(len(measurement.failures), measurement.invocations)
    return LimitCheck(ERRORS[0], "none", measured, "unknown", sentence)


def _nothing(measurement: Measurement) -> LimitCheck:
    return LimitCheck(RECORDS, "", "none", "unknown", measurement.finding.paragraph())


def _out_of_memory(measurement: Measurement) -> LimitCheck:
    numbers = measurement.out_of_memory
    sentence = f"Invocation {numbers[0]}"
    sentence += f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""
    size = f" of {measurement.memory_mib} MiB" if measurement.memory_mib else ""
    ran = ran_out_at(each.line for each in measurement.seen)
    events = ", ".join(map(str, measurement.too_large[:MOST_EVENTS]))
    events += ", ..." if len(measurement.too_large) > MOST_EVENTS else ""
    which = f": all with event {events}, which never fits" if events else ""
    sentence = f"{sentence} ran out of the memory size{size}{which}.{' ' * bool(ran)}{ran}"
    return LimitCheck(OUT_OF_MEMORY, "never", f"{len(numbers)} times", "broken", sentence)


def _ended(measurement: Measurement) -> LimitCheck:
    """That an extension ended, or was killed for memory: Lambda ends the environment with it."""
    numbers = measurement.ended
    sentence = f"An extension ended in invocation {numbers[0]}, and the environment with it."
    return LimitCheck("extensions", "stay", f"ended {len(numbers)} times", "broken", sentence)


def _peak(measurement: Measurement, limit: float) -> LimitCheck:
    if measurement.peak is None:
        return _unmeasured("max-peak", limit)
    outcome, peak = worst_peak(measurement.peaks, limit)
    sentence = f"The highest peak was {peak}, in {peak.where}, and {limit:g} MiB are allowed."
    if outcome == "unknown":
        sentence = undecided_peak(peak, limit)
    return LimitCheck("max-peak", f"{limit:g} MiB", str(peak), outcome, sentence, peak.lower)


def _current(measurement: Measurement, limit: float) -> LimitCheck:
    value = measurement.highest_current
    if value is None:
        return _unmeasured("max-current", limit)
    sentence = f"An invocation left up to {value:.1f} MiB behind, and {limit:g} MiB are allowed."
    return LimitCheck("max-current", f"{limit:g} MiB", f"{value:.1f} MiB", _over(value, limit), sentence, value)


def check_tmp(left: Mapping[int, float], records: int, limit: float) -> LimitCheck:
    """Check what invocations left in /tmp, MiB, by their number; `records` of them have a line."""
    allowed = f"{limit:g} MiB"
    number = max(left, key=left.__getitem__, default=0)
    highest = left.get(number, 0.0)
    sentence = f"Up to {highest:.1f} MiB were in /tmp, after invocation {number}, and {limit:g} MiB are allowed."
    if highest > limit:
        return LimitCheck("max-tmp", allowed, f"{highest:.1f} MiB", "broken", sentence, highest)
    if not left or len(left) < ENOUGH * records:
        return LimitCheck("max-tmp", allowed, "unknown", "unknown", f"How much of /tmp is used is unknown. {UNTOLD}")
    return LimitCheck("max-tmp", allowed, f"{highest:.1f} MiB", "kept", sentence, highest)


def descriptors_drift(points: Sequence[Point], limit: float) -> LimitCheck:
    """Check the growth of open descriptors per invocation: broken if even the lower end of its interval is above the
    limit. `points` are numbers of descriptors."""
    name, allowed = "max-descriptors-drift", f"{limit:g}"
    if not points:
        return LimitCheck(name, allowed, "unknown", "unknown", f"How many descriptors are open is unknown. {UNTOLD}")
    count = max(len(trusted_of(life)) for life in lives(points))
    found = judge([each._replace(current_kib=each.current_kib * COUNTED_KIB) for each in points])
    rates = found.per_invocation_kib, found.low_kib, found.high_kib
    if count < GROWING_FROM or None in rates:
        sentence = (
            f"Growth of descriptors cannot be judged: {count} invocations can be used, {GROWING_FROM} are needed."
            " Try more --invocations."
        )
        return LimitCheck(name, allowed, "too few", "unknown", sentence, why="too few to judge")
    rate = Rate(*((each or 0.0) / COUNTED_KIB for each in rates))
    measured = f"{rate.value:.3g} ({rate.low:.3g} to {rate.high:.3g})"
    sentence = f"Open descriptors grow by {measured} per invocation, and {limit:g} are allowed."
    check = LimitCheck(name, allowed, measured, "kept", sentence, rate.value)
    doubt = "descriptors still warming" if found.name == "warming" else None
    near = "descriptors near the limit"
    return against_interval(check, rate.low, rate.high, limit, count=count, doubt=doubt, near=near)


def _growth_over(measurement: Measurement, baseline: Baseline, allowed: AllowedGrowth) -> list[LimitCheck]:
    now = Baseline.of(measurement)
    if now is None:
        sentence = "There is no record to compare with the baseline."
        return [LimitCheck("max-growth", str(allowed), "unknown", "unknown", sentence)]
    found = []
    for name, value, was in (("peak", now.peak, baseline.peak), ("current", now.current, baseline.current)):
        check = check_growth(name, value, was, allowed)
        if name == "peak" and check.outcome == "kept":
            limit = was + allowed.mib(was)
            outcome, peak = worst_peak(measurement.peaks, limit)
            sentence = undecided_peak(peak, limit) if outcome == "unknown" else check.sentence
            check = replace(check, outcome=outcome, sentence=sentence)
        found.append(check)
    return found


def check_growth(name: str, value: float, was: float, allowed: AllowedGrowth) -> LimitCheck:
    """Check what is more than in the baseline, MiB. `name`: peak or current."""
    grown = value - was
    sentence = (
        f"{name.capitalize()} RSS is {value:.1f} MiB, in the baseline it was {was:.1f}:"
        f" {grown:+.1f} MiB, and {allowed} are allowed."
    )
    outcome = _over(grown, allowed.mib(was))
    return LimitCheck(f"max-growth ({name})", str(allowed), f"{grown:+.1f} MiB", outcome, sentence, grown)


def _over(value: float, limit: float) -> Outcome:
    return "broken" if value > limit else "kept"


def _unmeasured(name: str, limit: float) -> LimitCheck:
    return LimitCheck(name, f"{limit:g} MiB", "unknown", "unknown", f"Nothing was measured for {name}.")
