"""Handlers for soaks: one that is well, one that fails at times, one that keeps memory after each pause."""

import os
import time
from pathlib import Path
from typing import Any

held: list[bytearray] = []
seen = {"count": 0, "at": time.monotonic()}


def handler(event: Any, context: Any) -> Any:
    if told := os.environ.get("TOLD"):
        Path(told).touch()
    return {}


def failing(event: Any, context: Any) -> Any:
    seen["count"] += 1
    if seen["count"] % 4 == 1:
        print("one of four")
        raise ValueError("one of four")
    return {}


def pausing(event: Any, context: Any) -> Any:
    """Makes a client anew after a pause, and keeps the old one."""
    now = time.monotonic()
    if now - seen["at"] > 0.35:
        held.append(bytearray(b"x") * 300_000)
    seen["at"] = now
    return len(held)


def slow(event: Any, context: Any) -> Any:
    time.sleep(0.3)
    return {}
