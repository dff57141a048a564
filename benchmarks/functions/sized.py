"""A function whose answer is as long as the event says: {"answer": BYTES}. Besides it does nothing."""

from __future__ import annotations

from typing import Any


def handler(event: dict[str, Any], context: object) -> str:
    """See the module."""
    return "x" * int(event["answer"])
