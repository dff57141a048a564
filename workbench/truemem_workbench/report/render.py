"""Prints a report (what to act on, tables, sentences) or writes it, also as JSON, CSV and one line. MiB unless said."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, TextIO

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..aws.clients import is_object, put_object
from ..judge.finding import COUNTED, commands_of
from ..judge.log_diagnosis import TMP_UNKNOWN
from ..judge.prices import Cost, dollars
from ..judge.sizing import of_cost, of_memory
from ..printed.wrapped import not_read
from ..support.bad_input import BadInput
from ..support.terminal import counted, fitted, mib, output, say, table, whole
from ..support.untrusted_text import cell, visible
from ..triage import render as triage
from .actions import Action, Need, in_one_line
from .saved_run import Changes, Comparison
from .summary import EnvironmentSummary, Function, Part, RanOut, Report

NAMED_WIDTH = 76
"""Room for a name in 80 columns."""
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
    Need.TO_MEASURE: "cyan",
    Need.NOTHING: "green",
}


@dataclass(frozen=True, kw_only=True)
class View:
    """What is printed of a report."""

    report: Report
    actions: Sequence[Action]
    """In the order that was asked for. Of two versions that are compared: those of the later one."""
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
    if report.without_sidecar:
        triage.show(report.without_sidecar, console, view.top)
        if not report.functions:
            return
        console.print()
    if view.comparison is not None:
        say(console, view.comparison.sentence())
    say(console, in_one_line(report, view.actions, named=0) + _notes(report))
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
    for sentence in sentences(view) if view.full else ():
        say(console, sentence, begin="- ")
    if not view.full:
        console.print()
        console.print("Tables and sentences of each: --all, or --function NAME for one.", soft_wrap=True)


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
        yield Text(f"{number:3} ", "dim").append(visible(each.name), "bold").append(_cost_beside(each), "dim")
        yield Text("    ").append(need, NEEDS[each.need]).append(each.text.removeprefix(need))


def _cost_beside(each: Action) -> str:
    """What the function costs in a month, if it fits beside its name."""
    cost = each.function.cost
    text = "" if cost is None or cost.per_month is None else f"  {dollars(cost.per_month)} a month"
    return text if len(each.name) + len(text) <= NAMED_WIDTH else ""


def _functions(functions: Sequence[Function], narrow: bool) -> Table:
    names = ["envs", "inv.", "p50", "p99", "max", "mark", "OOM"]
    more = [] if narrow else ["current", "size", "KiB/inv.", "$/million", "$/month"]
    made = table("Functions: peaks, MiB", ("function",), [*names, *more], ("findings",))
    for each in functions:
        slope = "-" if each.growth_kib is None else f"{each.growth_kib:,.1f}"
        made.add_row(
            f"{each.function}:{each.version}",
            f"{each.environments:,}",
            *_peaks(each),
            whole(each.mark),
            f"{each.peaks.out_of_memory:,}",
            *(() if narrow else (mib(each.current_median), whole(each.size), slope, *_costs(each.cost))),
            _causes(each.causes),
        )
    return made


def _costs(cost: Cost | None) -> tuple[str, str]:
    million, month = (cost.per_million, cost.per_month) if cost is not None else (None, None)
    return ("-" if million is None else f"{million:,.2f}", "-" if month is None else f"{month:,.2f}")


def _environments(environments: Sequence[EnvironmentSummary], narrow: bool, view: View) -> Table:
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


def _peaks(each: Function | EnvironmentSummary | Part) -> tuple[str, str, str, str]:
    peaks = each.peaks
    return f"{peaks.invocations:,}", mib(peaks.p50), mib(peaks.p99), mib(peaks.highest)


def _causes(causes: Mapping[str, int]) -> Text:
    parts = [Text(f"{count:,} {name}", CAUSES.get(name, "green")) for name, count in causes.items()]
    return Text(", ").join(parts)


def _short(environment_id: str) -> str:
    """The end of a log stream's name, which is different for each: 2026/11/21/[$LATEST]8f73…"""
    return environment_id.rpartition("]")[2][:12] or environment_id


_CSV = {
    "function": "function",
    "version": "version",
    "environmentId": "environment_id",
    "invocations": "peaks.invocations",
    "peakP50": "peaks.p50",
    "peakP99": "peaks.p99",
    "peakMax": "peaks.highest",
    "currentFirst": "current_first",
    "currentLast": "current_last",
    "markFirst": "mark_first",
    "mark": "mark",
    "memorySize": "size",
    "outOfMemory": "peaks.out_of_memory",
    "cause": "finding.cause",
    "holder": "finding.holder",
    "perInvocationKiB": "finding.per_invocation_kib",
    "lowKiB": "finding.low_kib",
    "highKiB": "finding.high_kib",
    "invocationsLeft": "finding.invocations_left",
    "confidence": "finding.confidence",
    "hidden": "finding.hidden",
    "firstMs": "first_ms",
    "lastMs": "last_ms",
}
"""Columns of the CSV, and the attribute of an EnvironmentSummary that each shows."""


def print_as(view: View, form: str) -> None:
    """Print the report as `text`, `line`, `csv` or `json`."""
    if form == "text":
        show(view, output())
    elif form == "line":
        output().print(_one_line(view), soft_wrap=True)
    else:
        _write_as(view, form, sys.stdout)


def _one_line(view: View) -> str:
    """Those without the sidecar first: they are to be attached."""
    report = view.report
    parts = [triage.in_one_line(report.without_sidecar)] if report.without_sidecar else []
    return "; ".join([*parts, *([in_one_line(report, view.actions)] if report.functions or not parts else [])])


def write_report(view: View, path: Path) -> None:
    """Write it as JSON or CSV, as the file's ending says; `s3://bucket/key` is an object. Raises BadInput."""
    form = path.suffix.lower().removeprefix(".")
    if is_object(path):
        text = io.StringIO(newline="")
        _write_as(view, form, text)
        put_object(path, text.getvalue())
        return
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            _write_as(view, form, file)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error


def _write_as(view: View, form: str, file: TextIO) -> None:
    if form == "csv":
        to_csv(view.report, file)
    else:
        to_json(view, file)


def to_json(view: View, file: TextIO) -> None:
    """Write the whole report as JSON. Sizes in MiB, names as in the code, unknown figures null."""
    report = view.report
    document = {
        "summary": _one_line(view),
        "actions": [
            {"function": each.function.function, "version": each.function.version, "need": each.need.text}
            | {"text": each.text}
            for each in view.actions
        ],
        **msgspec.to_builtins(dataclasses.replace(report, without_sidecar=()), enc_hook=_plain_number),
        "without_sidecar": [each.document() for each in report.without_sidecar],
        "sentences": list(sentences(view)),
    }
    for kind in ("functions", "environments"):
        for made, each in zip(document[kind], getattr(report, kind), strict=True):
            made["finding"] = each.finding.document()
    if view.comparison is not None:
        document["comparison"] = {**dataclasses.asdict(view.comparison), "sentence": view.comparison.sentence()}
    if view.changes is not None:
        document["changes"] = dataclasses.asdict(view.changes)
    text = json.dumps(document, default=_plain_number)  # which indents ten times as slowly as msgspec
    file.write(f"{msgspec.json.format(text, indent=2)}\n")


def to_csv(report: Report, file: TextIO) -> None:
    """Write one row per environment, the most urgent first. Sizes in MiB, unknown figures empty."""
    writer = csv.writer(file)
    writer.writerow(_CSV)
    row = attrgetter(*_CSV.values())
    writer.writerows(map(cell, row(each)) for each in report.environments)


def _plain_number(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is no JSON")


NAMED = 3
"""Most request ids in a sentence."""


def sentences(view: View) -> Iterator[str]:
    """The sentences, the most urgent first. Of two versions that are compared: those of the later one."""
    report, several = view.report, len(view.report.functions) > 1
    for function in report.functions:
        if view.comparison is not None and function.version != view.comparison.after:
            continue
        name = f"{function.function}:{function.version}: " if several else ""
        for sentence in _of_function(function, report.environments, view.headroom):
            yield name + sentence


def _of_function(function: Function, environments: Sequence[EnvironmentSummary], headroom: float) -> Iterator[str]:
    own = [each for each in environments if (each.function, each.version) == (function.function, function.version)]
    if function.peaks.out_of_memory:
        requests = [request for each in own for request in each.out_of_memory_requests][:NAMED]
        among = f": {', '.join(requests)}" + (", ..." if function.peaks.out_of_memory > len(requests) else "")
        count = f"{function.peaks.out_of_memory:,} of {function.peaks.invocations:,} invocations ran out of memory"
        yield count + (among if requests else ".")
        if function.ran_out:
            yield _where_it_ran_out(function.ran_out, function.peaks.out_of_memory)
    yield function.finding.paragraph()
    if function.tmp_unknown:
        yield TMP_UNKNOWN
    if function.mark_only_rises:
        many = counted(function.mark_only_rises, "environment")
        yield (f"Max Memory Used rose in {many} whose memory has settled well below it: it keeps the highest moment.")
    yield from of_memory(function.sizing, headroom)
    yield from of_cost(function.sizing, commands_of(function.function, own[0].environment_id).sweep)
    if function.cost is not None:
        yield _parts_of_cost(function.cost)
    if (payload := function.payload) is not None:
        yield (
            f"Peak growth is {payload.times:,.1f} times the payload (event and answer together): the median of"
            f" {counted(payload.invocations, 'invocation')} in exact mode with 256 KiB or more."
        )


def _where_it_ran_out(lines: Sequence[RanOut], kills: int) -> str:
    """The lines that ran when memory ran out, in a sentence."""
    first, *others = lines
    known = sum(each.kills for each in lines)
    seen = "" if first.level is None else f", seen at {mib(first.level)} MiB or more"
    more = "".join(f"; {each.place} in {each.kills:,}" for each in others[: NAMED - 1])
    rest = f"; {counted(len(others) - NAMED + 1, 'line')} more" if len(others) >= NAMED else ""
    unknown = f"; not known of {kills - known:,}" if known < kills else ""
    return f"When memory ran out, {first.place} ran in {first.kills:,} of {kills:,}{seen}{more}{rest}{unknown}."


def _parts_of_cost(cost: Cost) -> str:
    """What the function costs, by what is paid for."""
    parts = {
        "computing": cost.computing,
        "init phases": cost.init,
        "requests": cost.requests,
        "the sidecar's log lines": cost.log_lines,
    }
    each = ", ".join(f"{dollars(usd)} {name}" for name, usd in parts.items() if usd)
    month = "" if cost.per_month is None else f", {dollars(cost.per_month)} a month at {cost.invocations:,.0f}"
    return f"A million invocations cost {dollars(cost.per_million)}{month}: {each}."
