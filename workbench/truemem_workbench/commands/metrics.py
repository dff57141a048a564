"""`truemem metrics`: the function's metrics over time, as CloudWatch has aggregated them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ..aws.clients import client, name_of, refused
from ..support.bad_input import BadInput
from ..support.options import chosen, format_options, since_ms
from ..support.terminal import phase

if TYPE_CHECKING:
    from rich.table import Table

SERIES = {
    "peak_mean": ("PeakRSS", "Average"),
    "peak_max": ("PeakRSS", "Maximum"),
    "current_max": ("CurrentRSS", "Maximum"),
    "mark_max": ("MaxMemoryUsed", "Maximum"),
    "out_of_memory": ("OutOfMemory", "Sum"),
    "invocations": ("PeakRSS", "SampleCount"),
}
"""Metric and statistic of each column (docs/metrics.md)."""
PERIODS_S = (60, 300, 3600, 86_400)
"""Periods to choose from. CloudWatch keeps 60 s for 15 days, 300 s for 63 days, 3,600 s for 455 days."""
KEPT_S = {60: 15 * 86_400, 300: 63 * 86_400}
ROWS_WANTED = 60
"""About how many rows are printed."""
BAR = 20
LEAST_WIDE_COLUMNS = 100
"""Least width of the terminal at which times have their year."""


@dataclass(frozen=True)
class MetricPeriod:
    """The figures of one period, in MiB and counts. None: CloudWatch has no value."""

    time: str
    """Begin of the period, UTC."""
    invocations: float | None
    peak_mean: float | None
    peak_max: float | None
    current_max: float | None
    mark_max: float | None
    out_of_memory: float | None


EPILOG = """
\b
Examples:
  truemem metrics my-function
  truemem metrics my-function --since 7d --json
\b
Exit codes:
  0  printed
  2  bad input, no access, or no such metric
"""


@click.command(epilog=EPILOG)
@click.argument("name")
@click.option("--since", default="3h", show_default=True, metavar="AGO|TIME", help="`90m`, `3h`, `2d`, or ISO 8601.")
@click.option("--namespace", default="truemem", show_default=True, help="TRUEMEM_NAMESPACE of the function.")
@format_options("text", "json")
def metrics(name: str, since: str, namespace: str, form: str | None, as_json: bool) -> int:
    """PeakRSS, CurrentRSS, MaxMemoryUsed and OutOfMemory of a function over time, in MiB. JSON has an object for each
    period. Needs cloudwatch:GetMetricData.
    """
    function = name_of(name)
    form = chosen(form, as_json)
    now = time.time()
    with phase("reading metrics"):
        moments = fetch(function, namespace, since_ms(since, now * 1000) / 1000, now)
    if not moments:
        nothing = f"CloudWatch has no metric of {function} in the namespace {namespace} since then"
        raise BadInput(f"{nothing}. Try --since 7d, or truemem doctor {function}")
    if form == "json":
        for moment in moments:
            click.echo(json.dumps({name: value for name, value in asdict(moment).items() if value is not None}))
    else:
        from ..support.terminal import output

        console = output()
        console.print(table(function, moments, narrow=console.width < LEAST_WIDE_COLUMNS))
    return 0


def fetch(function: str, namespace: str, begin_s: float, end_s: float) -> list[MetricPeriod]:
    """The periods with any value, oldest first. Times are epoch seconds. Raises BadInput."""
    period = period_s(begin_s, end_s)
    queries = [_query(column, function, namespace, period) for column in SERIES]
    values: dict[datetime, dict[str, float]] = {}
    with refused(f"metrics of {function}", "cloudwatch:GetMetricData"):
        pages = client("cloudwatch").get_paginator("get_metric_data")
        begin = datetime.fromtimestamp(begin_s // period * period, UTC)
        for page in pages.paginate(
            MetricDataQueries=queries, StartTime=begin, EndTime=datetime.fromtimestamp(end_s + 1, UTC)
        ):
            for series in page["MetricDataResults"]:
                for moment, value in zip(series["Timestamps"], series["Values"], strict=True):
                    # As UTC: boto3 gives local times, of which no two are equal in the hour in which summer time ends.
                    values.setdefault(moment.astimezone(UTC), {})[series["Id"]] = value
    return [
        MetricPeriod(f"{moment:%Y-%m-%dT%H:%MZ}", **{name: found.get(name) for name in SERIES})
        for moment, found in sorted(values.items())
        if any(found.values())
    ]


def period_s(begin_s: float, end_s: float) -> int:
    """The shortest period that makes about ROWS_WANTED rows and that CloudWatch still keeps."""
    span_s = round(end_s - begin_s)  # 3 h ago is three hours, whatever the last bits of two floats say
    for period in PERIODS_S:
        if span_s <= period * ROWS_WANTED * 3 and span_s <= KEPT_S.get(period, float("inf")):
            return period
    return PERIODS_S[-1]


def table(function: str, moments: Sequence[MetricPeriod], *, narrow: bool) -> Table:
    """A table with one row per period, and a bar of the highest peak beside the mark. `narrow` fits 80 columns."""
    from ..support import terminal
    from ..support.terminal import mib

    title = f"{function}: peaks (mean, max), highest current and mark, MiB"
    figures = ("inv.", "mean", "max", "current", "mark", "OOM")
    made = terminal.table(title, ("UTC",), figures, ("█ peak max  │ mark",))
    full = max((value for moment in moments for value in (moment.peak_max, moment.mark_max) if value), default=0.0)
    for moment in moments:
        count = "-" if moment.invocations is None else f"{moment.invocations:,.0f}"
        sizes = (moment.peak_mean, moment.peak_max, moment.current_max, moment.mark_max)
        killed = f"{moment.out_of_memory:,.0f}" if moment.out_of_memory else "-"
        at = moment.time[5:-1].replace("T", " ") if narrow else moment.time
        made.add_row(at, count, *map(mib, sizes), killed, bar(moment, full))
    return made


def bar(moment: MetricPeriod, full: float) -> str:
    """A bar of the highest peak, with a line at the mark. `full` MiB are BAR characters."""
    if not full:
        return ""
    solid = round((moment.peak_max or 0.0) / full * BAR)
    line = "█" * solid
    if moment.mark_max is None:
        return line
    mark = min(BAR - 1, round(moment.mark_max / full * BAR))
    return line[:mark].ljust(mark) + "│" + line[mark + 1 :]


def _query(column: str, function: str, namespace: str, period: int) -> Any:
    metric, statistic = SERIES[column]
    return {
        "Id": column,
        "MetricStat": {
            "Metric": {
                "Namespace": namespace,
                "MetricName": metric,
                "Dimensions": [{"Name": "FunctionName", "Value": function}],
            },
            "Period": period,
            "Stat": statistic,
        },
    }
