"""Computes the smallest safe memory size from true peaks, and the size that the mark would suggest. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..support.plural import counted

HEADROOM = 0.2
"""Share that is added to the highest need."""
STEP_MIB = 64
SMALLEST_MIB, LARGEST_MIB = 128, 32_768
"""Lambda's limits. Above ORDINARY_MIB there are only Managed Instances."""
ORDINARY_MIB = 10_240
TELLS = (
    "Exact mode (AWS_LAMBDA_EXEC_WRAPPER=/opt/truemem/exact) makes it a figure; in a Python function, the heap probe"
    " (truemem attach NAME --heap) bounds children"
)
ENOUGH = 100
"""Least number of invocations for a suggestion."""
VCPU_MIB = 1769
"""Memory size that buys one vCPU. Less memory buys a part of it."""
GB_SECOND = 0.0000166667
"""Price in USD; us-east-1, x86_64, first tier, without free tier."""


@dataclass(frozen=True, kw_only=True)
class Seen:
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
    """True if they grow together (`analysis.fleet`)."""
    open: str
    """What is not known yet of its memory, in words: then no size is named. Empty if nothing is."""
    growing: int
    settled: int
    rising: int
    """Environments that grow; that have settled; that are too young for a verdict, and rise."""
    billed_ms: float | None
    """Mean billed duration."""


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """The suggested size, in MiB."""

    size: float | None
    need: float | None
    others: float | None
    suggested: int | None
    """None if no size is safe, or too little is known. `reason` says why."""
    reason: str | None
    mark: float | None
    mark_suggests: int | None
    """Size by the same rule from Max Memory Used."""
    saving: float | None
    """Saving in USD per month at the given traffic, if durations stay the same. Negative: it costs more."""
    saved_gb_s: float | None
    """GB-seconds that it would have saved in the invocations that were read. Negative: it would have cost them."""
    trial: int | None
    """Size to measure with, after running out of memory. None if it did not, or if there is no larger one."""
    cpu_now: float | None
    cpu_then: float | None
    """vCPUs of the present and the suggested size."""


def advise(seen: Seen, *, headroom: float, per_month: float | None, price: float) -> Sizing:
    """Suggest a size. `per_month` is in invocations, `price` in USD per GB-second."""
    wanted = None if seen.need is None else rounded((seen.need + (seen.others or 0.0)) * (1 + headroom))
    reason = _reason(seen, wanted)
    suggested = wanted if reason is None else None
    saved = saving = None
    if suggested and seen.size and seen.billed_ms is not None:
        saved = (seen.size - suggested) / 1024 * seen.billed_ms / 1000
        saving = None if per_month is None else saved * per_month * price
    return Sizing(
        size=seen.size,
        need=seen.need,
        others=seen.others,
        suggested=suggested,
        reason=reason,
        mark=seen.mark,
        mark_suggests=None if seen.mark is None else rounded(seen.mark * (1 + headroom)),
        saving=saving,
        saved_gb_s=None if saved is None else saved * seen.invocations,
        trial=_trial(seen.size) if seen.out_of_memory else None,
        cpu_now=None if seen.size is None else seen.size / VCPU_MIB,
        cpu_then=None if suggested is None else suggested / VCPU_MIB,
    )


def rounded(mib: float) -> int:
    """Round up to the next step, at least to Lambda's smallest size. May be above its largest."""
    return max(SMALLEST_MIB, math.ceil(mib / STEP_MIB) * STEP_MIB)


def _reason(seen: Seen, wanted: int | None) -> str | None:
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
    if seen.invocations < ENOUGH:
        return f"{seen.invocations} invocations are too few: {ENOUGH} are needed"
    if seen.unbounded:
        return (
            f"in {counted(seen.unbounded, 'invocation')} the peak may have reached the memory size: its need is"
            f" not known. {TELLS}"
        )
    if wanted > LARGEST_MIB:
        return f"it needs more than Lambda's largest size, {LARGEST_MIB:,} MiB"
    return None


def _ran_out(size: float | None) -> str:
    if size is None:
        return "it ran out of memory, so its need is not known: give it more and measure again"
    if size >= LARGEST_MIB:
        return f"it ran out of memory at Lambda's largest size, {LARGEST_MIB:,} MiB"
    trial = _trial(size) or LARGEST_MIB
    return (
        f"it ran out of memory at {size:,.0f} MiB, so its need is not known:"
        f" give it {trial:,} MiB{' (Managed Instances)' if trial > ORDINARY_MIB else ''} for a while and measure again"
    )


def _trial(size: float | None) -> int | None:
    """Twice the size, as far as Lambda has it. None if there is no larger one."""
    if size is None or size >= LARGEST_MIB:
        return None
    return min(2 * rounded(size), ORDINARY_MIB if size < ORDINARY_MIB else LARGEST_MIB)
