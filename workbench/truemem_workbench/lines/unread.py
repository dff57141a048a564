"""Which lines of the sidecar are not read, and why. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truemem.line_schema import SCHEMA

WORDS = {
    "cut_off": "cut off or damaged",
    "newer_schema": "of a newer schema",
    "no_schema": "without a schema",
    "no_environment_id": "without an environment id",
}
"""The reasons, and how they are said after a number."""
NAMES = ("environmentId", "PeakRSS")
"""A line of the sidecar has one of these names in it, also when it is cut off or quoted in other JSON."""

_METRIC = re.compile(r'PeakRSS\\*"')
_MEMBER = re.compile(r'environmentId\\*"\s*:')
_BESIDE = re.compile(r'(?:schema|FunctionName|functionVersion)\\*"\s*:')
"""In JSON, or in JSON that is quoted: each quote has backslashes before it."""

Unread = Counter[str]
"""Number of lines that were not read, by reason."""


@dataclass(frozen=True)
class Cut:
    """Part of a line of the sidecar: its other end is missing, or it is damaged."""

    text: str


def may_be_line(text: str) -> bool:
    """False if a text certainly has no line of the sidecar in it."""
    return any(name in text for name in NAMES)


def is_cut(text: str) -> bool:
    """True if a text that is no JSON looks like a part of a line."""
    if not may_be_line(text):
        return False
    return bool(_METRIC.search(text) or (_MEMBER.search(text) and _BESIDE.search(text)))


def like_line(document: Mapping[str, Any]) -> bool:
    """True if this JSON object is a line of the sidecar, or would be with another schema or another member."""
    known = [name for name in NAMES if name in document]
    return len(known) == len(NAMES) or (bool(known) and _schema(document) is not None)


def reason(found: Mapping[str, Any] | Cut) -> str | None:
    """Why a part of a line, or an object that is `like_line`, is not read. None if it is read."""
    if isinstance(found, Cut):
        return "cut_off"
    schema = _schema(found)
    if schema is None or schema < 1:
        return "no_schema"
    if schema > SCHEMA:
        return "newer_schema"
    return None if isinstance(found.get("environmentId"), str) else "no_environment_id"


def _schema(document: Mapping[str, Any]) -> int | float | None:
    schema = document.get("schema")
    return schema if isinstance(schema, int | float) and not isinstance(schema, bool) else None


def not_read(unread: Mapping[str, int]) -> str:
    """Say what was not read: `not read: 12 lines cut off or damaged, 2 of a newer schema`. Empty if all was read."""
    parts = [f"{unread[name]:,} {{}}{text}" for name, text in WORDS.items() if unread.get(name)]
    if not parts:
        return ""
    first = "line " if parts[0].startswith("1 ") else "lines "
    return f"not read: {', '.join([parts[0].format(first), *(part.format('') for part in parts[1:])])}"
