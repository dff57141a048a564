"""A small Logs Insights: runs the queries of docs/queries.md over captured lines.

It does what the CloudWatch Logs user guide says, and refuses (Undocumented) where an answer would rest on what the
guide does not say: how a field that is absent compares, or what a JSON boolean is equal to. A query that passes here
leaves nothing of that kind to the service.
"""

import ast
import itertools
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

Value = float | str | bool | None
"""bool: a JSON boolean, or what a condition came to. None: absent, or not known."""

AGGREGATES = ("count", "earliest", "latest", "max", "pct", "sum")
"""Functions of `stats` over a group of rows."""
ARGUMENTS: Mapping[str, int | None] = {
    **dict.fromkeys((*AGGREGATES, "ispresent"), 1),
    **dict.fromkeys(("coalesce", "greatest")),
    "pct": 2,
}
"""How many arguments each takes; None: any number."""
OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Undocumented(Exception):
    """The answer would depend on something that the guide does not say."""


def aggregate(name: str, values: Sequence[Value], share: Value = None) -> Value:
    """Over the values of a group; those that are absent do not count. `share` is that of pct(), in percent."""
    present = [value for value in values if value is not None]
    if name == "count":
        return len(present)
    if not present:
        return None
    numbers = sorted(number(value) for value in present)
    if name == "pct":  # the service's own interpolation is not told: by the nearest rank
        return numbers[max(0, math.ceil(number(share) / 100 * len(numbers)) - 1)]
    return numbers[-1] if name == "max" else sum(numbers)


def call(name: str, values: Sequence[Value]) -> Value:
    if name == "ispresent":
        return values[0] is not None
    if name == "coalesce":
        return next((value for value in values if value is not None), None)
    return None if None in values else max(map(number, values))  # greatest


def operate(sign: type[ast.AST], left: Value, right: Value) -> Value:
    if left is None or right is None:
        if sign is ast.NotEq:
            raise Undocumented("!= with an absent field: ask ispresent() first")
        return None
    if sign in (ast.Eq, ast.NotEq) and isinstance(left, str) and isinstance(right, str):
        return (left == right) == (sign is ast.Eq)
    if sign is ast.Div and right == 0:
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


class Named(NamedTuple):
    """EXPRESSION as NAME; without `as`, what the user wrote is the name."""

    expression: ast.expr
    name: str


class Fields(NamedTuple):
    items: tuple[Named, ...]


class Filter(NamedTuple):
    condition: ast.expr


class Parse(NamedTuple):
    source: ast.expr
    pattern: re.Pattern[str]


class Stats(NamedTuple):
    items: tuple[Named, ...]
    by: tuple[Named, ...]


class Sort(NamedTuple):
    keys: tuple[tuple[ast.expr, bool], ...]
    """With True where the order is descending."""


class Limit(NamedTuple):
    rows: int


Command = Fields | Filter | Parse | Stats | Sort | Limit

KEYWORDS = {"and": "and", "or": "or", "not": "not", "in": "in", "like": "in", "=": "=="}
"""In Python, where that differs or is no field."""
RESERVED = (*KEYWORDS, "as", "by", "asc", "desc")

SPACE = r"(?P<space>\s+|\#[^\n]*)"
# A name with any other character has to stand between backticks: so says the guide.
TOKEN = re.compile(
    rf"""{SPACE} | bin\(\s*(?P<bin>\d+[smhd])\s*\) | (?P<number>\d+(?:\.\d+)?) | (?P<string>"[^"]*"|'[^']*')
    | `(?P<quoted>[^`]+)` | (?P<name>@?[A-Za-z][A-Za-z0-9.]*) | (?P<operator>!=|<=|>=|[=<>+\-*/()\[\],|])""",
    re.VERBOSE,
)
PATTERN = re.compile(rf"""{SPACE} | /(?P<regex>(?:[^/\\\n]|\\.)+)/ | (?P<contained>"[^"]*"|'[^']*')""", re.VERBOSE)

NODES = (
    *(ast.Constant, ast.Subscript, ast.Name, ast.Load, ast.Call, ast.BinOp, ast.Compare, ast.In, ast.List),
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, *OPERATORS),
)


class Token(NamedTuple):
    kind: str
    text: str
    written: str
    """With the space before it."""

    @property
    def is_field(self) -> bool:
        return self.kind == "quoted" or (self.kind == "name" and self.text not in RESERVED)


def parse(query: str) -> list[Command]:
    """The commands of a query. Raises SyntaxError for anything that this module does not know."""
    return [_command(tokens) for tokens in _split(_tokens(query), "|")]


def _tokens(query: str) -> list[Token]:
    tokens: list[Token] = []
    at, space = 0, ""
    while at < len(query):
        before = [token.text for token in tokens[-2:]]
        is_pattern = before[-1:] == ["like"] or (len(before) == 2 and before[0] == "parse")
        found = (PATTERN if is_pattern else TOKEN).match(query, at)
        if found is None:
            raise SyntaxError(f"{query[at : at + 20]!r} is not known here, in {query!r}")
        at, kind = found.end(), found.lastgroup or ""
        if kind == "space":
            space = " "
        else:
            tokens.append(Token(kind, found[kind], space + found[0]))
            space = ""
    return tokens


def _command(tokens: Sequence[Token]) -> Command:
    match tokens:
        case [Token(_, "fields"), *items]:
            return Fields(_list(items))
        case [Token(_, "filter"), *condition]:
            return Filter(_expression(condition))
        case [Token(_, "parse"), source, Token("regex" | "contained") as pattern]:
            return Parse(_field(source), re.compile(_regex(pattern)))
        case [Token(_, "stats"), *rest]:
            items, *by = _split(rest, "by")
            return Stats(_list(items), tuple(item for part in by for item in _list(part)))
        case [Token(_, "sort"), *keys]:
            return Sort(tuple(map(_parsed_sort_key, _split(keys, ","))))
        case [Token(_, "limit"), Token("number", count, _)]:
            return Limit(int(count))
    raise SyntaxError(f"{_written(tokens)!r} is not a command that is known here")


def _list(tokens: Sequence[Token]) -> tuple[Named, ...]:
    return tuple(map(_item, _split(tokens, ",")))


def _item(tokens: Sequence[Token]) -> Named:
    match tokens:
        case [*expression, Token("name", "as", _), alias] if alias.is_field:
            return Named(_expression(expression), alias.text)
        case [Token() as field] if field.is_field:
            return Named(_field(field), field.text)
    return Named(_expression(tokens), _written(tokens))


def _parsed_sort_key(tokens: Sequence[Token]) -> tuple[ast.expr, bool]:
    order = tokens[-1].text if tokens else ""
    return _expression(tokens[:-1] if order in ("asc", "desc") else tokens), order == "desc"


def _split(tokens: Sequence[Token], separator: str) -> list[list[Token]]:
    """Between the separators that stand in no parentheses or brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.kind == "operator") * ((token.text in "([") - (token.text in ")]"))
        if depth == 0 and token.kind in ("operator", "name") and token.text == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _written(tokens: Sequence[Token]) -> str:
    return "".join(token.written for token in tokens).strip()


# --- expressions ------------------------------------------------------------------------------------------------------


def _field(*tokens: Token) -> ast.expr:
    if len(tokens) != 1 or not tokens[0].is_field:
        raise SyntaxError(f"{_written(tokens)!r} where a field is expected")
    return _expression(tokens)


def _expression(tokens: Sequence[Token]) -> ast.expr:
    python = " ".join(_python(*pair) for pair in zip(tokens, [*tokens[1:], None], strict=True))
    # count(*) has a value in every row
    tree = ast.parse(python.replace("count ( * )", "count(1)"), mode="eval").body
    for node in ast.walk(tree):
        if not isinstance(node, NODES) or not _is_known(node):
            raise SyntaxError(f"{ast.unparse(node)!r} is not known here, in {_written(tokens)!r}")
    return tree


def _python(token: Token, after: Token | None) -> str:
    if token.kind == "string":
        return repr(token.text[1:-1])
    if token.kind in ("regex", "contained"):
        return repr(_regex(token))
    if token.kind == "bin":
        return f"bin[{token.text!r}]"
    is_function = token.kind == "name" and after is not None and after.text == "("
    return f"row[{token.text!r}]" if token.is_field and not is_function else KEYWORDS.get(token.text, token.text)


def _regex(token: Token) -> str:
    return token.text.replace("(?<", "(?P<") if token.kind == "regex" else re.escape(token.text[1:-1])


def _is_known(node: ast.AST) -> bool:
    match node:
        case ast.Name(name):
            return name in ("row", "bin") or name in ARGUMENTS
        case ast.Call(ast.Name("coalesce" | "ispresent" as name), arguments):
            return _takes(name, arguments) and all(isinstance(argument, ast.Subscript) for argument in arguments)
        case ast.Call(function, arguments):
            return isinstance(function, ast.Name) and _takes(function.id, arguments)
        case ast.Compare(_, [ast.In()], [other]):
            texts = other.elts if isinstance(other, ast.List) else [other]
            return all(isinstance(text, ast.Constant) and isinstance(text.value, str) for text in texts)
        case ast.Compare(_, operators, _):
            return len(operators) == 1
    return True


def _takes(function: str, arguments: Sequence[ast.expr]) -> bool:
    return function in ARGUMENTS and ARGUMENTS[function] in (None, len(arguments))


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
        case Fields(items):
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
