"""What a report says: values only. Sizes in MiB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..analysis.drift import Verdict
from .sizing import Sizing

SETTLED = ("stable", "plateau", "spiky")
"""Verdicts that say that nothing grows any more."""
RISE_MIB, RISE_SHARE = 2.0, 0.05
"""A level is higher than another by more than both."""


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """How often, and how high. Percentiles are values that occurred (nearest rank)."""

    invocations: int
    p50: float | None
    p99: float | None
    highest: float | None
    out_of_memory: int


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One execution environment."""

    function: str
    version: str
    environment_id: str
    peaks: Peaks
    current_first: float | None
    """After the first invocation of those read whose figure is certain, and after the last."""
    current_last: float | None
    mark_first: float | None
    mark: float | None
    """Max Memory Used: the first and the highest that REPORT said."""
    size: float | None
    """The function's memory size."""
    first_ms: float | None
    last_ms: float | None
    """Epoch ms at which the first and the last of the invocations began."""
    need: float | None
    """Most that an invocation, or the init phase, can have needed: the upper bound where the peak has one."""
    unbounded: int
    """Invocations whose peak may have reached the memory size: nothing lower bounds it. Not the last of an environment
    that ended without harm: its processes were gone when the sidecar looked."""
    others: float | None
    """Most that sidecar and extensions held together at the end of an invocation."""
    holders: Mapping[str, float]
    """At the end of the latest invocation: `function`, `truemem`, and each extension by name."""
    heap_in_use: float | None
    heap_held: float | None
    """The allocator's, at the end of the latest invocation, where the in-process probe was there."""
    heap_says: str | None
    """What those figures say, in a sentence."""
    hoards: bool
    """malloc keeps much of what was freed,"""
    only_hoards: bool
    """and nothing else grows: not a leak, whatever the curve looks like."""
    billed_ms: float
    """Durations, each rounded up to 1 ms, and how many there are."""
    billed: int
    methods: Mapping[str, int]
    """Invocations by how their peak is known."""
    lost: int
    """Lines without a report, or that say that something was lost."""
    peak_request: str | None
    """The request id of the highest peak."""
    out_of_memory_requests: Sequence[str]
    """The first ten."""
    verdict: Verdict

    @property
    def settled(self) -> bool:
        """Has what it holds come to rest?"""
        return self.verdict.name in SETTLED or (self.only_hoards and self.verdict.name != "growing")

    @property
    def rises(self) -> bool:
        """Too young for a verdict, and higher at its end than at its beginning?"""
        if self.verdict.name not in ("warming", "insufficient") or self.only_hoards:
            return False
        if self.current_first is None or self.current_last is None:
            return False
        return self.current_last - self.current_first > max(RISE_MIB, RISE_SHARE * self.current_first)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who holds memory when no invocation runs, over all environments."""

    name: str
    environments: int
    median: float
    highest: float


@dataclass(frozen=True, kw_only=True)
class Payload:
    """Event and answer, where they explain the peak."""

    times: float
    """What the peak is above the baseline, over their size: the median."""
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
    """Of what the environments held last."""
    verdicts: Mapping[str, int]
    """Environments by verdict."""
    slope_median_kib: float | None
    """Of the growth per invocation of the environments that have a verdict."""
    settled: int
    """Environments whose memory has come to rest,"""
    rising: int
    """and those too young for a verdict whose memory rises."""
    mark_only_rises: int
    """Environments that have settled well below a mark that has risen."""
    holders: Sequence[Holder]
    lost: int
    methods: Mapping[str, int]
    payload: Payload | None
    sizing: Sizing


@dataclass(frozen=True, kw_only=True)
class Part:
    """The invocations that a structured log line says the same of: one model, tenant, route."""

    value: str | None
    """None: no line says it."""
    peaks: Peaks
    added_p50: float | None
    """Peak beyond what the invocation found."""
    left_mean: float | None
    """What it left behind beyond what it found, on average."""
    left_sum: float | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """All of it."""

    functions: Sequence[Function]
    environments: Sequence[Environment]
    """The most urgent first: out of memory, growing, the highest peaks."""
    parts: Sequence[Part]
    by: str | None
    lines: int
    repeated: int
    elsewhere: int
    unreadable: int


def urgency(environment: Environment) -> tuple[bool, bool, float]:
    """Sorts the most urgent first, reversed."""
    growing = environment.verdict.name == "growing"
    return environment.peaks.out_of_memory > 0, growing, environment.peaks.highest or 0.0


def added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several counts, the most frequent first."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total.most_common())
