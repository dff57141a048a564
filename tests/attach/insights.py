"""A small Logs Insights: runs the queries of docs/queries.md over captured lines.

It does what the CloudWatch Logs user guide says, and refuses (Undocumented) where an answer would rest on what the
guide does not say: how a field that is absent compares, or what a JSON boolean is equal to. A query that passes here
leaves nothing of that kind to the service. What the grammar does not have is refused as well (lark.UnexpectedInput).
"""

import itertools
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, v_args

Value = float | str | bool | None
"""bool: a JSON boolean, or what a condition came to. None: absent, or not known."""
Expression = Any
"""A constant, or a Node."""

# A name with any character but those of NAME has to stand between backticks: so says the guide.
GRAMMAR = r"""
start: command ("|" command)*
?command: "fields" items                  -> fields
    | "filter" either                     -> filter
    | "parse" field pattern               -> parse
    | "stats" items ("by" items)?         -> stats
    | "sort" key ("," key)*               -> sort
    | "limit" NUMBER                      -> limit
items: item ("," item)*
item: either ("as" field)?
key: either (ASC | DESC)?

?either: both | either "or" both          -> or
?both: denied | both "and" denied         -> and
?denied: comparison | "not" denied        -> not
?comparison: sum | sum COMPARED sum       -> operate
    | sum "like" pattern                  -> like
    | sum "in" "[" STRING ("," STRING)* "]" -> in
?sum: product | sum ADDED product         -> operate
?product: atom | product MULTIPLIED atom  -> operate
?atom: NUMBER | STRING | field | "(" either ")"
    | "bin" "(" PERIOD ")"                -> bin
    | "ispresent" "(" field ")"           -> ispresent
    | "coalesce" "(" field ("," field)* ")" -> coalesce
    | "strlen" "(" either ")"             -> strlen
    | "strcontains" "(" either "," STRING ")" -> strcontains
    | "greatest" "(" either ("," either)* ")" -> greatest
    | _COUNT_ALL                          -> count
    | AGGREGATE "(" either ("," NUMBER)? ")" -> aggregate
field: NAME | QUOTED
pattern: REGEX | STRING

_COUNT_ALL.3: /count\(\*\)/
AGGREGATE.2: /(count_distinct|count|earliest|latest|max|pct|sum)(?=\()/
ASC: "asc"
DESC: "desc"
COMPARED: "!=" | "<=" | ">=" | "=" | "<" | ">"
ADDED: "+" | "-"
MULTIPLIED: "*" | "/"
NUMBER: /\d+(\.\d+)?/
PERIOD: /\d+[smhd]/
STRING: /"[^"]*"|'[^']*'/
REGEX: /\/(?:[^\/\\\n]|\\.)+\//
NAME: /@?[A-Za-z][A-Za-z0-9.]*/
QUOTED: /`[^`]+`/
%ignore /\s+|#[^\n]*/
"""
PARSER = Lark(GRAMMAR, parser="lalr", propagate_positions=True)
OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Undocumented(Exception):
    """The answer would depend on something that the guide does not say."""


class Node(NamedTuple):
    """A part of a query."""

    kind: str
    """As the grammar calls it."""
    children: list[Any]


class Named(NamedTuple):
    """EXPRESSION as NAME; without `as`, what the user wrote is the name."""

    expression: Expression
    name: str


class _Values(Transformer[Token, Any]):
    """Makes values of constants, patterns of regular expressions, and names of what is asked for."""

    NUMBER = float

    def __init__(self, query: str) -> None:
        super().__init__()
        self._query = query

    def STRING(self, token: Token) -> str:
        return str(token[1:-1])

    def REGEX(self, token: Token) -> re.Pattern[str]:
        return re.compile(token[1:-1].replace("(?<", "(?P<"))

    def pattern(self, children: list[Any]) -> re.Pattern[str]:
        return re.compile(re.escape(children[0])) if isinstance(children[0], str) else children[0]

    def field(self, children: list[Token]) -> Node:
        return Node("field", [children[0].strip("`")])

    def items(self, children: list[Named]) -> list[Named]:
        return children

    def __default__(self, data: str, children: list[Any], _: object) -> Node:
        return Node(str(data), children)

    @v_args(meta=True)
    def item(self, meta: Any, children: list[Any]) -> Named:
        written = " ".join(self._query[meta.start_pos : meta.end_pos].split()).strip("`")
        return Named(children[0], children[1].children[0] if len(children) > 1 else written)


def parse(query: str) -> list[Node]:
    """The commands of a query, as the grammar names them."""
    start: Node = _Values(query).transform(PARSER.parse(query))
    return start.children


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
    group: str = ""


REPORTED = {"@duration": "Duration", "@billedDuration": "Billed Duration", "@initDuration": "Init Duration"}
REPORTED_SIZES = {"@memorySize": "Memory Size", "@maxMemoryUsed": "Max Memory Used"}
"""Fields that are found in Lambda's REPORT; sizes are in bytes there, of 1,000,000 to the MB."""


def _of_report(message: str) -> Row:
    found = dict(re.findall(r"([A-Z][\w ]+): ([\d.]+) M?[Bm]", message))
    row: Row = {field: float(found[name]) for field, name in REPORTED.items() if name in found}
    return row | {field: float(found[name]) * 1e6 for field, name in REPORTED_SIZES.items() if name in found}


def discovered(event: LogEvent) -> Row:
    """The fields that Logs Insights finds in an event: its own, and those of JSON, with dots for what is nested; not
    more than 200 ("Supported logs and discovered fields")."""
    row: Row = {"@timestamp": event.time_ms, "@message": event.message, "@logStream": event.stream}
    if event.group:
        row["@log"] = f"123456789012:{event.group}"
    if event.message.startswith("REPORT "):
        return row | {"@type": "REPORT"} | _of_report(event.message)
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
    return _names(query)[0]


def aliases(query: str) -> set[str]:
    """What a query calls its own columns."""
    return _names(query)[1]


def _names(query: str) -> tuple[set[str], set[str]]:
    used: set[str] = set()
    made: set[str] = set()
    for command in parse(query):
        match command:
            case Node("fields", [items]):
                named = items
            case Node("stats", [items, *by]):
                named = [*itertools.chain(*by), *items]
            case Node("parse", [source, pattern]):
                named = [Named(source, name) for name in pattern.groupindex]
            case _:
                used |= fields(command) - made
                continue
        for item in named:  # an item may use the ones before it
            used |= fields(item.expression) - made
            made |= {item.name} - used
    return used, made


def fields(node: Expression, inside_aggregates: bool = True) -> set[str]:
    match node:
        case Node("field", [name]):
            return {name}
        case Node("aggregate", _) if not inside_aggregates:
            return set()
        case Node(_, children):
            return set[str]().union(*(fields(child, inside_aggregates) for child in children))
    return set()


def run(query: str, events: Iterable[LogEvent]) -> list[Row]:
    """The rows of the answer, each with its columns in the order asked for. Raises Undocumented for what no query may
    count on."""
    rows = [discovered(event) for event in sorted(events, key=lambda event: event.time_ms)]
    columns: list[str] = []
    ordered = False
    limit = LIMIT
    for command in parse(query):
        match command:
            case Node("fields", [items]):
                rows = [row | {item.name: evaluate(item.expression, row) for item in items} for row in rows]
                columns += [item.name for item in items if item.name not in columns]
            case Node("filter", [condition]):
                rows = [row for row in rows if _holds(evaluate(condition, row))]
            case Node("parse", [source, pattern]):
                found = (pattern.search(str(evaluate(source, row))) for row in rows)
                rows = [row | (match.groupdict() if match else {}) for row, match in zip(rows, found, strict=True)]
            case Node("stats", [items, *by]):
                grouping = [*itertools.chain(*by)]
                rows = _stats(rows, items, grouping)
                columns = [item.name for item in (*grouping, *items)]
                ordered = False
            case Node("sort", keys):
                for key in reversed(keys):
                    rows = sorted(rows, key=_sort_key(key.children[0]), reverse=key.children[1:] == ["desc"])
                ordered = True
            case Node("limit", [count]):
                limit = int(count)
    if not ordered and all("@timestamp" in row for row in rows):
        rows.reverse()  # events come newest first; the order of groups is not defined
    return [{name: row.get(name) for name in columns or SYSTEM_FIELDS[:2]} for row in rows[:limit]]


def evaluate(expression: Expression, row: Row, group: Sequence[Row] = ()) -> Value:
    """The value of an expression for a row; `group` is what the functions of `stats` go over."""

    def value_of(part: Expression) -> Value:
        return evaluate(part, row, group)

    match expression:
        case float() | str():
            return expression
        case Node("field", [name]):
            return row.get(name)
        case Node("bin", [period]):
            period_ms = int(period[:-1]) * PERIODS[period[-1]]
            return math.floor(number(row["@timestamp"]) / period_ms) * period_ms
        case Node("like", [subject, pattern]):
            text = value_of(subject)
            return None if text is None else pattern.search(str(text)) is not None
        case Node("in", [subject, *texts]):
            found = value_of(subject)
            return None if found is None else found in texts
        case Node("operate", [left, sign, right]):
            return operate(sign, value_of(left), value_of(right))
        case Node("not", [operand]):
            return negate(value_of(operand))
        case Node("or" | "and" as sign, parts):
            return _junction(sign == "or", parts, value_of)
        case Node("ispresent", [subject]):
            return value_of(subject) is not None
        case Node("coalesce", parts):
            return next((value for value in map(value_of, parts) if value is not None), None)
        case Node("strlen", [subject]):
            text = value_of(subject)
            return None if text is None else float(len(str(text)))
        case Node("strcontains", [subject, text]):
            found = value_of(subject)
            return None if found is None else float(text in str(found))
        case Node("greatest", parts):
            values = [*map(value_of, parts)]
            return None if None in values else max(map(number, values))
        case Node("count", []):
            return len(group)
        case Node("aggregate", [name, part, *share]):
            return _aggregate(name, [evaluate(part, each) for each in group], *share)
    raise AssertionError(f"{expression} passed the parser")


def _aggregate(name: str, values: Sequence[Value], share: float = 0.0) -> Value:
    """Over the values of a group, in the order of time; those that are absent do not count, but for the first and the
    last. `share` is that of pct(), in percent."""
    if name in ("earliest", "latest"):
        return values[0 if name == "earliest" else -1]
    present = [value for value in values if value is not None]
    if name == "count":
        return len(present)
    if name == "count_distinct":
        return len({*present})
    if not present:
        return None
    numbers = sorted(map(number, present))
    if name == "pct":  # the service's own interpolation is not told: by the nearest rank
        return numbers[max(0, math.ceil(share / 100 * len(numbers)) - 1)]
    return numbers[-1] if name == "max" else sum(numbers)


def operate(sign: str, left: Value, right: Value) -> Value:
    if left is None or right is None:
        if sign == "!=":
            raise Undocumented("!= with an absent field: ask ispresent() first")
        return None
    if sign in ("=", "!=") and isinstance(left, str) and isinstance(right, str):
        return (left == right) == (sign == "=")
    if sign == "/" and right == 0:
        raise Undocumented("a division by zero")
    return OPERATORS[sign](number(left), number(right))


def negate(value: Value) -> Value:
    if value is None:
        raise Undocumented("not, of a comparison with an absent field")
    return value is False


def number(value: Value) -> float:
    """Raises Undocumented where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Undocumented(f"{value!r} as a number; of a JSON boolean, ask ispresent()")
    return value


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


def _sort_key(key: Expression) -> Callable[[Row], float | str]:
    def of(row: Row) -> float | str:
        value = evaluate(key, row)
        if value is None or isinstance(value, bool):
            raise Undocumented(f"sorted by {key}, which is {value} in {row}")
        return value

    return of


def _junction(decisive: bool, parts: Sequence[Expression], value_of: Callable[[Expression], Value]) -> Value:
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


def _holds(value: Value) -> bool:
    """Of a condition; where a comparison had an absent field, the row is left out."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise Undocumented(f"{value!r} as a condition")
