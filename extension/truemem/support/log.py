"""The sidecar's own log: one line each on stderr, which CloudWatch shows beside the function's lines.

Who may read a log may not be who may read the function's variables. So no line has a value of a variable, a header, a
query or an event: lines are made of our own words, numbers, and names of variables. The text of an exception may quote
any of these, so it goes through `reason`. A filter for values here would not replace that: it knows a value only as it
stands in its variable, not cut, decoded or quoted.
"""

from __future__ import annotations

import posix
import select

LEVELS = ("info", "warn", "error", "off")

MOST_MESSAGE_BYTES = 2000
"""Bytes of a message. A pipe that polls as writable takes 4,096 at once (pipe(7))."""

MOST_LINES_LOGGED = 500
"""Printed at most: a fault that repeats itself must not fill the user's log."""

_threshold = LEVELS.index("info")
_left = MOST_LINES_LOGGED


class OwnWords(Exception):
    """An exception whose text may be logged: it has our own words, numbers and names of variables, and nothing else."""

    __slots__ = ()  # compiled classes inherit from it


def reason(error: BaseException) -> str:
    """What went wrong, and nothing of what it went wrong with: an exception that is not ours may quote that."""
    if isinstance(error, OwnWords):
        return f"{error}"
    if isinstance(error, OSError) and isinstance(error.errno, int) and error.errno > 0:
        return f"[Errno {error.errno}] {posix.strerror(error.errno)}"
    where, trace = "", error.__traceback__
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        where = f" in {frame.f_globals.get('__name__')}.{frame.f_code.co_name}"
    return f"{type(error).__name__}{where}"


def set_level(name: str) -> None:
    """Begin the log: print lines of level `name` (one of LEVELS) and above, MOST_LINES_LOGGED of them."""
    global _left, _threshold
    _threshold, _left = LEVELS.index(name), MOST_LINES_LOGGED


def log(level: str, message: str) -> None:
    """Print one line. Never raises and never waits: what stderr does not take is not worth a function's time."""
    global _left  # noqa: PLW0603
    if LEVELS.index(level) < _threshold or _left <= 0:
        return
    _left -= 1
    _write(level, message, b"" if _left else b" (the last line of this log)")


def last_word(message: str) -> None:
    """Print why nothing is measured, whatever the level and the count. Never raises, not even without memory."""
    try:
        _write("error", message)
    except MemoryError:
        pass


def _write(level: str, message: str, after: bytes = b"") -> None:
    text = "".join(c if c.isprintable() else " " for c in message[:MOST_MESSAGE_BYTES])
    line = f"truemem {level.upper()} {text}".encode("utf-8", "replace")[:MOST_MESSAGE_BYTES] + after + b"\n"
    writable = select.poll()
    writable.register(2, select.POLLOUT)
    try:
        if writable.poll(0):
            posix.write(2, line)
    except OSError:
        pass
