"""Both verdicts on a curve: the workbench's, from all points, and the sidecar's, from some 60 numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from truemem.records.drift import GROWING, INSUFFICIENT, Drift

from ...analysis.drift import Point, judge
from .synthetic import Series

MS = 200
"""Time between invocations in ms."""


def points(series: Series) -> list[Point]:
    """The points that an environment's lines would give."""
    pairs = zip(series.current.tolist(), series.peak.tolist(), strict=True)
    return [Point(number, number * MS, held, peak) for number, (held, peak) in enumerate(pairs, 1)]


def workbench(curve: Sequence[Point]) -> str:
    """The workbench's verdict."""
    return judge(curve).name


def sidecar(curve: Iterable[Point]) -> str:
    """The sidecar's verdict at the end."""
    return list(on_the_way(curve))[-1]


def on_the_way(curve: Iterable[Point]) -> Iterable[str]:
    """The sidecar's verdict after each invocation: a reset ends its history with the processes."""
    drift = Drift()
    for point in curve:
        if point.begins:
            drift = Drift()
        drift.see(round(point.current_kib), round(point.peak_kib or 0))
        if point.certain:
            drift.add(round(point.current_kib), round(point.time_ms))
        yield drift.verdict or INSUFFICIENT


@dataclass
class Tally:
    """How often each label got each verdict."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, label: str, verdict: str) -> None:
        self.counts[label, verdict] += 1

    def precision(self, verdict: str) -> float | None:
        """Share of those with that verdict that are labelled so; None where it was never given."""
        return self._share(verdict, 1)

    def recall(self, label: str) -> float | None:
        """Share of those labelled so that have that verdict; None where there is none."""
        return self._share(label, 0)

    def false_alarms(self) -> int:
        """Number of series that are called growing, but are not."""
        return sum(count for (label, verdict), count in self.counts.items() if verdict == GROWING != label)

    def missed(self) -> int:
        """Number of series that grow, but are not called growing."""
        return sum(count for (label, verdict), count in self.counts.items() if label == GROWING != verdict)

    def _share(self, name: str, which: int) -> float | None:
        of = sum(count for pair, count in self.counts.items() if pair[which] == name)
        return self.counts[name, name] / of if of else None
