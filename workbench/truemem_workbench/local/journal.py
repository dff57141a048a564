"""Everything that is told: platform events, log lines, reports; and to whom."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import events
from .errors import Failure
from .events import Event, Report
from .generation import Generation
from .invocation import Pending
from .settings import Settings
from .telemetry_delivery import Relay
from .variables import VERSION


@dataclass(frozen=True)
class LogLine:
    """One line of what would be the CloudWatch log stream."""

    source: str
    """`function`, `extension:NAME` or `platform`."""
    stream: Literal["stdout", "stderr"]
    text: str
    """Without its newline."""
    time: float
    """Epoch seconds."""


class Journal:
    """Lists only grow; they are read from other threads."""

    def __init__(self, settings: Settings, log_stream: str, on_line: Callable[[LogLine], None] | None) -> None:
        self.events: list[Event] = []
        self.lines: list[LogLine] = []
        self.reports: list[Report] = []
        self.relay: Relay | None = None
        """Of the present generation; None in between: what is told then, no extension hears."""
        self.log_stream = log_stream
        self.current: Pending | None = None
        self._settings = settings
        self._on_line = on_line
        self._epoch = time.time() - time.perf_counter()  # perf_counter's zero on the wall clock

    def emit(self, kind: str, record: dict[str, Any], line: str | None = None) -> None:
        """A platform event, and the line that the log gets for it, if any."""
        self.take(events.event(time.time(), kind, record), line)

    def take(self, event: Event, line: str | None = None) -> None:
        self.events.append(event)
        if line is not None:
            self.say(json.dumps(event) if self._settings.log_format == "JSON" else line)
        if self.relay is not None:
            self.relay.offer(event)

    def say(self, line: str) -> None:
        """A line of the platform."""
        self._write(LogLine("platform", "stdout", line, time.time()))

    def output(self, source: str, stream: str, text: str) -> None:
        """A line that a process wrote."""
        now = time.time()
        self._write(LogLine(source, "stderr" if stream == "stderr" else "stdout", text, now))
        if self.relay is not None:
            self.relay.offer(events.event(now, source.partition(":")[0], text))

    def _write(self, line: LogLine) -> None:
        self.lines.append(line)
        if self.current is not None:
            self.current.log.append(line.text)
        if self._on_line is not None:
            self._on_line(line)

    # --- what the platform tells, in the order of an environment's life ----------------------------------------------

    def init_started(self, phase: str, runtime: str | None) -> None:
        record = events.init_start(self._settings, phase, self.log_stream, runtime)
        self.emit("platform.initStart", record, f"INIT_START Runtime Version: {runtime or 'provided'}")

    def init_ended(self, generation: Generation, phase: str, failure: Failure | None, duration_s: float) -> None:
        """initRuntimeDone is not told where an extension failed before the runtime was started."""
        if "runtime" in generation.processes:
            self.emit("platform.initRuntimeDone", events.init_runtime_done(phase, failure))
        for each in generation.registry.all():
            record = events.extension(each.name, each.state.value, each.events, each.error_type)
            line = f"EXTENSION\tName: {each.name}\tState: {each.state.value}\tEvents: [{', '.join(each.events)}]"
            self.emit("platform.extension", record, line)
        report = events.init_report(phase, failure, duration_s)
        outcome = events.init_report_line(phase, failure, duration_s) if failure else None
        self.emit("platform.initReport", report, outcome)

    def invocation_started(self, pending: Pending) -> None:
        line = f"START RequestId: {pending.request_id} Version: {VERSION}"
        self.emit("platform.start", events.start(pending.request_id, pending.tracing()), line)

    def runtime_done(self, pending: Pending, failure: Failure | None) -> float:
        """Returns when the runtime was done, by perf_counter."""
        ended = pending.moments.runtime_done or time.perf_counter()
        record = events.runtime_done(
            pending.request_id, failure, pending.moments, ended, self._epoch, pending.tracing()
        )
        self.emit("platform.runtimeDone", record)
        return ended

    def extension_overhead(self, begin: float) -> dict[str, Any]:
        """The span from the runtime's end until now."""
        return events.span("extensionOverhead", begin, time.perf_counter(), self._epoch)

    def timed_out(self, pending: Pending, failure: Failure) -> None:
        self.say(f"{events.iso(time.time())} {pending.request_id} {failure.message}")

    def invocation_ended(self, pending: Pending, report: Report, spans: Sequence[dict[str, Any]]) -> None:
        self.reports.append(report)
        self.say(f"END RequestId: {pending.request_id}")
        self.emit("platform.report", report.record(spans, pending.tracing()), report.line())
        pending.report.set_result(report)
