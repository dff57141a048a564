"""Records and sends all output of the platform: events, log lines, reports."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...support.environment_ids import local_id
from ..configuration.settings import FUNCTION_VERSION, Settings
from ..errors import Failure
from . import events
from .delivery import Relay
from .events import Event, Report
from .generation import Generation
from .invocation import PendingInvocation


@dataclass(frozen=True)
class LogLine:
    """One line of the log. In Lambda it would be in the CloudWatch log stream."""

    source: str
    """`function`, `extension:NAME` or `platform`."""
    stream: Literal["stdout", "stderr"]
    text: str
    """The line without its newline."""
    time: float
    """Time of the line, in epoch seconds."""
    environment: str = ""
    """Id of the environment."""


@dataclass(frozen=True)
class EnvironmentChange:
    """What happened to an environment."""

    environment: str
    """The environment's id."""
    kind: Literal["started", "initialised", "reset", "ended"]
    """`reset`: its processes have ended, and its next invocation repeats the init."""
    time_s: float
    """When it changed, by the event loop's clock, in seconds."""
    reason: str = ""
    """Why it ended: `idle`, `age`, `tenant` (another one needs the place), `stopped`, or the text of an error. Of a
    reset: `timeout`, `out of memory`, `tenant`, or the error type."""
    init_ms: float | None = None
    """Duration of the init, if it is `initialised`."""


class Archive:
    """What all environments have put out, for other threads: lists only grow. With `keep` false they stay empty."""

    def __init__(
        self,
        on_line: Callable[[LogLine], None] | None = None,
        on_change: Callable[[EnvironmentChange], None] | None = None,
        *,
        keep: bool = True,
    ) -> None:
        self.events: list[Event] = []
        self.lines: list[LogLine] = []
        self.reports: list[Report] = []
        self._on_line = on_line
        self._on_change = on_change
        self._keep = keep

    def event(self, event: Event) -> None:
        if self._keep:
            self.events.append(event)

    def line(self, line: LogLine) -> None:
        if self._keep:
            self.lines.append(line)
        if self._on_line is not None:
            self._on_line(line)

    def report(self, report: Report) -> None:
        if self._keep:
            self.reports.append(report)

    def change(self, change: EnvironmentChange) -> None:
        if self._on_change is not None:
            self._on_change(change)


class EnvironmentJournal:
    """The output of one environment: events, lines, reports and changes."""

    def __init__(self, settings: Settings, environment: str, archive: Archive) -> None:
        """`environment` is its id."""
        self.environment = environment
        self.relay: Relay | None = None
        """Telemetry of the present processes. None between two generations: then no extension gets the events."""
        self.log_stream = time.strftime("%Y/%m/%d/[$LATEST]", time.gmtime()) + environment
        self.current: PendingInvocation | None = None
        self._settings = settings
        self._archive = archive
        self._epoch = time.time() - time.perf_counter()  # perf_counter's zero on the wall clock

    def emit(self, kind: str, record: dict[str, Any], line: str | None = None) -> None:
        """Emit a platform event. `line` is its line in the log, if it has one with the log format Text."""
        self.take(events.event(time.time(), kind, record), line)

    def take(self, event: Event, line: str | None = None) -> None:
        self._archive.event(event)
        if self._settings.log_format == "JSON":
            if events.level(event) >= logging.INFO:
                self.say(json.dumps(event))
        elif line is not None:
            self.say(line)
        if self.relay is not None and not self._lost(event):
            self.relay.offer(event)

    def _lost(self, event: Event) -> bool:
        """True for the report of a failed invocation with the fault `report-lost`, which happens on AWS too."""
        failed = event["type"] == "platform.report" and event["record"]["status"] != "success"
        return failed and self._settings.telemetry_fault == "report-lost"

    def renew(self) -> None:
        """Take the name of a new log stream: another environment begins here."""
        day, _, _ = self.log_stream.partition("]")
        self.log_stream = f"{day}]{local_id()}"

    def say(self, line: str) -> None:
        """Log a line of the platform."""
        self._write(LogLine("platform", "stdout", line, time.time(), self.environment))

    def output(self, source: str, stream: str, text: str) -> None:
        """Log a line that a process wrote, and send it to telemetry."""
        now = time.time()
        self._write(LogLine(source, "stderr" if stream == "stderr" else "stdout", text, now, self.environment))
        if self.relay is not None:
            self.relay.offer(events.event(now, source.partition(":")[0], text))

    def _write(self, line: LogLine) -> None:
        if self.current is not None:
            self.current.log.append(line.text)
        self._archive.line(line)

    def changed(
        self, kind: Literal["started", "initialised", "reset", "ended"], reason: str = "", init_s: float | None = None
    ) -> None:
        """Report a change of the environment's life."""
        now = asyncio.get_running_loop().time()
        self._archive.change(
            EnvironmentChange(self.environment, kind, now, reason, None if init_s is None else events.ms(init_s))
        )

    def reset(self, failure: Failure) -> None:
        """Report that a failure, or the change to another tenant, has ended the processes."""
        by_reason = {"timeout": "timeout", "spindown": "tenant"}
        by_type = {"Runtime.OutOfMemory": "out of memory"}
        error_type = by_type.get(failure.error_type, failure.error_type)
        self.changed("reset", by_reason.get(failure.reason, error_type))

    # --- what the platform tells, in the order of an environment's life ----------------------------------------------

    def init_started(self, phase: str, runtime: str | None) -> None:
        record = events.init_start(self._settings, phase, self.log_stream, runtime)
        line = f"INIT_START Runtime Version: {record.get('runtimeVersion', 'provided')}"
        self.emit("platform.initStart", record, line)

    def init_ended(self, generation: Generation, phase: str, failure: Failure | None, duration_s: float) -> None:
        """Emit the events of an ended init: no initRuntimeDone if an extension failed before the runtime's start."""
        if "runtime" in generation.processes:
            self.emit("platform.initRuntimeDone", events.init_runtime_done(self._settings, phase, failure))
        self.extensions_reported(generation)
        report = events.init_report(self._settings, phase, failure, duration_s)
        reported = failure is not None or self._settings.initialization != "on-demand"
        outcome = events.init_report_line(phase, failure, duration_s) if reported else None
        self.emit("platform.initReport", report, outcome)
        if failure is None:
            self.changed("initialised", init_s=duration_s)

    def restore_started(self, runtime: str | None) -> None:
        record = events.restore_start(self._settings, self.log_stream, runtime)
        line = f"RESTORE_START Runtime Version: {record.get('runtimeVersion', 'provided')}"
        self.emit("platform.restoreStart", record, line)

    def restore_ended(self, failure: Failure | None, duration_s: float) -> None:
        self.emit("platform.restoreRuntimeDone", events.restore_runtime_done(failure))
        line = events.restore_report_line(failure, duration_s)
        self.emit("platform.restoreReport", events.restore_report(failure, duration_s), line)

    def extensions_reported(self, generation: Generation) -> None:
        """Emit a platform.extension for each extension that registered or should have registered."""
        for each in generation.registry.all():
            record = events.extension(each.name, each.state.value, each.events, each.error_type)
            line = f"EXTENSION\tName: {each.name}\tState: {each.state.value}\tEvents: [{', '.join(each.events)}]"
            if each.error_type:
                line += f"\tError Type: {each.error_type}"
            self.emit("platform.extension", record, line)

    def invocation_started(self, pending: PendingInvocation) -> None:
        line = f"START RequestId: {pending.request_id} Version: {FUNCTION_VERSION}"
        record = events.start(pending.request_id, pending.tracing()) | pending.tenant()
        self.emit("platform.start", record, line)

    def runtime_done(self, pending: PendingInvocation, failure: Failure | None) -> float:
        """Emit platform.runtimeDone. Returns the time at which the runtime was done, by perf_counter."""
        ended = pending.moments.runtime_done or time.perf_counter()
        record = events.runtime_done(
            pending.request_id, failure, pending.moments, ended, self._epoch, pending.tracing()
        )
        self.emit("platform.runtimeDone", record | pending.tenant())
        return ended

    def extension_overhead(self, begin: float) -> dict[str, Any]:
        """The span from the runtime's end until now."""
        return events.span("extensionOverhead", begin, time.perf_counter(), self._epoch)

    def timed_out(self, pending: PendingInvocation, failure: Failure) -> None:
        self.say(f"{events.iso(time.time())} {pending.request_id} {failure.message}")

    def invocation_ended(self, pending: PendingInvocation, report: Report, spans: Sequence[dict[str, Any]]) -> None:
        self._archive.report(report)
        if self._settings.log_format == "Text":
            self.say(f"END RequestId: {pending.request_id}")
        self.emit("platform.report", report.record(spans, pending.tracing()) | pending.tenant(), report.line())
        pending.report.set_result(report)
