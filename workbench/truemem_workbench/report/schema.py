"""The sidecar's line as columns: DuckDB's SQL for what docs/metrics.md says, lenient with members of another type."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

LONGEST = 4 << 20
"""Bytes of the longest line that is read: CloudWatch's longest event is 1 MiB."""

_NUMBERS = (
    "PeakRSS",
    "CurrentRSS",
    "MaxMemoryUsed",
    "OutOfMemory",
    "durationMs",
    "peakUpper",
    "baselineRSS",
    "initPeakRSS",
    "memoryLimit",
    "invocation",
    "processes",
    "schema",
)
_TEXTS = (
    "FunctionName",
    "functionVersion",
    "environmentId",
    "requestId",
    "status",
    "errorType",
    "method",
    "closedBy",
    "timestamp",
)
_SHAPE = json.dumps(
    {
        **dict.fromkeys(_NUMBERS, "DOUBLE"),
        **dict.fromkeys(_TEXTS, "VARCHAR"),
        **dict.fromkeys(("coldStart", "suppressedInit", "raced", "recovered", "mayRepeat", "reportMissing"), "BOOLEAN"),
        "dropped": "JSON",
        "_aws": {"Timestamp": "BIGINT"},
        "holders": {"truemem": "DOUBLE", "function": "DOUBLE", "extensions": "MAP(VARCHAR, DOUBLE)"},
        "rss": {"anon": "DOUBLE"},
        "heap": {"inUse": "DOUBLE", "held": "DOUBLE", "mapped": "DOUBLE"},
    }
)


def _mib(member: str, name: str) -> str:
    return f"try_cast(m.{member} AS FLOAT) AS {name}"


def _flag(member: str, name: str) -> str:
    return f"coalesce(m.{member}, false) AS {name}"


_SELECTED = ",\n".join(
    (
        # the hash stands for both names: 8 bytes to sort and to join by, where a log stream has 60
        "hash(m.FunctionName, m.environmentId) AS environment",
        "m.FunctionName AS function",
        # NULL: somebody else's line. Not left out by a WHERE: DuckDB would parse the line twice, once for that
        "CASE WHEN m.schema IS NOT NULL THEN m.environmentId END AS environment_id",
        "m IS NOT NULL AS readable",
        "m.functionVersion AS version",
        "try_cast(m.requestId AS UUID) AS request",
        "try_cast(m.invocation AS BIGINT) AS invocation",
        'coalesce(m._aws."Timestamp", epoch_ms(try_cast(m."timestamp" AS TIMESTAMP))) AS time_ms',
        _mib("PeakRSS", "peak"),
        _mib("CurrentRSS", '"current"'),
        _mib("MaxMemoryUsed", "mark"),
        _mib("peakUpper", "upper"),
        _mib("baselineRSS", "baseline"),
        _mib("initPeakRSS", "init_peak"),
        _mib("memoryLimit", "size"),
        _mib("durationMs", "duration_ms"),
        _mib("holders.truemem", "held_truemem"),
        _mib('holders."function"', "held_function"),
        "m.holders.extensions AS held_extensions",
        "CASE WHEN m.heap.held IS NOT NULL THEN {'heap': m.heap, 'rss': m.rss, 'processes': m.processes} END AS heap",
        "m.status AS status",
        "m.errorType AS error_type",
        "m.method AS method",
        "coalesce(m.closedBy, '') AS closed_by",
        "coalesce(m.OutOfMemory > 0, false) AS out_of_memory",
        "coalesce(m.coldStart, false) OR coalesce(m.suppressedInit, false) AS begins",
        _flag("raced", "raced"),
        _flag("recovered", "recovered"),
        _flag("mayRepeat", "may_repeat"),
        _flag("reportMissing", "report_missing"),
        "m.dropped IS NOT NULL AS dropped",
    )
)
COLUMNS = f"{_SELECTED} FROM (SELECT json_transform('{{}}', '{_SHAPE}') AS m)"
"""With names and types, of an empty line."""

_TEXT = "CASE WHEN starts_with(line, '{') THEN line ELSE substr(line, strpos(line, '{')) END"

INVOCATIONS = """
SELECT line.*, told.told,
    NOT raced AND NOT recovered AND closed_by <> 'shutdown' AS certain,
    held_truemem + coalesce(list_sum(map_values(held_extensions)), 0) AS others
FROM line LEFT JOIN told USING (request)
WHERE environment BETWEEN ? AND ?
QUALIFY row_number() OVER (PARTITION BY environment, request, invocation ORDER BY may_repeat, recovered, time_ms) = 1
"""
"""The environments between two, one row an invocation: a line that repeats another is left out."""

TOLD = """
SELECT request, CASE count(DISTINCT told) WHEN 1 THEN min(told) ELSE '(several)' END AS told
FROM said WHERE request IS NOT NULL AND told IS NOT NULL GROUP BY request
"""
"""One word for each request."""

_REQUEST_KEYS = ("function_request_id", "requestId", "request_id", "aws_request_id", "awsRequestId")
"""Powertools for Python and TypeScript; Lambda's JSON log format; plain JSON as people write it."""
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def read_of(files: Sequence[Path], compressed: bool) -> str:
    """A table function: one row a line. What is no UTF-8, or longer than LONGEST, is left out."""
    names = ", ".join(f"'{file}'" for file in files)
    return (
        f"read_csv([{names}], columns={{'line': 'VARCHAR'}}, delim='\x01', quote='', escape='', header=false,"
        f" auto_detect=false, ignore_errors=true, null_padding=false, max_line_size={LONGEST},"
        f" compression='{'gzip' if compressed else 'none'}')"
    )


def found_in(source: str) -> str:
    """Lines that look like the sidecar's as COLUMNS: not `readable` where one is no JSON, without `environment_id`
    where it is not the sidecar's after all."""
    return f"""
    SELECT {_SELECTED} FROM (
        SELECT TRY(json_transform({_TEXT}, '{_SHAPE}')) AS m
        FROM {source} WHERE contains(line, '"schema"') AND contains(line, '"environmentId"')
    )
    """


def told_in(source: str, name: str) -> str:
    """What any structured line says under `name` of the request that it names: `a.b` is a member of a member.

    The sidecar's own lines are among them. The request id stands in the JSON, or, in Lambda's text format, before it.
    """
    parts = name.split(".")
    path = _quoted("$" + "".join(f'."{part}"' for part in parts))
    inner = _quoted("$.message" + "".join(f'."{part}"' for part in parts))
    wanted = _quoted(f'"{parts[-1]}"')
    ids = ", ".join(f"d ->> '$.{key}'" for key in _REQUEST_KEYS)
    return f"""
    SELECT request, told FROM (
        SELECT coalesce(try_cast(coalesce({ids}) AS UUID), try_cast(regexp_extract(line, '{_UUID}') AS UUID))
            AS request,
            coalesce(d ->> {path}, d ->> {inner}) AS told
        FROM (SELECT line, TRY(CAST({_TEXT} AS JSON)) AS d FROM {source} WHERE contains(line, {wanted}))
    )
    """


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
