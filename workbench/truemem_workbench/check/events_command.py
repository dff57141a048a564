"""The command `truemem events`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click

from ..support.bad_input import BadInput
from ..support.terminal import tell
from .options import FILE

MOST = 1000
EPILOG = """
\b
Examples:
  truemem events my-function --since 1h --output events.jsonl
  truemem events my-function --containing RECEIVED
  truemem check app.py:handler --events events.jsonl --explain
\b
Exit codes:
  0  printed or written
  2  bad input, no access, or no event in the log
"""


@click.command(epilog=EPILOG)
@click.argument("function", metavar="FUNCTION")
@click.option("--since", default="1h", show_default=True, metavar="AGO|TIME", help="`90m`, `3h`, `2d`, or ISO 8601.")
@click.option("--log-group", metavar="NAME", help="Its log group [default: as Lambda says].")
@click.option("--containing", default="", metavar="TEXT", help="Take only lines of the log with this text.")
@click.option("--most", type=click.IntRange(1), default=MOST, show_default=True, metavar="N", help="Most events.")
@click.option("--output", type=FILE, help="Write them there, readable by you alone, and not to standard output.")
def events(function: str, since: str, log_group: str | None, containing: str, most: int, output: Path | None) -> int:
    """The events that a function has logged, one on each line, for `truemem check --events`.

    The function must log its event: of each invocation the first JSON object is taken. Needs logs:FilterLogEvents.
    """
    try:
        text, group = _recorded(function, since, log_group, containing, most)
        if output is None:
            click.echo(text, nl=False)
        else:
            _write(output, text)
    except BadInput as error:
        tell("truemem events", error)
        return 2
    counted = text.count("\n")
    tell("truemem events", f"{counted} events of {group}{f' in {output}' if output else ''}")
    return 0


def _recorded(function: str, since: str, log_group: str | None, containing: str, most: int) -> tuple[str, str]:
    """The events, one on each line, and the log group. Raises BadInput."""
    from ..aws.clients import log_group_of
    from ..support.time_parsing import since_ms
    from .recorded_events import recorded

    begin = since_ms(since, time.time() * 1000)
    group = log_group or log_group_of(function)
    found = list(islice(recorded(_lines(group, begin), containing), most))
    if not found:
        raise BadInput(
            f"no event in {group} since then. Let the function log its event (Powertools:"
            " @logger.inject_lambda_context(log_event=True)), or write events.jsonl yourself, an event on each line:"
            " sam local generate-event prints examples"
        )
    return "".join(f"{json.dumps(event)}\n" for event in found), group


def _lines(group: str, begin_ms: float) -> Iterator[tuple[str, str]]:
    """Log stream and text of each line, in the order of time. Raises BadInput."""
    from ..aws.clients import client, refused

    with refused(f"log group {group}", "logs:FilterLogEvents"):
        pages = client("logs").get_paginator("filter_log_events")
        for page in pages.paginate(logGroupName=group, startTime=int(begin_ms)):
            for event in page["events"]:
                yield event["logStreamName"], event["message"]


def _write(path: Path, text: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/{path.name}") from None
