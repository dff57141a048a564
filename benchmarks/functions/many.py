"""A function with many children that do nothing. Event: {"children": so many it has from now on}. Answer: how many."""

from __future__ import annotations

import os
import signal
from typing import Any

children: list[int] = []


def handler(event: dict[str, Any], context: object) -> int:
    """Fork until there are enough."""
    while len(children) < event["children"]:
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(0)
        children.append(child)
    return len(children)
