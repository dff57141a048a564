"""What a record says of an invocation, beside what the kernel's own trace has. Sizes in MiB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.kit.bench import percentile
from testing.environment import SLACK_MIB, Record


@dataclass(frozen=True)
class Judged:
    """One invocation."""

    work: str
    """What it did."""
    record: Record
    least: float | None
    """At least so much was held; None where it was not traced."""
    most: float | None
    """At most so much: what fork() hands on may count once or in each process."""
    memory_mib: int = 1769
    slack: float = SLACK_MIB
    """The kernel's own error."""

    @property
    def is_figure(self) -> bool:
        """Is its peak a figure, and no interval?"""
        return bool(self.record.method == "vmhwm" and not self.record.raced)

    @property
    def bounds(self) -> tuple[float, float]:
        """The truth is said to be between them. Without an upper bound it is the memory size."""
        if self.is_figure:
            return float(self.record.PeakRSS), float(self.record.PeakRSS)
        upper = self.record.peakUpper
        return float(self.record.peakLower), float(self.memory_mib if upper is None else upper)

    @property
    def width(self) -> float:
        return self.bounds[1] - self.bounds[0]

    @property
    def missed(self) -> float:
        """The truth over `PeakRSS`; 0 if it is not known."""
        return 0.0 if self.least is None else max(0.0, self.least - float(self.record.PeakRSS))

    @property
    def is_false(self) -> bool:
        """Is the truth outside of the bounds?"""
        lower, upper = self.bounds
        return (
            self.least is not None
            and self.most is not None
            and (upper < self.least - self.slack or lower > self.most + self.slack)
        )


def widths(judged: Sequence[Judged]) -> tuple[float, float] | None:
    """Width of the intervals, at the median and the largest; None if there are none."""
    found = [each.width for each in judged if not each.is_figure]
    return (percentile(found, 50), max(found)) if found else None
