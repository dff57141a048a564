"""Ids of the local Lambda's environments. They have AWS's form, and lines with one can be recognised later."""

from __future__ import annotations

import secrets

LOCAL = "10ca1000"
"""How they end. One in 4,000 million of AWS's does."""


def local_id() -> str:
    """Make a new one: 32 hexadecimal digits, the end of a log stream's name."""
    return secrets.token_hex(12) + LOCAL


def is_local(log_stream: str) -> bool:
    """True for the log stream of an environment of the local Lambda."""
    return log_stream.endswith(LOCAL)
