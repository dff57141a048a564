"""Counts what is seen at one memory size, wherever its invocations run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..local.lifecycle.events import Report
from ..runs.measurement import Measurement
from ..runs.passes import HOPELESS
from .choice import Trial

LEAST_MARKS = 8
"""Invocations from which on a rise from quarter to quarter is more than chance."""


@dataclass(kw_only=True)
class Tally:
    """The invocations at one memory size, so far."""

    memory: int
    warm_up: int
    """Invocations whose durations do not count."""
    looks: int = 0
    """Those of them that looked for the peak, in an environment of their own."""
    durations: list[float] = field(default_factory=list)
    init: float | None = None
    invocations: int = 0
    failures: int = 0
    killed: int = 0
    timeouts: int = 0
    error: str = ""
    marks: list[int] = field(default_factory=list)
    """Max Memory Used of each invocation that has a report, MiB."""

    @property
    def is_out(self) -> bool:
        """True if more invocations would say no more: it was killed, timed out, or has only failed."""
        hopeless = self.failures == self.invocations >= HOPELESS
        return bool(self.killed or self.timeouts) or hopeless

    def add(self, report: Report | None, error: str) -> None:
        """Count an invocation. `error` is empty if it did not fail. A later cold start warms up another environment."""
        self.invocations += 1
        if report is not None:
            self.marks.append(report.max_memory_used_mib)
            if self.invocations == 1:
                self.init = report.init_duration_ms
        if error:
            self.failures += 1
            self.killed += report is not None and report.error_type == "Runtime.OutOfMemory"
            self.timeouts += report is not None and report.status == "timeout"
            self.error = error
            return
        if report is None or self.invocations <= self.warm_up:
            return
        if report.init_duration_ms is None or not self.warm_up:
            self.durations.append(report.duration_ms)

    @property
    def is_broken(self) -> bool:
        """True if all invocations failed, and none for memory or time, of which another size may have more."""
        return self.failures == self.invocations and not self.killed and not self.timeouts

    def trial(self, measurement: Measurement) -> Trial:
        """What was seen, with what the sidecar's lines say."""
        lines = [each.line for each in measurement.seen]
        needs = [line.peak_rss if line.peak_upper is None else line.peak_upper for line in lines]
        needs += [line.init_peak_rss for line in lines]
        return Trial(
            memory=self.memory,
            durations=self.durations,
            init=self.init,
            invocations=self.invocations,
            failures=self.failures,
            killed=max(self.killed, len(measurement.out_of_memory)),
            timeouts=self.timeouts,
            error=self.error,
            peak=max((need for need in needs if need is not None), default=None),
            current=measurement.usual_current,
            rise=self._rise(),
            is_rising=_is_rising(self.marks[self.warm_up :]),
            others=max(((line.sidecar_holds or 0.0) + sum(line.extensions_hold.values()) for line in lines), default=0),
            finding=measurement.finding if lines or (self.is_broken and measurement.failures) else None,
        )

    def _rise(self) -> float:
        """How much Max Memory Used rose after as many timed invocations as have looked for the peak, MiB."""
        timed = self.marks[self.looks :]
        return float(max(timed) - max(timed[: self.looks])) if self.looks and timed else 0.0


def _is_rising(marks: Sequence[int]) -> bool:
    """True if each quarter of them has a higher one than the quarter before."""
    ends = [len(marks) * quarter // 4 for quarter in range(5)]
    if len(marks) < LEAST_MARKS:
        return False
    highest = [max(marks[begin:end]) for begin, end in pairwise(ends)]
    return all(before < after for before, after in pairwise(highest))
