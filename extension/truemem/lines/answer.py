"""The answer of a preload, a small JSON file. The function's code can write it as well: what is not of its kind, too
long or not printable is left out of the line, and counted. Pure."""

from __future__ import annotations

from ..support.minijson import loads
from ..support.numbers import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Check = Callable[[object], object]
    """The value as the line has it; None where it is not of its kind."""

MOST_ANSWER_BYTES = 16 * 1024
MOST_LINES = 10
MOST_FRAMES = 20
MOST_LIBRARIES = 10
MOST_NAME_CHARS = 300
"""Characters of a path, or of a name."""


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= MOST_NAME_CHARS and value.isprintable() else None


def _name(value: object) -> str | None:
    return _text(value) or None


def _number(least: float, most: float) -> Check:
    def check(value: object) -> float | None:
        known = number(value)
        return round(known, 2) if known is not None and least <= known <= most else None

    return check


def _whole(most: int) -> Check:
    return lambda value: value if type(value) is int and 0 <= value <= most else None


_COUNT, _KIB = _whole(10**6), _number(0, 10**9)

LINE_CHECKS: Mapping[str, Check] = {
    "file": _name,
    "line": _whole(10**7),
    "function": _text,
    "perInvocationKiB": _KIB,
    "share": _number(0, 1),
}
"""Checks of a line's members; all are needed."""
CLASS_CHECKS: Mapping[str, Check] = {
    "class": _name,
    "perInvocationKiB": _KIB,
    "perInvocationObjects": _number(0, 10**9),
    "share": _number(0, 1),
}
"""Checks of a class's members, where no line is known; all are needed."""
COLUMN_CHECKS: Mapping[str, Check] = {"column": LINE_CHECKS["line"]}
"""Checks of the member that lines of minified code have besides."""
PROFILE_CHECKS: Mapping[str, Check] = {
    "runtime": _name,
    "invocations": _COUNT,
    "looks": _COUNT,
    "cpuPercent": _number(-100, 10**6),
    "memoryKiB": _KIB,
    "lookMs": _number(0, 10**7),
    "gaveUp": _text,
    "restKiB": _number(-(10**9), 10**9),
}


def parse(text: bytes) -> tuple[dict[str, object], int]:
    """The members of the line, and how much of the answer they do not have because it cannot be used."""
    try:
        answer = loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return {"growthProfile": {"gaveUp": "the answer cannot be read"}}, 1
    members: dict[str, object] = {}
    profile, lost = _checked(answer, PROFILE_CHECKS)
    if "libraries" in answer:
        profile["libraries"], more = _listed(answer["libraries"], _name, MOST_LIBRARIES)
        lost += more
    if "lines" in answer:
        found, more = _listed(answer["lines"], lambda value: value if isinstance(value, dict) else None, MOST_LINES)
        lines = [_line(each) for each in found]
        members["growthLines"] = [line for line, _ in lines if line]
        lost += more + sum(more for _, more in lines)
    if not profile.get("gaveUp"):  # a line has no empty members
        profile.pop("gaveUp", None)
    members["growthProfile"] = profile
    return members, lost


def _line(given: Mapping[str, Any]) -> tuple[dict[str, object], int]:
    """One line of code, or a class, as the record has it, and how much was left out of it; empty if a needed member is
    missing."""
    checks = CLASS_CHECKS if "class" in given else LINE_CHECKS
    line, lost = _checked(given, checks)
    if len(line) < len(checks):
        return {}, 1
    column, lost = _checked(given, COLUMN_CHECKS)
    line |= column
    if "stack" in given:
        line["stack"], more = _listed(given["stack"], _name, MOST_FRAMES)
        lost += more
    return line, lost


def _checked(given: Mapping[str, Any], checks: Mapping[str, Check]) -> tuple[dict[str, object], int]:
    """The members that are of their kind, and the number of the others."""
    present = {name: check(given[name]) for name, check in checks.items() if name in given}
    good = {name: value for name, value in present.items() if value is not None}
    return good, len(present) - len(good)


def _listed(values: object, check: Check, most: int) -> tuple[list[Any], int]:
    """The elements of a list that are of their kind, and the number of the others. What is no list counts as one."""
    if not isinstance(values, list):
        return [], 1
    good = [value for value in map(check, values[:most]) if value is not None]
    return good, len(values) - len(good)
