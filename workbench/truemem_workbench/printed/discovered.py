"""Puts a line together again whose members were taken apart, as Logs Insights names them: `heap.gc.0`. Pure.

Its values are texts there. The line's schema says where a name ends, and what a value was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truemem.line_schema import ANY_NAME, FLAG, MEMBERS, TEXT, WHOLE

from ..support.untrusted_text import parsed

_EVENT = {"time": TEXT, "type": TEXT, "record": {"metrics": {ANY_NAME: WHOLE}, ANY_NAME: TEXT}}
"""An event of the platform, as far as a figure is in it."""


def spelled_out(document: dict[str, Any]) -> dict[str, Any]:
    """The line, or the event of the platform, as it was printed. Names that no line has stay as they are."""
    if not isinstance(document.get("schema"), str) and "." not in "".join(document):
        return document
    kinds: Mapping[str, Any] = MEMBERS if "environmentId" in document else _EVENT
    made: dict[str, Any] = {}
    for name, value in document.items():
        if name.startswith("@"):
            continue  # what Logs Insights itself says of the event
        first, *inner = name.split(".")
        kind = kinds.get(first)
        if kind is None:
            made[name] = value
        else:
            _put(made, [first, *inner], value, kinds)
    return {name: _listed(value) for name, value in made.items()}


class _List(dict[str, Any]):
    """A list whose items come one by one, by their places."""


def _put(into: dict[str, Any], path: list[str], value: object, kinds: Any) -> None:
    """Put a value where its name says."""
    name, rest = path[0], path[1:]
    if isinstance(kinds, list):
        kind = kinds[0]
    elif name in kinds:
        kind = kinds[name]
    else:
        kind, name, rest = kinds.get(ANY_NAME, WHOLE), ".".join(path), []  # a name of others, which may have dots
    if not rest:
        into[name] = _value(value, kind)
        return
    if not isinstance(kind, dict | list):
        kind = [kind]  # a metric of many invocations
    inner = into.get(name)
    if not isinstance(inner, dict):
        inner = into[name] = {} if isinstance(kind, dict) else _List()
    _put(inner, rest, value, kind)


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(each) for name, each in value.items()}
    if not isinstance(value, _List):
        return inner
    return [inner[name] for name in sorted(inner, key=lambda name: (len(name), name))]


def _value(value: object, kind: object) -> object:
    """What a text stands for. What is no text stays as it is."""
    if kind == FLAG:
        return str(value).lower() in ("1", "true")  # Logs Insights has 1 for it
    if not isinstance(value, str) or kind == TEXT:
        return value
    found = parsed(value)
    return value if found is None else found
