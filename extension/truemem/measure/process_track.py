"""What is known of one process in the window that is open. Pure. Sizes in KiB."""

from __future__ import annotations

from .thread_bound import ThreadBound
from .window import Sample, keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.procfs import FaultSizes, Stat
    from .child_bound import OwnPart
    from .thread_bound import ProcessMemory
    from .watermark import Parsed


class ProcessTrack:
    """One process in one window: its samples, and what bounds what they do not show."""

    def __init__(
        self,
        parent: int,
        opening: Stat | None,
        known: int = 0,
        found_ns: int = 0,
        threads: ThreadBound | None = None,
    ) -> None:
        """`opening` and `threads` are what was read when the window opened, `known` the watermark then; None for a
        process that was found later, at `found_ns`, as a child of `parent`."""
        self.parent = parent
        self.found_ns = found_ns
        """When the process was found, epoch ns; 0 where it was there when the window opened."""
        self.due_ns = found_ns
        """When to look at the process next, if it is a child: epoch ns."""
        self.child_faults = opening.child_faults if opening is not None else 0
        """Faults of its ended children, when the window opened."""
        self.last_stat = opening
        """What was read last: at the process's end the part of its faults whose effect is known."""
        self.samples: list[Sample] = []
        """The process's readings in the window; after each the watermark may have been reset."""
        self.rss = opening.rss if opening is not None else 0
        self.known = known
        """The process has held so much since its watermark was reset last: the watermark cannot be below that."""
        self.lost = False
        """A watermark is lost: the process has called exec(), or it was reset by another one than us."""
        self.fresh = bool(found_ns)
        """The process was found within the window. Of a child of fork(), as long as that is so, its own part alone
        counts."""
        self.handed_on: int | None = None
        """KiB that fork() has handed on to it at least (child_bound.handed_on); None of others."""
        self.own: OwnPart | None = None
        """What it holds beside its parent; None once it has called exec(), and where it was there when the window
        opened."""
        self.faults: int | None = None
        """Page faults until the process was seen in an address space of its own, if it was found within the window and
        no longer has its parent's. Before exec() it can have held what they made resident, and what it has
        inherited."""
        self.stale = False
        """True if the process could not be read when the window opened: its watermark may be from before."""
        # No other thread than its first has run when a process begins.
        self.threads = threads or ThreadBound(None, 0, has_several=False, unmaps_files=False)

    @property
    def watermark(self) -> int:
        """Highest VmHWM that samples have read."""
        highest = 0
        for sample in self.samples:
            highest = max(highest, sample.hwm)
        return highest

    @property
    def highest(self) -> int:
        """Highest level that samples bound: what VmHWM may have missed between a reading and its reset, or while
        threads unmapped, is in it."""
        highest = 0
        for sample in self.samples:
            highest = max(highest, sample.highest)
        return highest

    def has_mm_of(self, parent: ProcessTrack | None, stat: Stat) -> bool:
        """Is the process a child that has not called exec()? Then its watermark knows what it has inherited, too."""
        return parent is not None and parent.last_stat is not None and stat.mm == parent.last_stat.mm and bool(stat.mm)

    def look(
        self,
        level: ProcessMemory,
        faults: int,
        others_ns: int | None,
        others_ran: bool,
        sizes: FaultSizes,
        parent: ProcessTrack | None,
    ) -> None:
        """The process holds this now (ThreadBound.look). What a child of fork() has at first, its `parent` had."""
        self.rss = level.own + level.shared
        is_first = self.threads.level is None and parent is not None
        inherited = max(parent.known, parent.highest) if is_first and parent is not None else 0
        self.threads.look(level, faults, others_ns, others_ran, sizes, inherited)

    def see(self, sample: Sample, reading: Parsed, slack: int, rising: bool, parent: ProcessTrack | None) -> None:
        """Add a sample. `rising`: the watermark is never reset, so that the last sample says all."""
        status, after = reading.status, reading.after
        before, self.last_stat = self.last_stat, after
        other_mm = before is not None and bool(before.mm and after.mm) and before.mm != after.mm
        fallen = status.hwm + slack + self.threads.hidden < self.known
        if self.fresh and (other_mm or fallen or not (self.samples or self.has_mm_of(parent, after))):
            self.faults = after.faults
        elif other_mm or fallen:
            self.lost = True
        self.known = after.rss if reading.reset else status.hwm
        self.rss = after.rss
        if rising and self.samples:
            self.samples[-1] = self.samples[-1].merged(sample)
        else:
            keep(self.samples, sample, Sample.merged)
