"""`truemem report`: options in, a report out."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..local.errors import BadInput

if TYPE_CHECKING:  # duckdb, scipy, boto3 and rich are for the report itself, not for every `truemem --help`
    from rich.console import Console

    from .store import Loaded
    from .summary import Report

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
Count = Callable[[int], None]


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
@click.option("--by", metavar="NAME", help="Tell memory apart by what the function's own JSON log lines say of it.")
@click.option("--compare", "compared", metavar="41:42", help="One version before another.")
@click.option("--invocations-per-month", "per_month", type=click.FloatRange(0), metavar="N", help="For the saving.")
@click.option("--headroom", default=20, show_default=True, type=click.FloatRange(0, 300), metavar="PERCENT")
@click.option(
    "--gb-second", default=0.0000166667, show_default=True, type=click.FloatRange(0), help="USD; us-east-1, x86_64."
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each environment.")
@click.option("--html", metavar="PATH", type=click.Path(path_type=Path), help="Draw the same lines, as `truemem page`.")
@click.option("--fail-on", multiple=True, type=click.Choice(list(FAILURES)), help="Exit with 1; repeatable.")
def report(files: tuple[Path, ...], **options: Any) -> int:
    """Report from FILEs of log lines (`-` is standard input), or from CloudWatch.

    Whole logs, with or without what `sam logs` and `aws logs tail` put before a line, exports of the console (CSV,
    JSON), answers of the aws command, gzipped or not.
    """
    try:
        return _report(files, options)
    except BadInput as error:
        click.echo(f"truemem report: {error}", err=True)
        return 2


def _report(files: Sequence[Path], options: dict[str, Any]) -> int:
    from .collect import collect
    from .compare import compare
    from .moments import since_ms
    from .render import sentences, show
    from .sources import on_disk
    from .store import Store

    if options["as_json"] and options["as_csv"]:
        raise BadInput("--json with --csv: standard output takes one of them. Leave one out")
    remote = _log_group(files, options)
    since = None if options["since"] is None else since_ms(options["since"], time.time() * 1000)
    headroom = options["headroom"] / 100
    with tempfile.TemporaryDirectory(prefix="truemem-report-") as folder, Store() as store:
        if remote is not None:
            files = [_fetched(remote, since, options["source"], Path(folder))]
        paths = [on_disk(file, Path(folder)) for file in files]
        with _progress("reading", sum(_size(path) for path in paths)) as read:
            loaded = store.load(paths, since_ms=since, environment=options["environment"], by=options["by"], read=read)
        _check(loaded, remote)
        with _progress("judging", loaded.lines) as judged:
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
            _draw(paths, options)
    _check_by(made)
    comparison = None if options["compared"] is None else compare(made, options["compared"])
    if options["as_json"] or options["as_csv"]:
        from .export import to_csv, to_json

        if options["as_csv"]:
            to_csv(made, sys.stdout)
        else:
            to_json(made, comparison, list(sentences(made, headroom)), sys.stdout)
    else:
        show(made, _console(), headroom=headroom, comparison=comparison)
    return int(any(FAILURES[name](made) for name in options["fail_on"]))


def _draw(paths: Sequence[Path], options: dict[str, Any]) -> None:
    from .. import page
    from ..lines import read

    only = options["environment"] or ""
    try:
        page.write(page.gather(line for line in read(paths) if only in line.environment), options["html"])
    except OSError as error:
        raise BadInput(f"{options['html']} cannot be written: {error.strerror}") from error


def _console() -> Console:
    """As wide as the terminal; a file or a pipe has no width, and gets all columns."""
    from rich.console import Console

    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140
    return Console(highlight=False, width=wide)


def _log_group(files: Sequence[Path], options: dict[str, Any]) -> str | None:
    """The one to be read, or None for files. Raises BadInput unless exactly one place is given."""
    given = [bool(files), options["function_name"] is not None, options["log_group"] is not None]
    if sum(given) != 1:
        told = "several places to read from" if any(given) else "nothing to read from"
        raise BadInput(f"{told}. Try FILE..., --function NAME or --log-group NAME")
    if options["function_name"] is not None:
        return f"/aws/lambda/{options['function_name']}"
    group: str | None = options["log_group"]
    return group


def _fetched(log_group: str, since: float | None, source: Literal["insights", "filter"], folder: Path) -> Path:
    from .cloudwatch import fetch

    path = folder / "cloudwatch.log"
    now_ms = time.time() * 1000
    begin = now_ms - 3 * 3_600_000 if since is None else since
    with _progress("CloudWatch", int(now_ms - begin)) as fetched, path.open("w", encoding="utf-8") as file:
        fetch(log_group, int(begin), int(now_ms), file, source=source, fetched=fetched)
    return path


def _size(path: Path) -> int:
    try:
        if path.is_dir():
            raise BadInput(f"{path} is a folder. Try {path}/*")
        return path.stat().st_size
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error


def _check(loaded: Loaded, remote: str | None) -> None:
    if loaded.lines:
        return
    if loaded.elsewhere:
        raise BadInput(
            f"all {loaded.elsewhere:,} lines are of another time or environment. Leave --since or --environment out"
        )
    place = f"log group {remote}" if remote else "these files"
    hint = "Try an earlier --since, or truemem doctor" if remote else "Try truemem doctor FILE"
    raise BadInput(f"no line of the sidecar in {place}. {hint}")


def _check_by(made: Report) -> None:
    if made.by is not None and all(part.value is None for part in made.parts):
        raise BadInput(
            f"--by {made.by}: no JSON line has it together with a request id (function_request_id, requestId,"
            " request_id or aws_request_id). Try a name from your own log lines, or tenantId"
        )


@contextmanager
def _progress(doing: str, total: int) -> Iterator[Count]:
    """A bar on stderr if that is a terminal, gone at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:10}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)

        def advance(amount: int) -> None:
            bar.advance(task, amount)

        yield advance
