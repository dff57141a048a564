"""What to act on, function by function: the most urgent thing of each, in one line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ..support.amounts import brief, mib, whole
from ..support.plural import counted
from .summary import Function, Report

NEAR = 0.9
"""Share of the memory size that function, sidecar and extensions reach together: then the limit is near."""


class Need(IntEnum):
    """What a function needs, the most urgent first."""

    OUT_OF_MEMORY = 0
    RUNNING_OUT = 1
    """Of descriptors, /tmp, threads or processes."""
    GROWING = 2
    NEAR_THE_LIMIT = 3
    OVERSIZED = 4
    NOTHING = 5

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
    "name": lambda each: (each.name,),
    "peak": lambda each: (-(each.function.peaks.highest or 0.0), each.name),
    "growth": lambda each: (-(each.function.slope_median_kib or 0.0), each.name),
    "saving": lambda each: (-(each.function.sizing.saved_gb_s or 0.0), each.name),
    "invocations": lambda each: (-each.function.peaks.invocations, each.name),
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
    told = f"{counted(len(names), 'function')}, {counted(count, 'invocation')}"
    return f"{told}: {', '.join(parts) or Need.NOTHING.text}"


_Found = tuple[Need, float, str]


def _out_of_memory(function: Function) -> _Found | None:
    died, of = function.peaks.out_of_memory, function.peaks.invocations
    if not died:
        return None
    trial = function.sizing.trial
    more = f"; try {trial:,} MB" if trial else ""
    size = f", {whole(function.size)} MB" if function.size else ""
    return Need.OUT_OF_MEMORY, -died / of, f"{brief(died)} of {brief(of)} invocations{size}{more}"


def _running_out(function: Function) -> _Found | None:
    worst = function.resources[0] if function.resources else None
    if worst is None or not worst.runs_out:
        return None
    left = worst.invocations_left
    more = f", {brief(left)} invocations left" if left is not None else ""
    return Need.RUNNING_OUT, float("inf") if left is None else float(left), f"{worst.amount}{more}"


def _growing(function: Function) -> _Found | None:
    growing = function.verdicts.get("growing", 0)
    if not growing:
        return _growing_together(function)
    left = function.invocations_left
    where = f" in {brief(growing)} of {brief(function.environments)} environments" if function.environments > 1 else ""
    soon = f"; at the limit in {brief(left)} more" if left is not None else ""
    text = f"{mib(function.growth_kib)} KiB per invocation{where}{soon}"
    return Need.GROWING, float("inf") if left is None else float(left), text


def _growing_together(function: Function) -> _Found | None:
    together = function.together
    if together is None or not together.grows:
        return None
    where = f"{brief(together.environments)} environments together"
    return Need.GROWING, float("inf"), f"{mib(together.per_invocation_kib)} KiB per invocation, {where}"


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


_CHECKS = (_out_of_memory, _running_out, _growing, _near, _oversized, _nothing)
