"""Reads the sidecar's lines from log files one at a time: for the page, and for logs of ordinary size.

`truemem report` reads a fleet's lines through its own engine (`truemem_workbench.report.reader`), which knows the same
files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from .log_files import events
from .record import Record, figure, record_of, spread
from .wrapped import NAMES, Event, Found, Unread, inside, may_be_line, reason


@dataclass(frozen=True, kw_only=True)
class Line(Record):
    """One line of the sidecar: a record, and the members that belong to the line."""

    function: str | None = None
    """Name of the function."""
    function_version: str | None = None
    tenant_id: str | None = None
    time_ms: float | None = None
    """Begin of the invocation, in epoch ms. None on a line that may repeat another, which does not say it."""
    may_repeat: bool = False

    @property
    def environment(self) -> str:
        """Id of the environment. Two functions never have the same one."""
        return self.environment_id or ""


_ENVIRONMENT = re.compile(r'"environmentId"\s*:\s*"([^"]*)"')


def read(
    paths: Iterable[Path],
    *,
    wanted: Callable[[str], bool] | None = None,
    containing: str = "",
    done: Callable[[int], None] = lambda _: None,
    unread: Unread | None = None,
) -> Iterator[Line]:
    """Read the lines in these files, in their order, each invocation once. Raises BadInput if a file cannot be read.

    `wanted` chooses environments by their id. Lines of others are skipped before they are parsed, in a sixth of the
    time, and so are those without the text `containing`. `done` is called with the bytes that are read. What is not
    read is added to `unread`.
    """
    seen: set[int] = set()  # of hashes: the names of all of them would take more room than what is drawn
    repeats: dict[int, Line] = {}
    for path in paths:
        for event in events(path, done):
            if wanted is not None and _passed_over(event, wanted):
                continue
            if isinstance(event, str) and containing not in event:
                continue
            for line in parse_event(event, unread):
                if wanted is not None and not wanted(line.environment):
                    continue
                key = hash((line.environment, line.request_id, line.invocation))
                if line.may_repeat:
                    repeats[key] = line  # the first one may still come
                elif key not in seen:
                    seen.add(key)
                    yield line
    for key, line in repeats.items():
        if key not in seen:
            yield line


def _passed_over(event: Event, wanted: Callable[[str], bool]) -> bool:
    """True if the line certainly belongs to other environments. A name with an escape must be parsed to be known."""
    if not isinstance(event, str):
        return False
    names = _ENVIRONMENT.findall(event)
    if len(names) != event.count(NAMES[0]):  # one is in a wrapper
        return False
    return bool(names) and not any("\\" in name or wanted(name) for name in names)


def parse_event(event: Event, unread: Unread | None = None) -> list[Line]:
    """Parse a log event: the sidecar's line, as one Line for each of its invocations. Empty for other events.

    The line may be wrapped in other JSON. A line that is not read is added to `unread`, by reason.
    """
    if isinstance(event, str) and not may_be_line(event):
        return []
    return [line for found in inside(event) for line in lines_in(found, unread)]


def lines_in(found: Found, unread: Unread | None = None) -> list[Line]:
    """The lines of a thing that was found in an event: one for each invocation. Empty if it is none, or not read."""
    if isinstance(found, str):
        return []
    why = reason(found)
    if why is None and isinstance(found, dict):
        return [_line(one) for one in spread(found)]
    if why is not None and unread is not None:
        unread[why] += 1
    return []


def _line(document: Mapping[str, Any]) -> Line:
    return Line(
        **vars(record_of(document)),
        function=_text(document.get("FunctionName")),
        function_version=_text(document.get("functionVersion")),
        tenant_id=_text(document.get("tenantId")),
        time_ms=_time_ms(document),
        may_repeat="mayRepeat" in document or not document.keys() & {"_aws", "timestamp"},
    )


def _time_ms(document: Mapping[str, Any]) -> float | None:
    """Of `_aws`; a plain line (TRUEMEM_OUTPUT=json) has `timestamp` instead."""
    metadata, text = document.get("_aws"), document.get("timestamp")
    if isinstance(metadata, dict):
        return figure(metadata.get("Timestamp"))
    try:
        return datetime.fromisoformat(text).timestamp() * 1000 if isinstance(text, str) else None
    except (ValueError, OverflowError, OSError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
