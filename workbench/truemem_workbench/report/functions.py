"""Makes one function's part of the report from its environments. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..analysis.finding import TOO_FEW, Finding, most_urgent
from ..analysis.fleet import RATE, Together
from ..analysis.resources import Resource
from . import sizing
from .summary import Durations, Environment, Function, Holder, Payload, Peaks, added


def function_of(
    key: tuple[str, str],
    environments: Sequence[Environment],
    peaks: Peaks,
    more: tuple[Payload | None, Durations | None, Together | None],
    headroom: float,
    per_month: float | None,
    price: float,
) -> Function:
    causes = added([{environment.finding.cause: 1} for environment in environments])
    held: dict[str, list[float]] = {}
    for environment in environments:
        for name, value in environment.holders.items():
            held.setdefault(name, []).append(value)
    billed = sum(each.billed for each in environments)
    growing = [each.finding for each in environments if each.finding.grows]
    payload, lasted, together = more
    finding = _together(environments, together)
    latest = max(environments, key=lambda each: each.last_ms or 0)
    seen = sizing.Seen(
        invocations=peaks.invocations,
        size=latest.size,
        need=_highest(each.need for each in environments),
        others=_highest(each.others for each in environments),
        mark=_highest(each.mark for each in environments),
        unbounded=sum(each.unbounded for each in environments),
        out_of_memory=peaks.out_of_memory,
        environments=len(environments),
        growing=len(growing),
        together=together is not None and together.grows,
        open=_open(finding),
        settled=sum(each.settled for each in environments),
        rising=sum(each.rises for each in environments),
        billed_ms=sum(each.billed_ms for each in environments) / billed if billed else None,
    )
    return Function(
        function=key[0],
        version=key[1],
        peaks=peaks,
        environments=len(environments),
        size=seen.size,
        mark=seen.mark,
        current_median=_median([each.current_last for each in environments]),
        finding=finding,
        causes=causes,
        growth_kib=_highest(each.per_invocation_kib for each in growing),
        together=together,
        ended=sum(each.ended for each in environments),
        growing=len(growing) or (together.environments if together is not None and together.grows else 0),
        settled=seen.settled,
        rising=seen.rising,
        mark_only_rises=sum(_misled(each) for each in environments),
        holders=[
            Holder(name=name, environments=len(values), median=statistics.median(values), highest=max(values))
            for name, values in sorted(held.items(), key=lambda item: -statistics.median(item[1]))
        ],
        lost=sum(each.lost for each in environments),
        methods=added([each.methods for each in environments]),
        payload=payload,
        durations=lasted or Durations(p50=None, p99=None),
        sizing=sizing.advise(seen, headroom=headroom, per_month=per_month, price=price),
        resources=_worst(environments),
    )


def _together(environments: Sequence[Environment], together: Together | None) -> Finding:
    """The answer of the environment to act on first; of all of them together, where none grows alone."""
    finding = most_urgent([(each.finding, each.peaks.invocations) for each in environments])
    if finding.grows or finding.cause == "failing" or together is None or not together.grows:
        return finding
    return replace(
        finding,
        cause="leak",
        title=f"Leak, that no environment shows alone: {together.sentence()}.",
        holder="function",
        per_invocation_kib=together.per_invocation_kib,
        low_kib=together.low_kib,
        high_kib=together.high_kib,
        evidence=[f"of functions that are named so, at most {RATE:.1%} are expected to be false alarms"],
        repair="",
        grows=True,
        settled=True,
        pattern="a-cache-without-bound",
    )


def _open(finding: Finding) -> str:
    """Why no size can be named."""
    if finding.cause == "failing":
        return "most invocations failed"
    is_open = finding.cause == "undecided" and finding.pattern != TOO_FEW
    return "whether memory grows is not known yet" if is_open else ""


def _worst(environments: Sequence[Environment]) -> list[Resource]:
    """Of each kind of what runs out the most urgent, the most urgent first."""
    worst: dict[str, Resource] = {}
    for resource in sorted((each for one in environments for each in one.resources), key=lambda each: each.urgency):
        worst.setdefault(resource.name, resource)
    return list(worst.values())


def _misled(environment: Environment) -> bool:
    """True if the mark looks like a leak: it has risen, but memory has settled well below it."""
    begun, mark, held = environment.mark_first, environment.mark, environment.current_last
    if not environment.settled or begun is None or mark is None or held is None:
        return False
    return mark > 1.05 * begun + 1 and mark > 1.1 * (held + (environment.others or 0.0))


def _highest(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
