"""Leaves a file of a size (KiB) in /tmp itself, and says what it finds there."""

import os
from pathlib import Path


def handler(event: dict[str, int], context: object) -> dict[str, object]:
    before = sorted(os.listdir("/tmp"))  # noqa: PTH208
    Path(f"/tmp/left-{len(before)}").write_bytes(b"\1" * event["kib"] * 1024)
    return {"before": before, "uid": os.getuid(), "tmpdir": os.environ["TMPDIR"]}
