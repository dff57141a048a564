"""What is known of one process within a window, from reading to reading. Pure. Sizes in KiB.

The kernel raises the watermark when an unmap begins and when it is read, not at each page fault
(update_hiwater_rss, mm/mmap.c). So while one thread gives memory back, what others touch meanwhile may never be in it.
Where one thread alone has run nothing is missed. Else two things bound it: not more can be hidden than is given back,
and memory does not become resident without a page fault.
"""

from __future__ import annotations

from ..linux.kernel import HUGE_FAULT_KIB
from ..support.named_tuple import NamedTuple
from .race import KERNEL_SLACK_KIB, Sample, keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.proc_text import Stat, Status


class Level(NamedTuple):
    """What a process holds, KiB."""

    own: int
    """Of no file (RssAnon),"""
    shared: int
    """and of files and shared memory."""
    faults: int
    """Page faults so far,"""
    huge: tuple[int, int]
    """and huge pages of all processes (Procfs.huge_pages), then or earlier."""


class ProcessTrack:
    """One process in the open window."""

    __slots__ = (
        "child_faults",
        "due_ns",
        "faults",
        "found_ns",
        "given_back",
        "has_threads",
        "known",
        "last_stat",
        "level",
        "level_ns",
        "lost",
        "others_ns",
        "parent",
        "rss",
        "samples",
        "stale",
        "threads",
        "touched",
        "unmaps_files",
    )

    def __init__(
        self,
        parent: int,
        opening: Stat | None,
        known: int = 0,
        found_ns: int = 0,
        others_ns: int | None = 0,
        level: Level | None = None,
    ) -> None:
        """`opening` and `level` are what was read when the window opened, `known` the watermark then; None for a
        process that was found later, at `found_ns`, as a child of `parent`. `others_ns`: see ProcessFiles.others_ns;
        it is 0 when a process begins."""
        self.parent = parent
        self.found_ns = found_ns
        """Epoch ns; 0 where it was there when the window opened."""
        self.due_ns = found_ns
        """When to look at it next, if it is a child: epoch ns."""
        self.child_faults = opening.child_faults if opening is not None else 0
        """Faults of its ended children, when the window opened."""
        self.last_stat = opening
        """What was read last: at the process's end the part of its faults whose effect is known."""
        self.samples: list[Sample] = []
        """Its readings in the window; after each the watermark may have been reset."""
        self.rss = opening.rss if opening is not None else 0
        """RSS as last read."""
        self.known = known
        """The process has held so much since its watermark was reset last: the watermark cannot be below that."""
        self.lost = False
        """It is: the process has called exec(), or the watermark was reset by another one than us. The peak is lost."""
        self.faults: int | None = None
        """Of a process that was found within the window and does not have its parent's address space: page faults until
        it was seen in its own. Before exec() it can have held what they made resident, and what it has inherited."""
        self.stale = False
        """It could not be read when the window opened: its watermark may be from before."""
        self.others_ns = others_ns
        """When its status was read last,"""
        self.level_ns = others_ns
        """and when its level was."""
        self.level = level
        """As last read."""
        self.has_threads = False
        """There is more than one thread."""
        self.touched = self.given_back = 0
        """The most that it can have held between two readings since its status was read last, and have given back."""
        self.unmaps_files = False
        """It has, in its life: a fault maps more of a file than a page, and may leave no trace of it."""
        self.threads = False
        """More than one of its threads have run in the window, as far as is known."""

    @property
    def watermark(self) -> int:
        """Highest VmHWM that samples have read."""
        return max((sample.hwm for sample in self.samples), default=0)

    @property
    def highest(self) -> int:
        """The same, and what they may have missed: between a reading and its reset, or while threads unmapped."""
        return max((sample.highest for sample in self.samples), default=0)

    def has_mm_of(self, parent: ProcessTrack | None, stat: Stat) -> bool:
        """Is it a child that has not called exec()? Then its watermark knows what it has inherited, too."""
        return parent is not None and parent.last_stat is not None and stat.mm == parent.last_stat.mm and bool(stat.mm)

    def move(self, level: Level, others_ns: int | None, fault_kib: int, parent: ProcessTrack | None) -> None:
        """It holds this now. A page fault adds `fault_kib` at most to what is its own; what is not there any more, it
        has given back. This counts where other threads than its first have run meanwhile (`others_ns`, None if one may
        run). `parent`, before the first reading: what a child of fork() has, its parent had."""
        before, since_ns = self.level, self.level_ns
        self.level, self.level_ns = level, others_ns
        self.rss = level.own + level.shared
        if others_ns is not None and others_ns == since_ns:
            return
        if before is None:
            before = Level(max(parent.known, parent.highest) if parent is not None else 0, 0, 0, level.huge)
        faults = max(0, level.faults - before.faults)
        at_faults, joined = (new - old for new, old in zip(level.huge, before.huge, strict=True))
        own = before.own + faults * fault_kib + (min(faults, at_faults) + joined) * HUGE_FAULT_KIB
        fallen = before.shared - level.shared
        self.touched = max(self.touched, own + max(before.shared, level.shared))
        self.given_back = max(self.given_back, max(0, own - level.own) + max(0, fallen))
        self.unmaps_files |= fallen > KERNEL_SLACK_KIB

    def see(
        self,
        sample: Sample,
        status: Status,
        after: Stat,
        slack: int,
        reset: bool,
        rising: bool,
        parent: ProcessTrack | None,
    ) -> None:
        """One more sample; `after` is the stat after it, and after the `reset` of the watermark, if there was one.
        `rising`: the watermark is never reset, so that the last sample says all."""
        before, self.last_stat = self.last_stat, after
        other_mm = before is not None and bool(before.mm and after.mm) and before.mm != after.mm
        fallen = status.hwm + slack < self.known
        if self.found_ns and (other_mm or fallen or not (self.samples or self.has_mm_of(parent, after))):
            self.faults = after.faults
        elif other_mm or (fallen and not self.threads):
            self.lost = True
        self.known = after.rss if reset else status.hwm
        self.rss = after.rss
        if rising and self.samples:
            self.samples[-1] = self.samples[-1].merged(sample)
        else:
            keep(self.samples, sample, Sample.merged)
