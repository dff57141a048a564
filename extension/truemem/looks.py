"""What was known when: the last values of something, each with the time at which it was known. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

KEPT = 3
"""Between two times at which there was no event yet, the loop looks twice at most: at a tick, and at a rest that turns
out to be none. The one before these is from before any event that has come meanwhile."""


def keep(known: list[tuple[int, T]], at_ns: int, value: T) -> None:
    """One more, known at `at_ns`."""
    known.append((at_ns, value))
    del known[:-KEPT]


def known_before(known: list[tuple[int, T]], at_ns: int) -> T | None:
    """The last that was known before `at_ns`; None if none was, as far as is kept."""
    for when, value in reversed(known):
        if when < at_ns:
            return value
    return None
