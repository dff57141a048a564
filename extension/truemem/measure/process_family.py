"""What processes can have held that was not read: before exec(), after they were read last, or all their life. Pure.

Memory does not become resident without a page fault, and the kernel adds a process's faults to those of the process
that has waited for it (cmin_flt and cmaj_flt, proc_pid_stat(5)). So the faults that were not read bound what was not
seen, with what a child of fork() has from its parent at once. Sizes in KiB.
"""

from __future__ import annotations

from ..linux.kernel import FAULT_KIB
from ..linux.proc_text import PAGE_KIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from .window import Window

UNKNOWN = 1 << 40
"""More KiB than any environment has, and more processes."""


class ProcessFamily:
    """The function's processes that were born or have ended in one window."""

    def __init__(self) -> None:
        self.found = 0
        """Processes that were found, of those that were born."""
        self.threads = 0
        """Threads that were begun, and run."""
        self.before_exec: list[tuple[int, int]] = []
        """Of each that may have called exec() before it was read: page faults until then, KiB that were read."""
        self.reaped = 0
        """Faults of children that the function's living processes have waited for."""
        self.credited = 0
        """The part of those that was read while they lived."""
        self.growth = 0
        """Faults, since they were read last, of processes that have ended and were not waited for yet."""
        self.orphaned = False
        """A process has ended whose parent is not the function's: another one has waited for it."""
        self.largest = 0
        """KiB: the most that one of those that have ended can have held when it was read."""
        self.deaths = 0
        self.gone: list[tuple[int, int]] = []
        """Of each that is gone: its parent, and its faults as last read."""

    def ended(self, faults: int, final: int | None, parent: int, highest: int = 0) -> None:
        """A process has ended, as last read after so many `faults`; `final` are all it had, if nothing has waited
        for it yet. A `parent` (pid) that is the function's will wait for it, or has. `highest`: what it can have
        held when it was read, KiB."""
        self.deaths += 1
        self.largest = max(self.largest, highest)
        if final is not None:
            self.growth += max(0, final - faults)
        else:
            self.gone.append((parent, faults))

    def credit(self, parents: Collection[int]) -> None:
        """The window is closed. Only a parent that lives has waited for its child for certain."""
        for parent, faults in self.gone:
            if parent in parents:
                self.credited += faults
            else:
                self.orphaned = True
        self.gone.clear()

    def unseen(self, window: Window) -> int:
        """Processes, at most, that were born in the window and never seen."""
        return max(0, (window.born if window.born >= 0 else UNKNOWN) - self.found - self.threads)

    def bound(self, window: Window, adopted: int | None, fault_kib: int, limit_kib: int) -> int:
        """Write what was not read into the `window` that is closed, whose `born` and `watermarks` are known; the part
        that ended processes may have held.

        `adopted` are the faults of orphans that processes above the function have waited for, None where that cannot be
        read. No process holds more than `limit_kib`; 0 if unknown.
        """
        faults = max(0, self.reaped - self.credited) + self.growth
        unseen = self.unseen(window)
        # Where children have ended, any other one that was not seen may have been a daemon.
        if self.orphaned or (window.process_exited and unseen):
            window.lost |= adopted is None
            window.orphans = bool(adopted)
            faults += adopted or 0
        grown = faults + sum(faults for faults, _ in self.before_exec)
        # What fork() hands on is anonymous: a page a fault, without huge pages. What it maps of files it does not.
        handed_on = grown * (fault_kib if fault_kib > FAULT_KIB else PAGE_KIB)
        each = min(limit_kib or UNKNOWN, max([*window.watermarks, self.largest]) + handed_on)
        for own, seen in self.before_exec:
            window.unseen += max(0, min(limit_kib or UNKNOWN, each + own * fault_kib) - seen)
        if not faults:
            return 0
        window.lost |= window.born < 0
        most = (limit_kib or UNKNOWN) * max(1, self.deaths + unseen)  # memory that they share counts in each
        window.unread = min(faults * fault_kib, most) + unseen * each
        window.unread_estimate = min(faults * PAGE_KIB, limit_kib or UNKNOWN)
        return window.unread
