"""What to act on, function by function: the most urgent thing of each, in one line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ..analysis.finding import COUNTED, TOO_FEW, Finding
from ..support.terminal import brief, counted, mib, whole
from .summary import Function, Report

NEAR = 0.9
"""Share of the memory size that function, sidecar and extensions reach together: then the limit is near."""


class Need(IntEnum):
    """What a function needs, the most urgent first."""

    OUT_OF_MEMORY = 0
    RUNNING_OUT = 1
    """Of descriptors, /tmp, threads or processes."""
    GROWING = 2
    FAILING = 3
    NEAR_THE_LIMIT = 4
    UNDECIDED = 5
    """It rises, and it is not known yet whether it goes on."""
    OVERSIZED = 6
    NOTHING = 7

    @property
    def text(self) -> str:
        return "nothing to do" if self is Need.NOTHING else self.name.lower().replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class Action:
    """What to do about one version of a function."""

    function: Function
    need: Need
    rank: float
    """Among those with the same need, the lowest is the most urgent."""
    text: str
    """What was found and what to do, in at most 76 characters."""

    @property
    def name(self) -> str:
        return f"{self.function.function}:{self.function.version}"


def actions(report: Report, order: str) -> list[Action]:
    """One action for each version of a function of the report, in an order of SORTED."""
    return sorted(map(_action, report.functions), key=SORTED[order])


def _action(function: Function) -> Action:
    """The most urgent thing about a function."""
    need, rank, text = next(found for check in _CHECKS if (found := check(function)) is not None)
    return Action(function=function, need=need, rank=rank, text=f"{need.text}: {text}")


SORTED: Mapping[str, Callable[[Action], tuple[float | str, ...]]] = {
    "urgency": lambda each: (each.need, each.rank, each.name),
    "growth": lambda each: (-(each.function.growth_kib or 0.0), each.name),
    "saving": lambda each: (-(each.function.sizing.saved_gb_s or 0.0), each.name),
}
"""Orders of the list, by the name that --sort has for them."""


def in_one_line(report: Report, found: Sequence[Action], *, named: int = 3) -> str:
    """The whole report in one line, for a chat or a heading, with at most `named` functions for each need."""
    count = sum(function.peaks.invocations for function in report.functions)
    names = {each.function for each in report.functions}
    parts = []
    for need in Need:
        those = dict.fromkeys(each.function.function for each in found if each.need is need)
        if those and need is not Need.NOTHING:
            first = ", ".join([*list(those)[:named], *(["..."] if len(those) > named else [])])
            parts.append(f"{len(those):,} {need.text}" + (f" ({first})" if named else ""))
    counts = f"{counted(len(names), 'function')}, {counted(count, 'invocation')}"
    return f"{counts}: {', '.join(parts) or Need.NOTHING.text}"


_Found = tuple[Need, float, str]


def _out_of_memory(function: Function) -> _Found | None:
    died, of = function.peaks.out_of_memory + function.ended, function.peaks.invocations
    if not died:
        return None
    finding = function.finding
    trial = function.sizing.trial
    more = f"; {_short(finding)}" if finding.grows else f"; try {trial:,} MB" if trial else ""
    size = f", {whole(function.size)} MB" if function.size else ""
    return Need.OUT_OF_MEMORY, -died / of, f"{brief(died)} of {brief(of)} invocations{size}{more}"


def _running_out(function: Function) -> _Found | None:
    return _of_finding(function, Need.RUNNING_OUT) if function.finding.cause in COUNTED else None


def _growing(function: Function) -> _Found | None:
    return _of_finding(function, Need.GROWING) if function.finding.grows else None


def _failing(function: Function) -> _Found | None:
    failing = function.finding.cause == "failing"
    return (Need.FAILING, 0.0, "most invocations; nothing is said of their memory") if failing else None


def _undecided(function: Function) -> _Found | None:
    finding = function.finding
    if finding.cause != "undecided" or finding.pattern == TOO_FEW:
        return None
    return Need.UNDECIDED, -(finding.per_invocation_kib or 0.0), "more invocations decide whether it is a leak"


def _of_finding(function: Function, need: Need) -> _Found:
    left = function.finding.invocations_left
    return need, float("inf") if left is None else float(left), _short(function.finding)


def _short(finding: Finding) -> str:
    """A finding of something that grows, in a few words."""
    rate = f" {mib(finding.per_invocation_kib)} KiB per invocation" if finding.per_invocation_kib else ""
    left = finding.invocations_left
    soon = f", {brief(left)} invocations left" if left is not None else ""
    who = f"extension {finding.holder}" if finding.cause == "extension" else finding.cause
    return f"{who}{rate}{soon}"


def _near(function: Function) -> _Found | None:
    peak, size = function.peaks.highest, function.size
    if peak is None or not size:
        return None
    used = peak + (function.sizing.others or 0.0)
    if used < NEAR * size:
        return None
    suggested = function.sizing.suggested
    more = f"; smallest safe size {suggested:,} MB" if suggested and suggested > size else ""
    return Need.NEAR_THE_LIMIT, -used / size, f"{mib(used)} of {whole(size)} MB ({used / size:.0%}){more}"


def _oversized(function: Function) -> _Found | None:
    sizing = function.sizing
    if not sizing.suggested or not sizing.size or sizing.suggested >= sizing.size:
        return None
    less = 1 - sizing.suggested / sizing.size
    money = f", ${sizing.saving:,.2f} a month" if sizing.saving is not None else ""
    now = f"needs {mib(sizing.need)} of {whole(sizing.size)} MB"
    text = f"{now}; {sizing.suggested:,} MB is safe ({less:.0%} less{money})"
    return Need.OVERSIZED, -(sizing.saved_gb_s or 0.0), text


def _nothing(function: Function) -> _Found:
    reason = function.sizing.reason
    return Need.NOTHING, 0.0, f"{whole(function.size)} MB fits" if reason is None else "no size to suggest yet"


_CHECKS = (_out_of_memory, _running_out, _growing, _failing, _near, _undecided, _oversized, _nothing)
