"""A function that allocates until the kernel ends it. Event: {"do": SHAPE}; `idle` does nothing."""

from __future__ import annotations

import mmap
import os
import signal
import time
from typing import Any

MIB = 1 << 20
CHUNK = memoryview(bytes(MIB))
CHILDREN = 40


def grow(step_mib: int = 1, pause_s: float = 0.0) -> None:
    """Touch MiB after MiB, and never give any back."""
    held = []
    while True:
        for _ in range(step_mib):
            block = mmap.mmap(-1, MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            block.write(CHUNK)
            held.append(block)
        time.sleep(pause_s)


def child(count: int) -> str:
    """`count` children that grow together; when the first has died, the others are ended. How it died."""
    children = []
    for _ in range(count):
        made = os.fork()
        if not made:
            os.setpgid(0, 0)
            grow(pause_s=0.001)
        children.append(made)
    _, status = os.wait()
    for made in children:
        try:
            os.kill(made, signal.SIGKILL)
            os.waitpid(made, 0)
        except (ProcessLookupError, ChildProcessError):
            continue
    return f"a child died: {os.waitstatus_to_exitcode(status)}"


def handler(event: dict[str, Any], context: object) -> str:
    """See the module."""
    match event["do"]:
        case "fast":
            grow()
        case "slow":
            grow(step_mib=4, pause_s=0.02)
        case "child":
            return child(1)
        case "children":
            return child(CHILDREN)
    return "idle"
