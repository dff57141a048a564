"""Output of the platform on Managed Instances: start and report of each request, no runtimeDone, no memory figures.

The fields are those of AWS's code (RIE internal/lambda-managed-instances: interop/events_api.go, invoke/metrics.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Failure
from ..lifecycle.journal import Journal, LogLine
from ..state.generation import Generation
from ..state.invocation import Pending
from ..telemetry import events
from ..telemetry.events import Report

AS_JSON = ""
"""Line of an event in the log. It is not used: here the log format is always JSON, so the line is the event itself."""


@dataclass(frozen=True)
class ManagedReport(Report):
    """The report of one request. Only this machine has its memory fields: telemetry and log of Managed Instances have
    none.

    `billed_duration_ms` is 0: instances are billed, not requests.
    """

    def record(self, spans: Sequence[Mapping[str, Any]], tracing: Mapping[str, str]) -> dict[str, Any]:
        record: dict[str, Any] = {"requestId": self.request_id, "status": self.status}
        if self.error_type:
            record["errorType"] = self.error_type
        record["metrics"] = {"durationMs": self.duration_ms}
        if spans:
            record["spans"] = list(spans)
        return record | {"tracing": dict(tracing)}


def make_report(pending: Pending, failure: Failure | None, ended: float, memory_mib: int, mark_bytes: int) -> Report:
    """Make a report. `ended`, by perf_counter: when the response was sent or the request was given up."""
    made = events.make_report(
        pending.request_id, failure, ended - pending.moments.released, None, memory_mib, mark_bytes
    )
    return ManagedReport(
        request_id=made.request_id,
        status=made.status,
        error_type=failure.error_type if failure else None,  # a timeout has one here: Sandbox.Timedout
        duration_ms=made.duration_ms,
        billed_duration_ms=0,
        memory_size_mib=made.memory_size_mib,
        max_memory_used_mib=made.max_memory_used_mib,
        init_duration_ms=None,
    )


class ManagedJournal(Journal):
    """The output of an environment that runs several requests at once: a line belongs to the request that it names."""

    running: Iterable[Pending] = ()

    def _write(self, line: LogLine) -> None:
        super()._write(line)
        for pending in self.running:
            if pending.request_id in line.text:
                pending.log.append(line.text)

    def runtime_initialised(self, failure: Failure | None) -> None:
        """Emit initRuntimeDone: at the first `next` of a worker, or when the runtime died before it."""
        self.emit("platform.initRuntimeDone", events.init_runtime_done(self._settings, "init", failure))

    def init_ended(self, generation: Generation, phase: str, failure: Failure | None, duration_s: float) -> None:
        """Emit the last events of init. Here a timeout has an error type, so the initReport has it too."""
        self.extensions_told(generation)
        report = events.init_report(self._settings, phase, failure, duration_s)
        if failure is not None:
            report["errorType"] = failure.error_type
        self.emit("platform.initReport", report, AS_JSON)

    def invocation_started(self, pending: Pending) -> None:
        record = events.start(pending.request_id, pending.tracing()) | {"functionArn": pending.arn}
        self.emit("platform.start", record, AS_JSON)

    def invocation_ended(self, pending: Pending, report: Report, spans: Sequence[dict[str, Any]] = ()) -> None:
        self.reports.append(report)
        record = report.record(spans or pending.moments.spans(self._epoch), pending.tracing())
        self.emit("platform.report", record, AS_JSON)
        pending.report.set_result(report)
