"""Says in sentences what follows from a report. MiB unless said otherwise."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from ..analysis.fleet import RATE
from ..analysis.heap import UNKNOWN
from ..support.amounts import mib, whole
from ..support.plural import counted
from .sizing import ORDINARY_MIB, Sizing
from .summary import Environment, Function, Report

FALSE_ALARMS = (
    f"Of the functions that a report accuses like that, at most {RATE:.1%} are expected to be false alarms"
    " (docs/report.md#many-environments-together)."
)
NAMED = 3
"""Most request ids in a sentence."""


def sentences(report: Report, headroom: float) -> Iterator[str]:
    """The sentences, the most urgent first."""
    several = len(report.functions) > 1
    for function in report.functions:
        name = f"{function.function}:{function.version}: " if several else ""
        for sentence in _of_function(function, report.environments, headroom):
            yield name + sentence


def _of_function(function: Function, environments: Sequence[Environment], headroom: float) -> Iterator[str]:
    own = [each for each in environments if (each.function, each.version) == (function.function, function.version)]
    if function.peaks.out_of_memory:
        requests = [request for each in own for request in each.out_of_memory_requests][:NAMED]
        among = f": {', '.join(requests)}" + (", ..." if function.peaks.out_of_memory > len(requests) else "")
        count = f"{function.peaks.out_of_memory:,} of {function.peaks.invocations:,} invocations ran out of memory"
        yield count + (among if requests else ".")
    yield from (f"{resource.sentence()}." for resource in function.resources if resource.runs_out)
    yield from _of_growth(own, function)
    if function.mark_only_rises:
        many = counted(function.mark_only_rises, "environment")
        yield (
            f"Max Memory Used rose in {many} whose memory has settled well below it. Read as a level, it looks like"
            " a leak."
        )
    yield from _of_size(function.sizing, headroom)
    if (payload := function.payload) is not None:
        yield (
            f"Peak growth is {payload.times:,.1f} times the payload (event and answer together): the median of"
            f" {counted(payload.invocations, 'invocation')} in exact mode with 256 KiB or more."
        )


def _of_growth(own: Sequence[Environment], function: Function) -> Iterator[str]:
    """Say whether it leaks. The allocator's figures decide, if there are any."""
    growing = [each for each in own if each.verdict.name == "growing"]
    hoarding = max((each for each in own if each.hoards), key=lambda each: each.heap_held or 0.0, default=None)
    if growing:
        worst = max(growing, key=lambda each: each.verdict.per_invocation_kib or 0.0)
        if len(own) == 1:
            yield f"{worst.verdict.sentence()} (docs/patterns.md#{worst.pattern})"
        else:
            verb = "grows" if len(growing) == 1 else "grow"
            many = f"{len(growing):,} of {len(own):,} environments {verb}; the fastest, {worst.environment_id}: "
            yield f"{many}{worst.verdict.sentence()} (docs/patterns.md#{worst.pattern})"
    elif function.together is not None and function.together.grows:
        yield f"{function.together.sentence()}: a leak that none of them shows alone."
        yield FALSE_ALARMS
    elif hoarding is not None and hoarding.only_hoards:
        yield f"{hoarding.environment_id}: {hoarding.heap_says} (docs/patterns.md#arenas)"
        return
    elif any(each.runtime_heap is not None and each.runtime_heap.is_leak for each in own):
        yield "RSS of no environment grows by its verdict, but what the runtime says of its memory does:"
    else:
        yield _without_growth(own)
    told = hoarding or max(
        (each for each in growing if each.heap_says), key=lambda each: each.heap_held or 0.0, default=None
    )
    if told is None or told.runtime_heap is not None:
        told = _of_runtime(own, growing)
    if told is not None:
        yield f"{told.environment_id}: {told.heap_says}"
    elif growing and not any(each.heap_says for each in own):
        yield UNKNOWN


def _of_runtime(own: Sequence[Environment], growing: Sequence[Environment]) -> Environment | None:
    """The environment whose garbage-collected heap is told of: a leak first, then what explains growth. None if no
    heap has anything to tell."""
    found = [each for each in own if each.runtime_heap is not None and (each.runtime_heap.matters or each in growing)]
    return max(
        found,
        key=lambda each: (
            each.runtime_heap is not None and each.runtime_heap.is_leak,
            each in growing,
            each.peaks.invocations,
        ),
        default=None,
    )


def _without_growth(environments: Sequence[Environment]) -> str:
    """Say what is known of environments without growth."""
    settled = sum(each.settled for each in environments)
    rising = [each for each in environments if each.rises]
    risen = ""
    if rising:
        names = f" It rose in {len(rising):,} of {len(environments):,}," if len(environments) > 1 else " It rose"
        first = statistics.median(each.current_first or 0.0 for each in rising)
        last = statistics.median(each.current_last or 0.0 for each in rising)
        risen = f"{names} from {mib(first)} to {mib(last)} MiB{' (medians)' if len(environments) > 1 else ''}."
    if not settled:
        alike = max(environments, key=lambda each: each.verdict.name == "warming")
        return f"No verdict on leaks yet. {alike.verdict.sentence()}{risen}"
    early = len(environments) - settled
    many, verb = counted(early, "environment"), "is" if early == 1 else "are"
    young = f" {many} {verb} too young for a verdict." if early else ""
    return f"No environment grows: no sign of a leak.{young}{risen}"


def _of_size(sizing: Sizing, headroom: float) -> Iterator[str]:
    if sizing.suggested is None:
        yield f"No memory size is suggested: {sizing.reason}."
    else:
        yield (
            f"Smallest safe memory size: {sizing.suggested:,} MB. The function needed {mib(sizing.need)} MiB at most"
            f" (upper bounds count), sidecar and extensions held {mib(sizing.others or 0.0)}; {headroom:.0%} are added,"
            " then rounded up." + (f" It has {sizing.size:,.0f} MB now." if sizing.size else "")
        )
        if sizing.suggested > ORDINARY_MIB:
            yield f"Above {ORDINARY_MIB:,} MB there are only Lambda Managed Instances."
        if sizing.saving is not None:
            word = "saves" if sizing.saving >= 0 else "costs"
            yield f"At that traffic it {word} ${abs(sizing.saving):,.2f} a month, if durations stay as they are."
        if sizing.cpu_now and sizing.cpu_then and sizing.suggested < (sizing.size or 0):
            yield _of_cpu(sizing.cpu_now, sizing.cpu_then)
    if sizing.mark_suggests is not None:
        yield f"The mark, {whole(sizing.mark)} MB, would have suggested {sizing.mark_suggests:,} MB by the same rule."


def _of_cpu(now: float, then: float) -> str:
    text = f"Less memory is less CPU: {now:.2f} vCPU become {then:.2f}"
    if then >= 1:
        return text + "; code that runs on one core is as fast as before."
    slower = min(now, 1.0) / then
    return (
        text
        + f". Code that computes all the time takes up to {slower:.1f} times as long, and then saves little or nothing."
    )
