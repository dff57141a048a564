"""A printed line's JSON object, spelled out: one object for each invocation, with all its members. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from truemem.line_schema import FULL, MEMBERS, METRICS, PROPERTIES, SHORT

USUAL = {"status": "success", "level": "INFO", "processes": 1, "requestBytes": 0, "responseBytes": 0}
"""Members that a short line leaves out, with the value that they have then (docs/metrics.md, Short lines)."""
SAME_AS = {"peakLower": "PeakRSS", "peakUpper": "PeakRSS", "threads": "processes", "baselineRSS": "CurrentRSS"}
"""The same of those that are then like another member."""
OF_EXACT_MODE = {"requestBytes", "responseBytes", "baselineRSS"}
"""Those that a short line of the default mode does not have."""
LEFT_OUT = {*USUAL, *SAME_AS, "closedBy", "functionVersion"}
"""All single values that a short line leaves out, and that are known nevertheless."""
_OF_RSS = (("file", None), ("shmem", 0.0))
"""Members of `rss`, and what it means that one is not there."""
_VERSION = re.compile(r"\[([^]]*)\]")


def version_in(environment: str) -> str | None:
    """The function's version, as an environment id has it that is a log stream. None for other ids."""
    found = _VERSION.search(environment)
    return found[1] if found else None


def completed(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """A short line as a full one, with the members that follow from its others. Any other line as it is. Never raises.

    `requestBytes` and `responseBytes`, which were small, are 0.
    """
    if line.get("schema") != SHORT:
        return line
    environment, is_exact = line.get("environmentId"), line.get("mode") == "exact"
    not_here = () if is_exact else OF_EXACT_MODE
    made = {name: value for name, value in USUAL.items() if name not in not_here}
    made["closedBy"] = "next-request" if is_exact else "next-invoke"
    made |= {name: value for name, value in line.items() if value is not None}
    made["schema"] = FULL
    if isinstance(environment, str) and (version := version_in(environment)):
        made.setdefault("functionVersion", version)
    for name, other in SAME_AS.items():
        if other in made and name not in not_here:
            made.setdefault(name, made[other])
    rss, total = line.get("rss"), figure(line.get("CurrentRSS"))
    file, shmem = (figure(rss.get(name, none)) if isinstance(rss, dict) else None for name, none in _OF_RSS)
    if total is not None and file is not None and shmem is not None:
        made["rss"] = {"anon": round(max(0.0, total - file - shmem), 2), "file": file, "shmem": shmem}
    return made


LARGEST = 3.4e38
"""No figure of a line is larger: it has room in 4 bytes."""


HUGE_MIB = 2**30
"""Larger figures of a heap are not believed."""


def figure(value: object) -> float | None:
    """Read a JSON value as a number. None if it is none, or too large to be a figure."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return None
    return float(value)


_LISTED = [name for name, kind in PROPERTIES["aggregate"].items() if name in MEMBERS and kind == [MEMBERS[name]]]
"""Members of `aggregate` that have the same names as on a line of one invocation."""
_SAME = {
    *("_aws", "FunctionName", "environmentId", "functionVersion", "tenantId", "memoryLimit", "status", "method"),
    *("reportMissing", "recovered", "mayRepeat", "level", "timestamp", "schema"),
}
"""Members that are the same for all invocations of a line."""
OF_THE_LAST = MEMBERS.keys() - _SAME
"""Members that are only about the last invocation."""


def spread(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Split a line into one object per invocation, in their order, each with all its members."""
    document = completed(document)
    aggregate = document.get("aggregate")
    ids = aggregate.get("requestId") if isinstance(aggregate, dict) else None
    if not isinstance(aggregate, dict) or not isinstance(ids, str):
        return [document]
    requests = ids.split()
    common = {name: value for name, value in document.items() if name not in OF_THE_LAST}
    own = {name: value for name, value in document.items() if name not in ("aggregate", "raced")}
    places = aggregate.get("raced")
    raced = {place for place in places if isinstance(place, int)} if isinstance(places, list) else set()
    made: list[Mapping[str, Any]] = []
    for place, request in enumerate(requests):
        one = dict(own if place == len(requests) - 1 else common)
        one["requestId"] = request
        for name in METRICS:
            _put(one, name, document.get(name), place)
        for name in _LISTED:
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
    metadata, text = one.get("_aws"), one.get("timestamp")
    if isinstance(metadata, dict) and isinstance(begun := metadata.get("Timestamp"), int):
        one["_aws"] = {**metadata, "Timestamp": begun + later}
    elif metadata is None and isinstance(text, str):
        with suppress(ValueError, OverflowError):
            one["timestamp"] = (datetime.fromisoformat(text) + timedelta(milliseconds=later)).isoformat()
