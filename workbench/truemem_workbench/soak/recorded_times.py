"""When the invocations of a log began, for `--like`."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..printed.line import parse_event
from ..printed.log_files import events
from ..printed.wrapped import Event
from ..support.bad_input import BadInput
from ..support.untrusted_text import loads
from ..target.events import is_timed

TIME_MEMBERS = ("timestamp", "time", "@timestamp")
"""Members that have the time of an event: CloudWatch's, Lambda's and Docker's, and others'."""
_TELLS = re.compile(r"\b(START|REPORT) RequestId: ")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_PLATFORM = {"platform.start": "START", "platform.report": "REPORT"}


def times_in(path: Path) -> Sequence[float]:
    """Epoch seconds of the invocations in a file, in any order, at least two of them.

    Of the sidecar's lines, of START or REPORT with a time beside it, or of `truemem events --times`: of the kind that
    the file has most of, because a log has several of one invocation. Raises BadInput.
    """
    if not path.exists():
        raise BadInput(f"--like {path} is no file. Try truemem events NAME --times --output {path}")
    found: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
    for event in events(path):
        lines = parse_event(event)
        found["line"].extend(line.time_ms / 1000 for line in lines if line.time_ms is not None)
        if not lines:
            for kind, second in _told(event):
                found[kind].append(second)
    times = max(found.values(), key=len, default=array("d"))
    if len(times) < 2:
        raise BadInput(
            f"--like {path} has the times of {len(times)} invocations, and two are needed. Try the output of"
            " truemem events NAME --times, or aws logs tail /aws/lambda/NAME --since 1h"
        )
    return times


def _told(event: Event) -> Iterator[tuple[str, float]]:
    """What tells of an invocation, and when."""
    if isinstance(event, str):
        tells = _TELLS.search(event)
        # `aws logs tail` has the time first, `sam logs` after the stream
        if tells and (second := _second(_ISO.search(event[: tells.start()]))):
            yield tells[1], second
            return
        event = _document(event)
    ahead: list[Any] = [event]
    while ahead:
        value = ahead.pop()
        if isinstance(value, list):
            ahead += value
        elif isinstance(value, Mapping):
            kind = _kind(value)
            second = next((second for name in TIME_MEMBERS if (second := _second(value.get(name)))), None)
            if kind and second:
                yield kind, second
            else:
                ahead += value.values()


def _kind(document: Mapping[str, Any]) -> str:
    """What an object tells of an invocation; empty for nothing."""
    if is_timed(document):
        return "event"
    texts = [value for value in document.values() if isinstance(value, str)]
    tells = next((tells for text in texts if (tells := _TELLS.search(text))), None)
    return _PLATFORM.get(str(document.get("type")), "") if tells is None else tells[1]


def _document(text: str) -> Any:
    begin = text.find("{")
    try:
        return loads(text[begin:], lenient=True) if begin >= 0 else None
    except ValueError:
        return None


def _second(value: object) -> float | None:
    """Epoch seconds of a time: ISO 8601, without a zone in UTC; or epoch ms. None if it is none."""
    if isinstance(value, re.Match):
        value = value[0]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000
    try:
        moment = datetime.fromisoformat(str(value).replace(",", "."))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
