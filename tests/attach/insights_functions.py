"""The functions and operators of Logs Insights that docs/queries.md uses, on values."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence

Value = float | str | bool | None
"""bool: a JSON boolean, or what a condition came to. None: absent, or not known."""

AGGREGATES = ("avg", "count", "earliest", "latest", "max", "min", "pct", "sum")
"""Functions of `stats` over a group of rows."""
ARGUMENTS: Mapping[str, int | None] = {
    **dict.fromkeys((*AGGREGATES, "abs", "ispresent"), 1),
    **dict.fromkeys(("coalesce", "concat", "greatest")),
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
    return {"avg": sum(numbers) / len(numbers), "max": numbers[-1], "min": numbers[0], "sum": sum(numbers)}[name]


def call(name: str, values: Sequence[Value]) -> Value:
    if name == "ispresent":
        return values[0] is not None
    if name == "coalesce":
        return next((value for value in values if value is not None), None)
    if None in values:
        return None
    if name == "concat":
        return "".join(map(str, values))
    return max(map(number, values)) if name == "greatest" else abs(number(values[0]))


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
