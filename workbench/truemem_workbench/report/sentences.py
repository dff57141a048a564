"""Says in sentences what follows from a report. MiB unless said otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..support.amounts import mib, whole
from ..support.plural import counted
from .sizing import ORDINARY_MIB, Sizing
from .summary import Environment, Function, Report

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
    yield function.finding.paragraph()
    if function.mark_only_rises:
        many = counted(function.mark_only_rises, "environment")
        yield (f"Max Memory Used rose in {many} whose memory has settled well below it: it keeps the highest moment.")
    yield from of_size(function.sizing, headroom)
    if (payload := function.payload) is not None:
        yield (
            f"Peak growth is {payload.times:,.1f} times the payload (event and answer together): the median of"
            f" {counted(payload.invocations, 'invocation')} in exact mode with 256 KiB or more."
        )


def of_size(sizing: Sizing, headroom: float) -> Iterator[str]:
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
