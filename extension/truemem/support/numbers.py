"""Numbers: those that others send or write, and those of the printed line.

Compiled (layer/compiled.py), what is declared `float` becomes one: 57 would be printed as 57.0. Hence `int | float`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

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


def hundredths(kib: int) -> int:
    """KiB as hundredths of a MiB, rounded half to even as `round` does."""
    made = kib * 25 + 128 >> 8
    return made - (made & 1) if kib & 255 == 128 else made


def mib(kib: int | float) -> float:
    """MiB with two decimals."""
    return hundredths(kib) / 100 if isinstance(kib, int) else round(kib / 1024, 2)


def ms(ns: int) -> float:
    """Nanoseconds as ms with two decimals."""
    made, rest = ns // 10_000, ns % 10_000
    return round(ns / 1e6, 2) if rest == 5000 else (made + (rest > 5000)) / 100


_FRACTIONS: Final = tuple([f"{at / 100}"[1:] for at in range(100)])


def decimal(hundredths: int) -> str:
    """A number of hundredths as JSON has it: `12.5`, the `repr` of that float at a tenth of its cost."""
    if not 0 <= hundredths < 10**15:
        return f"{hundredths / 100}"
    return str(hundredths // 100) + _FRACTIONS[hundredths % 100]


def mib_text(kib: int) -> str:
    """`mib` as JSON has it."""
    return decimal(hundredths(kib))


def rounded(value: float) -> str:
    """`repr(round(value, 2))`, at a tenth of its cost where the value is not just between two of them."""
    if 0 <= value < 1e6:
        made = int(value * 100 + 0.5)
        if abs(value * 100 - made) < 0.4999:
            return decimal(made)
    return f"{round(value, 2)}"
