"""DuckDB's SQL for the members of a line (docs/metrics.md). A member of another type becomes NULL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from truemem.line_schema import FLAG, MEMBERS, METRICS, SCHEMA, SHORT, TEXT

from ..lines.log_files import LONGEST
from ..lines.wrapped import NAMES
from ..support.untrusted_text import quoted

BUFFER = 2 * LONGEST
"""Bytes that DuckDB reads at once. It counts its progress in such pieces; its own default is four times as much."""

_TYPES = {TEXT: "VARCHAR", FLAG: "BOOLEAN"}
"""DuckDB's type of a member by its kind. All other kinds are numbers."""


def _type(kind: Any) -> Any:
    """An object stays JSON: as a struct, each of its members would be a column, also of lines that do not have it."""
    if isinstance(kind, dict):
        return "JSON"
    return [_type(kind[0])] if isinstance(kind, list) else _TYPES.get(kind, "DOUBLE")


def _shape(expressions: Iterable[str], line: str, kinds: Mapping[str, Any]) -> str:
    """The JSON structure that DuckDB reads from a line: the members that the expressions name, as `line.member.inner`.
    Raises KeyError for a name that lines do not have."""
    found = re.findall(rf'\b{line}((?:\."?\w+"?)+)', " ".join(expressions))
    shape: dict[str, Any] = {}
    for path in sorted(
        set(found), key=len, reverse=True
    ):  # inner members first: an object is read only as far as named
        *outer, last = path.replace('"', "").split(".")[1:]
        into, known = shape, kinds
        for name in outer:
            into, known = into.setdefault(name, {}), known[name]
        into.setdefault(last, _type(known[last]))
    return json.dumps(shape)


def _mib(member: str) -> str:
    return f"CASE WHEN isfinite({member}) THEN try_cast({member} AS FLOAT) END"


def _flag(member: str) -> str:
    return f"coalesce(m.{member}, false)"


def _or_short(member: str, value: str) -> str:
    """A member, with the value that it has where a short line lacks it (`lines.record.completed`)."""
    return f"CASE WHEN m.schema = {SHORT} THEN coalesce({member}, {value}) ELSE {member} END"


_VERSION = r"nullif(regexp_extract({id}, '\[([^]]*)\]', 1), '')"
_PROCESSES = _or_short("m.processes", "1")
_OURS = f"(m.schema BETWEEN 1 AND {SCHEMA} AND m.environmentId IS NOT NULL)"

_BEGUN = 'coalesce(try_cast(m._aws."Timestamp" AS BIGINT), epoch_ms(try_cast(m."timestamp" AS TIMESTAMP)))'
"""Epoch ms at which the first invocation of the line began; a plain line has no `_aws`."""

_HELD = "try_cast(m.heap ->> '$.held' AS DOUBLE)"

_PLACE = """strpos(line, '{"')"""  # not Loki's labels, {job="x"}, which stand before the line
_TEXT = (
    f"CASE WHEN starts_with(line, '{{') THEN line WHEN NOT contains(substr(line, 1, {_PLACE}), '{NAMES[0]}')"
    f" THEN substr(line, {_PLACE}) END"
)
"""The JSON of a line, after any text before it. NULL if another line, in quotes, is in that text."""

_COLUMNS = {
    # the hash stands for both names: 8 bytes to sort and to join by, where a log stream has 60
    "environment": "hash(m.FunctionName, m.environmentId)",
    "function": "m.FunctionName",
    # NULL: not the sidecar's line as it stands here. A WHERE would make DuckDB parse the line twice
    "environment_id": f"CASE WHEN {_OURS} THEN m.environmentId END",
    "rest": f"CASE WHEN NOT coalesce({_OURS}, false) THEN line END",
    "version": _or_short("m.functionVersion", _VERSION.format(id="m.environmentId")),
    "request": "try_cast(m.requestId AS UUID)",
    "invocation": "try_cast(m.invocation AS BIGINT)",
    "time_ms": _BEGUN,
    "peak": _mib("m.PeakRSS"),
    "current": _mib("m.CurrentRSS"),
    "mark": _mib("m.MaxMemoryUsed"),
    "lower": _mib(_or_short("m.peakLower", "m.PeakRSS")),
    "upper": _mib(_or_short("m.peakUpper", "m.PeakRSS")),
    "baseline": _mib(_or_short("m.baselineRSS", "CASE WHEN m.mode = 'exact' THEN m.CurrentRSS END")),
    "init_peak": _mib("m.initPeakRSS"),
    "size": _mib("m.memoryLimit"),
    "duration_ms": _mib("m.durationMs"),
    "cpu_ms": _mib("m.cpuMs"),
    "billed_ms": _mib("m.billedDurationMs"),
    "line_bytes": f"strlen({_TEXT})",
    "held_truemem": _mib("m.holders.truemem"),
    "held_function": _mib('m.holders."function"'),
    "held_by_extensions": "list_sum(map_values(TRY(json_transform(m.holders.extensions, '\"MAP(VARCHAR, DOUBLE)\"'))))",
    "extensions": "m.holders.extensions::VARCHAR",
    "heap": "CASE WHEN m.heap IS NOT NULL THEN to_json({'heap': m.heap,"
    f" 'rss': {{'anon': m.rss.anon, 'file': m.rss.file}}, 'processes': {_PROCESSES}, 'CurrentRSS': m.CurrentRSS,"
    " 'invocation': m.invocation, 'memoryLimit': m.memoryLimit, 'coldStart': m.coldStart,"
    " 'suppressedInit': m.suppressedInit, 'sharedBy': m.sharedBy})::VARCHAR END",
    "heap_held": f"CASE WHEN isfinite({_HELD}) THEN {_HELD} END",
    "has_runtime": "(m.heap ->> '$.runtime') IS NOT NULL",
    "environment_used": _mib("m.environment.used"),
    "ended": "coalesce(m.environmentKills > 0 OR m.errorType = 'Extension.Crash', false)",
    "processes": _PROCESSES,
    "resources": "m.resources::VARCHAR",
    "growth": "CASE WHEN m.growthProfile IS NOT NULL THEN to_json({'growthLines': m.growthLines, 'growthProfile':"
    " m.growthProfile})::VARCHAR END",
    "threads": _or_short("m.threads", "coalesce(m.processes, 1)"),
    "shared_by": "m.sharedBy",
    "files": _mib("m.rss.file"),
    "request_bytes": _mib(_or_short("m.requestBytes", "CASE WHEN m.mode = 'exact' THEN 0 END")),
    "status": _or_short("m.status", "'success'"),
    "error_type": "m.errorType",
    "method": "m.method",
    "closed_by": "coalesce(m.closedBy, '')",
    "exact": "coalesce(m.mode = 'exact', false)",
    "payload": _mib("(coalesce(m.requestBytes, 0) + coalesce(m.responseBytes, 0)) / 1048576"),
    "out_of_memory": "coalesce(m.OutOfMemory > 0, false)",
    "begins": "coalesce(m.coldStart, false) OR coalesce(m.suppressedInit, false)",
    "raced": _flag("raced"),
    "recovered": _flag("recovered"),
    "may_repeat": _flag("mayRepeat"),
    "report_missing": _flag("reportMissing"),
    "dropped": "m.dropped IS NOT NULL",
    "many": f"CASE WHEN {_OURS} AND json_type(m.aggregate) = 'OBJECT' THEN line END",
}
"""Expression of each column. `many` is the line itself, if it has many invocations; `rest`, if it must be unwrapped."""

_OF_EACH = {
    "request": "try_cast(string_split(a.aggregate.requestId, ' ')[place] AS UUID)",
    "invocation": "try_cast(a.aggregate.invocation[place] AS BIGINT)",
    "time_ms": f"try_cast({_BEGUN} + coalesce(a.aggregate.startMs[place], 0) AS BIGINT)",
    "peak": _mib("a.PeakRSS[place]"),
    "current": _mib("a.CurrentRSS[place]"),
    "mark": _mib("a.MaxMemoryUsed[place]"),
    "upper": _mib("a.aggregate.peakUpper[place]"),
    "duration_ms": _mib("a.aggregate.durationMs[place]"),
    "cpu_ms": _mib("a.aggregate.cpuMs[place]"),
    "line_bytes": "strlen(text) // whole",
    "raced": "coalesce(list_contains(a.aggregate.raced, place - 1), false)",
    "many": "NULL",
    "rest": "NULL",
}
_SHAPE = _shape(_COLUMNS.values(), "m", MEMBERS)
_ARRAYS = _shape(_OF_EACH.values(), "a", {**MEMBERS, **{name: [kind] for name, kind in METRICS.items()}})
"""Arrays in a line of many invocations."""
_OF_THE_LAST = (
    *("baseline", "lower", "payload", "billed_ms", "held_truemem", "held_function", "threads"),
    *("extensions", "held_by_extensions", "heap", "heap_held", "has_runtime"),
    *("resources", "growth", "shared_by", "files", "request_bytes", "environment_used", "processes"),
)


def _selected(columns: dict[str, str]) -> str:
    return ",\n".join(f'{expression} AS "{name}"' for name, expression in columns.items())


COLUMNS = f"{_selected(_COLUMNS)} FROM (SELECT '' AS line, json_transform('{{}}', '{_SHAPE}') AS m)"
"""All columns of an empty line, with names and types."""

OWN_LINES = "request UUID, by_value VARCHAR, rest VARCHAR"
"""Columns of what `own_lines_in` finds."""

_REQUEST_KEYS = ("function_request_id", "requestId", "request_id", "aws_request_id", "awsRequestId")
"""Names of the request id: of Powertools for Python and TypeScript, of Lambda's JSON log format, and of plain JSON."""
_WHERE_SHORT = {
    "status": "'success'",
    "level": "'INFO'",
    "closedBy": "if(d ->> '$.mode' = 'exact', 'next-request', 'next-invoke')",
    "functionVersion": _VERSION.format(id="(d ->> '$.environmentId')"),
    "processes": "'1'",
    "threads": "coalesce(d ->> '$.processes', '1')",
}
"""Values by which --by may group that a short line does not spell out (`lines.record.completed`)."""
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def read_of(files: Iterable[Path], compressed: bool, *, rejects: bool = False) -> str:
    """A table function with one row per line. Lines that are not UTF-8, or longer than LONGEST, are left out; with
    `rejects`, their files are in `reject_scans`.

    It is not strict: for a carriage return in a line, as progress bars print them, DuckDB would refuse all files.
    """
    names = ", ".join(quoted(str(file)) for file in files)
    return (
        # U+10FFFF is no character: no line has it
        f"read_csv([{names}], columns={{'line': 'VARCHAR'}}, delim='\U0010ffff', quote='', escape='', header=false,"
        f" auto_detect=false, ignore_errors=true, strict_mode=false, null_padding=false, max_line_size={LONGEST},"
        f" buffer_size={BUFFER}, compression='{'gzip' if compressed else 'none'}'"
        f"{', store_rejects=true' if rejects else ''})"
    )


REJECT_TABLES = ("reject_scans", "reject_errors")
REJECTED = "SELECT DISTINCT file_path FROM reject_scans JOIN reject_errors USING (scan_id, file_id)"
"""The files of which lines were left out."""


def found_in(source: str) -> str:
    """Lines that may be the sidecar's, as COLUMNS. One that cannot be read as it stands here has `rest`."""
    names = " OR ".join(f"contains(line, '{name}')" for name in NAMES)
    return f"""
    SELECT {_selected(_COLUMNS)} FROM (
        SELECT line, TRY(json_transform({_TEXT}, '{_SHAPE}')) AS m FROM {source} WHERE {names}
    )
    """


def spread() -> str:
    """Split the lines of many invocations into a row for each (see `truemem_workbench.lines.record`)."""
    last = {name: f"CASE WHEN place = whole THEN {_COLUMNS[name]} END" for name in _OF_THE_LAST}
    return f"""
    SELECT {_selected({**_COLUMNS, **last, **_OF_EACH})} FROM (
        SELECT text, m, a, len(a.aggregate.invocation) AS whole, unnest(generate_series(1, whole)) AS place FROM (
            SELECT text, json_transform(text, '{_SHAPE}') AS m, json_transform(text, '{_ARRAYS}') AS a
            FROM (SELECT {_TEXT} AS text FROM (SELECT many AS line FROM found WHERE many IS NOT NULL))
        )
    )
    """


def own_lines_in(source: str, name: str) -> str:
    """The value under `name` in any structured line, by request id: `a.b` is a member of a member.

    The sidecar's own lines are among them. The request id is in the JSON, or, in Lambda's text format, before it. A
    line that has the name elsewhere, perhaps in a wrapper, is `rest`.
    """
    parts = name.split(".")
    path = quoted("$" + "".join(f'."{part}"' for part in parts))
    inner = quoted("$.message" + "".join(f'."{part}"' for part in parts))
    spellings = {json.dumps(parts[-1], ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    spellings |= {json.dumps(spelling)[1:-1] for spelling in spellings}  # in JSON that is quoted
    found = f"coalesce(d ->> {path}, d ->> {inner})"
    if name in _WHERE_SHORT:
        spellings.add("environmentId")
        is_short = f"d ->> '$.schema' = '{SHORT}' AND (d ->> '$.environmentId') IS NOT NULL"
        found = f"coalesce({found}, CASE WHEN {is_short} THEN {_WHERE_SHORT[name]} END)"
    wanted = " OR ".join(f"contains(line, {quoted(spelling)})" for spelling in sorted(spellings))
    ids = ", ".join(f"d ->> '$.{key}'" for key in _REQUEST_KEYS)
    return f"""
    SELECT try_cast(request AS UUID) AS request, by_value,
        CASE WHEN by_value IS NULL AND line LIKE '%{{%' THEN line END AS rest
    FROM (
        SELECT unnest(coalesce(
                string_split(d ->> '$.aggregate.requestId', ' '),
                [coalesce(try_cast(coalesce({ids}) AS UUID)::VARCHAR, regexp_extract(line, '{_UUID}'))]
            )) AS request,
            {found} AS by_value, line
        FROM (SELECT line, TRY(CAST({_TEXT} AS JSON)) AS d FROM {source} WHERE {wanted})
    ) WHERE by_value IS NOT NULL OR line LIKE '%{{%'
    """


CHOSEN = """
contains(environment_id, $environment) AND many IS NULL AND (time_ms >= $since OR time_ms IS NULL)
AND ($function IS NULL OR function = $function)
"""
NAMED = """
SELECT environment, any_value(coalesce(function, '')), any_value(coalesce(version, '')), any_value(environment_id)
FROM found
"""
_FAILED = "status <> 'success' AND NOT out_of_memory AND NOT ended"
_WORD = "coalesce(error_type, status)"
WORDS = f"""
SELECT DISTINCT hash(word), word FROM (
    SELECT coalesce(method, 'none') AS word FROM found UNION ALL SELECT {_WORD} FROM found WHERE {_FAILED}
)
"""
_AS_THEY_ARE = (
    *("environment", "invocation", "time_ms", "processes", "threads", "shared_by", "line_bytes"),
    *("held_by_extensions", "heap_held", "peak", "current", "mark", "lower", "upper", "baseline", "init_peak"),
    *("size", "duration_ms", "cpu_ms", "billed_ms", "held_truemem", "held_function", "environment_used"),
    *("files", "request_bytes", "payload", "ended", "exact", "out_of_memory", "begins", "raced", "recovered"),
    "may_repeat",
)
_NUMBERED = ("invocation", "time_ms", "line_bytes")  # a masked integer has no NaN
FETCHED = (
    ", ".join(f'"{name}"::DOUBLE AS "{name}"' if name in _NUMBERED else f'"{name}"' for name in _AS_THEY_ARE)
    + f""",
    coalesce(request::VARCHAR, repeat(' ', 36)) AS request, hash(request) AS request_key,
    hash(coalesce(method, 'none')) AS method, CASE WHEN {_FAILED} THEN hash({_WORD}) ELSE 0 END AS failed,
    0::UBIGINT AS by_value,
    report_missing OR dropped AS lost, coalesce(status = 'success', false) AS succeeded,
    closed_by = 'shutdown' AS is_last, heap_held IS NOT NULL AS has_malloc,
    coalesce(has_runtime, false) AS has_runtime
"""
)
"""The columns of parts.Rows, without the texts."""
OWN_WORDS = "SELECT DISTINCT hash(by_value), by_value FROM own_lines WHERE by_value IS NOT NULL"
OWN_VALUES = """
SELECT DISTINCT hash(request) AS request_key, hash(by_value) AS by_value FROM own_lines
WHERE by_value IS NOT NULL AND request IS NOT NULL
"""
"""The columns of parts.SAID."""
WITHOUT_REQUEST = "SELECT count(*) FROM own_lines WHERE by_value IS NOT NULL AND request IS NULL"
TEXTS = "heap, CASE WHEN isfinite(held_by_extensions) THEN extensions END, resources, growth"
"""The columns of parts.Texts."""
