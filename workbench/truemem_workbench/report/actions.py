"""What to act on, function by function: the most urgent thing of each, in one line. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ..judge.finding import COUNTED, TOO_FEW, Finding
from ..judge.sizing import Fit
from ..judge.thresholds import NEAR
from ..support.terminal import brief, counted, mib, whole
from .summary import Function, Report


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
    TO_MEASURE = 7
    """A smaller size is safe, and it is not known what it costs."""
    NOTHING = 8

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
    "saving": lambda each: (-_saving(each.function), each.name),
    "cost": lambda each: (-_spent(each.function), each.name),
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
    where = f", most at {function.ran_out[0].place}" if function.ran_out else ""
    size = f", {whole(function.size)} MB" if function.size else ""
    return Need.OUT_OF_MEMORY, -died / of, f"{brief(died)} of {brief(of)} invocations{size}{where}{more}"


def _of_finding(function: Function) -> _Found | None:
    """What runs out, grows or fails."""
    finding = function.finding
    if finding.cause == "failing":
        return Need.FAILING, 0.0, "most invocations; repair that first"
    if finding.cause not in COUNTED and not finding.grows:
        return None
    left = math.inf if finding.invocations_left is None else float(finding.invocations_left)
    return Need.RUNNING_OUT if finding.cause in COUNTED else Need.GROWING, left, _short(finding)


def _undecided(function: Function) -> _Found | None:
    finding = function.finding
    if finding.cause != "undecided" or finding.pattern == TOO_FEW:
        return None
    return Need.UNDECIDED, -(finding.per_invocation_kib or 0.0), "more invocations decide whether it is a leak"


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
    more = f"; smallest safe size {function.sizing.safe:,} MB" if function.sizing.fit is Fit.SMALL else ""
    return Need.NEAR_THE_LIMIT, -used / size, f"needs {mib(used)} of {whole(size)} MB ({used / size:.0%}){more}"


def _oversized(function: Function) -> _Found | None:
    sizing, prediction = function.sizing, function.sizing.prediction
    if sizing.fit is not Fit.OVERSIZED or prediction is None:
        return None
    less = 1 - prediction.cost.high / prediction.cost_now
    text = f"{_needs(function)}; {prediction.size:,} MB costs at least {int(100 * less)}% less"
    return Need.OVERSIZED, -_saving(function), text


def _saving(function: Function) -> float:
    """The least that the suggested size saves in the invocations that were read."""
    sizing = function.sizing
    if sizing.fit is not Fit.OVERSIZED or sizing.saving is None:
        return 0.0
    return sizing.saving.low * function.peaks.invocations


def _spent(function: Function) -> float:
    """What the invocations that were read have cost."""
    return 0.0 if function.cost is None else function.cost.per_million * function.peaks.invocations


def _to_measure(function: Function) -> _Found | None:
    if function.sizing.fit is not Fit.UNMEASURED:
        return None
    return Need.TO_MEASURE, -(function.size or 0.0), f"{_needs(function)}; CPU time is not known: truemem size"


def _needs(function: Function) -> str:
    return f"needs {mib(function.sizing.need)} of {whole(function.size)} MB"


def _nothing(function: Function) -> _Found:
    sizing, size = function.sizing, whole(function.size)
    if sizing.reason is not None:
        return Need.NOTHING, 0.0, "no size to suggest yet"
    if sizing.prediction is not None:
        but = "be slow" if sizing.prediction.is_cheaper else "cost more"
        return Need.NOTHING, 0.0, f"{size} MB fits; {sizing.safe:,} MB is enough memory, but may {but}"
    return Need.NOTHING, 0.0, f"{size} MB fits"


_CHECKS = (_out_of_memory, _of_finding, _near, _undecided, _oversized, _to_measure, _nothing)
