"""Reads the log events of one log group: with Logs Insights in slices of time, or with FilterLogEvents.

Facts: a query returns 10,000 rows at most (API_StartQuery); up to 30 queries run at once in an account; `startTime` and
`endTime` are epoch seconds and inclusive. AWS does not say whether all of the last second is included. So slices
overlap by one second, and a line that comes twice counts once (`store`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TextIO

from ..support.bad_input import BadInput
from .clients import client, refused

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient

ROWS = 10_000
"""Most rows of one query."""
QUERY = "fields @timestamp, @message | filter @message like /[{]/ | sort @timestamp asc | limit {rows}"
"""Finds all events that may be JSON: the sidecar's lines, and the function's own for --by."""
FIRST_SLICE_S = 3600
POLL_S = (0.2, 2.0)
"""Shortest and longest pause between two looks at a running query, in seconds."""
PATIENCE_S = 900
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
) -> int:
    """Write the events between two times into `file`, one per line. Returns their number. Raises BadInput.

    `fetched` is called with the milliseconds that are done.
    """
    logs = client("logs")
    count = 0
    with refused(f"log group {log_group}", _PERMISSIONS[source]):
        found = _insights(logs, log_group, begin_ms, end_ms, fetched, rows) if source == "insights" else None
        for message in found or _filtered(logs, log_group, begin_ms, end_ms, fetched):
            file.write(" ".join(message.splitlines()) + "\n")
            count += 1
    return count


_PERMISSIONS = {
    "insights": "logs:StartQuery, logs:GetQueryResults and logs:StopQuery",
    "filter": "logs:FilterLogEvents",
}


def _insights(
    logs: CloudWatchLogsClient, log_group: str, begin_ms: int, end_ms: int, fetched: Callable[[int], None], rows: int
) -> Iterator[str]:
    """Read slice by slice. A slice with too many rows is read again in halves."""
    begin, end = begin_ms // 1000, -(-end_ms // 1000)
    length = FIRST_SLICE_S
    while begin <= end:
        last = min(begin + length - 1, end)
        answer = _query(logs, log_group, begin, last, rows)
        if len(answer) >= rows and last > begin:
            length = max(1, (last - begin + 1) // 2)
            continue
        if len(answer) >= rows:  # more in one second than a query gives
            yield from _filtered(logs, log_group, begin * 1000, begin * 1000 + 999, lambda _: None)
        else:
            yield from answer
        fetched((last - begin + 1) * 1000)
        begin = last + 1
        if len(answer) < rows / 2:
            length *= 2


def _query(logs: CloudWatchLogsClient, log_group: str, begin: int, last: int, rows: int) -> list[str]:
    """The events of the seconds from `begin` to `last`, and perhaps of the next second."""
    query = logs.start_query(
        logGroupName=log_group, startTime=begin, endTime=last + 1, queryString=QUERY.replace("{rows}", str(rows))
    )["queryId"]
    give_up = time.monotonic() + PATIENCE_S
    pause = POLL_S[0]
    with _stopped(logs, query):
        while True:
            answer: Any = logs.get_query_results(queryId=query)
            if answer["status"] not in ("Scheduled", "Running"):
                break
            if time.monotonic() > give_up:
                raise BadInput(f"a query took more than {PATIENCE_S} s. {_FIX_QUERY}")
            time.sleep(pause)
            pause = min(2 * pause, POLL_S[1])
    if answer["status"] != "Complete":
        raise BadInput(f"the query ended as {answer['status']}. {_FIX_QUERY}")
    return [cell["value"] for row in answer["results"] for cell in row if cell["field"] == "@message"]


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
    logs: CloudWatchLogsClient, log_group: str, begin_ms: int, end_ms: int, fetched: Callable[[int], None]
) -> Iterator[str]:
    """Read with FilterLogEvents, in the order of time."""
    reached = begin_ms
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=log_group, startTime=begin_ms, endTime=end_ms + 1
    )
    for page in pages:
        for event in page["events"]:
            yield event["message"]
            now = min(event["timestamp"], end_ms)
            if now > reached:
                fetched(now - reached)
                reached = now


def recent(log_group: str, begin_ms: int, end_ms: int, most: int = 5_000) -> Iterator[str]:
    """The first `most` events between two times. Raises BadInput."""
    with refused(f"log group {log_group}", _PERMISSIONS["filter"]):
        events = _filtered(client("logs"), log_group, begin_ms, end_ms, lambda _: None)
        yield from itertools.islice(events, most)
