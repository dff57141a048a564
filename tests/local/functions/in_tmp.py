"""Leaves a file of a size (KiB) in /tmp itself, and says what it finds there, and whether it sees a path."""

import os
from pathlib import Path
from typing import Any


def handler(event: dict[str, Any], context: object) -> dict[str, object]:
    before = sorted(os.listdir("/tmp"))  # noqa: PTH208
    Path(f"/tmp/left-{len(before)}").write_bytes(b"\1" * event["kib"] * 1024)
    found = os.path.exists(event.get("look", "/"))  # noqa: PTH110
    return {"found": found, "before": before, "uid": os.getuid(), "tmpdir": os.environ["TMPDIR"]}
