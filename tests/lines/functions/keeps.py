"""A handler that plays a leaking runtime with truemem's preload: a heap page whose figures grow, and an answer to the
request for lines after some more invocations. `do` says how the answer looks."""

import json
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
LINE = {"file": "keeps.py", "line": 7, "function": "keep", "perInvocationKiB": 40, "share": 1, "stack": ["keep"]}

page = os.open(PAGE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.truncate(page, 4096)
number = 0
asked_at = 0


def note(request_id: str) -> None:
    """The reading of an invocation that is about to end (docs/heap.md)."""
    figures = f"inUse={20_000 + 40 * number} held=0 mapped=0 gc0=0 gc1=0 gc2=0 threads=1"
    text = f"truemem-heap-3 {number} {request_id} {time.time_ns() // 1_000_000} python {figures} {number}\n"
    os.pwrite(page, text.encode(), number * 256 % 4096)


def answer(do: str) -> None:
    text = json.dumps({"runtime": "python", "invocations": LATER, "lines": [LINE]})
    if do == "answer":
        new = Path(f"{ANSWER}.new")
        new.touch(0o600)
        new.write_text(text)
        new.rename(ANSWER)
    elif do == "link":
        ANSWER.symlink_to("/etc/passwd")
    elif do == "fifo":
        os.mkfifo(ANSWER, 0o600)
    elif do == "sparse":
        ANSWER.touch(0o600)
        os.truncate(ANSWER, 1 << 30)
    elif do == "junk":
        ANSWER.touch(0o600)
        ANSWER.write_bytes(bytes(range(256)) * 40)


def handler(event: dict[str, Any], context: Any) -> dict[str, object]:
    global number, asked_at  # noqa: PLW0603
    number += 1
    is_asked = REQUEST.exists()
    asked_at = asked_at or (number if is_asked else 0)
    if asked_at and number == asked_at + LATER:
        answer(event["do"])
    note(context.aws_request_id)
    return {"asked": REQUEST.read_text() if is_asked else ""}
