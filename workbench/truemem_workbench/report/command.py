"""The command `truemem report`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..support.bad_input import BadInput
from ..support.exit_codes import unheard_by_children
from ..support.terminal import Count, Finite, output, progress, tell
from ..support.untrusted_text import quoted

if TYPE_CHECKING:  # duckdb, scipy, boto3 and rich are for the report itself, not for every `truemem --help`
    from .store import Loaded
    from .summary import Environment, Report

EPILOG = """
\b
Exit codes:
  0  reported
  1  --fail-on found what it names
  2  bad input: no file, no line of the sidecar, no access to CloudWatch
"""
FAILURES = {
    "leak": lambda report: any(function.verdicts.get("growing") for function in report.functions),
    "oom": lambda report: any(function.peaks.out_of_memory for function in report.functions),
}


@click.command(short_help="Memory by function and environment, from the sidecar's lines.", epilog=EPILOG)
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--function", "function_name", metavar="NAME", help="Read its log group in CloudWatch instead of files.")
@click.option("--log-group", metavar="NAME", help="Read this log group in CloudWatch.")
@click.option("--since", metavar="AGO|TIME", help="`90m`, `3h`, `2d`, or ISO 8601 [CloudWatch's default: 3h].")
@click.option(
    "--source",
    type=click.Choice(["insights", "filter"]),
    default="insights",
    show_default=True,
    help="CloudWatch Logs Insights, or FilterLogEvents: no charge for scanning, but slow.",
)
@click.option("--environment", metavar="ID", help="Only environments with this in their id.")
@click.option("--by", metavar="NAME", help="Group by a member of the function's own JSON log lines.")
@click.option("--compare", "compared", metavar="41:42", help="Compare two versions.")
@click.option("--invocations-per-month", "per_month", type=Finite(0), metavar="N", help="Traffic, for the saving.")
@click.option("--headroom", default=20, show_default=True, type=Finite(0, 300), metavar="%", help="Added to the need.")
@click.option("--gb-second", default=0.0000166667, show_default=True, type=Finite(0), help="USD; us-east-1, x86_64.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each environment.")
@click.option("--html", metavar="PATH", type=click.Path(path_type=Path), help="Also draw the environments.")
@click.option("--fail-on", multiple=True, type=click.Choice(list(FAILURES)), help="Exit with 1 if found; repeatable.")
def report(files: tuple[Path, ...], **options: Any) -> int:
    """Report from FILEs of log lines (`-` is standard input), or from CloudWatch.

    Whole logs, with or without what `sam logs` and `aws logs tail` put before a line, exports of the console (CSV,
    JSON), answers of the aws command, gzipped or not.
    """
    try:
        return _report(files, options)
    except BadInput as error:
        tell("truemem report", error)
        return 2


def _report(files: Sequence[Path], options: dict[str, Any]) -> int:
    from ..lines.log_files import on_disk, size_of
    from ..support.time_parsing import since_ms
    from .collect import collect
    from .compare import compare
    from .render import show
    from .sentences import sentences
    from .store import Store

    if options["as_json"] and options["as_csv"]:
        raise BadInput("--json with --csv: standard output takes one of them. Leave one out")
    if str(options["html"]) == "-":
        raise BadInput("--html -: a page is a file, and standard output has the report. Try --html page.html")
    for name in ("by", "environment"):
        _check_text(name, options[name])
    _check_name(options["by"])
    remote = _log_group(files, options)
    since = None if options["since"] is None else since_ms(options["since"], time.time() * 1000)
    headroom = options["headroom"] / 100
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder:
        if remote is not None:
            files = [_fetched(remote, since, options["source"], Path(folder))]
        paths = [on_disk(file, Path(folder)) for file in files]
        size = sum(map(size_of, paths))
        with Store() as store:
            with progress("reading", size) as read:
                loaded = store.load(
                    paths, since_ms=since, environment=options["environment"], by=options["by"], read=read
                )
            _check(loaded, remote)
            with progress("judging", loaded.lines) as judged, unheard_by_children():
                made = collect(
                    store,
                    loaded,
                    by=options["by"],
                    headroom=headroom,
                    per_month=options["per_month"],
                    price=options["gb_second"],
                    judged=judged,
                )
        if options["html"] is not None:
            with progress("drawing", size) as read:
                _draw(made, paths, since or 0.0, options["html"], read)
    _check_by(made)
    comparison = None if options["compared"] is None else compare(made, options["compared"])
    if options["as_json"] or options["as_csv"]:
        from .export import to_csv, to_json

        if options["as_csv"]:
            to_csv(made, sys.stdout)
        else:
            to_json(made, comparison, list(sentences(made, headroom)), sys.stdout)
    else:
        show(made, output(), headroom=headroom, comparison=comparison)
    return int(any(FAILURES[name](made) for name in options["fail_on"]))


def _draw(made: Report, paths: Sequence[Path], since: float, html: Path, read: Count) -> None:
    """Draw the most urgent environments, as many as a page holds. Nothing of the others is kept."""
    from .. import page
    from ..lines.line import read as read_lines
    from ..lines.unread import not_read
    from ..page.html import ROOM

    environments = made.environments
    shown = _foremost(environments, ROOM)
    names = {name for _, name in shown}
    drawn = page.gather(
        line
        for line in read_lines(paths, wanted=names.__contains__, done=read)
        if (line.function or "", line.environment) in shown and (line.time_ms is None or line.time_ms >= since)
    )
    try:
        page.write(drawn, html, left_out=len(environments) - len(shown), note=not_read(made.unread))
    except OSError as error:
        raise BadInput(f"{html} cannot be written: {error.strerror}") from error
    if len(shown) < len(environments):
        told = (
            f"{html} has the {len(shown):,} most urgent of {len(environments):,} environments, as many as a page holds"
        )
        tell("truemem report", f"{told}. --environment chooses others")


def _foremost(environments: Sequence[Environment], room: int) -> set[tuple[str, str]]:
    """Take whole environments from the first on while their invocations fit, at least one. By function and id."""
    shown: set[tuple[str, str]] = set()
    for each in environments:
        if each.peaks.invocations <= room or not shown:
            shown.add((each.function, each.environment_id))
            room -= each.peaks.invocations
    return shown


def _log_group(files: Sequence[Path], options: dict[str, Any]) -> str | None:
    """The log group to read, or None for files. Raises BadInput unless exactly one place is given."""
    given = [bool(files), options["function_name"] is not None, options["log_group"] is not None]
    if sum(given) != 1:
        told = "several places to read from" if any(given) else "nothing to read from"
        raise BadInput(f"{told}. Try FILE..., --function NAME or --log-group NAME")
    if options["function_name"] is not None:
        from ..aws.clients import log_group_of

        return log_group_of(options["function_name"])
    group: str | None = options["log_group"]
    return group


def _fetched(log_group: str, since: float | None, source: Literal["insights", "filter"], folder: Path) -> Path:
    from ..aws.cloudwatch import fetch

    path = folder / "cloudwatch.log"
    now_ms = time.time() * 1000
    begin = now_ms - 3 * 3_600_000 if since is None else since
    with (
        progress("CloudWatch", int(now_ms - begin)) as fetched,
        path.open("w", encoding="utf-8", errors="replace") as file,
    ):
        fetch(log_group, int(begin), int(now_ms), file, source=source, fetched=fetched)
    return path


def _check(loaded: Loaded, remote: str | None) -> None:
    from ..lines.unread import not_read

    if loaded.lines:
        return
    if loaded.elsewhere:
        raise BadInput(
            f"all {loaded.elsewhere:,} lines are of another time or environment. Leave --since or --environment out"
        )
    place = f"log group {remote}" if remote else "these files"
    unread = f" ({not_read(loaded.unread)})" if loaded.unread else ""
    hint = "Try an earlier --since, or truemem doctor" if remote else "Try truemem doctor FILE"
    raise BadInput(f"no line of the sidecar in {place}{unread}. {hint}")


def _check_by(made: Report) -> None:
    if made.by is not None and all(part.value is None for part in made.parts):
        raise BadInput(
            f"--by {made.by}: no JSON line has it together with a request id (function_request_id, requestId,"
            " request_id or aws_request_id). Try a name from your own log lines, or tenantId"
        )


def _check_text(name: str, value: str | None) -> None:
    """Raise BadInput for a text that DuckDB cannot take."""
    try:
        quoted(value or "")
    except ValueError:
        raise BadInput(f"--{name} {value} is not in UTF-8") from None


def _check_name(by: str | None) -> None:
    """Raise BadInput for a --by that is not a name: it becomes a path, in which `"` ends a name and `*` means any."""
    if by is not None and ('"' in by or {"", "*"} & set(by.split("."))):
        raise BadInput(f"--by {by} is no name of a member. Try --by model_id, or --by a.b for a member of a member")
