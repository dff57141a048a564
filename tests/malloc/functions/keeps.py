"""Keeps what it is told to, and waits as one does that asks others."""

import time
from typing import Any

KEPT: list[Any] = []


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    KEPT.append([bytes(1000) for _ in range(event["kib"])])
    time.sleep(0.02)
    return {}
