"""Every statement of deploy/athena.sql: SQLGlot parses it as Athena's and translates it to DuckDB, and there its answer
is that of Logs Insights (tests/attach/insights.py) on the same lines."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import expressions as exp
from truemem.line_schema import MEMBERS

from tests.attach.captured import stored
from tests.attach.insights import LogEvent, run
from tests.attach.pages import DOCS, block, blocks

NAMED = r"^-- name: ([\w-]+)\n((?:(?!-- name: ).+\n)+?.*);$"
STATEMENTS = dict(re.findall(NAMED, (DOCS.parent / "deploy" / "athena.sql").read_text(), re.MULTILINE))
"""By name."""
TABLES = ("table", "batches", "json-table", "view", "json-view", "parquet")
QUERIES = [name for name in STATEMENTS if name not in TABLES]
EVENTS = [event for log in stored().values() for event in log]
OF_LOGS_INSIGHTS = [made.name for made in blocks("queries.md") if made.language == "cwli"]
TIMES = ("@timestamp", "bin(5m)", "begun", "time", "day", "@logstream")
"""Logs Insights goes by the time when a line was printed, the view by the invocation's own."""
NAMES = {"@message": "text"}
Row = dict[str, Any]


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_athenas(name: str) -> None:
    (parsed,) = sqlglot.parse(STATEMENTS[name], dialect="athena", error_level=sqlglot.ErrorLevel.RAISE)
    assert parsed is not None
    assert not isinstance(parsed, exp.Command)  # what SQLGlot passes on without understanding it


def test_each_query_of_logs_insights_has_one_for_athena() -> None:
    assert QUERIES == OF_LOGS_INSIGHTS
    assert {*TABLES} < {*STATEMENTS}


# --- the lines in S3, in DuckDB ---------------------------------------------------------------------------------------


def exported(event: LogEvent) -> str:
    """As an export task writes it."""
    time = datetime.fromtimestamp(event.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return f"{time.replace('+00:00', 'Z')} {event.message}"


def in_batches(events: Sequence[LogEvent]) -> list[str]:
    """As CloudWatch Logs sends them to Firehose."""
    parts = [events[at : at + 50] for at in range(0, len(events), 50)]
    return [
        json.dumps({"messageType": "DATA_MESSAGE", "logEvents": [{"message": event.message} for event in part]})
        for part in parts
    ]


def add_texts(db: duckdb.DuckDBPyConnection, table: str, lines: Iterable[str]) -> None:
    """A table of texts, each line of a file one row."""
    db.execute(f"CREATE TABLE {table} (text VARCHAR, day VARCHAR)")
    rows = [(text, "2026/11/21") for line in lines for text in line.split("\n")]
    db.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)


def by_the_serde(db: duckdb.DuckDBPyConnection, events: Sequence[LogEvent] = EVENTS) -> None:
    """What Athena's JSON SerDe makes of the lines, after its documentation: names are mapped, what is no JSON is passed
    over, and a value of another type is NULL."""
    created = sqlglot.parse_one(STATEMENTS["json-table"], dialect="athena")
    mapping = mapped(created)
    columns = {each.name: each.args["kind"] for each in created.this.expressions if each.args.get("kind") is not None}
    types = ", ".join(f'"{name}" {kind.sql(dialect="duckdb")}' for name, kind in columns.items())
    db.execute(f"CREATE TABLE truemem_json ({types}, day VARCHAR)")
    shape = json.dumps({name: shape_of(kind) for name, kind in columns.items()})
    for event in events:
        try:
            document = json.loads(event.message)
        except ValueError:
            continue
        if isinstance(document, dict):
            found = {
                name: taken(document.get(mapping.get(name, name)), kind, mapping) for name, kind in columns.items()
            }
            names = ", ".join(f'm."{name}"' for name in columns)
            query = f"INSERT INTO truemem_json SELECT {names}, '2026/11/21' FROM (SELECT json_transform(?, ?) AS m)"
            db.execute(query, [json.dumps(found), shape])


def mapped(created: exp.Expr) -> dict[str, str]:
    """The name in JSON of each column and member of the table that has another."""
    options = {
        each.this.name: each.args["value"].name if "value" in each.args else each.expression.name
        for properties in created.find_all(exp.SerdeProperties)
        for each in properties.expressions
    }
    assert options.pop("case.insensitive") == "FALSE"
    return {name.removeprefix("mapping."): value for name, value in options.items() if name.startswith("mapping.")}


def taken(value: Any, kind: exp.DataType, mapping: Mapping[str, str]) -> Any:
    """A JSON value as a column of this type has it."""
    if kind.is_type(exp.DataType.Type.STRUCT):
        if not isinstance(value, dict):
            return None
        return {
            each.name: taken(value.get(mapping.get(each.name, each.name)), each.args["kind"], mapping)
            for each in kind.expressions
        }
    if kind.is_type(exp.DataType.Type.MAP, exp.DataType.Type.ARRAY):
        return value
    return None if isinstance(value, dict | list) else value


def shape_of(kind: exp.DataType) -> Any:
    """The type for DuckDB's json_transform."""
    if kind.is_type(exp.DataType.Type.STRUCT):
        return {each.name: shape_of(each.args["kind"]) for each in kind.expressions}
    return kind.sql(dialect="duckdb")


def translated(statement: str) -> str:
    """The statement for DuckDB. What Trino does otherwise is written out: a scalar is NULL where JSON has none, and a
    path may have a name in brackets."""
    tree = sqlglot.parse_one(statement, dialect="athena")

    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.JSONExtractScalar):
            document, path = node.this.sql(dialect="duckdb"), path_of(node.expression)
            return sqlglot.parse_one(
                f"CASE WHEN json_type({document}, {path}) NOT IN ('OBJECT', 'ARRAY') THEN {document} ->> {path} END",
                dialect="duckdb",
            )
        return node

    return tree.transform(change).sql(dialect="duckdb")


def path_of(path: exp.Expr) -> str:
    text = path.sql(dialect="trino").strip("'")
    return "'" + re.sub(r"""\[["']+([^"'\]]+)["']+\]""", r'."\1"', text) + "'"


WAYS: dict[str, tuple[tuple[str, ...], Callable[[duckdb.DuckDBPyConnection], None]]] = {
    "an export task": (("view",), lambda db: add_texts(db, "truemem_log", map(exported, EVENTS))),
    "plain lines": (("view",), lambda db: add_texts(db, "truemem_log", (event.message for event in EVENTS))),
    "batches": (("batches", "view"), lambda db: add_texts(db, "truemem_batches", in_batches(EVENTS))),
    "JSON alone": (("json-view",), by_the_serde),
}


@pytest.fixture(scope="module", params=WAYS)
def athena(request: pytest.FixtureRequest) -> Iterator[duckdb.DuckDBPyConnection]:
    """The view `truemem` on the stored lines, as they lie in S3 in one way or another."""
    views, make = WAYS[request.param]
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        make(db)
        for name in views:
            db.execute(translated(STATEMENTS[name]))
        yield db


# --- the answers ------------------------------------------------------------------------------------------------------


def answer(db: duckdb.DuckDBPyConnection, name: str) -> list[Row]:
    # a time with a zone would need another package
    untimed = "SELECT COLUMNS(lambda name: name NOT IN ('begun', 'time'))"
    result = db.execute(f"{untimed} FROM ({translated(STATEMENTS[name])})")
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def plain(row: Mapping[str, Any]) -> Row:
    """A row without times, with names that both have."""
    made = {NAMES.get(name, name).lower().replace("_", "").replace(".", ""): value for name, value in row.items()}
    return {name: known(value) for name, value in sorted(made.items()) if name not in TIMES}


def known(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return None if math.isnan(value) else float(f"{value:.9g}")


def told(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(json.dumps(plain(row)) for row in rows)


def without_bins(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The highest of each figure of an environment: both have bins of five minutes, by other clocks."""
    found: dict[Any, Row] = {}
    for row in map(plain, rows):
        one = found.setdefault(row["environmentid"], dict(row))
        for name, value in row.items():
            if value is not None and name == "invocations":
                one["all"] = one.get("all", 0.0) + value
            elif value is not None:
                one[name] = max(value, one[name]) if one[name] is not None else value
        one.pop("invocations", None)
    return list(found.values())


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_of_logs_insights(name: str, athena: duckdb.DuckDBPyConnection) -> None:
    has_texts = athena.execute("FROM duckdb_tables() WHERE table_name <> 'truemem_json'").fetchall()
    if name == "platform-out-of-memory" and not has_texts:
        pytest.skip("the JSON SerDe passes over the platform's own lines")
    rows, expected = answer(athena, name), run(block("queries.md", name), EVENTS)
    assert rows
    if "bin(5m)" in expected[0]:
        assert told(without_bins(rows)) == told(without_bins(expected))
    elif name == "platform-out-of-memory":
        assert [row["text"].endswith(str(told["@message"]).strip()) for row, told in zip(rows, expected, strict=True)]
    elif name == "who-holds-the-memory":
        assert told(map_others(rows)) == told(map_others(expected))
    elif name in ("right-size", "cold-starts"):
        assert told(without_percentiles(rows)) == told(without_percentiles(expected))
        for row, wanted in zip(sorted(rows, key=str), sorted(expected, key=str), strict=True):
            assert row["p50"] == pytest.approx(wanted["p50"], rel=0.2)  # approx_percentile interpolates
    else:
        assert told(rows) == told(expected)


def map_others(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Logs Insights has the inside of the object as text, Athena the object."""
    return [
        {**row, name: json.loads("{" + str(value).strip("{}") + "}") if value else None}
        for row in rows
        for name, value in row.items()
        if name in ("extensionsHold", "extensions_hold")
    ]


def without_percentiles(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    return [{name: value for name, value in row.items() if not re.fullmatch(r"p\d\d", name)} for row in rows]


def without_metadata(event: LogEvent) -> LogEvent:
    """The event as TRUEMEM_OUTPUT=json has it."""
    try:
        members = json.loads(event.message)
        time = datetime.fromtimestamp(members.pop("_aws")["Timestamp"] / 1000, UTC)
    except (ValueError, TypeError, KeyError, AttributeError):
        return event
    return event._replace(message=json.dumps({**members, "timestamp": time.isoformat(timespec="milliseconds")}))


@pytest.mark.parametrize("view", ["view", "json-view"])
def test_a_plain_line_has_the_time_of_one_with_metadata(view: str) -> None:
    def begun(events: Sequence[LogEvent]) -> list[Any]:
        with duckdb.connect() as db:
            db.execute("SET TimeZone = 'UTC'")
            add_texts(db, "truemem_log", (event.message for event in events))
            by_the_serde(db, events)
            db.execute(translated(STATEMENTS[view]))
            return db.execute("SELECT request_id, epoch_ms(begun) FROM truemem WHERE begun IS NOT NULL").fetchall()

    spike = stored()["spike"]
    plain = [without_metadata(event) for event in spike]
    assert plain != spike
    assert begun(plain) == begun(spike) != []


@pytest.mark.parametrize("view", ["view", "json-view"])
def test_times_have_no_zone_as_athena_keeps_none(view: str) -> None:
    with duckdb.connect() as db:
        add_texts(db, "truemem_log", ["{}"])
        by_the_serde(db, [])
        db.execute(translated(STATEMENTS[view]))
        types = dict(db.execute("SELECT column_name, column_type FROM (DESCRIBE truemem)").fetchall())
    assert types["begun"] == "TIMESTAMP"
    assert not any("ZONE" in each for each in types.values())


def test_line_of_another_program_ends_no_query() -> None:
    others: Row = {"environmentId": "prod", "schema": "orders", "invocation": "first", "durationMs": "12 ms"}
    others |= {"PeakRSS": "high", "_aws": {"Timestamp": "now"}, "timestamp": "yesterday"}
    lines = [json.dumps(others), *(event.message for event in EVENTS)]
    with duckdb.connect() as db:
        add_texts(db, "truemem_log", lines)
        db.execute(translated(STATEMENTS["view"]))
        (row,) = db.execute("SELECT * EXCLUDE (day) FROM truemem WHERE environment_id = 'prod'").fetchall()
    assert {value for value in row if value is not None} == {"prod"}


# --- the table of the JSON SerDe --------------------------------------------------------------------------------------

KINDS = {"text": ("TEXT", "VARCHAR"), "true": ("BOOLEAN",), "number": ("BIGINT", "DOUBLE"), "epoch ms": ("BIGINT",)}


def members(kind: exp.Expr, schema: Any, mapping: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """The name, the type and the schema's kind of each column that is no object, with those inside."""
    for each in kind.expressions:
        name = mapping.get(each.name, each.name)
        inner, known = each.args.get("kind"), schema.get(name)
        if inner is None:
            continue
        if inner.is_type(exp.DataType.Type.STRUCT):
            yield from members(inner, known, mapping)
        else:
            yield name, inner.this.name, known


def test_the_columns_are_members_of_the_line_with_their_types() -> None:
    created = sqlglot.parse_one(STATEMENTS["json-table"], dialect="athena")
    found = list(members(created.this, MEMBERS, mapped(created)))
    assert len(found) > 35
    for name, type_, kind in found:
        assert kind is not None, name
        if isinstance(kind, str):
            assert type_ in KINDS.get(kind, ("DOUBLE",)), (name, type_, kind)


def test_both_views_have_the_same_columns() -> None:
    views = [sqlglot.parse_one(STATEMENTS[name], dialect="athena") for name in ("view", "json-view")]
    first, second = ([column.alias_or_name for column in view.expression.selects] for view in views)
    assert first == second
