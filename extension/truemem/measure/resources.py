"""What else runs out beside memory, read when a window closes: /tmp, descriptors, threads, processes."""

from __future__ import annotations

import posix

from ..linux.descriptors import Descriptors
from ..linux.process_table import FUNCTION
from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..linux.proc_text import Status
    from ..linux.process_table import Process, ProcessTable
    from ..linux.procfs import Procfs
    from ..support.clock import Clock
    from .sampling_schedule import Budget

AT_ONCE = 24
"""Processes whose descriptors are counted, the runtime first: 1 µs each."""
ENTRY_NS = 300
"""CPU time of listing one descriptor, before it was measured. One slot of its table is taken for one."""
FOLDER_NS = 20_000
"""The same of opening a folder, whatever is in it."""
PID_NS = 1_000
"""CPU time of looking for one zombie."""
TOLD_PART = 10
"""The line tells of what is in use by more than this part of its limit: a tenth."""


class Usage(NamedTuple):
    """What was in use when a window closed. None: not known, or not counted this time."""

    tmp: tuple[int, int] | None = None
    """/tmp: KiB in use, and its size in KiB. None also where it is a part of another disk, which others fill too."""
    descriptors: int | None = None
    """Open in the process of the function that is nearest to its limit,"""
    descriptor_limit: int | None = None
    """and that limit."""
    holders: dict[str, int] | None = None
    """Open in all processes of each holder: `function`, `truemem`, and extensions by name."""
    threads: int = 0
    """Of the function's processes; 0 where none was there."""
    processes: int = 0
    """The function's, zombies included,"""
    zombies: int = 0
    """and those among them that have ended, and that nothing has waited for."""
    task_limit: int | None = None
    """Processes and threads that the user may have."""


class TmpDisk:
    """The disk below /tmp."""

    def __init__(self, folder: str = "/tmp") -> None:
        self._folder = folder
        self._is_own: bool | None = None

    def read(self) -> tuple[int, int] | None:
        """Used, and all that there is to use, KiB. None where it cannot be told, or is the disk of "/": Lambda's /tmp
        is a disk of its own, of 512 to 10,240 MB (developer guide, "Lambda quotas"). 1 µs."""
        try:
            if self._is_own is None:
                self._is_own = posix.stat(self._folder).st_dev != posix.stat("/").st_dev
            disk = posix.statvfs(self._folder) if self._is_own else None
        except OSError:
            return None
        if disk is None or not disk.f_blocks:
            return None
        used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize // 1024
        return used, used + disk.f_bavail * disk.f_frsize // 1024  # what is kept for root is of no use


class Resources:
    """Reads them, within the CPU budget."""

    def __init__(self, table: ProcessTable, proc: Procfs, clock: Clock, tmp: TmpDisk) -> None:
        self._table = table
        self._clock = clock
        self._descriptors = Descriptors(proc)
        self._tmp = tmp
        self._entry_ns: float = ENTRY_NS

    def read(self, closing: Sequence[Status], budget: Budget) -> Usage:
        """All of it. `closing`: the function's processes as the window's end has found them. What takes more than some
        µs is done only when `budget` has saved enough for it."""
        usage = Usage(self._tmp.read())
        function = self._table.function()[:AT_ONCE]
        if not closing or not function:  # it has ended
            return usage
        self._descriptors.keep(function)
        zombies = self._zombies(budget)
        usage = usage._replace(
            threads=sum(status.threads for status in closing),
            processes=len(closing) + zombies,
            zombies=zombies,
            task_limit=self._descriptors.limits(function[0]).tasks,
        )
        counted = self._counted(function, budget)
        if not counted:
            return usage
        limits = [(opened, self._descriptors.limits(process, opened).descriptors) for process, opened in counted]
        opened, limit = max(limits, key=_nearness)
        holders = {FUNCTION: sum(opened for opened, _ in limits)}
        if matters(opened, limit):
            self._add_others(holders, budget)
        return usage._replace(descriptors=opened, descriptor_limit=limit, holders=holders)

    def _zombies(self, budget: Budget) -> int:
        known = self._table.zombies(again=False)
        if not known or not budget.affords(PID_NS * known, self._clock.monotonic_ns()):
            return known
        return self._table.zombies()

    def _counted(self, processes: Sequence[Process], budget: Budget) -> list[tuple[Process, int]]:
        """The open descriptors of each that can be looked at. Empty where that costs too much now."""
        if self._descriptors.is_sized:
            return self._count(processes)
        slots = self._descriptors.slots(processes)
        folders_ns = FOLDER_NS * len(processes)
        if slots is None or not budget.affords(folders_ns + slots * self._entry_ns, self._clock.monotonic_ns()):
            return []
        began_ns = self._clock.cpu_ns()
        counted = self._count(processes)
        cost_ns = self._clock.cpu_ns() - began_ns
        budget.spend_beside(cost_ns, self._clock.monotonic_ns())
        listed = sum(opened for _, opened in counted)
        if listed:
            entry_ns = max(ENTRY_NS, (cost_ns - folders_ns) / listed)
            self._entry_ns += (entry_ns - self._entry_ns) / 4
        return counted

    def _count(self, processes: Sequence[Process]) -> list[tuple[Process, int]]:
        counted = []
        for process in processes:
            try:
                counted.append((process, self._descriptors.count(process)))
            except OSError:
                continue
        return counted

    def _add_others(self, holders: dict[str, int], budget: Budget) -> None:
        """Add those of sidecar and extensions."""
        for process, opened in self._counted(self._table.others()[:AT_ONCE], budget):
            name = process.owner.partition(":")[2] or process.owner
            holders[name] = holders.get(name, 0) + opened


def matters(used: float, limit: float | None) -> bool:
    """Is so much in use that a line tells of it?"""
    return limit is not None and used * TOLD_PART > limit > 0


def _nearness(counted: tuple[int, int | None]) -> float:
    opened, limit = counted
    return opened / limit if limit else opened / (1 << 30)
