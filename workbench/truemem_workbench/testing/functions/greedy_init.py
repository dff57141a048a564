"""A function that takes memory at import, until it is killed."""

import time
from typing import Any

kept = []
while True:
    kept.append(b"x" * (2 << 20))
    time.sleep(0.005)


def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    """Never reached."""
    return event
