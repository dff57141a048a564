"""Splits a line of many invocations (TRUEMEM_AGGREGATE) into a line for each, without the members that only the last
has.

`truemem report` does the same in its own engine (`truemem_workbench.report.schema`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from truemem.line_schema import MEMBERS, METRICS, PROPERTIES

COLUMNS = [name for name, kind in PROPERTIES["aggregate"].items() if name in MEMBERS and kind == [MEMBERS[name]]]
"""Members of `aggregate` that have the same names as on a line of one invocation."""

SAME = {
    *("_aws", "FunctionName", "environmentId", "functionVersion", "tenantId", "memoryLimit", "status", "method"),
    *("reportMissing", "recovered", "mayRepeat", "level", "timestamp", "schema"),
}
"""Members that are the same for all invocations of a line."""
OF_THE_LAST = MEMBERS.keys() - SAME
"""Members that are only about the last invocation."""


def spread(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Split a line into one document per invocation, in their order. A line of one is returned as it is."""
    aggregate = document.get("aggregate")
    ids = aggregate.get("requestId") if isinstance(aggregate, dict) else None
    if not isinstance(aggregate, dict) or not isinstance(ids, str):
        return [document]
    requests = ids.split()
    common = {name: value for name, value in document.items() if name not in OF_THE_LAST}
    own = {name: value for name, value in document.items() if name not in ("aggregate", "raced")}
    told = aggregate.get("raced")
    raced = {place for place in told if isinstance(place, int)} if isinstance(told, list) else set()
    made: list[Mapping[str, Any]] = []
    for place, request in enumerate(requests):
        one = dict(own if place == len(requests) - 1 else common)
        one["requestId"] = request
        for name in METRICS:
            _put(one, name, document.get(name), place)
        for name in COLUMNS:
            _put(one, name, aggregate.get(name), place)
        if place in raced:
            one["raced"] = True
        _begin(one, aggregate.get("startMs"), place)
        made.append(one)
    return made


def _put(one: dict[str, Any], name: str, column: object, place: int) -> None:
    if isinstance(column, list):
        one.pop(name, None)
        if place < len(column):
            one[name] = column[place]


def _begin(one: dict[str, Any], starts: object, place: int) -> None:
    """Set the invocation's own time: `_aws.Timestamp`, or `timestamp` of a plain line, is that of the first one."""
    later = starts[place] if isinstance(starts, list) and place < len(starts) else None
    if not isinstance(later, int):
        return
    about, text = one.get("_aws"), one.get("timestamp")
    if isinstance(about, dict) and isinstance(begun := about.get("Timestamp"), int):
        one["_aws"] = {**about, "Timestamp": begun + later}
    elif about is None and isinstance(text, str):
        with suppress(ValueError, OverflowError):
            one["timestamp"] = (datetime.fromisoformat(text) + timedelta(milliseconds=later)).isoformat()
