"""The functions and operators of Logs Insights that docs/queries.md uses, on values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Value = float | str | bool | None
"""bool: a JSON boolean, or what a condition came to. None: absent, or not known."""


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
    """The value of a function or an operator for its arguments."""
    if name == "not":
        if values[0] is None:
            raise Undocumented("not, of a comparison with an absent field")
        return values[0] is False
    if name == "ispresent":
        return values[0] is not None
    if name == "coalesce":
        return next((value for value in values if value is not None), None)
    if name in ("=", "!=", "<", "<=", ">", ">="):
        return _compare(name, *values)
    if None in values:
        return None
    if name == "concat":
        return "".join(str(value) for value in values)
    numbers = [number(value) for value in values]
    if name == "/" and numbers[1] == 0:
        raise Undocumented("a division by zero")
    functions: dict[str, Callable[..., float]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "abs": abs,
        "greatest": lambda *several: max(several),
    }
    return functions[name](*numbers)


def _compare(operator: str, left: Value, right: Value) -> Value:
    if left is None or right is None:
        if operator == "!=":
            raise Undocumented("!= with an absent field: ask ispresent() first")
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        raise Undocumented("what a JSON boolean is equal to: ask ispresent()")
    if isinstance(left, str) or isinstance(right, str):
        if not (isinstance(left, str) and isinstance(right, str) and operator in ("=", "!=")):
            raise Undocumented(f"{left!r} {operator} {right!r}")
        return (left == right) == (operator == "=")
    return {"=": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right}.get(
        operator, left >= right
    )


def number(value: Value) -> float:
    """Raises Undocumented where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Undocumented(f"arithmetic on {value!r}")
    return value
