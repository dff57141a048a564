"""Was the race with the runtime lost? Pure.

Judged by page faults: resident memory does not grow without one (Linux mm_account_fault), and each process counts
its own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .procfs import Stat

AWAKE_NS = 100_000
"""Within this time of an event's arrival, a process that has received it as well has not touched more memory than
the kernel's own slack: it is to wake up, to read and understand the event, and to take more than 64 page faults."""

ASLEEP_NS = 250_000
"""The same for one whose main thread sleeps: it has not woken yet, or has done all that and gone to sleep again."""

UNKNOWN_NS = 1 << 62

STILL_KIB = 64
"""A level that has not fallen by more than this has not fallen."""


def still(before: Stat, after: Stat) -> bool:
    """Has a process neither grown nor let go of memory between two readings?"""
    return after.faults == before.faults and after.rss >= before.rss - STILL_KIB


def undisturbed(look: Stat | None, before: Stat, after: Stat, elapsed_ns: int) -> bool:
    """Has the process done nothing to its memory between an event's arrival and the reset?

    Growing takes page faults; a level that falls does not, and the peak may have been where it fell from.
    `before` was read `elapsed_ns` after the arrival (UNKNOWN_NS if nobody knows), `after` when the reset was done;
    `look` is what was seen at some time before the arrival.
    """
    if look is not None and still(look, after):
        return True
    asleep = before.state == after.state == b"S"
    return still(before, after) and elapsed_ns <= (ASLEEP_NS if asleep else AWAKE_NS)
