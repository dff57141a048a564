"""Prints a report: what to act on, tables, sentences. MiB unless said otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..analysis.finding import COUNTED
from ..lines.unread import not_read
from ..support.amounts import mib, whole
from ..support.plural import counted
from ..support.tables import fitted, table
from ..support.untrusted_text import visible
from .actions import Action, Need, in_one_line
from .compare import Comparison
from .saved_run import Changes
from .sentences import sentences
from .summary import Environment, Function, Part, Report

WIDE = 120
"""Least width of a terminal that shows all columns."""
CAUSES: dict[str, str] = {
    **dict.fromkeys(("leak", "native", "extension", *COUNTED), "bold red"),
    **dict.fromkeys(("failing", "undecided"), "yellow"),
    "hoarding": "cyan",
}
"""Colours; what needs nothing is green."""
NEEDS = {
    Need.OUT_OF_MEMORY: "bold red",
    Need.RUNNING_OUT: "bold red",
    Need.GROWING: "bold red",
    Need.FAILING: "bold red",
    Need.NEAR_THE_LIMIT: "yellow",
    Need.UNDECIDED: "yellow",
    Need.OVERSIZED: "cyan",
    Need.NOTHING: "green",
}


@dataclass(frozen=True, kw_only=True)
class View:
    """What is printed of a report."""

    report: Report
    actions: Sequence[Action]
    """In the order that was asked for."""
    top: int | None
    """Most functions and environments; None for all."""
    headroom: float
    comparison: Comparison | None = None
    changes: Changes | None = None

    @property
    def several(self) -> bool:
        """True with several functions. Versions of one are not several."""
        return len({function.function for function in self.report.functions}) > 1

    @property
    def full(self) -> bool:
        """True if each function is told in full: with one, or if all are asked for."""
        return not self.several or self.top is None


def show(view: View, console: Console) -> None:
    """Print the report. `console` is one of `truemem_workbench.support.terminal`, which prints strings as they are."""
    report, narrow = view.report, console.width < WIDE
    console.print(in_one_line(report, view.actions, named=0) + _notes(report), soft_wrap=True)
    if view.several:
        console.print(*_list(view.actions[: view.top]), sep="\n", soft_wrap=True)
        if (more := len(view.actions[view.top :] if view.top else ())) > 0:
            console.print(f"    {more:,} more: --top N, --all", soft_wrap=True)
    if view.full:
        console.print(fitted(_functions(report.functions, narrow), console))
    if view.comparison is not None:
        console.print(fitted(_comparison(view.comparison), console))
    if view.changes is not None:
        console.print(fitted(_changes(view.changes), console))
    if view.full:
        console.print(fitted(_holders(report.functions), console))
    if report.by is not None:
        console.print(fitted(_parts(report.by, report, view.top), console))
    console.print(fitted(_environments(report.environments, narrow, view), console))
    compared = [view.comparison.sentence()] if view.comparison is not None else []
    for sentence in (*compared, *(sentences(report, view.headroom) if view.full else ())):
        console.print(f"- {sentence}", soft_wrap=True)
    if not view.full:
        console.print("\nTables and sentences of each: --all, or --function NAME for one.", soft_wrap=True)


def _notes(report: Report) -> str:
    notes = [
        f"{number:,} {what}"
        for number, what in (
            (report.repeated, "repeated lines left out"),
            (report.elsewhere, "lines of another time, function or environment left out"),
        )
        if number
    ]
    if unread := not_read(report.unread):
        notes.append(unread)
    return f" ({'; '.join(notes)})" if notes else ""


def _list(actions: Sequence[Action]) -> Iterator[Text]:
    """Two lines for each: its name, and what to do. With Lambda's longest names neither has more than 80 characters."""
    for number, each in enumerate(actions, 1):
        need = each.need.text
        yield Text(f"{number:3} ", "dim").append(visible(each.name), "bold")
        yield Text("    ").append(need, NEEDS[each.need]).append(each.text.removeprefix(need))


def _functions(functions: Sequence[Function], narrow: bool) -> Table:
    names = ["envs", "inv.", "p50", "p99", "max", "mark", "OOM"]
    more = [] if narrow else ["current", "size", "KiB/inv."]
    made = table("Functions: peaks, MiB", ("function",), [*names, *more], ("findings",))
    for each in functions:
        slope = "-" if each.growth_kib is None else f"{each.growth_kib:,.1f}"
        made.add_row(
            f"{each.function}:{each.version}",
            f"{each.environments:,}",
            *_peaks(each),
            whole(each.mark),
            f"{each.peaks.out_of_memory:,}",
            *(() if narrow else (mib(each.current_median), whole(each.size), slope)),
            _causes(each.causes),
        )
    return made


def _environments(environments: Sequence[Environment], narrow: bool, view: View) -> Table:
    shown = environments[: view.top]
    title = "Environments: peaks, MiB"
    title += f"; {len(shown):,} of {len(environments):,}" if len(shown) < len(environments) else ""
    names = ["inv.", "p50", "p99", "max", "current", "mark", "OOM", "KiB/inv."]
    texts = ("environment", "function") if view.several else ("environment",)
    made = table(title, texts, names, ("finding",))
    for each in shown:
        cause, slope = each.finding.cause, each.finding.per_invocation_kib
        current, mark = mib(each.current_last), whole(each.mark)
        made.add_row(
            _short(each.environment_id),
            *((f"{each.function}:{each.version}",) if view.several else ()),
            *_peaks(each),
            current if narrow else f"{mib(each.current_first)} → {current}",
            mark if narrow else f"{whole(each.mark_first)} → {mark}",
            f"{each.peaks.out_of_memory:,}",
            "-" if slope is None else f"{slope:,.1f}",
            Text(cause, CAUSES.get(cause, "green")),
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


def _parts(by: str, report: Report, top: int | None) -> Table:
    parts = report.parts
    names = ("invocations", "peak p50", "p99", "max", "adds p50", "leaves mean", "in all", "OOM")
    made = table(f"By {by}", (by,), names, ())
    for part in parts[:top]:
        made.add_row(
            f"(no {by})" if part.value is None else part.value,
            *_peaks(part),
            mib(part.added_p50),
            "-" if part.left_mean is None else f"{part.left_mean:,.3f}",
            mib(part.left_sum),
            f"{part.peaks.out_of_memory:,}",
        )
    notes = [f"{len(parts) - top:,} more rows: --all"] if top is not None and len(parts) > top else []
    if (left_out := report.by_left_out) is not None:
        if left_out.without_request_id:
            notes.append(f"left out: {counted(left_out.without_request_id, 'log line')} without a request id")
        if left_out.without_line:
            notes.append(f"left out: {counted(left_out.without_line, 'request')} without a line of the sidecar here")
    made.caption = "; ".join(notes) or None
    return made


def _comparison(comparison: Comparison) -> Table:
    made = table("Before and after", ("",), (comparison.before, comparison.after, "change"), ())
    for row in comparison.rows:
        places = 0 if row.name == "invocations" else 1
        sign = "-" if row.change is None else f"{row.change:+,.{places}f}"
        figure = whole if row.name == "invocations" else mib
        made.add_row(row.name, figure(row.before), figure(row.after), sign)
    return made


def _changes(changes: Changes) -> Table:
    """What has changed since the saved run: what rose first."""
    title = "Since the saved run: before → now; peaks in MiB, durations in ms"
    made = table(title, ("function",), ("peak p50", "p99", "duration p50", "p99"), ("rose",))
    for each in sorted(changes.changes, key=lambda each: (not each.peak_rose, not each.duration_rose)):
        pairs = (each.peak_p50, each.peak_p99, each.duration_p50, each.duration_p99)
        rose = ("peak",) * each.peak_rose + ("duration",) * each.duration_rose
        cells = (f"{mib(before)} → {mib(now)}" for before, now in pairs)
        made.add_row(each.function, *cells, Text(", ".join(rose), "bold red"))
    notes = [f"{len(names):,} {what}" for names, what in ((changes.new, "new"), (changes.gone, "gone")) if names]
    if changes.too_few:
        notes.append(f"{counted(changes.too_few, 'function')} with too few invocations to compare")
    made.caption = "; ".join(notes) or None
    return made


def _peaks(each: Function | Environment | Part) -> tuple[str, str, str, str]:
    peaks = each.peaks
    return f"{peaks.invocations:,}", mib(peaks.p50), mib(peaks.p99), mib(peaks.highest)


def _causes(causes: Mapping[str, int]) -> Text:
    parts = [Text(f"{count:,} {name}", CAUSES.get(name, "green")) for name, count in causes.items()]
    return Text(", ").join(parts)


def _short(environment_id: str) -> str:
    """The end of a log stream's name, which is different for each: 2026/11/21/[$LATEST]8f73…"""
    return environment_id.rpartition("]")[2][:12] or environment_id
