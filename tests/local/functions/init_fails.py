"""A function whose init fails until a file appears."""

from pathlib import Path
from typing import Any

if not Path("/nonexistent/truemem").exists():
    raise RuntimeError("no luck at init")


def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    return event
