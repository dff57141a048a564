"""The events that a function has logged itself, out of its log. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..support.untrusted_text import loads

RECORD = ("level", "timestamp", "time", "requestId", "function_request_id")
"""A JSON object with `message` and one of these is a record of a logger: the event is its message."""
_START = re.compile(r"START RequestId: |\{.*\"platform\.start\"")


def recorded(lines: Iterable[tuple[str, str]], containing: str = "") -> Iterator[Any]:
    """The first JSON object that each invocation has logged, of lines with their log stream, oldest first.

    A stream is one environment, whose invocations follow each other: one begins at its START line. With `containing`,
    only lines with that text count.
    """
    done: set[str] = set()
    for stream, text in lines:
        if _START.match(text):
            done.discard(stream)
        elif stream not in done and containing in text and (event := event_in(text)) is not None:
            done.add(stream)
            yield event


def event_in(text: str) -> Any:
    """The JSON object that a line ends with, or that a logger's record has as its message. None if there is none."""
    begin = text.find("{")
    if begin < 0:
        return None
    try:
        found = loads(text[begin:].strip())
    except ValueError:
        return None
    if not isinstance(found, dict) or _is_told(found):
        return None
    if "message" not in found or not any(name in found for name in RECORD):
        return found
    message = found["message"]
    if isinstance(message, str):
        return event_in(message)
    return message if isinstance(message, dict) else None


def _is_told(found: dict[str, Any]) -> bool:
    """Is it a line of the sidecar, with metadata or without (TRUEMEM_OUTPUT=json), or the platform's?"""
    ours = "_aws" in found or found.keys() >= {"environmentId", "FunctionName", "schema"}
    return ours or str(found.get("type", "")).startswith("platform.")
