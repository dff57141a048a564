"""The part of the Logs Insights query language that docs/queries.md uses, from text to a tree.

As in the CloudWatch Logs user guide ("CloudWatch Logs Insights language query syntax" and its pages on commands and
functions). Whatever is not known here is a SyntaxError that names it: a query that needs more must teach this module.
"""

from __future__ import annotations

import re

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

AGGREGATES = {"avg": 1, "count": 1, "earliest": 1, "latest": 1, "max": 1, "min": 1, "pct": 2, "sum": 1}
"""Functions of `stats` over a group of rows, and how many arguments each takes."""
SCALARS = {"abs": 1, "ispresent": 1}
VARIADIC = ("coalesce", "concat", "greatest")
PERIODS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Units of bin(), in milliseconds."""
KEYWORDS = ("and", "or", "not", "like", "as", "by", "asc", "desc")

# A name with any other character has to stand between backticks: so says the guide.
TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*\s*)*(?:
    (?P<period>\d+[smhd]\b) | (?P<number>\d+(?:\.\d+)?) | (?P<string>"[^"]*"|'[^']*') | (?P<quoted>`[^`]+`)
    | (?P<name>@?[A-Za-z][A-Za-z0-9.]*) | (?P<operator>!=|<=|>=|[=<>+\-*/(),|])
    )""",
    re.VERBOSE,
)
REGEX = re.compile(r"\s*/(?P<regex>(?:[^/\\\n]|\\.)+)/")


def parse(query: str) -> list[Command]:
    """The commands of a query. Raises SyntaxError for anything that this module does not know."""
    return Parser(query).query()


class Parser:
    """One query, read from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._at = 0
        self._kind = ""
        self._token = ""
        self._start = 0
        self._advance()

    def query(self) -> list[Command]:
        """Commands between bars, to the end."""
        commands = [self._command()]
        while self._take("|"):
            commands.append(self._command())
        if self._kind:
            raise self._unknown("end of the query")
        return commands

    def _command(self) -> Command:
        word = self._name("a command")
        if word == "fields":
            return Fields(self._list())
        if word == "filter":
            return Filter(self._or())
        if word == "parse":
            source = Field(self._token)
            return Parse(source, self._regex())
        if word == "stats":
            items = self._list()
            return Stats(items, self._list() if self._take("by") else ())
        if word == "sort":
            keys = [self._sort_key()]
            while self._take(","):
                keys.append(self._sort_key())
            return Sort(tuple(keys))
        if word == "limit":
            count = self._token
            self._expect("number")
            return Limit(int(count))
        if word == "display":
            names = [self._name("a field")]
            while self._take(","):
                names.append(self._name("a field"))
            return Display(tuple(names))
        raise SyntaxError(f"{word} is not a command that is known here, in {self._text!r}")

    def _sort_key(self) -> tuple[Expression, bool]:
        key = self._or()
        if self._take("desc"):
            return key, True
        self._take("asc")
        return key, False

    def _list(self) -> tuple[Named, ...]:
        items = [self._item()]
        while self._take(","):
            items.append(self._item())
        return tuple(items)

    def _item(self) -> Named:
        start = self._start
        expression = self._or()
        written = self._text[start : self._start].strip().rstrip(",|").strip()
        if self._take("as"):
            return Named(expression, self._name("an alias"))
        return Named(expression, expression.name if isinstance(expression, Field) else written.partition(" by ")[0])

    # --- expressions, from the loosest operator to the tightest -------------------------------------------------------

    def _or(self) -> Expression:
        left = self._and()
        while self._take("or"):
            left = Call("or", (left, self._and()))
        return left

    def _and(self) -> Expression:
        left = self._not()
        while self._take("and"):
            left = Call("and", (left, self._not()))
        return left

    def _not(self) -> Expression:
        return Call("not", (self._not(),)) if self._take("not") else self._comparison()

    def _comparison(self) -> Expression:
        left = self._sum()
        if self._kind == "name" and self._token == "like":
            pattern = self._regex()
            return Matches(left, pattern)
        for operator in ("=", "!=", "<=", ">=", "<", ">"):
            if self._take(operator):
                return Call(operator, (left, self._sum()))
        return left

    def _sum(self) -> Expression:
        left = self._product()
        while self._kind == "operator" and self._token in "+-":
            operator = self._token
            self._advance()
            left = Call(operator, (left, self._product()))
        return left

    def _product(self) -> Expression:
        left = self._atom()
        while self._kind == "operator" and self._token in "*/":
            operator = self._token
            self._advance()
            left = Call(operator, (left, self._atom()))
        return left

    def _atom(self) -> Expression:
        kind, token = self._kind, self._token
        if self._take("("):
            inside = self._or()
            self._expect("operator", ")")
            return inside
        self._advance()
        if kind == "number":
            return Literal(float(token))
        if kind == "string":
            return Literal(token[1:-1])
        if kind == "quoted":
            return Field(token[1:-1])
        if kind != "name" or token in KEYWORDS:
            raise SyntaxError(f"{token!r} where a value is expected, in {self._text!r}")
        if not self._take("("):
            return Field(token)
        return self._call(token)

    def _call(self, name: str) -> Expression:
        if name == "bin":
            period = self._token
            self._expect("period")
            self._expect("operator", ")")
            return Bin(int(period[:-1]) * PERIODS[period[-1]])
        if name == "count" and self._take("*"):
            self._expect("operator", ")")
            return Call(name, ())
        arguments = [self._or()]
        while self._take(","):
            arguments.append(self._or())
        self._expect("operator", ")")
        wanted = (AGGREGATES | SCALARS).get(name, len(arguments) if name in VARIADIC else None)
        if wanted is None:
            raise SyntaxError(f"{name}() is not a function that is known here, in {self._text!r}")
        if wanted != len(arguments):
            raise SyntaxError(f"{name}() takes {wanted} arguments, not {len(arguments)}, in {self._text!r}")
        if name in ("coalesce", "ispresent") and not all(isinstance(argument, Field) for argument in arguments):
            raise SyntaxError(f"{name}() takes fields only, in {self._text!r}")
        return Call(name, tuple(arguments))

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _regex(self) -> re.Pattern[str]:
        """What follows the present token: /regex/, or a text to be contained."""
        found = REGEX.match(self._text, self._at)
        if found:
            self._at = found.end()
            self._advance()
            return re.compile(found["regex"].replace("(?<", "(?P<"))
        self._advance()
        text = self._token[1:-1]
        self._expect("string")
        return re.compile(re.escape(text))

    def _advance(self) -> None:
        self._kind, self._token = "", ""
        rest = re.compile(r"\s*(?:#[^\n]*\s*)*$").match(self._text, self._at)
        self._start = self._at = len(self._text) if rest else self._at
        if rest:
            return
        found = TOKEN.match(self._text, self._at)
        if found is None:
            raise SyntaxError(f"{self._text[self._at :].strip()[:20]!r} is not known here, in {self._text!r}")
        self._kind = found.lastgroup or ""
        self._token, self._start, self._at = found[self._kind], found.start(self._kind), found.end()

    def _take(self, token: str) -> bool:
        """Go past `token` if it is the present one, an operator or a keyword."""
        if self._kind not in ("operator", "name") or self._token != token:
            return False
        self._advance()
        return True

    def _expect(self, kind: str, token: str = "") -> None:
        if self._kind != kind or (token and self._token != token):
            raise self._unknown(token or f"a {kind}")
        self._advance()

    def _name(self, what: str) -> str:
        name = self._token.strip("`")
        if self._kind not in ("name", "quoted") or name in KEYWORDS:
            raise self._unknown(what)
        self._advance()
        return name

    def _unknown(self, wanted: str) -> SyntaxError:
        return SyntaxError(f"{self._token!r} where {wanted} is expected, in {self._text!r}")
