"""The values of a report, and the smallest safe memory size from true peaks. Sizes in MiB. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..analysis.finding import Finding
from ..analysis.fleet import Together
from ..analysis.resources import Resource
from ..support.terminal import counted

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


def advise_size(seen: SizingFigures, *, headroom: float, per_month: float | None, price: float) -> Sizing:
    """Suggest a size. `per_month` is in invocations, `price` in USD per GB-second."""
    wanted = None if seen.need is None else rounded_size((seen.need + (seen.others or 0.0)) * (1 + headroom))
    reason = _no_size_reason(seen, wanted)
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
        mark_suggests=None if seen.mark is None else rounded_size(seen.mark * (1 + headroom)),
        saving=saving,
        saved_gb_s=None if saved is None else saved * seen.invocations,
        trial=_trial(seen.size) if seen.out_of_memory else None,
        cpu_now=None if seen.size is None else seen.size / VCPU_MIB,
        cpu_then=None if suggested is None else suggested / VCPU_MIB,
    )


def rounded_size(mib: float) -> int:
    """Round up to the next step, at least to Lambda's smallest size. May be above its largest."""
    return max(SMALLEST_MIB, math.ceil(mib / STEP_MIB) * STEP_MIB)


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
    return min(2 * rounded_size(size), ORDINARY_MIB if size < ORDINARY_MIB else LARGEST_MIB)


RISE_MIB, RISE_SHARE = 2.0, 0.05
"""A level is higher than another if the difference is more than both."""


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Invocations and their peaks. Percentiles are values that occurred (nearest rank)."""

    invocations: int
    p50: float | None
    p99: float | None
    highest: float | None
    out_of_memory: int


@dataclass(frozen=True, kw_only=True)
class EnvironmentSummary:
    """One execution environment."""

    function: str
    version: str
    environment_id: str
    peaks: Peaks
    current_first: float | None
    """Current after the first and after the last invocation whose figure is certain."""
    current_last: float | None
    mark_first: float | None
    mark: float | None
    """Max Memory Used: the first and the highest of REPORT."""
    size: float | None
    """The function's memory size."""
    first_ms: float | None
    last_ms: float | None
    """Begin of the first and of the last invocation, in epoch ms."""
    need: float | None
    """Most that an invocation or the init phase can have needed: the upper bound if the peak has one."""
    unbounded: int
    """Invocations whose peak may have reached the memory size. It does not count the last one of an environment that
    ended normally: its processes had ended when the sidecar looked."""
    others: float | None
    """Most that sidecar and extensions held together at the end of an invocation."""
    holders: Mapping[str, float]
    """Memory at the end of the latest invocation: of `function`, `truemem`, and each extension by name."""
    billed_ms: float
    """Sum of the durations, each rounded up to 1 ms, and their number."""
    billed: int
    methods: Mapping[str, int]
    """Invocations by method."""
    lost: int
    """Lines without a report, or with something lost."""
    peak_request: str | None
    """Request id of the highest peak."""
    out_of_memory_requests: Sequence[str]
    """Request ids of the first ten."""
    finding: Finding
    """The answer on its memory."""
    ended: int = 0
    """Invocations in which something beside the function was killed for memory, or an extension ended."""
    resources: Sequence[Resource] = ()
    """What else may run out, as far as the lines tell of it: the most urgent first."""

    @property
    def settled(self) -> bool:
        """True if its memory has settled."""
        return not self.finding.grows and self.finding.cause not in ("undecided", "failing")

    @property
    def rises(self) -> bool:
        """True if it is too early for an answer, and it is higher at its end than at its beginning."""
        if self.finding.cause != "undecided" or self.current_first is None or self.current_last is None:
            return False
        return self.current_last - self.current_first > max(RISE_MIB, RISE_SHARE * self.current_first)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """What one holder has when no invocation runs, over all environments."""

    name: str
    environments: int
    median: float
    highest: float


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Durations in ms, as percentiles that occurred. None if no line has one."""

    p50: float | None
    p99: float | None


@dataclass(frozen=True, kw_only=True)
class Payload:
    """The payload (event and answer), if it explains the peak."""

    times: float
    """Median of the peak above the baseline, divided by the payload."""
    invocations: int


@dataclass(frozen=True, kw_only=True)
class Function:
    """One version of one function."""

    function: str
    version: str
    peaks: Peaks
    environments: int
    size: float | None
    mark: float | None
    current_median: float | None
    """Median of what the environments held last."""
    finding: Finding
    """The answer: that of the environment to act on first, or of all of them together."""
    causes: Mapping[str, int]
    """Number of environments by the cause of their finding."""
    growth_kib: float | None
    """Growth per invocation of the environments that grow: the highest."""
    together: Together | None
    """The growth of its environments together. None if too few have enough invocations that can be compared."""
    ended: int
    """Invocations in which something beside the function was killed for memory, or an extension ended."""
    growing: int
    """Environments that grow: those that show it alone, else all that show it together."""
    settled: int
    """Environments whose memory has settled."""
    rising: int
    """Environments that are too young for a verdict, and rise."""
    mark_only_rises: int
    """Environments that have settled well below a mark that has risen."""
    holders: Sequence[Holder]
    lost: int
    methods: Mapping[str, int]
    payload: Payload | None
    durations: Durations
    sizing: Sizing
    resources: Sequence[Resource] = ()
    """What else may run out: of each kind the environment where it is most urgent."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The invocations with the same value in a structured log line: one model, tenant or route."""

    value: str | None
    """The value; None if no line has it."""
    peaks: Peaks
    added_p50: float | None
    """Median of the peak above the baseline."""
    left_mean: float | None
    """Mean of current above the baseline."""
    left_sum: float | None


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Lines with the member of --by that are in no Part, and why."""

    without_request_id: int
    """Lines that say no request id."""
    without_line: int
    """Requests that have no line of the sidecar in the chosen time, function and environments."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The whole report."""

    functions: Sequence[Function]
    environments: Sequence[EnvironmentSummary]
    """Environments, the most urgent first (`analysis.finding.urgency`)."""
    parts: Sequence[Part]
    by: str | None
    by_left_out: LeftOut | None
    """None without --by."""
    lines: int
    repeated: int
    elsewhere: int
    unread: Mapping[str, int]
    """Lines that were not read, by reason."""


def added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Add several counts. The most frequent comes first."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total.most_common())
