"""Bounds for the level at the moment when the runtime got its event, which the sidecar is not told. Pure.

In the default mode AWS's code releases the runtime and the extensions one after the other, in either order and by any
time: in AWS's own emulator the runtime is first in 95 % (docs/how-it-measures.md). So the function may have run already
when the sidecar reads it at INVOKE. A sample of the function is evidence of the invocation that has ended only if it is
known to be from before the runtime's next event. Telemetry tells later which samples are: an event does not come before
the invocation before it was done (platform.runtimeDone), nor before its own was started (platform.start).
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
"""Samples that are kept of one process in one window. Beyond that the older half is merged in pairs: coarser, never
wrong."""

NEVER = 1 << 62
"""Epoch ns: later than all samples."""


def keep(history: list[Entry], entry: Entry, merge: Callable[[Entry, Entry], Entry]) -> None:
    """Append an entry to a history; if that has more than KEPT, merge its older entries in pairs."""
    history.append(entry)
    if len(history) > KEPT:
        half = KEPT // 2
        history[:half] = [merge(history[at], history[at + 1]) for at in range(0, half, 2)]


class Sample(NamedTuple):
    """One reading of one process's watermark and level, while a window is open or when it is closed. Sizes in KiB."""

    end_ns: int
    """Epoch ns after the reading, and after the reset of the watermark if there was one."""
    hwm: int
    """Highest level since the sample before."""
    highest: int
    """The same, with what may have come and gone between the reading and the reset."""
    faults: int
    """Page faults of the process so far."""
    rss: int

    def merged(self, later: Sample) -> Sample:
        """This sample and the next as one."""
        hwm, highest = max(self.hwm, later.hwm), max(self.highest, later.highest)
        return Sample(later.end_ns, hwm, highest, later.faults, later.rss)


class Boundary:
    """What is known of the time around the runtime's event, where one window ends and the next begins. The readings
    that close the window come before that event or after it. So this bounds what each of the two windows has held."""

    def __init__(self, not_before_ns: int = 0) -> None:
        """`not_before_ns`: NEVER where the event came after the last sample for certain."""
        self.not_before_ns = not_before_ns
        """The runtime's event did not come before this time (epoch ns), as far as is known by now."""
        self.levels: list[tuple[int, int]] = []
        """(epoch ns, KiB): by then the function had held so much in the window that ends. Both only rise."""
        self.samples: list[list[Sample]] = []
        """Of each process in the window that ends, oldest first. The last one is the reading that closed the window."""
        self.unobserved_kib = 0
        """What the processes can have held between their last readings and their resets, if they touched memory."""
        self.unread: list[tuple[int, int]] = []
        """(epoch ns, KiB): processes that had ended by then may have held so much."""
        self.found_late_kib = 0
        """Held by processes that were found after the window was closed: they may have been there before."""
        self.fault_kib = 0
        """What one page fault can make resident."""
        self.lost_ns = 0
        """Epoch ns: a watermark may have been lost up to then; 0 if none was."""

    @property
    def exact(self) -> bool:
        """Did the event come after the last sample for certain? Then nothing is left open."""
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
        """KiB that the window before the event has reached for certain; 0 where no sample is proven to be of it."""
        return max((level for end_ns, level in self.levels if end_ns <= self.not_before_ns), default=0)

    def hidden(self) -> int:
        """KiB that the function can have held, at most, after the event and before its watermark was reset: the next
        window's peak, perhaps, and not in its watermark. 0 where that is nothing."""
        unread = sum(kib for ns, kib in self.unread if ns > self.not_before_ns)
        late = [self._late(samples) for samples in self.samples]
        if not (self.unobserved_kib or self.found_late_kib or unread or any(late)):
            return 0
        held = sum(late_kib or samples[-1].rss for late_kib, samples in zip(late, self.samples, strict=True))
        return max(held, self.unobserved_kib) + unread + self.found_late_kib

    def settled(self) -> bool:
        """Is the level at the event known, but for the kernel's slack? It is where no memory was touched between the
        last sample that is proven to be from before the event and the reading that closed the window."""
        if self.found_late_kib or any(ns > self.not_before_ns for ns, _ in self.unread):
            return False
        uncertain = 0
        for samples in self.samples:
            late_kib = self._late(samples)
            if late_kib:
                proven = [sample for sample in samples if sample.end_ns <= self.not_before_ns]
                if not proven:
                    return False
                risen = (samples[-1].faults - proven[-1].faults) * self.fault_kib
                uncertain += risen + max(0, late_kib - samples[-1].rss)
        return uncertain <= KERNEL_SLACK_KIB

    def _late(self, samples: list[Sample]) -> int:
        """The highest of the samples that are not proven to be from before the event; 0 if all are."""
        return max((sample.highest for sample in samples if sample.end_ns > self.not_before_ns), default=0)
