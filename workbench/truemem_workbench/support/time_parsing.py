"""Parses `--since`."""

from __future__ import annotations

import re
from datetime import datetime

from .bad_input import BadInput

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def since_ms(text: str, now_ms: float) -> float:
    """Parse `90m`, `3h`, `2d` ago, or an ISO 8601 time (without a zone it is local), to epoch ms. Raises BadInput."""
    if ago := re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip()):
        return now_ms - float(ago[1]) * _SECONDS[ago[2]] * 1000
    try:
        return datetime.fromisoformat(text.strip()).timestamp() * 1000
    except ValueError:
        raise BadInput(f"--since {text} is no time. Try --since 3h, or --since 2026-11-21T12:00:00Z") from None
