"""Numbers: those that others send or write, and those of the printed line.

Compiled (layer/compiled.py), what is declared `float` becomes one: 57 would be printed as 57.0. Hence `int | float`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mypy_extensions import i64


def number(value: object) -> int | float | None:
    """The value of a JSON document if it is a number, and not infinite, else None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e15:
        return None
    return value


def whole(text: bytes, digits: int) -> int | None:
    """The number that is written there, in so many digits at most; None for anything else."""
    size: i64 = len(text)
    if not 0 < size <= digits:
        return None
    if size > 18:
        return int(text) if text.isdigit() else None
    value: i64 = 0
    for at in range(size):
        digit: i64 = text[at]
        if digit < 48 or digit > 57:
            return None
        value = 10 * value + digit - 48
    return value


def mib(kib: int | float) -> float:
    """MiB with two decimals."""
    if type(kib) is not int or kib & 255 == 128:  # between two of them
        return round(kib / 1024, 2)
    return (kib * 25 + 128 >> 8) / 100  # in half the time


def ms(ns: int) -> float:
    """Nanoseconds as ms with two decimals."""
    hundredths, rest = divmod(ns, 10_000)
    return round(ns / 1e6, 2) if rest == 5000 else (hundredths + (rest > 5000)) / 100
