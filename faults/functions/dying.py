"""A function that ends in all the ways there are. Event: {"do": "answer" | "sleep" | "exit" | "crash" | "raise"}."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

if os.environ.get("FAIL_INIT"):
    attempts = Path(tempfile.gettempdir()) / "attempts"
    with attempts.open("a") as noted:
        noted.write(".")
    if attempts.stat().st_size <= int(os.environ["FAIL_INIT"]):
        raise RuntimeError("not yet")


def handler(event: dict[str, Any], context: object) -> int:
    """See the module."""
    held = bytearray(event.get("mib", 1) << 20)
    for at in range(0, len(held), 4096):
        held[at] = 1
    match event["do"]:
        case "sleep":
            time.sleep(60)
        case "exit":
            os._exit(0)
        case "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise ValueError("as asked")
    return len(held)
