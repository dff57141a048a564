"""What is known of one process within a window, from reading to reading. Pure. Sizes in KiB."""

from __future__ import annotations

from .race import Sample, keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.proc_text import Stat, Status


class ProcessTrack:
    """One process in the open window."""

    __slots__ = (
        "child_faults",
        "due_ns",
        "faults",
        "found_ns",
        "known",
        "last_stat",
        "lost",
        "parent",
        "rss",
        "samples",
        "stale",
    )

    def __init__(self, parent: int, opening: Stat | None, known: int = 0, found_ns: int = 0) -> None:
        """`opening` is what was read when the window opened, `known` the watermark then; None for a process that was
        found later, at `found_ns`, as a child of `parent`."""
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

    @property
    def watermark(self) -> int:
        """Highest VmHWM that samples have read."""
        return max((sample.hwm for sample in self.samples), default=0)

    @property
    def highest(self) -> int:
        """The same, and what they may have missed between a reading and its reset."""
        return max((sample.highest for sample in self.samples), default=0)

    def has_mm_of(self, parent: ProcessTrack | None, stat: Stat) -> bool:
        """Is it a child that has not called exec()? Then its watermark knows what it has inherited, too."""
        return parent is not None and parent.last_stat is not None and stat.mm == parent.last_stat.mm and bool(stat.mm)

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
        elif other_mm or fallen:
            self.lost = True
        self.known = after.rss if reset else status.hwm
        self.rss = after.rss
        if rising and self.samples:
            self.samples[-1] = self.samples[-1].merged(sample)
        else:
            keep(self.samples, sample, Sample.merged)
