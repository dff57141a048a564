"""A small Logs Insights: runs the queries of docs/queries.md over captured lines.

It does what the CloudWatch Logs user guide says, and refuses (Undocumented) where an answer would rest on what the
guide does not say: how a field that is absent compares, or what a JSON boolean is equal to. A query that passes here
leaves nothing of that kind to the service.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.attach.insights_functions import Undocumented, Value, aggregate, call, number
from tests.attach.insights_syntax import AGGREGATES, parse
from tests.attach.insights_tree import (
    Bin,
    Call,
    Command,
    Display,
    Expression,
    Field,
    Fields,
    Filter,
    Limit,
    Literal,
    Matches,
    Named,
    Parse,
    Sort,
    Stats,
)

SYSTEM_FIELDS = ("@timestamp", "@message", "@logStream")
LIMIT = 10_000
"""Rows of an answer where the query has no `limit`."""

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
        for expression in _expressions(command):
            used |= _fields(expression) - made
        match command:
            case Fields(items):
                made |= {item.name for item in items if item.expression != Field(item.name)}
            case Parse(_, pattern):
                made |= set(pattern.groupindex)
            case Stats(items, by):
                for item in items:  # an item may use the ones before it
                    used |= _fields(item.expression) - made
                    made.add(item.name)
                made |= {item.name for item in by}
            case Display(wanted):
                used |= set(wanted) - made
    return used


def run(query: str, events: Iterable[LogEvent]) -> list[Row]:
    """The rows of the answer, each with its columns in the order asked for.

    Raises SyntaxError for what the interpreter does not know, Undocumented for what nobody may count on.
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
                rows = [row | _parsed(pattern, row[source.name]) for row in rows]
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
            case Display(wanted):
                columns = list(wanted)
    if not ordered and all("@timestamp" in row for row in rows):
        rows.reverse()  # events come newest first; the order of groups is anybody's
    return [{name: row.get(name) for name in columns or SYSTEM_FIELDS[:2]} for row in rows[:limit]]


def evaluate(expression: Expression, row: Row, group: Sequence[Row] = ()) -> Value:
    """The value of an expression for a row; `group` is what the functions of `stats` go over."""
    match expression:
        case Literal(value):
            return value
        case Field(name):
            return row.get(name)
        case Bin(period_ms):
            return math.floor(number(row["@timestamp"]) / period_ms) * period_ms
        case Matches(subject, pattern):
            text = evaluate(subject, row, group)
            return None if text is None else pattern.search(str(text)) is not None
        case Call(name, arguments) if name in AGGREGATES:
            return _over_group(name, arguments, group)
        case Call("and" | "or" as name, arguments):
            return _junction(name == "or", arguments, row, group)
        case Call(name, arguments):
            return call(name, [evaluate(argument, row, group) for argument in arguments])


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
            plain = _fields(item.expression, inside_aggregates=False) - set(made)
            if plain:
                raise Undocumented(f"stats has {', '.join(plain)} outside of a function over the group")
            made[item.name] = evaluate(item.expression, made, group)
        answer.append(made)
    return answer


def _parsed(pattern: re.Pattern[str], text: Value) -> Row:
    found = pattern.search(str(text))
    return dict(found.groupdict()) if found else {}


def _sort_key(key: Expression) -> Callable[[Row], float | str]:
    def of(row: Row) -> float | str:
        value = evaluate(key, row)
        if value is None or isinstance(value, bool):
            raise Undocumented(f"sorted by {key}, which is {value} in {row}")
        return value

    return of


def _junction(decisive: bool, arguments: Sequence[Expression], row: Row, group: Sequence[Row]) -> Value:
    """False decides an `and`, True an `or`, whatever the other side: that one may then be undocumented."""
    values: list[Value] = []
    unclear: Undocumented | None = None
    for argument in arguments:
        try:
            values.append(evaluate(argument, row, group))
        except Undocumented as reason:
            unclear = reason
    if decisive in values:
        return decisive
    if unclear is not None:
        raise unclear
    return None if None in values else not decisive


def _over_group(name: str, arguments: Sequence[Expression], group: Sequence[Row]) -> Value:
    if not arguments:
        return len(group)
    if name in ("earliest", "latest"):  # the value in that event: rows are in the order of time
        return evaluate(arguments[0], group[0 if name == "earliest" else -1])
    values = [evaluate(arguments[0], row) for row in group]
    return aggregate(name, values, *(evaluate(argument, {}) for argument in arguments[1:]))


def _holds(value: Value) -> bool:
    """Of a condition; where a comparison had an absent field, the row is left out."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise Undocumented(f"{value!r} as a condition")


# --- what a query names -----------------------------------------------------------------------------------------------


def _expressions(command: Command) -> list[Expression]:
    match command:
        case Fields(items):
            return [item.expression for item in items]
        case Filter(condition):
            return [condition]
        case Parse(source, _):
            return [source]
        case Stats(_, by):
            return [item.expression for item in by]
        case Sort(keys):
            return [key for key, _ in keys]
    return []


def _fields(expression: Expression, inside_aggregates: bool = True) -> set[str]:
    match expression:
        case Field(name):
            return {name}
        case Matches(subject, _):
            return _fields(subject, inside_aggregates)
        case Call(name, arguments) if inside_aggregates or name not in AGGREGATES:
            return set[str]().union(*(_fields(argument, inside_aggregates) for argument in arguments))
    return set()
