"""Computes for as long as it is asked to: `{"rounds": 200}` hashes so many KiB. `{"mib": 120}` needs that for a moment.

`{"fail": true}` raises, `{"ms": 40}` waits.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

KIB = bytes(1024)


def handler(event: dict[str, Any], context: object) -> int:
    if event.get("fail"):
        raise ValueError("as told")
    time.sleep(event.get("ms", 0) / 1000)
    digest = hashlib.sha256()
    for _ in range(event.get("rounds", 0)):
        digest.update(KIB)
    return len(b"\1" * int(event.get("mib", 0) * 2**20))
