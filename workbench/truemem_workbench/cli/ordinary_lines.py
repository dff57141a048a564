"""Tells ordinary lines of the platform and the sidecar from those that a user must see. Pure."""

from __future__ import annotations

import re

from ..lines.line import parse_event
from ..local.configuration.sidecar import NAME
from ..local.lifecycle.journal import LogLine
from ..support.untrusted_text import loads

_OF_PLATFORM = re.compile(
    r"(INIT_START|RESTORE_START|START|END|REPORT|INIT_REPORT|RESTORE_REPORT|EXTENSION|TELEMETRY)[ \t]"
)
_FAILED = re.compile(r"\tStatus: (?!success)|\tError Type: ")


def is_ordinary(line: LogLine) -> bool:
    """True for a line that says what the summary says, or that all is well. An error is never ordinary."""
    if line.source == f"extension:{NAME}":
        return line.text.startswith("truemem INFO ") or bool(parse_event(line.text))
    if line.source != "platform":
        return False
    if line.text.startswith("{"):
        return _is_ordinary_event(line.text)
    return _OF_PLATFORM.match(line.text) is not None and _FAILED.search(line.text) is None


def _is_ordinary_event(text: str) -> bool:
    """Judge an event of the log format JSON."""
    try:
        record = loads(text).get("record")
    except (ValueError, AttributeError):
        return False
    return isinstance(record, dict) and record.get("status", "success") == "success" and "errorType" not in record
