"""The sidecar's own log: one line each on stderr, which CloudWatch shows beside the function's lines."""

from __future__ import annotations

import posix

LEVELS = ("debug", "info", "warn", "error", "off")

_threshold = LEVELS.index("info")


def set_level(name: str) -> None:
    """Print lines of level `name` (one of LEVELS) and above."""
    global _threshold  # noqa: PLW0603 - one process, one log
    _threshold = LEVELS.index(name)


def log(level: str, message: str) -> None:
    """One line. Never raises and never blocks for long: what cannot be written is not worth a function's time."""
    if LEVELS.index(level) < _threshold:
        return
    line = f"truemem {level.upper()} {message}".replace("\n", " ")[:2000]
    try:
        posix.write(2, line.encode("utf-8", "replace") + b"\n")
    except OSError:
        pass
