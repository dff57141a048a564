"""Prints a report: tables, with the sentences below them. MiB unless said otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..lines.unread import not_read
from ..support.amounts import mib, whole
from ..support.plural import counted
from ..support.terminal import table
from .compare import Comparison
from .sentences import sentences
from .sizing import HEADROOM
from .summary import Environment, Function, Part, Report

SHOWN = 20
"""Most environments, and values of --by, in the tables. --csv has all environments, --json has everything."""
WIDE = 120
"""Least width of a terminal that shows all columns."""
STYLES = {"growing": "bold red", "warming": "yellow", "spiky": "cyan", "stable": "green", "plateau": "green"}


def show(report: Report, console: Console, *, headroom: float = HEADROOM, comparison: Comparison | None = None) -> None:
    """Print the report. `console` is one of `truemem_workbench.support.terminal`, which prints strings as they are."""
    console.print(_heading(report))
    narrow = console.width < WIDE
    console.print(_functions(report.functions, narrow))
    if comparison is not None:
        console.print(_comparison(comparison))
    console.print(_holders(report.functions))
    if report.by is not None:
        console.print(_parts(report.by, report.parts))
    console.print(_environments(report.environments, narrow))
    compared = [comparison.sentence()] if comparison is not None else []
    for sentence in (*compared, *sentences(report, headroom)):
        console.print(f"- {sentence}", soft_wrap=True)


def _heading(report: Report) -> str:
    count = sum(function.peaks.invocations for function in report.functions)
    text = f"{counted(count, 'invocation')} in {counted(len(report.environments), 'environment')}"
    notes = [
        f"{number:,} {what}"
        for number, what in (
            (report.repeated, "repeated lines left out"),
            (report.elsewhere, "lines of another time or environment left out"),
        )
        if number
    ]
    if unread := not_read(report.unread):
        notes.append(unread)
    return text + (f" ({'; '.join(notes)})" if notes else "")


def _functions(functions: Sequence[Function], narrow: bool) -> Table:
    names = ["envs", "inv.", "p50", "p99", "max", "mark", "OOM"]
    more = [] if narrow else ["current", "size", "KiB/inv."]
    made = table("Functions: peaks, MiB", ("function",), [*names, *more], ("verdicts",))
    for each in functions:
        slope = "-" if each.slope_median_kib is None else f"{each.slope_median_kib:,.1f}"
        made.add_row(
            f"{each.function}:{each.version}",
            f"{each.environments:,}",
            *_peaks(each),
            whole(each.mark),
            f"{each.peaks.out_of_memory:,}",
            *(() if narrow else (mib(each.current_median), whole(each.size), slope)),
            _verdicts(each.verdicts),
        )
    return made


def _environments(environments: Sequence[Environment], narrow: bool) -> Table:
    title = "Environments: peaks, MiB" + (f"; {SHOWN} of {len(environments):,}" if len(environments) > SHOWN else "")
    names = ["inv.", "p50", "p99", "max", "current", "mark", "OOM", "KiB/inv."]
    made = table(title, ("environment",), names, ("verdict",))
    for each in environments[:SHOWN]:
        slope = each.verdict.per_invocation_kib
        current, mark = mib(each.current_last), whole(each.mark)
        made.add_row(
            _short(each.environment_id),
            *_peaks(each),
            current if narrow else f"{mib(each.current_first)} → {current}",
            mark if narrow else f"{whole(each.mark_first)} → {mark}",
            f"{each.peaks.out_of_memory:,}",
            "-" if slope is None else f"{slope:,.1f}",
            Text(each.verdict.name, STYLES.get(each.verdict.name, "dim")),
        )
    return made


def _holders(functions: Sequence[Function]) -> Table:
    texts, figures = ("function", "version", "holder"), ("envs", "median", "highest")
    made = table("Who holds the memory between invocations", texts, figures, ())
    for function in functions:
        for holder in function.holders:
            cells = (f"{holder.environments:,}", mib(holder.median), mib(holder.highest))
            made.add_row(function.function, function.version, holder.name, *cells)
    return made


def _parts(by: str, parts: Sequence[Part]) -> Table:
    names = ("invocations", "peak p50", "p99", "max", "adds p50", "leaves mean", "in all", "OOM")
    made = table(f"By {by}", (by,), names, ())
    for part in parts[:SHOWN]:
        made.add_row(
            "(not told)" if part.value is None else part.value,
            *_peaks(part),
            mib(part.added_p50),
            "-" if part.left_mean is None else f"{part.left_mean:,.3f}",
            mib(part.left_sum),
            f"{part.peaks.out_of_memory:,}",
        )
    if len(parts) > SHOWN:
        made.caption = f"{len(parts) - SHOWN:,} more in --json"
    return made


def _comparison(comparison: Comparison) -> Table:
    made = table("Before and after", ("",), (comparison.before, comparison.after, "change"), ())
    for row in comparison.rows:
        places = 0 if row.name == "invocations" else 1
        sign = "-" if row.change is None else f"{row.change:+,.{places}f}"
        figure = whole if row.name == "invocations" else mib
        made.add_row(row.name, figure(row.before), figure(row.after), sign)
    return made


def _peaks(each: Function | Environment | Part) -> tuple[str, str, str, str]:
    peaks = each.peaks
    return f"{peaks.invocations:,}", mib(peaks.p50), mib(peaks.p99), mib(peaks.highest)


def _verdicts(verdicts: Mapping[str, int]) -> Text:
    parts = [Text(f"{count:,} {name}", STYLES.get(name, "dim")) for name, count in verdicts.items()]
    return Text(", ").join(parts)


def _short(environment_id: str) -> str:
    """The end of a log stream's name, which is different for each: 2026/11/21/[$LATEST]8f73…"""
    return environment_id.rpartition("]")[2][:12] or environment_id
