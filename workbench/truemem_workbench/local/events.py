"""The platform's events, and the lines that it writes to the log. Pure.

Fields are those of the Telemetry API's schema reference; `errorType` beside `status`, as AWS's code has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .errors import Failure
from .memory import MiB
from .settings import Settings
from .variables import VERSION

Event = dict[str, Any]
"""`{"time", "type", "record"}`."""

INITIALIZATION = {"initializationType": "on-demand"}


def iso(epoch_s: float) -> str:
    """ISO 8601, UTC, milliseconds."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def event(epoch_s: float, kind: str, record: object) -> Event:
    return {"time": iso(epoch_s), "type": kind, "record": record}


@dataclass(frozen=True)
class Report:
    """What a REPORT line says. Memory in MiB (AWS writes MB), durations in milliseconds."""

    request_id: str
    status: str
    """`success`, `error`, `failure`, `timeout`. An exception in the handler is a success here, as in AWS's code."""
    error_type: str | None
    duration_ms: float
    """Runtime and extensions together."""
    billed_duration_ms: int
    """Rounded up; with the init phase, as for every function since August 2025."""
    memory_size_mib: int
    max_memory_used_mib: int
    """The high-water mark of the environment, not of the invocation. Rounded up."""
    init_duration_ms: float | None
    """On the first invocation after an init phase of its own."""

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
        if self.status != "success":
            parts.append(f"Status: {self.status}")
        if self.error_type:
            parts.append(f"Error Type: {self.error_type}")
        return "\t".join(parts)

    def record(self, spans: Sequence[Mapping[str, Any]], tracing: Mapping[str, str]) -> dict[str, Any]:
        """Of `platform.report`."""
        metrics: dict[str, Any] = {
            "durationMs": self.duration_ms,
            "billedDurationMs": self.billed_duration_ms,
            "memorySizeMB": self.memory_size_mib,
            "maxMemoryUsedMB": self.max_memory_used_mib,
        }
        if self.init_duration_ms is not None:
            metrics["initDurationMs"] = self.init_duration_ms
        record = {"requestId": self.request_id, **_status(self.status, self.error_type), "metrics": metrics}
        return record | _optional(spans=list(spans), tracing=tracing)


def make_report(
    request_id: str,
    failure: Failure | None,
    duration_s: float,
    init_s: float | None,
    memory_mib: int,
    mark_bytes: int,
) -> Report:
    """At the limit the mark equals the size: that is how an OOM looks in a REPORT line."""
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
    )


def init_start(settings: Settings, phase: str, log_stream: str, runtime: str | None) -> dict[str, Any]:
    """`instanceId` is the log stream's name, which extensions read nowhere else; `instanceMaxMemory` is in bytes."""
    record = INITIALIZATION | {
        "phase": phase,
        "functionName": settings.name,
        "functionVersion": VERSION,
        "instanceId": log_stream,
        "instanceMaxMemory": settings.memory_mib * MiB,
    }
    # Absent for a bootstrap, as for container images.
    return record | _optional(runtimeVersion=runtime and runtime.replace("python", "python:"))


def init_runtime_done(phase: str, failure: Failure | None) -> dict[str, Any]:
    return INITIALIZATION | {"phase": phase} | _outcome(failure)


def init_report(phase: str, failure: Failure | None, duration_s: float) -> dict[str, Any]:
    return INITIALIZATION | {"phase": phase} | _outcome(failure) | {"metrics": {"durationMs": ms(duration_s)}}


def init_report_line(phase: str, failure: Failure, duration_s: float) -> str:
    """Lambda writes INIT_REPORT only when init failed."""
    outcome = _outcome(failure)
    error = f"\tError Type: {outcome['errorType']}" if "errorType" in outcome else ""
    return f"INIT_REPORT Init Duration: {ms(duration_s):.2f} ms\tPhase: {phase}\tStatus: {outcome['status']}{error}"


def extension(name: str, state: str, events: Sequence[str], error_type: str | None) -> dict[str, Any]:
    return {"name": name, "state": state, "events": list(events)} | _optional(errorType=error_type)


def telemetry_subscription(name: str, types: Sequence[str]) -> dict[str, Any]:
    return {"name": name, "state": "Subscribed", "types": list(types)}


def logs_dropped(records: int, size: int, reason: str) -> dict[str, Any]:
    return {"droppedRecords": records, "droppedBytes": size, "reason": reason}


def start(request_id: str, tracing: Mapping[str, str]) -> dict[str, Any]:
    return {"requestId": request_id, "version": VERSION} | _optional(tracing=tracing)


@dataclass
class Moments:
    """When what happened in an invocation: `time.perf_counter` seconds, None for what did not happen."""

    released: float
    response_began: float | None = None
    response_sent: float | None = None
    runtime_done: float | None = None
    produced_bytes: int = 0

    def spans(self, epoch: float) -> list[dict[str, Any]]:
        """responseLatency, responseDuration, runtimeOverhead. `epoch` is what perf_counter 0 is on the wall clock."""
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
    """Milliseconds with three decimals, as AWS prints durations."""
    return round(seconds * 1000, 3)


def error_type_of(failure: Failure | None) -> str | None:
    """A timeout has a status and no error type (RIE handleReset)."""
    return None if failure is None or failure.reason == "timeout" else failure.error_type


def _outcome(failure: Failure | None) -> dict[str, Any]:
    return _status(failure.status if failure else "success", error_type_of(failure))


def _status(status: str, error_type: str | None) -> dict[str, Any]:
    return {"status": status} | _optional(errorType=error_type)


def _optional(**members: object) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}
