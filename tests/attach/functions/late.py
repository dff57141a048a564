"""A function that touches `mib` MiB, 30 ms after it was asked: memory that the sidecar cannot have come too late for.

Event: {"mib": N, "keep": bool}. Kept memory stays for later invocations, the rest is freed.
"""

from __future__ import annotations

import mmap
import time
from typing import Any

_kept: list[mmap.mmap] = []


def handler(event: dict[str, Any], context: object) -> None:
    time.sleep(0.03)
    size = event.get("mib", 0) << 20
    if not size:
        return
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, mmap.PAGESIZE):
        block[at] = 1
    time.sleep(0.01)
    if event.get("keep"):
        _kept.append(block)
    else:
        block.close()
