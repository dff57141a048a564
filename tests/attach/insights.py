"""A small Logs Insights: runs the queries of docs/queries.md over captured lines.

It does what the CloudWatch Logs user guide says, and refuses (Undocumented) where an answer would rest on what the
guide does not say: how a field that is absent compares, or what a JSON boolean is equal to. A query that passes here
leaves nothing of that kind to the service.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.attach.insights_functions import AGGREGATES, Undocumented, Value, aggregate, call, negate, number, operate
from tests.attach.insights_syntax import parse
from tests.attach.insights_tree import Command, Display, Fields, Filter, Limit, Named, Parse, Sort, Stats

SYSTEM_FIELDS = ("@timestamp", "@message", "@logStream")
LIMIT = 10_000
"""Rows of an answer where the query has no `limit`."""
PERIODS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Units of bin(), in milliseconds."""

Row = dict[str, Value]


class LogEvent(NamedTuple):
    """One line of a log group."""

    time_ms: int
    """When the platform took the line: what bin() and @timestamp go by."""
    stream: str
    message: str


def discovered(event: LogEvent) -> Row:
    """The fields that Logs Insights finds in an event: its own, and those of JSON, with dots for what is nested; not
    more than 200 ("Supported logs and discovered fields")."""
    row: Row = {"@timestamp": event.time_ms, "@message": event.message, "@logStream": event.stream}
    try:
        document = json.loads(event.message)
    except ValueError:
        return row
    if isinstance(document, dict):
        row.update(itertools.islice(flattened(document).items(), 200))
    return row


def flattened(document: Mapping[str, object], prefix: str = "") -> Row:
    """{"a": {"b": [1]}} is {"a.b.0": 1}."""
    row: Row = {}
    for name, value in document.items():
        if isinstance(value, list):
            row |= flattened({str(at): item for at, item in enumerate(value)}, f"{prefix}{name}.")
        elif isinstance(value, dict):
            row |= flattened(value, f"{prefix}{name}.")
        elif value is None or isinstance(value, str | bool | float | int):
            row[prefix + name] = value
    return row


def names(query: str) -> set[str]:
    """The fields of events that a query names; not its own aliases."""
    made: set[str] = set()
    used: set[str] = set()
    for command in parse(query):
        for item in _items(command):  # an item may use the ones before it
            used |= fields(item.expression) - made
            made |= {item.name} - used
        if isinstance(command, Parse):
            made |= set(command.pattern.groupindex)
    return used


def _items(command: Command) -> Sequence[Named]:
    match command:
        case Fields(items) | Display(items):
            return items
        case Stats(items, by):
            return (*by, *items)
        case Filter(expression) | Parse(expression, _):
            return (Named(expression, ""),)
        case Sort(keys):
            return [Named(key, "") for key, _ in keys]
    return ()


def fields(node: ast.AST, inside_aggregates: bool = True) -> set[str]:
    match node:
        case ast.Subscript(ast.Name("row"), ast.Constant(str(name))):
            return {name}
        case ast.Call(ast.Name(name), _) if name in AGGREGATES and not inside_aggregates:
            return set()
    return set[str]().union(*(fields(child, inside_aggregates) for child in ast.iter_child_nodes(node)))


def run(query: str, events: Iterable[LogEvent]) -> list[Row]:
    """The rows of the answer, each with its columns in the order asked for.

    Raises SyntaxError for what the interpreter does not know, Undocumented for what no query may count on.
    """
    rows = [discovered(event) for event in sorted(events, key=lambda event: event.time_ms)]
    columns: list[str] = []
    ordered = False
    limit = LIMIT
    for command in parse(query):
        match command:
            case Fields(items):
                rows = [row | {item.name: evaluate(item.expression, row) for item in items} for row in rows]
                columns += [item.name for item in items if item.name not in columns]
            case Filter(condition):
                rows = [row for row in rows if _holds(evaluate(condition, row))]
            case Parse(source, pattern):
                rows = [row | _parsed(pattern, evaluate(source, row)) for row in rows]
            case Stats(items, by):
                rows = _stats(rows, items, by)
                columns = [item.name for item in (*by, *items)]
                ordered = False
            case Sort(keys):
                for key, descending in reversed(keys):
                    rows = sorted(rows, key=_sort_key(key), reverse=descending)
                ordered = True
            case Limit(count):
                limit = count
            case Display(items):
                columns = [item.name for item in items]
    if not ordered and all("@timestamp" in row for row in rows):
        rows.reverse()  # events come newest first; the order of groups is not defined
    return [{name: row.get(name) for name in columns or SYSTEM_FIELDS[:2]} for row in rows[:limit]]


def evaluate(expression: ast.expr, row: Row, group: Sequence[Row] = ()) -> Value:
    """The value of an expression for a row; `group` is what the functions of `stats` go over."""

    def value_of(part: ast.expr) -> Value:
        return evaluate(part, row, group)

    match expression:
        case ast.Constant(str() | int() | float() as value):
            return value
        case ast.Subscript(ast.Name("row"), ast.Constant(str(name))):
            return row.get(name)
        case ast.Subscript(ast.Name("bin"), ast.Constant(str(period))):
            period_ms = int(period[:-1]) * PERIODS[period[-1]]
            return math.floor(number(row["@timestamp"]) / period_ms) * period_ms
        case ast.Compare(subject, [ast.In()], [ast.Constant(str(pattern))]):
            text = value_of(subject)
            return None if text is None else re.search(pattern, str(text)) is not None
        case ast.Compare(subject, [ast.In()], [ast.List(texts)]):
            found = value_of(subject)
            return None if found is None else found in map(value_of, texts)
        case ast.Compare(left, [sign], [right]) | ast.BinOp(left, sign, right):
            return operate(type(sign), value_of(left), value_of(right))
        case ast.UnaryOp(ast.Not(), operand):
            return negate(value_of(operand))
        case ast.BoolOp(sign, values):
            return _junction(isinstance(sign, ast.Or), values, value_of)
        case ast.Call(ast.Name(name), arguments) if name in AGGREGATES:
            return _over_group(name, arguments, group)
        case ast.Call(ast.Name(name), arguments):
            return call(name, [value_of(argument) for argument in arguments])
    raise AssertionError(f"{ast.unparse(expression)} passed the parser")


# --- rows -------------------------------------------------------------------------------------------------------------


def _stats(rows: Sequence[Row], items: Sequence[Named], by: Sequence[Named]) -> list[Row]:
    groups: dict[tuple[Value, ...], list[Row]] = {}
    for row in rows:
        key = tuple(evaluate(item.expression, row) for item in by)
        if None in key:
            raise Undocumented(f"grouped by {', '.join(item.name for item in by)}, which a line lacks: {row}")
        groups.setdefault(key, []).append(row)
    answer = []
    for key, group in groups.items():
        made: Row = {item.name: value for item, value in zip(by, key, strict=True)}
        for item in items:
            plain = fields(item.expression, inside_aggregates=False) - set(made)
            if plain:
                raise Undocumented(f"stats has {', '.join(plain)} outside of a function over the group")
            made[item.name] = evaluate(item.expression, made, group)
        answer.append(made)
    return answer


def _parsed(pattern: re.Pattern[str], text: Value) -> Row:
    found = pattern.search(str(text))
    return dict(found.groupdict()) if found else {}


def _sort_key(key: ast.expr) -> Callable[[Row], float | str]:
    def of(row: Row) -> float | str:
        value = evaluate(key, row)
        if value is None or isinstance(value, bool):
            raise Undocumented(f"sorted by {ast.unparse(key)}, which is {value} in {row}")
        return value

    return of


def _junction(decisive: bool, parts: Sequence[ast.expr], value_of: Callable[[ast.expr], Value]) -> Value:
    """False decides an `and`, True an `or`, whatever the other side: that one may then be undocumented."""
    values: list[Value] = []
    unclear: Undocumented | None = None
    for part in parts:
        try:
            values.append(value_of(part))
        except Undocumented as reason:
            unclear = reason
    if decisive in values:
        return decisive
    if unclear is not None:
        raise unclear
    return None if None in values else not decisive


def _over_group(name: str, arguments: Sequence[ast.expr], group: Sequence[Row]) -> Value:
    if name in ("earliest", "latest"):  # the value in that event: rows are in the order of time
        return evaluate(arguments[0], group[0 if name == "earliest" else -1])
    values = [evaluate(arguments[0], row) for row in group]
    return aggregate(name, values, *(evaluate(argument, {}) for argument in arguments[1:]))


def _holds(value: Value) -> bool:
    """Of a condition; where a comparison had an absent field, the row is left out."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise Undocumented(f"{value!r} as a condition")
