"""What a Logs Insights query is made of, once it is read. Its expressions are Python's (`insights_syntax`)."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple


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


class Display(NamedTuple):
    items: tuple[Named, ...]


Command = Fields | Filter | Parse | Stats | Sort | Limit | Display
