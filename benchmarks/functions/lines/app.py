"""A function that keeps 40 KiB of each event that says so."""

from __future__ import annotations

import hashlib
import json
from typing import Any

KEPT: list[bytearray] = []
ROWS = [{"number": number, "name": f"row {number}", "price": number * 1.5} for number in range(300)]


def keep(event: dict[str, Any]) -> None:
    """If it says so."""
    if event["keep"]:
        KEPT.append(bytearray(40 * 1024))


def total(rows: list[dict[str, Any]]) -> float:
    """Of the even rows."""
    found = 0.0
    for row in rows:
        if row["number"] % 2 == 0:
            found += row["price"]
    return found


def works(event: dict[str, Any], context: object) -> float:
    """Parses, hashes, compresses and adds."""
    text = json.dumps(ROWS)
    for _ in range(5):
        rows = json.loads(text)
        hashlib.sha256(text.encode()).hexdigest()
        found = total(rows)
    keep(event)
    return found
