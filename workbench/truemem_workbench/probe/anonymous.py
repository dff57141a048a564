"""Takes out of texts what could identify an account, a function, a machine or an invocation. Pure."""

from __future__ import annotations

import re
from typing import Any

_PATTERNS = (
    (re.compile(r"arn:[\w-]+:[^\s\"',]+"), "ARN"),
    (re.compile(r"truemem-probe-[0-9a-f]{8}[\w-]*"), "FUNCTION"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "UUID"),
    (re.compile(r"\d{4}/\d\d/\d\d/\[[^\]]*\]\w+"), "STREAM"),
    # Not 16: a mask of capabilities is 16 hexadecimal digits.
    (re.compile(r"(?<![0-9a-z])[0-9a-f]{17,}(?![0-9a-z])", re.IGNORECASE), "HEX"),
    (re.compile(r"(?<!\d)\d{12}(?!\d)"), "ACCOUNT"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "IP"),
    (re.compile(r"\b[\w-]+(?:\.[\w-]+)*\.(?:internal|amazonaws|local)\b(?:\.[\w-]+)*|\bip-\d+(?:-\d+){3}\b"), "HOST"),
)


def anonymous(value: Any) -> Any:
    """A copy of a JSON value in which each of these is a word such as ACCOUNT, ARN or UUID."""
    if isinstance(value, dict):
        return {key: anonymous(each) for key, each in value.items()}
    if isinstance(value, list):
        return [anonymous(each) for each in value]
    if isinstance(value, str):
        for pattern, word in _PATTERNS:
            value = pattern.sub(word, value)
    return value
