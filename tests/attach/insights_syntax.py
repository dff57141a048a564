"""The part of the Logs Insights query language that docs/queries.md uses, from text to a tree.

As in the CloudWatch Logs user guide ("CloudWatch Logs Insights language query syntax" and its pages on commands and
functions). Whatever is not known here is a SyntaxError that names it: a query that needs more must teach this module.

Operators bind as they do in Python, so that Python parses the expressions: `PeakRSS / size >= 1 and s like /x/` is read
as `row['PeakRSS'] / row['size'] >= 1 and row['s'] in 'x'`, and `bin(5m)` as `bin['5m']`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

from tests.attach.insights_functions import ARGUMENTS, OPERATORS
from tests.attach.insights_tree import Command, Display, Fields, Filter, Limit, Named, Parse, Sort, Stats

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
            return Sort(tuple(map(_sort_key, _split(keys, ","))))
        case [Token(_, "limit"), Token("number", count, _)]:
            return Limit(int(count))
        case [Token(_, "display"), *names]:
            return Display(tuple(Named(_field(*name), name[0].text) for name in _split(names, ",")))
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


def _sort_key(tokens: Sequence[Token]) -> tuple[ast.expr, bool]:
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
