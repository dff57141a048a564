"""Keeps nothing. `{"mib": 5, "ms": 40}` needs as much for a moment, and takes so long; `{"fail": true}` raises,
`{"variable": NAME}` answers it, `{"say": TEXT}` prints.
"""

from __future__ import annotations

import os
import time
from typing import Any


def handler(event: dict[str, Any], context: object) -> Any:
    if said := event.get("say"):
        print(said)
    if event.get("fail"):
        raise ValueError("as told")
    if name := event.get("variable"):
        return os.environ.get(name)
    time.sleep(event.get("ms", 0) / 1000)
    return len(b"\1" * int(event.get("mib", 1) * 2**20))
