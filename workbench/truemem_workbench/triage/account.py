"""Reads what Lambda logs of many functions in CloudWatch: their REPORT lines, or with Logs Insights counts of them.

The mark of an environment never falls. So the number of invocations by stream and mark is its whole life, in some rows:
nothing else has to leave CloudWatch. Of streams in which something was killed some are read whole, for the ages.

Facts: Insights has Lambda's sizes in bytes, of 1,000,000 to the MB (its own sample queries); a query reads 50 log
groups and returns 10,000 rows at most (API_StartQuery).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..aws.clients import client, name_of, refused
from ..aws.cloudwatch import ROWS, rows_of
from ..judge.marks import Life, Run
from ..judge.prices import INSIGHTS_GB
from ..printed.platform_lines import Ended, PlatformLines, place_of
from ..support.terminal import Count
from .lives import AT_LIMIT, Key, Observed, key_of, observed

GROUPS = 50
"""Log groups in one query."""
READ_WHOLE = 20
"""Streams with a kill that are read whole, of each function."""
_IS_REPORT = '@type = "REPORT" or type = "platform.report"'
COUNTS = (
    f'filter {_IS_REPORT} or @message like "signal: killed"'
    " | fields @maxMemoryUsed * 0.000001 as markMB, @memorySize * 0.000001 as sizeMB, strlen(@message) * 0 as none"
    " | fields coalesce(markMB, record.metrics.maxMemoryUsedMB, none) as mark"
    ", coalesce(sizeMB, record.metrics.memorySizeMB, none) as size"
    ", coalesce(@duration, record.metrics.durationMs) as ms"
    ", coalesce(@billedDuration, record.metrics.billedDurationMs) as billed"
    ", coalesce(@initDuration, record.metrics.initDurationMs) as init"
    " | stats count(*) as n, earliest(@timestamp) as first, latest(@timestamp) as last, sum(ms) as allMs"
    ", sum(billed) as billedMs, max(init) as initMs"
    ', sum(strcontains(@message, "Runtime.OutOfMemory")) as kills'
    ', sum(strcontains(@message, "signal: killed")) as signals'
    ', sum(strcontains(@message, "timeout")) as timeouts'
    " by @log, @logStream, size, mark | limit {rows}"
)
WHOLE = (
    f'filter ({_IS_REPORT} or @message like "signal: killed") and @logStream in [{{streams}}]'
    " | fields @timestamp, @log, @logStream, @message | sort @timestamp asc | limit {rows}"
)
WORDS = '?"REPORT RequestId" ?"platform.report" ?"platform.runtimeDone" ?"Runtime exited" ?"Task timed out"'


class Group(NamedTuple):
    """A log group."""

    name: str
    stored_bytes: int


def groups_of(functions: Sequence[str]) -> list[Group]:
    """The log groups that these functions have, each once. A function that has none has never run. Raises BadInput."""
    with refused("the list of functions", "lambda:ListFunctions"):
        pages = client("lambda").get_paginator("list_functions").paginate()
        told = {
            each["FunctionName"]: (each.get("LoggingConfig") or {}).get("LogGroup")
            for page in pages
            for each in page["Functions"]
        }
    wanted = {told.get(name) or f"/aws/lambda/{name}" for name in map(name_of, functions)}
    with refused("the list of log groups", "logs:DescribeLogGroups"):
        pages = client("logs").get_paginator("describe_log_groups").paginate()
        found = [
            Group(each["logGroupName"], each.get("storedBytes", 0))
            for page in pages
            for each in page["logGroups"]
            if each["logGroupName"] in wanted
        ]
    return sorted(found)


def most_usd(groups: Sequence[Group]) -> float:
    """The most that Logs Insights can cost: all that is stored is read once, and once more where something was
    killed."""
    return 2 * sum(group.stored_bytes for group in groups) / 1e9 * INSIGHTS_GB


def read_lines(
    groups: Sequence[Group], begin_ms: int, end_ms: int, done: Count = lambda _: None
) -> dict[Key, Observed]:
    """All REPORT lines, with FilterLogEvents. `done` is called for each group. Raises BadInput."""
    lines = PlatformLines()
    with refused("the logs", "logs:FilterLogEvents"):
        pages = client("logs").get_paginator("filter_log_events")
        for group in groups:
            lines.begin_file(group.name)
            asked = {"logGroupName": group.name, "startTime": begin_ms, "endTime": end_ms + 1, "filterPattern": WORDS}
            for page in pages.paginate(**asked):
                for event in page["events"]:
                    lines.read_event({**event, "logGroup": group.name})
            done(1)
    return observed(lines.taken())


def count_lines(
    groups: Sequence[Group], begin_ms: int, end_ms: int, done: Count = lambda _: None, rows: int = ROWS
) -> dict[Key, Observed]:
    """Counts of REPORT lines by stream and mark, with Logs Insights. `done` is called with the groups that are done.
    Raises BadInput."""
    counted = []
    with refused("the logs", "logs:StartQuery, logs:GetQueryResults, logs:StopQuery"):
        for begin in range(0, len(groups), GROUPS):
            together = [group.name for group in groups[begin : begin + GROUPS]]
            counted += list(_counts(together, begin_ms // 1000, end_ms // 1000, rows))
            done(len(together))
        found = lives_of(counted)
        for key, one in found.items():
            if one.out_of_memory:
                _read_ages(one, counted, key, begin_ms // 1000, end_ms // 1000, rows)
    return found


Row = Mapping[str, str]


def _counts(groups: Sequence[str], begin_s: int, end_s: int, rows: int) -> Iterator[Row]:
    """Where an answer is as long as it may be, the same is asked of half the groups, or of half the time."""
    answer = rows_of(client("logs"), groups, begin_s, end_s, COUNTS.format(rows=rows))
    if len(answer) < rows:
        yield from answer
    elif len(groups) > 1:
        half = len(groups) // 2
        yield from _counts(groups[:half], begin_s, end_s, rows)
        yield from _counts(groups[half:], begin_s, end_s, rows)
    elif end_s > begin_s:
        middle = (begin_s + end_s) // 2
        yield from _counts(groups, begin_s, middle, rows)
        yield from _counts(groups, middle + 1, end_s, rows)
    else:
        yield from answer


def lives_of(counted: Sequence[Row]) -> dict[Key, Observed]:
    """The lives of environments, from counts by stream and mark. Those of streams with kills or timeouts end where that
    is not known: they have no life."""
    streams: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in counted:
        streams[row.get("@log", ""), row.get("@logStream", "")].append(row)
    found: dict[Key, Observed] = {}
    for (log, stream), rows in streams.items():
        sized = [row for row in rows if float(row.get("size") or 0.0) > 0]
        if not sized:
            continue
        size = round(float(sized[-1]["size"]))
        key = key_of(place_of(log, stream), size)
        one = found.setdefault(key, Observed())
        one.environments += 1
        kills, signals, timeouts = (int(_sum(rows, name)) for name in ("kills", "signals", "timeouts"))
        if any(float(row["mark"]) >= AT_LIMIT * size for row in sized):  # the line of a kill has no mark
            kills, signals = max(kills, signals), 0
        signals = max(0, signals - kills)  # a kill may have both
        one.ended += Counter({Ended.OUT_OF_MEMORY: kills, Ended.KILLED: signals, Ended.TIMEOUT: timeouts})
        full = [row for row in sized if float(row["mark"]) >= AT_LIMIT * size]
        late = int(_sum(full, "timeouts"))
        one.at_limit += late if late == _sum(full, "n") else 0
        one.invocations += int(_sum(sized, "n"))
        one.highest_mb = max(one.highest_mb, *(round(float(row["mark"])) for row in sized))
        one.billed_ms += _sum(sized, "billedMs")
        first, last = min(float(row["first"]) for row in sized), max(float(row["last"]) for row in sized)
        one.first_ms = first if math.isnan(one.first_ms) else min(first, one.first_ms)
        one.last_ms = last if math.isnan(one.last_ms) else max(last, one.last_ms)
        if not (kills + signals + timeouts) and _never_falls(sized):
            one.lives.append(life := _life(sized, first))
            if life.from_birth:
                one.survived.append(life.invocations)
    return found


def _sum(rows: Sequence[Row], name: str) -> float:
    return sum(float(row.get(name) or 0.0) for row in rows)


def _never_falls(rows: Sequence[Row]) -> bool:
    """False if a lower mark was seen after a higher one: the environment has begun anew."""
    last: dict[float, float] = {}
    for row in rows:
        mark = float(row["mark"])
        last[mark] = max(float(row["last"]), last.get(mark, 0.0))
    return all(float(row["first"]) >= last[mark] for row in rows for mark in last if mark < float(row["mark"]))


def _life(rows: Sequence[Row], first_ms: float) -> Life:
    """Slices of time may have the same mark."""
    runs: dict[int, list[float]] = {}
    for row in rows:
        run = runs.setdefault(round(float(row["mark"])), [0.0, 0.0])
        run[0] += int(row["n"])
        run[1] += float(row.get("allMs") or "nan")
    was_seen = _sum(rows, "initMs") > 0
    return Life([Run(mark, int(n), ms / n) for mark, (n, ms) in sorted(runs.items())], first_ms, was_seen)


def _read_ages(one: Observed, counted: Sequence[Row], key: Key, begin_s: int, end_s: int, rows: int) -> None:
    """Read some streams with kills whole: the ages, and the lives between two kills."""
    killed = [row for row in counted if _sum([row], "kills") + _sum([row], "signals") > 0 and _is_of(row, key)]
    streams = list(dict.fromkeys(row["@logStream"] for row in killed))[:READ_WHOLE]
    log = killed[0]["@log"]
    quoted = ", ".join(f"'{stream}'" for stream in streams)
    lines = PlatformLines()
    lines.begin_file(log)
    query = WHOLE.format(streams=quoted, rows=rows)
    for row in rows_of(client("logs"), [log.partition(":")[2] or log], begin_s, end_s, query):
        lines.read_event(dict(row))
    if (whole := observed(lines.taken()).get(key)) is not None:
        one.lives += whole.lives
        is_all = whole.out_of_memory == one.out_of_memory
        one.ages, one.killed_ms = whole.ages, whole.killed_ms if is_all else []
        all_killed = len({row["@logStream"] for row in killed})
        one.survived = one.survived[:: math.ceil(all_killed / len(streams))] + whole.survived


def _is_of(row: Row, key: Key) -> bool:
    return key_of(place_of(row.get("@log", ""), row.get("@logStream", "")), key.size_mb) == key
