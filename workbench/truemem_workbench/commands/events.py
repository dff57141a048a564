"""The command `truemem events`."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import click

from ..aws.event_log import events_of
from ..support.bad_input import BadInput
from ..support.terminal import counted, notify, phase
from ..target.events import FILE

EPILOG = """
\b
Examples:
  truemem events my-function --since 1h --output events.jsonl
  truemem events my-function --containing RECEIVED
  truemem explain app.py:handler --events events.jsonl
\b
Exit codes:
  0  printed or written
  2  bad input, no access, or no event in the log
"""


@click.command(epilog=EPILOG)
@click.argument("function", metavar="NAME")
@click.option("--since", default="1h", show_default=True, metavar="AGO|TIME", help="`90m`, `3h`, `2d`, or ISO 8601.")
@click.option("--log-group", metavar="NAME", help="Log group [default: the function's].")
@click.option("--containing", default="", metavar="TEXT", help="Take only lines of the log with this text.")
@click.option("--most", type=click.IntRange(1), default=1000, show_default=True, metavar="N", help="Most events.")
@click.option("--times", is_flag=True, help="Add the time of each event, for `truemem soak --like`.")
@click.option(
    "--output", type=FILE, help="Write them to this file, which only you can read [default: standard output]."
)
def events(
    function: str, since: str, log_group: str | None, containing: str, most: int, times: bool, output: Path | None
) -> int:
    """Print the events that a function has logged, one on each line, for `truemem check --events`.

    The function must log its events. Of each invocation it takes the first JSON object that looks like the event of an
    AWS source (API Gateway, SQS, S3 ...), or with --containing the first one in a line with TEXT. It needs
    logs:FilterLogEvents.
    """
    with phase("reading the log"):
        found, group, left_out = events_of(function, since, log_group, containing, most)
    documents = [{"timestamp": _iso(time_ms), "event": event} if times else event for time_ms, event in found]
    lines = [f"{json.dumps(each)}\n" for each in documents]
    if output is None:
        click.echo("".join(lines), nl=False)
    else:
        _write(output, "".join(lines))
    notify("truemem events", f"{len(lines)} events of {group}{f' in {output}' if output else ''}")
    if left_out:
        others = counted(left_out, "JSON object of no known source is", "JSON objects of no known source are")
        notify("truemem events", f"{others} left out. --containing TEXT takes an event of any shape")
    return 0


def _iso(epoch_ms: float) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _write(path: Path, text: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/{path.name}") from None
