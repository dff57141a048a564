"""Which memory size a function should have: the smallest that is safe, and whether to go there. The one place that
decides whether a function is oversized. Sizes in MiB. Pure.

A smaller size is proposed only if memory permits it (the thresholds below) and if in the whole interval of the
prediction (`size_prediction`) it costs less or the same, and p99 is not SLOWER times what it is. Of the smallest safe
size and its doubles it is the one that is cheapest at worst. Without CPU time that is not known, and none is proposed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ..support.platform_facts import LEAST_MIB, MOST_MANAGED_MIB, MOST_MIB
from ..support.terminal import counted, mib, whole
from .prices import dollars
from .size_prediction import Invocations, PredictedRange, Prediction, predict

HEADROOM = 0.2
"""Share that is added to the highest need."""
INVOCATIONS_NEEDED = 100
"""Least number of invocations for a size."""
STEP_MIB = 64
TELLS = (
    "Exact mode (truemem attach NAME --exact) makes it a figure; in a Python function, the heap probe (truemem attach"
    " NAME --heap) bounds children"
)


class Fit(StrEnum):
    """How the memory size fits the function."""

    UNKNOWN = "unknown"
    """No size is known to be safe."""
    SMALL = "small"
    """The smallest safe size is larger."""
    FITS = "fits"
    """The memory size fits: it is the smallest safe size, or each smaller one might cost more or be slow."""
    UNMEASURED = "unmeasured"
    """A smaller size is safe, but what it would cost is not known."""
    OVERSIZED = "oversized"
    """A smaller size is safe, and costs less or the same in the whole interval of the prediction; nor is it slow."""


@dataclass(frozen=True, kw_only=True)
class SizingFigures:
    """The figures of a function that decide its size, in MiB."""

    invocations: int
    size: float | None
    need: float | None
    """Most that any invocation or init phase of the function alone can have needed."""
    others: float | None
    """Most that the sidecar and other extensions held together."""
    mark: float | None
    unbounded: int
    """Invocations whose peak may have reached the memory size."""
    out_of_memory: int
    environments: int
    together: bool
    """True if they grow together (`report.fleet`)."""
    open: str
    """What is not known yet of its memory, in words: then no size is named. Empty if nothing is."""
    growing: int
    settled: int
    rising: int
    """Environments that grow; that have settled; that are too young for a verdict, and rise."""
    computed: Invocations | None
    """Duration and CPU time of the invocations at this size. None if no duration is known."""


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """What is known of the size, in MiB."""

    size: float | None
    need: float | None
    others: float | None
    fit: Fit
    safe: int | None
    """The smallest safe size. None if none is known. `reason` says why."""
    suggested: int | None
    """The size to set. None if there is no reason to change it."""
    reason: str | None
    mark: float | None
    mark_suggests: int | None
    """Size by the same rule from Max Memory Used."""
    trial: int | None
    """Size to measure with, after running out of memory. None if it did not, or if there is no larger one."""
    prediction: Prediction | None
    """Prediction at the suggested size, else at the smallest safe one. None if that is not smaller, or if too little
    CPU time is known."""
    computed: int
    """Invocations of which CPU time is known."""
    unpredicted: str
    """Why there is no prediction at a smaller size, in words. Empty if there is one."""
    saving: PredictedRange | None
    """Saving in USD per million invocations: the least and the most that the prediction leaves open."""

    @property
    def can_shrink(self) -> bool:
        """True if a smaller size is safe, whatever it costs."""
        return self.safe is not None and self.size is not None and self.safe < self.size


def advise_size(seen: SizingFigures, *, headroom: float, gb_second: float) -> Sizing:
    """Decide. `headroom`: HEADROOM or the user's; `gb_second`: price in USD (`prices.GB_SECOND`)."""
    wanted = None if seen.need is None else rounded_size((seen.need + (seen.others or 0.0)) * (1 + headroom))
    reason = _no_size_reason(seen, wanted)
    safe = wanted if reason is None else None
    prediction, saving, unpredicted = None, None, ""
    if safe and seen.size and safe < seen.size:
        computed = seen.computed or Invocations.of(seen.size, [])
        prediction, unpredicted = _best(computed, safe, seen.size, gb_second), computed.missing
    if prediction is not None:
        saving = PredictedRange(prediction.cost_now - prediction.cost.high, prediction.cost_now - prediction.cost.low)
    fit = fit_of(seen.size, safe, prediction)
    return Sizing(
        size=seen.size,
        need=seen.need,
        others=seen.others,
        fit=fit,
        safe=safe,
        suggested=prediction.size if prediction and fit is Fit.OVERSIZED else safe if fit is Fit.SMALL else None,
        reason=reason,
        mark=seen.mark,
        mark_suggests=None if seen.mark is None else rounded_size(seen.mark * (1 + headroom)),
        trial=_trial(seen.size) if seen.out_of_memory else None,
        prediction=prediction,
        computed=0 if seen.computed is None else int(seen.computed.count[seen.computed.known].sum()),
        unpredicted=unpredicted,
        saving=saving,
    )


def rounded_size(mib: float) -> int:
    """Round up to the next step, at least to Lambda's smallest size. May be above its largest."""
    return max(LEAST_MIB, math.ceil(mib / STEP_MIB) * STEP_MIB)


def fit_of(size: float | None, safe: int | None, prediction: Prediction | None) -> Fit:
    """How a function's size fits it, and the smallest safe one, where it would be as predicted."""
    if safe is None or size is None:
        return Fit.UNKNOWN
    if safe >= size:
        return Fit.SMALL if safe > size else Fit.FITS
    if prediction is None:
        return Fit.UNMEASURED
    return Fit.OVERSIZED if _is_better(prediction) else Fit.FITS


def _best(computed: Invocations, safe: int, size: float, gb_second: float) -> Prediction | None:
    """Prediction at the safe size that is cheapest at worst, else at the smallest. None if nothing can be predicted."""
    sizes = [safe << doubled for doubled in range(8) if safe << doubled < size]
    predictions = [each for each in (predict(computed, one, gb_second) for one in sizes) if each is not None]
    better = [each for each in predictions if _is_better(each)]
    return min(better or predictions[:1], key=lambda each: each.cost.high, default=None)


def _is_better(prediction: Prediction) -> bool:
    return prediction.is_cheaper and not prediction.is_slow


def of_memory(sizing: Sizing, headroom: float) -> Iterator[str]:
    """What is said of the smallest safe size."""
    if sizing.safe is None:
        yield f"No memory size is suggested: {sizing.reason}."
    else:
        yield (
            f"Smallest safe memory size: {sizing.safe:,} MB. The function needed {mib(sizing.need)} MiB at most"
            f" (upper bounds count), sidecar and extensions held {mib(sizing.others or 0.0)}; {headroom:.0%} are added,"
            " then rounded up." + (f" It has {sizing.size:,.0f} MB now." if sizing.size else "")
        )
        if sizing.safe > MOST_MIB:
            yield f"Above {MOST_MIB:,} MB there are only Lambda Managed Instances."
    if sizing.mark_suggests is not None:
        yield f"The mark, {whole(sizing.mark)} MB, would have suggested {sizing.mark_suggests:,} MB by the same rule."


def of_cost(sizing: Sizing, measure: str) -> Iterator[str]:
    """What is said of a smaller size. `measure`: the command that measures it."""
    if sizing.prediction is not None:
        yield _predicted(sizing.prediction, measure)
    elif sizing.fit is Fit.UNMEASURED:
        yield (
            f"Less memory is less CPU. What {sizing.safe:,} MB would cost is not known: {sizing.unpredicted}."
            f" Measure it: {measure}"
        )


def _predicted(at: Prediction, measure: str) -> str:
    """What the smaller size is predicted to do, and the price of being wrong."""
    begin, end = "is not suggested, it may cost more", f" Measure it: {measure}"
    if at.is_cheaper and at.is_slow:
        begin = f"is not suggested, p99 may rise from {mib(at.p99_now)} to {mib(at.p99.high)} ms"
    elif at.is_cheaper:
        begin, end = "costs less", ""
    return (
        f"{at.size:,} MB {begin}: CPU time is {at.computing:.0%} of the duration, so p50 becomes {_range(at.p50)} ms"
        f" (now {mib(at.p50_now)}). At worst: p50 {mib(at.p50.high)} ms, p99 {mib(at.p99.high)}"
        f" (now {mib(at.p99_now)}), slowest {mib(at.slowest.high)} (now {mib(at.slowest_now)}),"
        f" {dollars(at.cost.high)} a million invocations (now {dollars(at.cost_now)}).{end}"
    )


def _range(interval: PredictedRange) -> str:
    low, high = mib(interval.low), mib(interval.high)
    return low if low == high else f"{low} to {high}"


def _no_size_reason(seen: SizingFigures, wanted: int | None) -> str | None:
    if wanted is None:
        return "no peak was measured"
    if seen.open:
        return seen.open
    if seen.growing:
        return f"memory grows in {seen.growing} of its environments: no size is safe for long, fix that first"
    if seen.together:
        return "memory grows in its environments together: no size is safe for long, fix that first"
    if not seen.settled and 2 * seen.rising >= seen.environments:
        return (
            f"memory still rises in {seen.rising:,} of {seen.environments:,} environments, and none has settled:"
            " its need is not known yet"
        )
    if seen.out_of_memory:
        return _ran_out(seen.size)
    if seen.invocations < INVOCATIONS_NEEDED:
        return f"{seen.invocations} invocations are too few: {INVOCATIONS_NEEDED} are needed"
    if seen.unbounded:
        return (
            f"in {counted(seen.unbounded, 'invocation')} the peak may have reached the memory size: its need is"
            f" not known. {TELLS}"
        )
    if wanted > MOST_MANAGED_MIB:
        return f"it needs more than Lambda's largest size, {MOST_MANAGED_MIB:,} MiB"
    return None


def _ran_out(size: float | None) -> str:
    if size is None:
        return "it ran out of memory, so its need is not known: give it more and measure again"
    if size >= MOST_MANAGED_MIB:
        return f"it ran out of memory at Lambda's largest size, {MOST_MANAGED_MIB:,} MiB"
    trial = _trial(size) or MOST_MANAGED_MIB
    return (
        f"it ran out of memory at {size:,.0f} MiB, so its need is not known:"
        f" give it {trial:,} MiB{' (Managed Instances)' if trial > MOST_MIB else ''} for a while and measure again"
    )


def _trial(size: float | None) -> int | None:
    """Twice the size, as far as Lambda has it. None if there is no larger one."""
    if size is None or size >= MOST_MANAGED_MIB:
        return None
    return min(2 * rounded_size(size), MOST_MIB if size < MOST_MIB else MOST_MANAGED_MIB)
