"""Keeps 8 KiB of each invocation: the planted leak."""

from __future__ import annotations

from typing import Any

kept: list[bytearray] = []


def handler(event: Any, context: object) -> int:
    kept.append(bytearray(b"\1" * 8192))
    return len(kept)
