"""A report for people: tables, and what follows from them in sentences. MiB unless said otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .compare import Comparison
from .sizing import HEADROOM, Sizing
from .summary import Environment, Function, Part, Report

SHOWN = 20
"""Environments, and values of --by; the rest is in --csv and --json."""
WIDE = 120
"""Columns of a terminal from which everything is shown."""
NAMED = 3
"""Request ids in a sentence."""
STYLES = {"growing": "bold red", "warming": "yellow", "spiky": "cyan", "stable": "green", "plateau": "green"}


def show(report: Report, console: Console, *, headroom: float = HEADROOM, comparison: Comparison | None = None) -> None:
    """All of it."""
    console.print(_heading(report))
    narrow = console.width < WIDE
    console.print(_functions(report.functions, narrow))
    if comparison is not None:
        console.print(_comparison(comparison))
    console.print(_holders(report.functions))
    if report.by is not None:
        console.print(_parts(report.by, report.parts))
    console.print(_environments(report.environments, narrow))
    for sentence in sentences(report, headroom):
        console.print(f"- {sentence}", highlight=False, markup=False, soft_wrap=True)


def sentences(report: Report, headroom: float) -> Iterator[str]:
    """What follows, the most urgent first."""
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
    growing = [each for each in own if each.verdict.name == "growing"]
    if growing:
        worst = max(growing, key=lambda each: each.verdict.per_invocation_kib or 0.0)
        many = f"{len(growing):,} of {len(own):,} environments grow; the fastest, {worst.environment_id}: "
        yield f"{many}{worst.verdict.sentence()} (docs/patterns.md#{worst.verdict.pattern})"
    else:
        yield _without_growth(own)
    if function.mark_only_rises:
        yield (
            f"Max Memory Used rose in {function.mark_only_rises:,} environments whose memory was judged not to grow:"
            " read as a level, it would have been taken for a leak."
        )
    hoarding = max((each for each in own if each.hoarding), key=lambda each: each.heap_held or 0.0, default=None)
    if hoarding is not None:
        yield f"{hoarding.environment_id}: {hoarding.hoarding}"
    yield from _of_size(function.sizing, headroom)


def _without_growth(environments: Sequence[Environment]) -> str:
    """Of environments none of which is growing."""
    for name in ("warming", "insufficient"):
        alike = [each for each in environments if each.verdict.name == name]
        if len(alike) == len(environments):
            return f"No verdict on leaks yet. {alike[0].verdict.sentence()}"
    early = sum(each.verdict.name in ("warming", "insufficient") for each in environments)
    return "No environment grows: no sign of a leak." + (f" {early:,} are too young for a verdict." if early else "")


def _of_size(sizing: Sizing, headroom: float) -> Iterator[str]:
    if sizing.suggested is None:
        yield f"No memory size is suggested: {sizing.reason}."
    else:
        yield (
            f"Smallest safe memory size: {sizing.suggested:,} MB. The function needed {mib(sizing.need)} MiB at most,"
            f" sidecar and extensions held {mib(sizing.others or 0.0)}; {headroom:.0%} are added, then rounded up."
            + (f" It has {sizing.size:,.0f} MB now." if sizing.size else "")
        )
        if sizing.saving is not None:
            word = "saves" if sizing.saving >= 0 else "costs"
            yield f"At that traffic it {word} ${abs(sizing.saving):,.2f} a month, if durations stay as they are."
        if sizing.cpu_now and sizing.cpu_then and sizing.suggested < (sizing.size or 0):
            yield _of_cpu(sizing.cpu_now, sizing.cpu_then)
        if sizing.unbounded:
            yield (
                f"{sizing.unbounded:,} peaks have no upper bound (sampled, or cut off by the end of the process) and"
                " may have been higher."
            )
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


def _heading(report: Report) -> str:
    count = sum(function.peaks.invocations for function in report.functions)
    text = f"{count:,} invocations in {len(report.environments):,} environments"
    notes = [
        f"{number:,} {what}"
        for number, what in (
            (report.repeated, "repeated lines left out"),
            (report.elsewhere, "lines of another time or environment left out"),
            (report.unreadable, "lines cut off or mangled"),
        )
        if number
    ]
    return text + (f" ({'; '.join(notes)})" if notes else "")


def _functions(functions: Sequence[Function], narrow: bool) -> Table:
    names = ["envs", "inv.", "p50", "p99", "max", "mark", "OOM"]
    more = [] if narrow else ["current", "size", "KiB/inv."]
    table = _table("Functions: peaks, MiB", ("function",), [*names, *more], ("verdicts",))
    for each in functions:
        slope = "-" if each.slope_median_kib is None else f"{each.slope_median_kib:,.1f}"
        table.add_row(
            f"{each.function}:{each.version}",
            f"{each.environments:,}",
            *_peaks(each),
            whole(each.mark),
            f"{each.peaks.out_of_memory:,}",
            *(() if narrow else (mib(each.current_median), whole(each.size), slope)),
            _verdicts(each.verdicts),
        )
    return table


def _environments(environments: Sequence[Environment], narrow: bool) -> Table:
    title = "Environments: peaks, MiB" + (f"; {SHOWN} of {len(environments):,}" if len(environments) > SHOWN else "")
    names = ["inv.", "p50", "p99", "max", "current", "mark", "OOM", "KiB/inv."]
    table = _table(title, ("environment",), names, ("verdict",))
    for each in environments[:SHOWN]:
        slope = each.verdict.per_invocation_kib
        current, mark = mib(each.current_last), whole(each.mark)
        table.add_row(
            _short(each.environment_id),
            *_peaks(each),
            current if narrow else f"{mib(each.current_first)} → {current}",
            mark if narrow else f"{whole(each.mark_first)} → {mark}",
            f"{each.peaks.out_of_memory:,}",
            "-" if slope is None else f"{slope:,.1f}",
            Text(each.verdict.name, STYLES.get(each.verdict.name, "dim")),
        )
    return table


def _holders(functions: Sequence[Function]) -> Table:
    table = _table("Who holds the memory at rest", ("function", "version", "holder"), ("envs", "median", "highest"), ())
    for function in functions:
        for holder in function.holders:
            figures = (f"{holder.environments:,}", mib(holder.median), mib(holder.highest))
            table.add_row(function.function, function.version, holder.name, *figures)
    return table


def _parts(by: str, parts: Sequence[Part]) -> Table:
    names = ("invocations", "peak p50", "p99", "max", "adds p50", "leaves mean", "in all", "OOM")
    table = _table(f"By {by}", (by,), names, ())
    for part in parts[:SHOWN]:
        table.add_row(
            "(not told)" if part.value is None else part.value,
            *_peaks(part),
            mib(part.added_p50),
            "-" if part.left_mean is None else f"{part.left_mean:,.3f}",
            mib(part.left_sum),
            f"{part.peaks.out_of_memory:,}",
        )
    if len(parts) > SHOWN:
        table.caption = f"{len(parts) - SHOWN:,} more in --csv and --json"
    return table


def _comparison(comparison: Comparison) -> Table:
    table = _table("Before and after", ("",), (comparison.before, comparison.after, "change"), ())
    for row in comparison.rows:
        sign = "-" if row.change is None else f"{row.change:+,.1f}"
        table.add_row(row.name, mib(row.before), mib(row.after), sign)
    table.caption = comparison.sentence()
    return table


def _table(title: str, texts: Sequence[str], figures: Sequence[str], last: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    for name in last:
        table.add_column(name)
    return table


def _peaks(each: Function | Environment | Part) -> tuple[str, str, str, str]:
    peaks = each.peaks
    return f"{peaks.invocations:,}", mib(peaks.p50), mib(peaks.p99), mib(peaks.highest)


def _verdicts(verdicts: Mapping[str, int]) -> Text:
    parts = [Text(f"{count:,} {name}", STYLES.get(name, "dim")) for name, count in verdicts.items()]
    return Text(", ").join(parts)


def _short(environment_id: str) -> str:
    """The end of a log stream's name tells it from the others: 2026/11/21/[$LATEST]8f73…"""
    return environment_id.rpartition("]")[2][:12] or environment_id


def mib(value: float | None) -> str:
    """With one decimal, from 1,000 on with none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


def whole(value: float | None) -> str:
    """Of what the platform says in whole MB."""
    return "-" if value is None else f"{value:,.0f}"
