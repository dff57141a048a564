"""Says in sentences what the demo's figures show. Comparisons only, with their figures."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..printed.line import Line
from .workload import Call

WELL_BELOW = 0.9
"""A peak is well below the mark if it is under this share of it. The mark also counts the sidecar, for example."""

TAIL = 10
"""Invocations whose median is one level."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One invocation: the call, the platform's report and the sidecar's record. Sizes in MiB."""

    number: int
    call: Call
    record: Line | None
    mark: float | None
    """Max Memory Used."""
    error: str | None = None
    """The platform's error type, if the invocation failed."""

    @property
    def peak(self) -> float | None:
        """Best estimate of the peak."""
        return self.record.peak_rss if self.record else None

    @property
    def current(self) -> float | None:
        """RSS that the invocation left behind."""
        return self.record.current_rss if self.record else None

    @property
    def lower(self) -> float | None:
        """Lower bound of the peak, or the estimate if there is no bound."""
        return self.record.peak_lower if self.record and self.record.peak_lower is not None else self.peak

    @property
    def upper(self) -> float | None:
        """Upper bound of the peak; None if unknown (sampled)."""
        return self.record.peak_upper if self.record else None


class Demonstrated(NamedTuple):
    """A row that has all figures for a comparison, in MiB."""

    number: int
    call: Call
    mark: float
    peak: float
    upper: float | None
    current: float


def complete(rows: Sequence[Row]) -> list[Demonstrated]:
    """The rows that can be compared: those with a mark, a peak and a current."""
    return [
        Demonstrated(row.number, row.call, row.mark, row.peak, row.upper, row.current)
        for row in rows
        if row.mark is not None and row.peak is not None and row.current is not None
    ]


def headline(rows: Sequence[Row]) -> str:
    """The picture's title: a conclusion, if the figures show it; else a description."""
    seen = complete(rows)
    tail = [row for row in seen[-TAIL:] if row.upper is not None]
    stays_low = tail and not any(row.error for row in rows) and all(_well_below(row) for row in tail)
    if stays_low and not _falls(seen):
        return "Max Memory Used keeps the worst moment. The function needed it once."
    return "Each invocation's own memory, beside Max Memory Used"


def verdict(rows: Sequence[Row]) -> list[str]:
    """A few sentences on mark and peaks, each true for these rows."""
    seen = complete(rows)
    sentences = []
    if failed := [row for row in rows if row.error]:
        first = failed[0]
        sentences.append(
            f"{len(failed)} of {len(rows)} invocations failed, first number {first.number} ({first.error})."
        )
    numbers = {row.number for row in seen}
    if lost := [row.number for row in rows if row.number not in numbers]:
        which = f"number {lost[0]}" if len(lost) == 1 else f"first number {lost[0]}"
        sentences.append(f"{len(lost)} of {len(rows)} invocations without a complete record, left out below: {which}.")
    if len(seen) < 2:
        return [*sentences, "Too few records to compare anything."]
    return [*sentences, _mark(seen), _peaks(seen)]


def _mark(seen: Sequence[Demonstrated]) -> str:
    first, last = seen[0], seen[-1]
    top = max(seen, key=lambda row: row.mark)
    if falls := _falls(seen):
        times = "once" if falls == 1 else f"{falls} times"
        return f"Max Memory Used reached {top.mark:.0f} MiB and fell {times}: a new environment starts with a new mark."
    if first.mark == top.mark:
        return f"Max Memory Used was {top.mark:.0f} MiB from the first invocation to the last."
    if top.number == last.number:
        return f"Max Memory Used rose from {first.mark:.0f} to {top.mark:.0f} MiB, and never fell."
    return (
        f"Max Memory Used rose from {first.mark:.0f} to {top.mark:.0f} MiB by invocation {top.number},"
        " and never fell again."
    )


def _peaks(seen: Sequence[Demonstrated]) -> str:
    highest = max(range(len(seen)), key=lambda index: seen[index].peak)
    top = seen[highest]
    batch = f" (a batch of {top.call.batch:,} rows)" if top.call.batch > 1 else ""
    sentence = f"The function's own peak was highest in invocation {top.number}{batch}: {top.peak:.0f} MiB"
    if highest + 1 < len(seen):
        sentence += f"; in the next it was {seen[highest + 1].peak:.0f} MiB"
    below = [row.mark - row.peak for row in seen if _well_below(row)]
    unbounded = sum(row.upper is None for row in seen)
    doubt = f" ({unbounded} of the peaks is a lower bound, and not counted in that.)" if unbounded == 1 else ""
    if unbounded > 1:
        doubt = f" ({unbounded} of the peaks are lower bounds, and not counted in that.)"
    if not below:
        return f"{sentence}. It was never known to be 10 % or more below the mark.{doubt}"
    return (
        f"{sentence}. In {len(below)} of {len(seen)} invocations it was 10 % or more below the mark,"
        f" by {statistics.median(below):.0f} MiB at the median.{doubt}"
    )


def _well_below(row: Demonstrated) -> bool:
    return row.upper is not None and row.upper < WELL_BELOW * row.mark


def _falls(seen: Sequence[Demonstrated]) -> int:
    return sum(later.mark < earlier.mark for earlier, later in itertools.pairwise(seen))
