"""The command `truemem report`."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..aws.cloudwatch import source, source_options, way_option
from ..support.bad_input import BadInput
from ..support.options import Finite, check_outputs, chosen, format_options, output_option
from ..support.platform_facts import ARCHITECTURES

if TYPE_CHECKING:
    from ..report.summary import Report

EPILOG = """
\b
Examples:
  truemem report my-function.log
  truemem report my-function --since 24h
  truemem report logs/*.gz --top 20 --output report.json --output report.html
  truemem report today.log --baseline report.json --fail-on peak
\b
Exit codes:
  0  reported
  1  --fail-on found what it names
  2  bad input: no file, no line of the sidecar, no access to CloudWatch
"""
FORMATS = ("text", "json", "csv", "line")
ENDINGS = (".json", ".csv", ".html")
ORDERS = ("urgency", "growth", "saving", "cost")
FAILURES = {
    "leak": lambda view: (
        any(function.growing for function in view.report.functions)
        or any(each.is_growing for each in view.report.without_sidecar)
    ),
    "oom": lambda view: (
        any(function.peaks.out_of_memory + function.ended for function in view.report.functions)
        or any(each.seen.out_of_memory for each in view.report.without_sidecar)
    ),
    "peak": lambda view: any(each.peak_rose for each in view.changes.changes),
    "duration": lambda view: any(each.duration_rose for each in view.changes.changes),
}
SINCE_SAVED = ("peak", "duration")
"""Failures that need a saved run."""


@click.command(epilog=EPILOG)
@source_options
@way_option
@click.option("--environment", metavar="ID", help="Only environments with this in their id.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), metavar="N", help="Most rows of a list.")
@click.option("--all", "everything", is_flag=True, help="All rows, and each function in full.")
@click.option("--sort", "order", type=click.Choice(ORDERS), default="urgency", show_default=True)
@click.option("--by", metavar="NAME", help="Group by a member of the function's own JSON log lines.")
@click.option("--compare", "compared", metavar="41:42", help="Compare two versions.")
@click.option(
    "--baseline", metavar="FILE.json", type=click.Path(path_type=Path), help="Compare with a report saved by --output."
)
@click.option(
    "--max-growth",
    default=10.0,
    show_default=True,
    type=Finite(0),
    metavar="%",
    help="Growth that is allowed over --baseline.",
)
@click.option(
    "--invocations-per-month", "per_month", type=Finite(0), metavar="N", help="Traffic [default: as in the lines]."
)
@click.option(
    "--headroom",
    default=20,
    show_default=True,
    type=Finite(0, 300),
    metavar="%",
    help="Reserve that the right size has above the need.",
)
@click.option(
    "--architecture",
    type=click.Choice(ARCHITECTURES),
    default="x86_64",
    show_default=True,
    help="Take the price of this one, in us-east-1.",
)
@click.option("--gb-second", type=Finite(0), metavar="USD", help="Another price.")
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(list(FAILURES)),
    help="Exit with 1 if memory grows, ran out, or a peak or duration rose over --baseline. Repeatable.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="spark: several machines read; FILEs may be folders and s3:// URIs.",
)
@click.option("--master", metavar="URL", help="With --engine spark [default: local[*], or that of spark-submit].")
@format_options(*FORMATS)
@output_option(*ENDINGS)
def report(files: tuple[Path, ...], **options: Any) -> int:
    """Report from FILEs of log lines (`-` is standard input), or from CloudWatch.

    It begins with what to act on: out of memory, running out, growing, near the limit, larger than needed.

    It reads whole logs, gzipped or not: of `sam logs` and `aws logs tail`, with or without their prefixes; exports of
    the console (CSV, JSON); answers of the aws command.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: each core has a process

    from ..judge.prices import GB_SECOND
    from ..report.actions import actions
    from ..report.collect import Prices
    from ..report.render import View, print_as, write_report
    from ..report.saved_run import changes, compare_versions

    form = chosen(options["form"], options["as_json"])
    _check_options(options)
    where = source(files, options["function_name"], options["log_group"], options["since"])
    listed = GB_SECOND[options["architecture"]]
    gb_second = listed if options["gb_second"] is None else options["gb_second"]
    prices = Prices(options["headroom"] / 100, options["per_month"], gb_second)
    if options["engine"] == "spark":
        from ..report.spark import report_on_spark as report_of
    else:
        from ..report.collect import report_here as report_of
    made = report_of(where, options, prices)
    _check_by(made)
    name = (where.log_group or "").removeprefix("/aws/lambda/")
    again = f"truemem report {shlex.quote(name)} --since {options['since']}"
    made = replace(
        made,
        functions=[replace(each, finding=each.finding.said_after(again)) for each in made.functions],
        environments=[replace(each, finding=each.finding.said_after(again)) for each in made.environments],
    )
    comparison = None if options["compared"] is None else compare_versions(made, options["compared"])
    view = View(
        report=made,
        actions=[
            each
            for each in actions(made, options["order"])
            if comparison is None or each.function.version == comparison.after
        ],
        top=None if options["everything"] else options["top"],
        headroom=options["headroom"] / 100,
        comparison=comparison,
        changes=None
        if options["baseline"] is None
        else changes(made, options["baseline"], options["max_growth"] / 100, where.function),
    )
    for path in options["outputs"]:
        if path.suffix.lower() != ".html":
            write_report(view, path)
    print_as(view, form)
    return int(any(FAILURES[name](view) for name in options["fail_on"]))


def _check_options(options: dict[str, Any]) -> None:
    """Raise BadInput for what can be refused before anything is read."""
    check_outputs(options["outputs"], *ENDINGS)
    for name in ("by", "environment", "function_name"):
        _check_text(name.removesuffix("_name"), options[name])
    _check_name(options["by"])
    _check_engine(options)
    for name in options["fail_on"]:
        if name in SINCE_SAVED and options["baseline"] is None:
            raise BadInput(f"--fail-on {name} without a saved run. Try --baseline FILE.json")
    if options["baseline"] is not None and not options["baseline"].is_file():
        raise BadInput(f"--baseline {options['baseline']} is no file. Make one with --output FILE.json")


def _check_engine(options: dict[str, Any]) -> None:
    """Raise BadInput for options that the engine does not have."""
    if options["engine"] != "spark":
        if options["master"] is not None:
            raise BadInput("--master without --engine spark. Leave it out, or add --engine spark")
    elif any(path.suffix.lower() == ".html" for path in options["outputs"]):
        raise BadInput("--engine spark draws no page. Try truemem page --environment ID on the files that have it")


def _check_text(name: str, value: str | None) -> None:
    """Raise BadInput for a text that no line can have."""
    try:
        (value or "").encode()
    except ValueError:
        raise BadInput(f"--{name} {value} is not in UTF-8") from None


def _check_name(by: str | None) -> None:
    """Raise BadInput for a --by that is not a name: it becomes a path, in which `"` ends a name and `*` means any."""
    if by is not None and ('"' in by or {"", "*"} & set(by.split("."))):
        raise BadInput(f"--by {by} is no name of a member. Try --by model_id, or --by a.b for a member of a member")


def _check_by(made: Report) -> None:
    """Raise BadInput if no line has the member of --by."""
    if made.by is not None and all(part.value is None for part in made.parts):
        raise BadInput(
            f"--by {made.by}: no JSON line has it together with a request id (function_request_id, requestId,"
            " request_id or aws_request_id). Try a name from your own log lines, or tenantId"
        )
