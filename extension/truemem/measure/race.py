"""Where one window ends and the next begins, when it is not known at which moment the runtime got its event. Pure.

AWS's code releases the runtime and the extensions one after the other, in either order and by any time: in AWS's own
emulator the runtime is first in 95 % (docs/how-it-measures.md). So when the sidecar has its INVOKE the function may
have run already. A look at the function then proves something of the invocation that ended only if it is known to lie
before the runtime's event. What the platform says later tells which looks do: an event cannot come before the
invocation before it was done (platform.runtimeDone), nor before its own has started (platform.start).
"""

from __future__ import annotations

from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Entry = TypeVar("Entry")

KERNEL_SLACK_KIB = 256
"""Two readings of one level may differ by this much: the kernel keeps RSS in per-thread or per-CPU batches."""

KEPT = 16
"""Looks that are kept of one window. Beyond that the older half is merged in pairs: coarser, never wrong."""

NEVER = 1 << 62
"""Epoch ns after all looks."""


def keep(history: list[Entry], entry: Entry, merge: Callable[[Entry, Entry], Entry]) -> None:
    """Append an entry; of too many, merge neighbours among the older ones."""
    history.append(entry)
    if len(history) > KEPT:
        half = KEPT // 2
        history[:half] = [merge(history[at], history[at + 1]) for at in range(0, half, 2)]


class Look(NamedTuple):
    """One reading of one process's watermark, and its reset. Sizes in KiB."""

    end_ns: int
    """Epoch ns, after the reset."""
    hwm: int
    """Highest level since the look before."""
    highest: int
    """The same, and what may have come and gone unseen between the reading and the reset."""
    faults: int
    """Page faults of the process so far."""
    rss: int

    def merged(self, later: Look) -> Look:
        """This look and the next as one."""
        hwm, highest = max(self.hwm, later.hwm), max(self.highest, later.highest)
        return Look(later.end_ns, hwm, highest, later.faults, later.rss)


class Boundary:
    """What was read before and around the runtime's next event."""

    def __init__(self, not_before_ns: int = 0) -> None:
        """`not_before_ns`: NEVER where the event came after the last look for certain."""
        self.not_before_ns = not_before_ns
        """The runtime's event did not come before this time (epoch ns), as far as is known by now."""
        self.levels: list[tuple[int, int]] = []
        """(epoch ns, KiB): by then the function had held so much. Both only rise."""
        self.looks: list[list[Look]] = []
        """Of each process in the window that ends, oldest first. The last one is the cut's own."""
        self.gaps = 0
        """KiB that the processes can have held between the cut's readings and its resets, where they touched memory."""
        self.unread: list[tuple[int, int]] = []
        """(epoch ns, KiB): processes that had ended by then may have held so much."""
        self.strangers = 0
        """KiB of processes that were found after the cut: they may have been there before it."""
        self.fault_kib = 0
        """What one page fault can make resident."""
        self.lost_ns = 0
        """Epoch ns: a watermark may have been lost up to then; 0 if none was."""

    @property
    def exact(self) -> bool:
        """The event came after the last look: there is nothing to prove."""
        return self.not_before_ns == NEVER

    @property
    def lost(self) -> bool:
        """May a watermark have been lost after the event?"""
        return self.lost_ns > self.not_before_ns

    def prove(self, not_before_ns: int | None) -> None:
        """The platform says that the event did not come before this time (epoch ns)."""
        if not_before_ns is not None and not_before_ns > self.not_before_ns:
            self.not_before_ns = not_before_ns

    def reached(self) -> int:
        """KiB that the window before the event has reached for certain; 0 where no look is proven."""
        return max((level for end_ns, level in self.levels if end_ns <= self.not_before_ns), default=0)

    def hidden(self) -> int:
        """KiB that the window after the event can have held before the cut, at most; 0 where that is nothing."""
        unread = sum(kib for ns, kib in self.unread if ns > self.not_before_ns)
        late = [self._late(looks) for looks in self.looks]
        if not (self.gaps or self.strangers or unread or any(late)):
            return 0
        held = sum(late_kib or looks[-1].rss for late_kib, looks in zip(late, self.looks, strict=True))
        return max(held, self.gaps) + unread + self.strangers

    def settled(self) -> bool:
        """Is the level at the cut that at the event, but for the kernel's slack?"""
        if self.strangers or any(ns > self.not_before_ns for ns, _ in self.unread):
            return False
        uncertain = 0
        for looks in self.looks:
            late_kib = self._late(looks)
            if late_kib:
                proven = [look for look in looks if look.end_ns <= self.not_before_ns]
                if not proven:
                    return False
                risen = (looks[-1].faults - proven[-1].faults) * self.fault_kib
                uncertain += risen + max(0, late_kib - looks[-1].rss)
        return uncertain <= KERNEL_SLACK_KIB

    def _late(self, looks: list[Look]) -> int:
        """The highest of the looks that are not proven to lie before the event; 0 if all are."""
        return max((look.highest for look in looks if look.end_ns > self.not_before_ns), default=0)
