"""The sidecar's own log: one line each on stderr, which CloudWatch shows beside the function's lines."""

from __future__ import annotations

import posix
import select

LEVELS = ("debug", "info", "warn", "error", "off")

LONGEST = 2000
"""Bytes of a message. A pipe that polls as writable takes 4,096 at once (pipe(7))."""

LINES = 500
"""Printed at most: a fault that repeats itself must not fill the user's log."""

_threshold = LEVELS.index("info")
_left = LINES


def set_level(name: str) -> None:
    """Begin the log: print lines of level `name` (one of LEVELS) and above, LINES of them."""
    global _left, _threshold
    _threshold, _left = LEVELS.index(name), LINES


def log(level: str, message: str) -> None:
    """One line. Never raises and never waits: what stderr does not take is not worth a function's time."""
    global _left  # noqa: PLW0603
    if LEVELS.index(level) < _threshold or _left <= 0:
        return
    _left -= 1
    text = "".join(c if c.isprintable() else " " for c in message[:LONGEST])
    line = f"truemem {level.upper()} {text}".encode("utf-8", "replace")[:LONGEST]
    if not _left:
        line += b" (the last line of this log)"
    writable = select.poll()
    writable.register(2, select.POLLOUT)
    if writable.poll(0):
        try:
            posix.write(2, line + b"\n")
        except OSError:
            pass
