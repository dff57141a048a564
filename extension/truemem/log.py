"""The sidecar's own log: one line each on stderr, which CloudWatch shows beside the function's lines."""

from __future__ import annotations

import posix
import select

LEVELS = ("debug", "info", "warn", "error", "off")

LINES = 500
"""Printed at most: a fault that repeats itself must not fill the user's log."""

_threshold = LEVELS.index("info")
_left = LINES


def set_level(name: str) -> None:
    """Print lines of level `name` (one of LEVELS) and above."""
    global _threshold  # noqa: PLW0603 - one process, one log
    _threshold = LEVELS.index(name)


def log(level: str, message: str) -> None:
    """One line. Never raises and never waits: what stderr does not take is not worth a function's time."""
    global _left  # noqa: PLW0603
    if LEVELS.index(level) < _threshold or _left <= 0:
        return
    _left -= 1
    line = f"truemem {level.upper()} {message}".replace("\n", " ")[:2000]
    if not _left:
        line += " (the last line of this log)"
    writable = select.poll()
    writable.register(2, select.POLLOUT)
    if writable.poll(0):
        try:
            posix.write(2, line.encode("utf-8", "replace") + b"\n")
        except OSError:
            pass
