"""The values of a report. Sizes in MiB. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..judge.finding import Finding
from ..judge.prices import Cost
from ..judge.resources import Resource
from ..judge.sizing import Sizing
from ..triage.function import Unmeasured
from .fleet import Together

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
    billed: int
    """Invocations of which the duration is known."""
    billed_ms: float
    """What was billed for them: init phases too, as far as the lines say that they were."""
    init_ms: float
    """What of it was billed for init phases."""
    line_bytes: int
    """Length of the sidecar's lines."""
    managed: bool
    """True on Managed Instances, which are paid for by the instance."""
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
    """Median of the peak above the level at which the window opened, divided by the payload."""
    invocations: int


@dataclass(frozen=True, kw_only=True)
class RanOut:
    """A line of code that ran when memory ran out."""

    file: str
    line: int
    """0 where no line of the function's own code is known; then `file` is the innermost call."""
    function: str
    kills: int
    """Invocations that ran out of memory there."""
    level: float | None
    """Least of what their environments held when it was seen, MiB."""
    place: str
    """The line as text."""


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
    cost: Cost | None
    """None where nothing was billed by duration."""
    resources: Sequence[Resource] = ()
    """What else may run out: of each kind the environment where it is most urgent."""
    tmp_unknown: bool = False
    """True if /tmp was not measured: the lines are of the local Lambda, where it is no disk of its own."""
    ran_out: Sequence[RanOut] = ()
    """The lines of code that ran when memory ran out, the most frequent first."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The invocations with the same value in a structured log line: one model, tenant or route."""

    value: str | None
    """The value; None if no line has it."""
    peaks: Peaks
    added_p50: float | None
    """Median of the peak above the level at which the window opened."""
    left_mean: float | None
    """Mean of current above that level."""
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
    """Environments, the most urgent first (`judge.finding.urgency`)."""
    without_sidecar: Sequence[Unmeasured]
    """Functions that have REPORT lines alone, the most urgent first."""
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
