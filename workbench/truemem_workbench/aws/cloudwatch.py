"""Where a command reads lines (files, or a log group), and the events of a log group: with Logs Insights in slices of
time, or with FilterLogEvents.

Facts: a query returns 10,000 rows at most (API_StartQuery); up to 30 queries run at once in an account; `startTime` and
`endTime` are epoch seconds and inclusive. AWS does not say whether all of the last second is included. So slices
overlap by one second, and a line that comes twice counts once (`store`).
"""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TextIO

import click
from click.core import ParameterSource

from ..support.bad_input import BadInput
from ..support.options import F, is_function, option_group, since_ms, target_argument
from ..support.terminal import progress
from .clients import client, log_group_of, refused

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

DEFAULT_SINCE_MS = 3 * 3_600_000
"""How far back CloudWatch is read without --since."""


def source_options_with(default: str) -> Callable[[F], F]:
    """Add NAME or FILE..., --function, --log-group and --since to a command. `default`: how far back CloudWatch is
    read."""
    since = f"`90m`, `3h`, `2d`, or ISO 8601 [CloudWatch's default: {default}]."
    return option_group(
        click.argument("files", nargs=-1, metavar="NAME|[FILE]...", type=click.Path(path_type=Path, allow_dash=True)),
        click.option(
            "--function",
            "function_name",
            metavar="NAME",
            help="The same as NAME; with FILEs only this function's lines.",
        ),
        click.option("--log-group", metavar="NAME", help="Read this log group in CloudWatch."),
        click.option("--since", metavar="AGO|TIME", help=since),
    )


source_options = source_options_with("3h")
way_option = click.option(
    "--source",
    "way",
    type=click.Choice(["insights", "filter"]),
    default="insights",
    show_default=True,
    help="CloudWatch Logs Insights; or FilterLogEvents, which is slow, and free of a charge for scanning.",
)


NAMED = 3
"""Most functions that a message names."""
LAMBDA_GROUP = "/aws/lambda/"
"""Begin of the name of a function's usual log group."""


class Source(NamedTuple):
    """What the options of `source_options` say."""

    files: tuple[Path, ...]
    log_group: str | None
    """The log group to read, or None for files."""
    function: str | None
    """Only lines of this function, of files of several; or None."""
    since_ms: float | None
    """Epoch ms; None for everything, or for CloudWatch's default."""

    @property
    def place(self) -> str:
        """The place in a message."""
        return f"log group {self.log_group}" if self.log_group else ", ".join(map(str, self.files))

    @property
    def doctor(self) -> str:
        """The command that says why there is no line of the sidecar."""
        if self.log_group is None:
            return f"truemem doctor {shlex.join(map(str, self.files[:1]))}"
        if self.log_group.startswith(LAMBDA_GROUP):
            return f"truemem doctor {shlex.quote(self.log_group.removeprefix(LAMBDA_GROUP))}"
        return f"truemem doctor --log-group {shlex.quote(self.log_group)}"

    def wants(self, function: str | None, time_ms: float | None) -> bool:
        """True for a line of the function and the time that were asked for. A line without a time is wanted."""
        if self.function is not None and function != self.function:
            return False
        return self.since_ms is None or time_ms is None or time_ms >= self.since_ms

    def whose(self, functions: Iterable[str]) -> str:
        """Whose log it is, where its lines are of these functions, and not of the one that was asked for: then nothing
        in it is said of that one. Empty if they are."""
        names = sorted(filter(None, functions))
        if self.function is None or self.function in names or not names:
            return ""
        return f"no line of {self.function}: this log is of {', '.join(names[:NAMED])}{', ...' * (len(names) > NAMED)}"

    def paths(
        self, folder: Path, way: Literal["insights", "filter"] = "insights", *, containing: str = ""
    ) -> Sequence[Path]:
        """The files to read. Reads CloudWatch into one in `folder`, with progress: of its events those with this
        text, or all that may be JSON. Raises BadInput."""
        if self.log_group is None:
            return self.files
        path = folder / "cloudwatch.log"
        now_ms = time.time() * 1000
        begin = now_ms - DEFAULT_SINCE_MS if self.since_ms is None else self.since_ms
        with (
            progress("reading CloudWatch (minutes of log)", int(now_ms - begin), 60_000) as fetched,
            path.open("w", encoding="utf-8", errors="replace") as file,
        ):
            fetch(self.log_group, int(begin), int(now_ms), file, source=way, fetched=fetched, containing=containing)
        return [path]


def source(files: tuple[Path, ...], function_name: str | None, log_group: str | None, since: str | None) -> Source:
    """Read the options. Raises BadInput unless they name one place, or for a time that is none."""
    begin = None if since is None else since_ms(since, time.time() * 1000)
    files, function_name = named(files, function_name, log_group)
    if files and log_group is not None:
        raise BadInput("files and --log-group: several places to read from. Leave one out")
    for file in files:
        if is_function(file):
            raise BadInput(f"there is no file {file}. Is it a function in AWS? Try {file} alone")
    if files:
        return Source(files, None, function_name, begin)
    if function_name is not None and log_group is not None:
        raise BadInput("--function and --log-group: several places to read from. Leave one out")
    if function_name is not None:
        return Source((), log_group_of(function_name), None, begin)
    if log_group is not None:
        return Source((), log_group, None, begin)
    raise BadInput("nothing to read from. Try the NAME of a function, FILE... or --log-group NAME")


def named(
    files: tuple[Path, ...], function_name: str | None, log_group: str | None
) -> tuple[tuple[Path, ...], str | None]:
    """The files and the function, where the function's name may be in a file's place."""
    if len(files) == 1 and function_name is None and log_group is None and is_function(files[0]):
        return (), str(files[0])
    return files, function_name


def target_or_function(doing: str) -> Callable[[F], F]:
    """Add a local target, or the NAME of a function in AWS, to a command. `doing`: what it does with that."""
    return option_group(
        target_argument("FILE:HANDLER|TEMPLATE.yaml:LOGICAL_ID|BOOTSTRAP|IMAGE.tar|NAME", required=False),
        click.option(
            "--function", "function_name", metavar="NAME", callback=_in_aws, help=f"The same as NAME: {doing}."
        ),
    )


def _in_aws(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    """What --function names, or the target, if that may be a function. FILE:HANDLER is none, whether it is there or
    not."""
    target = context.params.get("target")
    if given is not None or target is None or context.params.get("http") is not None or not is_function(target):
        return given
    if ":" in target and not target.startswith("arn:"):
        return given
    context.params["target"] = None
    context.set_parameter_source(option.name or "", ParameterSource.COMMANDLINE)
    return str(target)


ROWS = 10_000
"""Most rows of one query."""
QUERY = "fields @timestamp, @message | filter @message like {pattern} | sort @timestamp asc | limit {rows}"
MAY_BE_JSON = "/[{]/"
"""Finds the sidecar's lines, and the function's own for --by."""
FIRST_SLICE_S = 3600
POLL_S = (0.2, 2.0)
"""Shortest and longest pause between two looks at a running query, in seconds."""
MOST_QUERY_S = 900
"""Longest time for one query in seconds. A slice that takes longer is too large."""


def fetch(
    log_group: str,
    begin_ms: int,
    end_ms: int,
    file: TextIO,
    *,
    source: Literal["insights", "filter"] = "insights",
    fetched: Callable[[int], None] = lambda _: None,
    rows: int = ROWS,
    containing: str = "",
) -> int:
    """Write the events between two times into `file`, one per line. Returns their number. Raises BadInput.

    `fetched` is called with the milliseconds that are done. `containing`: only events with this text.
    """
    logs = client("logs")
    words = f'"{containing}"' if containing else ""
    count = 0
    with refused(f"log group {log_group}", _PERMISSIONS[source]):
        if source == "insights":
            found = _insights(logs, log_group, begin_ms, end_ms, fetched, rows, words)
        else:
            found = _filtered(logs, log_group, begin_ms, end_ms, fetched, words)
        for message in found:
            file.write(" ".join(message.splitlines()) + "\n")
            count += 1
    return count


_PERMISSIONS = {
    "insights": "logs:StartQuery, logs:GetQueryResults and logs:StopQuery",
    "filter": "logs:FilterLogEvents",
}


def _insights(
    logs: CloudWatchLogsClient,
    log_group: str,
    begin_ms: int,
    end_ms: int,
    fetched: Callable[[int], None],
    rows: int,
    words: str,
) -> Iterator[str]:
    """Read slice by slice. A slice with too many rows is read again in halves."""
    begin, end = begin_ms // 1000, -(-end_ms // 1000)
    length = FIRST_SLICE_S
    text = QUERY.replace("{rows}", str(rows)).replace("{pattern}", words or MAY_BE_JSON)
    while begin <= end:
        last = min(begin + length - 1, end)
        answer = _query(logs, log_group, begin, last, text)
        if len(answer) >= rows and last > begin:
            length = max(1, (last - begin + 1) // 2)
            continue
        if len(answer) >= rows:  # more in one second than a query gives
            yield from _filtered(logs, log_group, begin * 1000, begin * 1000 + 999, lambda _: None, words)
        else:
            yield from answer
        fetched((last - begin + 1) * 1000)
        begin = last + 1
        if len(answer) < rows / 2:
            length *= 2


def _query(logs: CloudWatchLogsClient, log_group: str, begin: int, last: int, text: str) -> list[str]:
    """The events of the seconds from `begin` to `last`, and perhaps of the next second."""
    return [row["@message"] for row in rows_of(logs, [log_group], begin, last + 1, text) if "@message" in row]


def rows_of(
    logs: CloudWatchLogsClient, log_groups: Sequence[str], begin: int, end: int, text: str
) -> list[dict[str, str]]:
    """The rows of one query of Logs Insights, fields by name; `begin` and `end` are epoch seconds. Raises BadInput."""
    query = logs.start_query(logGroupNames=log_groups, startTime=begin, endTime=end, queryString=text)["queryId"]
    give_up = time.monotonic() + MOST_QUERY_S
    pause = POLL_S[0]
    with _stopped(logs, query):
        while True:
            answer: Any = logs.get_query_results(queryId=query)
            if answer["status"] not in ("Scheduled", "Running"):
                break
            if time.monotonic() > give_up:
                raise BadInput(f"a query took more than {MOST_QUERY_S} s. {_FIX_QUERY}")
            time.sleep(pause)
            pause = min(2 * pause, POLL_S[1])
    if answer["status"] != "Complete":
        raise BadInput(f"the query ended as {answer['status']}. {_FIX_QUERY}")
    return [{cell["field"]: cell["value"] for cell in row} for row in answer["results"]]


_FIX_QUERY = "Try a shorter --since, or --source filter"


@contextmanager
def _stopped(logs: CloudWatchLogsClient, query: str) -> Iterator[None]:
    """Stop the query if we do not wait for its end. It would go on, and cost money."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except BaseException:
        with suppress(BotoCoreError, ClientError):
            logs.stop_query(queryId=query)
        raise


def _filtered(
    logs: CloudWatchLogsClient,
    log_group: str,
    begin_ms: int,
    end_ms: int,
    fetched: Callable[[int], None],
    words: str = "",
) -> Iterator[str]:
    """Read with FilterLogEvents, in the order of time."""
    reached = begin_ms
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=log_group, startTime=begin_ms, endTime=end_ms + 1, filterPattern=words
    )
    for page in pages:
        for event in page["events"]:
            message = event["message"]
            if message.startswith("REPORT "):  # which says nothing of its environment
                message = f"{_iso(event['timestamp'])} {event['logStreamName']} {message}"
            yield message
            now = min(event["timestamp"], end_ms)
            if now > reached:
                fetched(now - reached)
                reached = now


def _iso(epoch_ms: float) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat()


def recent(log_group: str, begin_ms: int, end_ms: int, most: int = 5_000) -> Iterator[str]:
    """The first `most` events between two times. Raises BadInput."""
    with refused(f"log group {log_group}", _PERMISSIONS["filter"]):
        events = _filtered(client("logs"), log_group, begin_ms, end_ms, lambda _: None)
        yield from itertools.islice(events, most)
