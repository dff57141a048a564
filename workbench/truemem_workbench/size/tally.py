"""Counts what is seen at one memory size, wherever its invocations run. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..check.invocations import HOPELESS
from ..check.measurement import Measurement
from ..local.lifecycle.events import Report
from .choice import Trial


@dataclass(kw_only=True)
class Tally:
    """The invocations at one memory size, so far."""

    memory: int
    warm_up: int
    """Invocations whose durations do not count."""
    durations: list[float] = field(default_factory=list)
    init: float | None = None
    invocations: int = 0
    failures: int = 0
    killed: int = 0
    timeouts: int = 0
    error: str = ""
    mark: int = 0
    """The highest Max Memory Used, MiB."""

    @property
    def is_out(self) -> bool:
        """True if more invocations would say no more: it was killed, timed out, or has only failed."""
        hopeless = self.failures == self.invocations >= HOPELESS
        return bool(self.killed or self.timeouts) or hopeless

    def add(self, report: Report | None, error: str) -> None:
        """Count an invocation. `error` is empty if it did not fail. A later cold start warms up another environment."""
        self.invocations += 1
        if report is not None:
            self.mark = max(self.mark, report.max_memory_used_mib)
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
            others=max(((line.sidecar_holds or 0.0) + sum(line.extensions_hold.values()) for line in lines), default=0),
            finding=measurement.finding if lines else None,
        )
