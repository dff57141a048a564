"""The sample function with a planted leak: keeps 8 KiB of each invocation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "sample_function"))

from app import handler as sample

kept: list[bytearray] = []


def handler(event: Any, context: Any) -> Any:
    kept.append(bytearray(b"\1" * 8192))
    return sample(event, context)
