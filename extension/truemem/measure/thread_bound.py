"""What one process can have held at most between two looks, where several of its threads have run. Pure. Sizes in KiB.

Theory of operation
===================

R is what the process holds (its resident set), at any moment between two looks. VmHWM should be the highest R. With
several threads it may be lower. This is why, and by how much.

What the kernel does
--------------------

1. VmHWM is the higher one of R now and `hiwater_rss` (get_mm_hiwater_rss, include/linux/mm.h). update_hiwater_rss sets
   `hiwater_rss` to R when memory is about to be given back: munmap (vms_clear_ptes, mm/vma.c; unmap_region, mm/mmap.c,
   before Linux 6.12), MADV_DONTNEED (zap_page_range_single, mm/memory.c), MADV_FREE, reclaim. No page fault does.
2. Then the pages go, one page table (2 MiB) after the other (zap_pte_range, mm/memory.c). `hiwater_rss` stays. What
   another thread touches meanwhile raises R, perhaps above VmHWM, and nobody notes it.
3. R does not rise without a page fault of this process, counted when it is done (mm_account_fault, mm/memory.c). One
   fault makes resident
   - one page of no file (do_anonymous_page): FaultSizes.own;
   - or 16 pages of a file around it (do_fault_around, `fault_around_bytes`): FaultSizes.most;
   - or a huge page, 2 MiB (do_huge_pmd_anonymous_page), which /proc/vmstat counts for all processes together as
     `thp_fault_alloc`. khugepaged makes one without a fault (collapse_huge_page): `thp_collapse_alloc`.

What is read at a look
----------------------

The process's memory: `own` (RssAnon) and `shared` (RssFile and RssShmem), which together are R; the count of `faults`
before they were read, and the count after; `huge` pages of all processes; the CPU time of all threads but the first
(`others_ns`).

One thread alone
----------------

If `others_ns` is the same at both looks, and the other threads sleep at the second one (the time of a thread that runs
is counted at the next tick only), the first thread alone has run. It does not touch memory while it gives some back:
when it began to, 1 has noted R. So VmHWM is exact, and nothing is bounded here.

Several threads
---------------

Two bounds hold at each moment between two looks, whose levels are `first` and `second`. The lower one counts.

    R <= touched    = first.own + new faults * a page + new huge pages * 2 MiB + max(first.shared, second.shared)
    R <= seen + given_back

Why the first: by 3, R cannot have risen by more since the first look. Why the second: from that moment to the second
look R has changed by what was touched, less what was given back. So R <= second level + what was given back since, and
`seen`, the highest level known, is not below the second level. Given back is what can have been there and is not:

    given_back      = max(0, first.own + new faults * a page + new huge pages * 2 MiB - second.own)
                      + max(0, first.shared - second.shared)

Files
-----

`touched` says that the pages of files that were mapped at some moment were there at a look as well. A process that
unmaps files (`shared` has fallen once, or VmHWM has risen by more than `touched` and the kernel's error explain: the
pages were mapped and are gone) may have mapped more in between. For such a one each fault counts as one of a file:

    R <= mapped     = touched + new faults * (FaultSizes.most - FaultSizes.own)
    R <= max(touched, seen + given_back)

The first is certain. The second is not: files may have come and gone without a trace. Where VmHWM shows that some have,
`given_back` counts them, too (mapped - touched).

More than one look
------------------

VmHWM is read less often than the level is. Each look bounds the time since the look before it; the highest of these
bounds is the bound of the time since VmHWM was read last, but not below `seen`, and not above the memory limit.

Not covered
-----------

Files that were mapped and unmapped within two looks by a process that never did that before; files in the page cache in
pieces of more than 64 KiB (one fault may map a piece); large pages of other sizes than 2 MiB (off unless somebody turns
them on: hugepages-*kB/enabled, admin-guide/mm/transhuge.rst); pages that another process fills in (UFFDIO_COPY,
process_vm_writev: its faults, not ours). One fault of each thread may be done and not yet counted: less than the
kernel's own error.
"""

from __future__ import annotations

from ..linux.procfs import HUGE_FAULT_KIB
from .window import KERNEL_SLACK_KIB, NEVER_NS, keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..linux.procfs import FaultSizes


class ProcessMemory:
    """What a process holds, at one look."""

    def __init__(self, own: int, shared: int, faults: int, huge: tuple[int, int]) -> None:
        self.own = own
        """KiB of no file (RssAnon)."""
        self.shared = shared
        """KiB of files and shared memory (RssFile and RssShmem)."""
        self.faults = faults
        """Page faults of the process before the level was read."""
        self.huge = huge
        """Huge pages of all processes (Procfs.huge_pages), at this look or an earlier one."""


class Interval:
    """The time between two looks, while several threads may have run: the terms of the inequalities. KiB."""

    def __init__(self, touched: int, mapped: int, given_back: int) -> None:
        self.touched = touched
        self.mapped = mapped
        self.given_back = given_back


def _or_higher(one: Interval, later: Interval) -> Interval:
    """The two intervals as one: coarser, never wrong."""
    touched, mapped = max(one.touched, later.touched), max(one.mapped, later.mapped)
    return Interval(touched, mapped, max(one.given_back, later.given_back))


class ThreadBound:
    """What the threads of one process can have hidden from its watermark since that was read last."""

    def __init__(
        self, level: ProcessMemory | None, others_ns: int | None, has_several: bool, unmaps_files: bool
    ) -> None:
        """`level` and `others_ns` are what was read when the window opened; None and 0 for a process that was found
        later. `has_several`: it had more threads than one then."""
        self.level = level
        """The process's memory at the last look; None before the first."""
        self.level_others_ns = others_ns
        """CPU time (ns) of its other threads at the last look; None where it could not be read (ProcessFiles)."""
        self.status_others_ns = others_ns
        """CPU time (ns) of its other threads when its status was read last; None where it could not be read."""
        self.status_huge = level.huge if level is not None else (0, 0)
        """Huge pages of all processes (Procfs.huge_pages), when its status was read last or earlier."""
        self.has_several = has_several
        """True if the process had several threads when it was read in an earlier window."""
        self.unmaps_files = unmaps_files
        """True if the process has ever unmapped files: a fault may map more of one than a page, and leave no trace of
        it."""
        self.several_ran = False
        """True if more than one thread of the process has run in the window, as far as is known."""
        self.touched = 0
        """The highest `touched` of all looks since its status was read last, whoever ran."""
        self.intervals: list[Interval] = []
        """Intervals between looks since its status was read last, where other threads may have run."""
        self.hidden = 0
        """KiB by which the watermark may be below a level that was seen."""

    def look(
        self,
        level: ProcessMemory,
        faults: int,
        others_ns: int | None,
        others_ran: bool,
        sizes: FaultSizes,
        inherited: int,
    ) -> None:
        """The process holds this now, after so many `faults` at most. `others_ran`: other threads than its first may
        have run since the last look. `inherited`: what it can have had before the first look, from its parent."""
        first = self.level or ProcessMemory(inherited, 0, 0, level.huge)
        self.level, self.level_others_ns = level, others_ns
        new_faults = max(0, faults - first.faults)
        at_faults, joined = level.huge[0] - first.huge[0], level.huge[1] - first.huge[1]
        most_own = first.own + new_faults * sizes.own + (min(new_faults, at_faults) + joined) * HUGE_FAULT_KIB
        fallen = first.shared - level.shared
        touched = most_own + max(first.shared, level.shared)
        self.touched = max(self.touched, touched)
        self.unmaps_files |= fallen > KERNEL_SLACK_KIB
        if others_ran:
            mapped = touched + new_faults * (sizes.most - sizes.own)
            given_back = max(0, most_own - level.own) + max(0, fallen)
            keep(self.intervals, Interval(touched, mapped, given_back), _or_higher)

    def bound(
        self,
        hwm: int,
        known: int,
        watermark: int,
        slack_kib: int,
        limit_kib: int,
        huge_pages: Callable[[], tuple[int, int] | None] | None,
        others_ns: int | None,
        others_ran: bool,
    ) -> int:
        """The status was read, after a look: KiB that the process can have held since it was read before, at most; 0
        where VmHWM (`hwm`) shows all. `known` and `watermark`: the highest level, and the highest VmHWM, known before.
        `slack_kib`: the error of VmHWM. `limit_kib`: the memory limit, 0 if unknown. `huge_pages` counts them; None
        where no process can ask for them. `others_ran`: what the look was told."""
        touched, intervals, huge = self.touched, self.intervals, self.status_huge
        others_before_ns, self.status_others_ns = self.status_others_ns, others_ns
        self.status_huge = self.level.huge if self.level is not None else huge
        self.touched = self.hidden = 0
        self.intervals = []
        if not others_ran and others_ns == others_before_ns:
            return 0
        self.several_ran = True
        seen = max(hwm, known)
        unexplained = hwm - slack_kib - max(watermark, touched)
        if unexplained > 0 and huge_pages is not None:
            unexplained -= (sum(huge_pages() or huge) - sum(huge)) * HUGE_FAULT_KIB
        self.unmaps_files |= unexplained > 0
        highest = 0
        for interval in intervals:
            gone = interval.given_back + (interval.mapped - interval.touched if unexplained > 0 else 0)
            self.hidden = max(self.hidden, gone)
            if self.unmaps_files:
                most = min(interval.mapped, max(interval.touched, seen + gone))
            else:
                most = min(interval.touched, seen + gone)
            highest = max(highest, most)
        return min(highest, max(limit_kib or NEVER_NS, seen))
