"""What a Logs Insights query is made of, once it is read."""

from __future__ import annotations

import re
from typing import NamedTuple


class Literal(NamedTuple):
    """A number or a text."""

    value: float | str


class Field(NamedTuple):
    """A field of an event, or an alias."""

    name: str


class Bin(NamedTuple):
    """bin(period): the time of the event, rounded down."""

    period_ms: int


class Matches(NamedTuple):
    """field like /regex/, or like a text, which it contains."""

    subject: Expression
    pattern: re.Pattern[str]


class Call(NamedTuple):
    """A function or an operator with its arguments. count(*) is a count without arguments."""

    name: str
    arguments: tuple[Expression, ...]


Expression = Literal | Field | Bin | Matches | Call


class Named(NamedTuple):
    """EXPRESSION as NAME; without `as`, what the user wrote is the name."""

    expression: Expression
    name: str


class Fields(NamedTuple):
    items: tuple[Named, ...]


class Filter(NamedTuple):
    condition: Expression


class Parse(NamedTuple):
    source: Field
    pattern: re.Pattern[str]


class Stats(NamedTuple):
    items: tuple[Named, ...]
    by: tuple[Named, ...]


class Sort(NamedTuple):
    keys: tuple[tuple[Expression, bool], ...]
    """With True where the order is descending."""


class Limit(NamedTuple):
    rows: int


class Display(NamedTuple):
    names: tuple[str, ...]


Command = Fields | Filter | Parse | Stats | Sort | Limit | Display
