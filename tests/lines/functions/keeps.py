"""A handler that plays a leaking runtime with truemem's preload: a heap page whose figures grow, and an answer to the
request for lines after some more invocations, if it is to `do` that: one that cannot be read."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

FOLDER = Path(tempfile.gettempdir())
PID = os.getpid()
PAGE = FOLDER / f".truemem-heap-{PID}"
REQUEST = FOLDER / f".truemem-lines-{PID}"
ANSWER = FOLDER / f".truemem-lines-{PID}.json"
LATER = 3
"""Invocations from the request to the answer."""

page = os.open(PAGE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.truncate(page, 4096)
number = 0
asked_at = 0


def note(request_id: str) -> None:
    """The reading of an invocation that is about to end (docs/heap.md)."""
    figures = f"inUse={20_000 + 40 * number} held=0 mapped=0 gc0=0 gc1=0 gc2=0 threads=1"
    text = f"truemem-heap-3 {number} {request_id} {time.time_ns() // 1_000_000} python {figures} {number}\n"
    os.pwrite(page, text.encode(), number * 256 % 4096)


def handler(event: dict[str, Any], context: Any) -> dict[str, object]:
    global number, asked_at  # noqa: PLW0603
    number += 1
    is_asked = REQUEST.exists()
    asked_at = asked_at or number * is_asked
    if event["do"] == "junk" and asked_at and number == asked_at + LATER:
        ANSWER.touch(0o600)
        ANSWER.write_bytes(bytes(range(256)) * 40)
    note(context.aws_request_id)
    return {"asked": is_asked}
