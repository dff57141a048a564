"""What the function's children can have held at most in one window, where no reading tells. Pure. Sizes in KiB.

Theory of operation
===================

A child takes its watermark with it when it ends, and loses it when it calls exec(). What it held between its last
reading and its end, or before exec(), or in a life that no reading has seen, is bounded by page faults and by what it
can have inherited. (That R, what a process holds, does not rise without a page fault: thread_bound.py, 3.)

What the kernel does
--------------------

1. When a parent waits for its ended child, the kernel adds the child's page faults, and those of the children that this
   one has waited for, to the parent's `cmin_flt` and `cmaj_flt` (wait_task_zombie, kernel/exit.c; proc_pid_stat(5)).
   Until then the child is a zombie, and its own stat still says them: they are final, as it has no memory any more.
2. Where the parent ignores SIGCHLD, the kernel waits itself, and adds them to nothing (exit_notify, kernel/exit.c).
   Where the parent ended first, another process above inherits the child, and its faults (find_new_reaper,
   kernel/exit.c): the child is an orphan.
3. fork() maps the parent's pages in the child (dup_mmap, kernel/fork.c), without a fault: RSS and VmHWM of the child
   begin with them. Writing to one is a fault and copies one page (wp_page_copy, mm/memory.c). vfork() copies nothing:
   until exec() or its end the child runs in its parent's memory (CLONE_VM), and has its parent's RSS and VmHWM.
4. exec() gives the process new memory, and with it a new VmHWM. The old one goes to `signal->maxrss` (exec_mmap,
   fs/exec.c): getrusage(2) tells it to the parent alone, as `ru_maxrss` of its largest child. So the heap probe, which
   is in the parent, can know it (Window.child_most); the sidecar cannot.
5. pids are given out upwards (alloc_pid, kernel/pid.c), to processes and to threads.

Children that have ended
------------------------

    unread faults = max(0, reaped - credited) + growth [+ adopted]

- `reaped`: by so much the child faults of the function's living processes have risen in the window;
- `credited`: the part of these that was read while the children lived: their readings tell what it has made resident;
- `growth`: of zombies, the faults since they were read last;
- `adopted`: what processes above the function have inherited, where one of its processes may have left an orphan.

All unread memory together, of all such children, whether they lived at once or not:

    most     = unread faults * FaultSizes.most + huge pages that all processes got meanwhile * 2 MiB
    estimate = unread faults * a page

but none of the two above the memory limit. If fewer faults were reaped than were credited, a child has left no account
(2): there is no upper bound (`lost`).

Before exec()
-------------

A child of fork() that was first read after exec() has touched its parent's memory before, a page a fault (3). It can
have had `faults * FaultSizes.own` of its own then; what is above the level that was read counts (`late`). What it had
from its parent counts there, once.

A child that has not called exec()
----------------------------------

What it holds beside its parent is its own part (`OwnPart`).

    of vfork():  own part <= its faults * the size of one
    of fork():   own part <= VmHWM - handed_on,   handed_on = RSS - its faults * FaultSizes.most, when it was seen first

At least it is what its RSS has above all that its parent is known to have held. The likely own part is a page a fault.

Who can have lived at once
--------------------------

If a process has a higher pid than the last one that had been given out when another one had ended, it began after that
(5): the two did not live at once, and their peaks are not added up (`Lives`).

Not covered
-----------

Such a child as in 2 that no look has seen; pages that come without a page fault (the rings of io_uring); files that a
child maps before exec(); a child of fork() without one page fault.
"""

from __future__ import annotations

from ..linux.procfs import HUGE_FAULT_KIB, PAGE_KIB
from ..support.named_tuple import NamedTuple
from .window import keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Final

    from ..linux.procfs import FaultSizes, Stat

UNBOUNDED: Final = 1 << 40
"""More KiB than any environment has, and more processes."""

STILL_KIB: Final = 64
"""Levels of one memory, read one after the other, may differ by this."""

PARENTS: Final = 64
"""Parents of children that are gone, of which so many are remembered. Beyond that those that have ended themselves are
forgotten: an invocation of half an hour may start a hundred thousand processes."""


class OwnPart(NamedTuple):
    """What a child of fork() or vfork() holds beside its parent, KiB. What it has from there counts once."""

    least: int
    likely: int
    most: int


def shares_memory(rss: int, parent_rss: int) -> bool:
    """Is a child that has not called exec() one of vfork(), which has its parent's memory? By both RSS, KiB."""
    return abs(rss - parent_rss) <= STILL_KIB


def own_part_of_vfork(faults: int, hwm: int, least: int, sizes: FaultSizes) -> OwnPart:
    """What a child of vfork() has touched, by its page faults; at most `hwm`, at least `least` (KiB)."""
    return OwnPart(least, min(hwm, max(least, faults * sizes.own)), min(hwm, max(least, faults * sizes.most)))


def handed_on(stat: Stat, sizes: FaultSizes, has_huge: bool) -> int:
    """KiB that a child of fork() has from its parent at least, when it is seen first. `has_huge`: huge pages were made
    meanwhile, by whichever process: then nothing is certain."""
    return 0 if has_huge else max(0, stat.rss - stat.faults * sizes.most)


def own_part_of_fork(faults: int, hwm: int, least: int, inherited: int, sizes: FaultSizes) -> OwnPart:
    """What a child of fork() holds beside what it has `inherited` at least (KiB, see handed_on)."""
    most = max(least, hwm - inherited)
    return OwnPart(least, min(most, max(least, faults * sizes.own)), most)


class Lives:
    """Processes that have begun in one window, or ended in it: what those held that may have lived at once, KiB."""

    def __init__(self) -> None:
        self._recent: list[tuple[int, int, int]] = []
        """For each process that has ended: the last pid given out by then, and what `add` was told."""
        self.likely = 0
        """KiB that those held most likely that may have lived at once."""
        self.most = 0
        """KiB that those held at most that may have lived at once."""

    def add(self, pid: int, last_pid: int, likely: int, most: int) -> None:
        """A process that held so much. `last_pid`: as read when it had ended; below 0 if that is unknown, or it
        lives."""
        beside = [each for each in self._recent if each[0] >= pid]
        self.likely = max(self.likely, likely + sum([each[1] for each in beside]))
        self.most = max(self.most, most + sum([each[2] for each in beside]))
        keep(self._recent, (last_pid if last_pid >= 0 else UNBOUNDED, likely, most), _together)


def _together(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return max(one[0], other[0]), one[1] + other[1], one[2] + other[2]


class Unread:
    """What processes may have held in a window that was not read, KiB."""

    def __init__(
        self, most: int = 0, estimate: int = 0, late: int = 0, orphans: bool = False, lost: bool = False
    ) -> None:
        self.most = most
        """Most KiB that the processes which have ended can have held."""
        self.estimate = estimate
        """KiB that the processes which have ended held most likely."""
        self.late = late
        """Most KiB more that processes can have held which may have called exec() before they were read."""
        self.orphans = orphans
        """What was not read may have been a daemon, for which the function did not wait (Window.orphans)."""
        self.lost = lost
        """True if there is no upper bound (Window.lost)."""


class ProcessFamily:
    """The function's processes that were born or have ended in one window."""

    def __init__(self) -> None:
        self.found = 0
        """Processes that were found, of those that were born."""
        self.threads = 0
        """Threads that were found, of those that were born."""
        self._before_exec: list[tuple[int, int, int]] = []
        """Processes that may have called exec() before they were read: how many, their page faults until then, and the
        KiB that were read."""
        self.reaped = 0
        """Faults of children that the function's living processes have waited for."""
        self.credited = 0
        """The part of `reaped` that was read while the children lived."""
        self.growth = 0
        """Faults, since they were read last, of processes that have ended and were not waited for yet."""
        self.is_left = False
        """A process that has ended was not waited for when it was looked at."""
        self.orphaned = False
        """A process has ended whose parent is not the function's: another one has waited for it."""
        self.deaths = 0
        """Processes that were seen, and have ended."""
        self.gone: dict[int, int] = {}
        """Page faults of processes that are gone, as last read, by their parent's pid."""

    def ended(self, faults: int, final: int | None, parent: int) -> None:
        """A process has ended, as last read after so many `faults`; `final` are all it had, if nothing has waited
        for it yet. A `parent` (pid) that is the function's will wait for it, or has."""
        self.deaths += 1
        if final is not None:
            self.growth += max(0, final - faults)
            self.is_left = True
        else:
            self.gone[parent] = self.gone.get(parent, 0) + faults

    def called_exec(self, faults: int, seen: int) -> None:
        """A process may have called exec(), after so many faults and before it was read. It was read at `seen` KiB."""
        keep(self._before_exec, (1, faults, seen), _added)

    def leave_orphans(self, parents: Collection[int]) -> None:
        """Forget the gone whose parent is not one of these living ones: only those have waited for certain."""
        for parent in self.gone.keys() - parents:
            del self.gone[parent]
            self.orphaned = True

    def credit(self, parents: Collection[int]) -> None:
        """The window is closed: what was read of the gone is credited, if their parents (pids) live."""
        if self.gone:
            self.leave_orphans(parents)
            self.credited += sum(self.gone.values())
            self.gone.clear()

    @property
    def waited(self) -> int:
        """Processes that were seen, and have ended; -1 where one of them was not waited for (Window.deaths)."""
        return -1 if self.is_left else self.deaths

    def unseen(self, born: int) -> int:
        """Processes, at most, of those `born` in the window (-1: not known) that were never seen."""
        return max(0, (born if born >= 0 else UNBOUNDED) - self.found - self.threads)

    def bound(
        self, exited: bool, born: int, adopted: int | None, sizes: FaultSizes, huge: int, limit_kib: int
    ) -> Unread:
        """What was not read of the window that is closed. `exited`: a process has ended in it. `adopted` are the faults
        of orphans that processes above the function have waited for, None where that cannot be read. `huge` pages were
        made by all processes meanwhile. No process holds more than `limit_kib`; 0 if unknown."""
        unread_faults = max(0, self.reaped - self.credited) + self.growth
        unseen = self.unseen(born)
        orphans = False
        lost = self.reaped < self.credited  # a child that was seen has left no account: nothing has waited for it
        # Where children have ended, any other one that was not seen may have been a daemon.
        if self.orphaned or (exited and unseen):
            lost, orphans = lost or adopted is None, bool(adopted)
            unread_faults += adopted or 0
        limit_kib = limit_kib or UNBOUNDED
        late = 0
        for count, faults, seen in self._before_exec:
            late += max(0, min(count * limit_kib, faults * sizes.own) - seen)
        if not unread_faults:
            return Unread(0, 0, late, orphans, lost)
        most = min(unread_faults * sizes.most + huge * HUGE_FAULT_KIB, limit_kib)
        return Unread(most, min(unread_faults * PAGE_KIB, limit_kib), late, orphans, lost or born < 0)


def _added(first: tuple[int, int, int], second: tuple[int, int, int]) -> tuple[int, int, int]:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]
