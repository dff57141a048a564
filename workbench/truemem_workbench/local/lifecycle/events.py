"""Makes the platform's events, and its lines in the log. Pure.

Fields are those of the Telemetry API's schema reference. As in AWS's code, `errorType` is beside `status`.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ...support.untrusted_text import loads
from ..configuration.settings import FUNCTION_VERSION, Settings
from ..errors import Failure
from ..processes.memory import MiB

Event = dict[str, Any]  # an event of the Telemetry API: `{"time", "type", "record"}`


FAILED_STATES = ("Started", "InitError", "ExitError", "LaunchError")
"""States of an extension that has failed by the end of init."""


_COMPACT = json.JSONEncoder(separators=(",", ":"))


def compact(document: object) -> bytes:
    """Make JSON without spaces. `json.dumps` would make an encoder each time."""
    return _COMPACT.encode(document).encode()


def iso(epoch_s: float) -> str:
    """Format a time as ISO 8601, UTC, with milliseconds."""
    return datetime.fromtimestamp(epoch_s, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def event(epoch_s: float, kind: str, record: object) -> Event:
    return {"time": iso(epoch_s), "type": kind, "record": record}


@dataclass(frozen=True)
class Report:
    """The figures of a REPORT line. Memory in MiB (AWS writes MB), durations in milliseconds."""

    request_id: str
    status: str
    """`success`, `error`, `failure` or `timeout`. If the handler raises it is still `success`, as in AWS's code."""
    error_type: str | None
    duration_ms: float
    """Duration of the invocation, extensions included."""
    billed_duration_ms: int
    """Duration rounded up, with the init phase, as for every function since August 2025."""
    memory_size_mib: int
    max_memory_used_mib: int
    """High-water mark of the environment, not of the invocation, rounded up."""
    init_duration_ms: float | None
    """Duration of init, on the first invocation after an init on demand."""
    restore_duration_ms: float | None = None
    """Duration of the restore, on the first invocation after a SnapStart restore."""

    def line(self) -> str:
        parts = [
            f"REPORT RequestId: {self.request_id}",
            f"Duration: {self.duration_ms:.2f} ms",
            f"Billed Duration: {self.billed_duration_ms} ms",
            f"Memory Size: {self.memory_size_mib} MB",
            f"Max Memory Used: {self.max_memory_used_mib} MB",
        ]
        if self.init_duration_ms is not None:
            parts.append(f"Init Duration: {self.init_duration_ms:.2f} ms")
        if self.restore_duration_ms is not None:
            parts.append(f"Restore Duration: {self.restore_duration_ms:.2f} ms")
            parts.append(f"Billed Restore Duration: {math.ceil(self.restore_duration_ms)} ms")
        if self.status != "success":
            parts.append(f"Status: {self.status}")
        if self.error_type:
            parts.append(f"Error Type: {self.error_type}")
        return "\t".join(parts)

    def record(self, spans: Sequence[Mapping[str, Any]], tracing: Mapping[str, str]) -> dict[str, Any]:
        """The record of `platform.report`."""
        metrics: dict[str, Any] = {
            "durationMs": self.duration_ms,
            "billedDurationMs": self.billed_duration_ms,
            "memorySizeMB": self.memory_size_mib,
            "maxMemoryUsedMB": self.max_memory_used_mib,
        }
        if self.init_duration_ms is not None:
            metrics["initDurationMs"] = self.init_duration_ms
        if self.restore_duration_ms is not None:
            metrics["restoreDurationMs"] = self.restore_duration_ms
        record = {"requestId": self.request_id, **_status(self.status, self.error_type), "metrics": metrics}
        return record | _optional(spans=list(spans), tracing=tracing)


_METRICS = {
    "Duration": "durationMs",
    "Billed Duration": "billedDurationMs",
    "Memory Size": "memorySizeMB",
    "Max Memory Used": "maxMemoryUsedMB",
    "Init Duration": "initDurationMs",
    "Restore Duration": "restoreDurationMs",
}


def parse_report(text: str) -> Report | None:
    """The figures of a REPORT line, in Lambda's text format or its JSON format. None if the line is another one."""
    try:
        record = _record_of(text) if text.startswith("REPORT ") else loads(text)["record"]
        metrics = record["metrics"]
        return Report(
            request_id=record["requestId"],
            status=record.get("status") or "success",
            error_type=record.get("errorType"),
            duration_ms=metrics["durationMs"],
            billed_duration_ms=math.ceil(metrics["billedDurationMs"]),
            memory_size_mib=int(metrics["memorySizeMB"]),
            max_memory_used_mib=int(metrics["maxMemoryUsedMB"]),
            init_duration_ms=metrics.get("initDurationMs"),
            restore_duration_ms=metrics.get("restoreDurationMs"),
        )
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None


def _record_of(line: str) -> dict[str, Any]:
    """What `platform.report` would have in its record."""
    said = dict(part.split(": ", 1) for part in line.strip().split("\t"))
    metrics = {_METRICS[name]: float(value.split()[0]) for name, value in said.items() if name in _METRICS}
    names = {"requestId": "REPORT RequestId", "status": "Status", "errorType": "Error Type"}
    return {**{key: said.get(name) for key, name in names.items()}, "metrics": metrics}


def make_report(
    request_id: str,
    failure: Failure | None,
    duration_s: float,
    init_s: float | None,
    memory_mib: int,
    mark_bytes: int,
    restore_s: float | None = None,
) -> Report:
    """Make a report. The mark is at most the memory size: that is how a REPORT line shows an OOM."""
    duration_ms = ms(duration_s)
    init_ms = None if init_s is None else ms(init_s)
    return Report(
        request_id=request_id,
        status=failure.status if failure else "success",
        error_type=error_type_of(failure),
        duration_ms=duration_ms,
        billed_duration_ms=math.ceil(duration_ms + (init_ms or 0)),
        memory_size_mib=memory_mib,
        max_memory_used_mib=min(memory_mib, math.ceil(mark_bytes / MiB)),
        init_duration_ms=init_ms,
        restore_duration_ms=None if restore_s is None else ms(restore_s),
    )


def level(of: Event) -> int:
    """Log level of an event with the log format JSON. Telemetry delivers events of all levels."""
    kind, record = of["type"].removeprefix("platform."), of["record"]
    if kind in ("initStart", "restoreStart"):
        return logging.INFO if "runtimeVersion" in record else logging.DEBUG
    if kind == "logsDropped" or record.get("status", "success") != "success" or record.get("state") in FAILED_STATES:
        return logging.WARNING
    if kind in ("initRuntimeDone", "restoreRuntimeDone", "runtimeDone"):
        return logging.DEBUG
    if kind == "initReport" and record["initializationType"] == "on-demand":
        return logging.DEBUG
    return logging.INFO


def init_start(settings: Settings, phase: str, log_stream: str, runtime: str | None) -> dict[str, Any]:
    """The record of initStart. Only its `instanceId` has the log stream's name; `instanceMaxMemory` is in bytes."""
    return _initialization(settings, phase) | restore_start(settings, log_stream, runtime)


def restore_start(settings: Settings, log_stream: str, runtime: str | None) -> dict[str, Any]:
    record = {
        "functionName": settings.name,
        "functionVersion": FUNCTION_VERSION,
        "instanceId": log_stream,
        "instanceMaxMemory": settings.memory_mib * MiB,
    }
    # Absent for a bootstrap, as for container images.
    return record | _optional(runtimeVersion=runtime and runtime.replace("python", "python:"))


def init_runtime_done(settings: Settings, phase: str, failure: Failure | None) -> dict[str, Any]:
    return _initialization(settings, phase) | restore_runtime_done(failure)


def init_report(settings: Settings, phase: str, failure: Failure | None, duration_s: float) -> dict[str, Any]:
    return _initialization(settings, phase) | _outcome(failure) | {"metrics": {"durationMs": ms(duration_s)}}


def _initialization(settings: Settings, phase: str) -> dict[str, Any]:
    return {"initializationType": settings.initialization_type, "phase": phase}


def restore_runtime_done(failure: Failure | None) -> dict[str, Any]:
    """The record of restoreRuntimeDone, and a part of initRuntimeDone. To AWS's code a timeout is an unknown error."""
    if failure is not None and failure.reason == "timeout":
        return _status("error", "Runtime.Unknown")
    return _outcome(failure)


def restore_report(failure: Failure | None, duration_s: float) -> dict[str, Any]:
    return _outcome(failure) | {"metrics": {"durationMs": ms(duration_s)}}


def init_report_line(phase: str, failure: Failure | None, duration_s: float) -> str:
    """The line INIT_REPORT. Lambda writes it if init failed, and always for provisioned concurrency and SnapStart."""
    return f"INIT_REPORT Init Duration: {ms(duration_s):.2f} ms\tPhase: {phase}{_status_text(failure)}"


def restore_report_line(failure: Failure | None, duration_s: float) -> str:
    return f"RESTORE_REPORT Restore Duration: {ms(duration_s):.2f} ms{_status_text(failure)}"


def _status_text(failure: Failure | None) -> str:
    outcome = _outcome(failure)
    error = f"\tError Type: {outcome['errorType']}" if "errorType" in outcome else ""
    return f"\tStatus: {outcome['status']}{error}"


def extension(name: str, state: str, events: Sequence[str], error_type: str | None) -> dict[str, Any]:
    return {"name": name, "state": state, "events": list(events)} | _optional(errorType=error_type)


def telemetry_subscription(name: str, types: Sequence[str]) -> dict[str, Any]:
    return {"name": name, "state": "Subscribed", "types": list(types)}


def logs_dropped(records: int, size: int, reason: str) -> dict[str, Any]:
    return {"droppedRecords": records, "droppedBytes": size, "reason": reason}


def start(request_id: str, tracing: Mapping[str, str]) -> dict[str, Any]:
    return {"requestId": request_id, "version": FUNCTION_VERSION} | _optional(tracing=tracing)


@dataclass
class Moments:
    """Times of an invocation in `time.perf_counter` seconds; None for what did not happen."""

    released: float
    response_began: float | None = None
    response_sent: float | None = None
    runtime_done: float | None = None
    produced_bytes: int = 0

    def spans(self, epoch: float) -> list[dict[str, Any]]:
        """The spans responseLatency, responseDuration, runtimeOverhead. `epoch`: the wall-clock time of perf_counter
        0."""
        if self.response_began is None or self.response_sent is None:
            return []
        found = [
            span("responseLatency", self.released, self.response_began, epoch),
            span("responseDuration", self.response_began, self.response_sent, epoch),
        ]
        if self.runtime_done is not None:
            found.append(span("runtimeOverhead", self.response_sent, self.runtime_done, epoch))
        return found


def span(name: str, begin: float, end: float, epoch: float) -> dict[str, Any]:
    return {"name": name, "start": iso(epoch + begin), "durationMs": ms(end - begin)}


def runtime_done(
    request_id: str,
    failure: Failure | None,
    moments: Moments,
    ended: float,
    epoch: float,
    tracing: Mapping[str, str],
) -> dict[str, Any]:
    record = {"requestId": request_id} | _outcome(failure)
    metrics = {"durationMs": ms(ended - moments.released), "producedBytes": moments.produced_bytes}
    return record | {"metrics": metrics} | _optional(spans=moments.spans(epoch), tracing=tracing)


def ms(seconds: float) -> float:
    """Convert seconds to milliseconds with three decimals, as AWS prints durations."""
    return round(seconds * 1000, 3)


def error_type_of(failure: Failure | None) -> str | None:
    """The error type in events. A timeout has none (RIE handleReset)."""
    return None if failure is None or failure.reason == "timeout" else failure.error_type


def _outcome(failure: Failure | None) -> dict[str, Any]:
    return _status(failure.status if failure else "success", error_type_of(failure))


def _status(status: str, error_type: str | None) -> dict[str, Any]:
    return {"status": status} | _optional(errorType=error_type)


def _optional(**members: object) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
