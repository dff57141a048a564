"""A function of several processes, which waits until its time is over.

Event: {"mib": N, "children": M, "until": MiB}. It touches N MiB and forks M children, which share them. Then it touches
more, on its own, until its cgroup holds `until`.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

MIB = 1 << 20


def held() -> int:
    """What the cgroup holds, bytes."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        folder = "/sys/fs/cgroup/memory" if "memory" in controllers.split(",") else "/sys/fs/cgroup"
        for name in ("memory.usage_in_bytes", "memory.current"):
            if (file := Path(f"{folder}{path}/{name}")).exists():
                return int(file.read_text())
    raise OSError("no memory cgroup")


def handler(event: dict[str, Any], _: object) -> None:
    """See the module."""
    kept = [bytes(64) * (event.get("mib", 0) * MIB // 64)]
    for _child in range(event.get("children", 0)):
        if os.fork() == 0:
            signal.pause()
            os._exit(0)
    while held() < event.get("until", 0) * MIB:
        kept.append(bytes(range(256)) * (MIB // 1024))
    if "mib" in event:
        time.sleep(900)
