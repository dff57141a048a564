"""A finished record: what is known of one invocation under the names of its line (line_schema). Immutable.

Absent means unknown or not so: no nulls, no zeros for what was not measured. Sizes come in KiB and leave in MiB with
two decimals.
"""

from __future__ import annotations

import time

from ..config import EMF
from ..line_schema import CLOUDWATCH, METRICS, PROPERTIES, SCHEMA
from ..measure.window import current
from ..support.minijson import dumps
from ..support.named_tuple import NamedTuple
from ..support.numbers import mib
from ..verdict import GROWING
from .pending_record import NEXT_REQUEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..config import Config
    from ..measure.environment_memory import HeldMemory
    from ..measure.window import Peak, Window
    from .pending_record import PendingRecord

NOTHING: Mapping[str, object] = {}

VALUES = 100
"""Of one metric in one line, at most."""


def line(record: InvocationRecord, config: Config, columns: Mapping[str, object] = NOTHING) -> str:
    """The EMF document for one invocation, without a newline. `columns`: metrics with several values each, and what
    belongs to them; last, as Logs Insights finds the first 200 members of a line ("Supported logs and discovered
    fields").

    What the user fixed (dimensions, properties) never replaces what we measured. `FunctionName` alone is a set in any
    case: dashboards, alarms and `truemem metrics` look for it, and CloudWatch does not aggregate over dimensions.
    """
    named = [*record.metrics, *(name for name in columns if name in METRICS)]
    sets = [["FunctionName"], ["FunctionName", *config.dimensions]] if config.dimensions else [["FunctionName"]]
    metadata: dict[str, object] = {
        "_aws": {
            "Timestamp": record.time_ms,
            "CloudWatchMetrics": [
                {
                    "Namespace": config.namespace,
                    "Dimensions": sets,
                    "Metrics": [{"Name": name, "Unit": CLOUDWATCH[METRICS[name]]} for name in named],
                }
            ],
        }
    }
    made: dict[str, object] = {
        # What may have been written before must not make metrics again.
        **({} if "mayRepeat" in record.properties or EMF not in config.outputs else metadata),
        **config.properties,
        **config.dimensions,
        "FunctionName": config.function_name,
        **record.metrics,
        **record.properties,
        "level": config.level,
        "schema": SCHEMA,
    }
    made.update(columns)
    # Lambda takes a line without a timestamp for INFO, whatever its level says; and the time is also in `_aws`.
    if config.level != "INFO" or EMF not in config.outputs:
        made["timestamp"] = rfc3339(record.time_ms)
    return dumps(made)


def rfc3339(time_ms: int) -> str:
    """Epoch milliseconds as `2026-01-31T23:59:59.123Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ms // 1000)) + f".{time_ms % 1000:03d}Z"


class InvocationRecord(NamedTuple):
    """One invocation, as its line and the journal have it."""

    time_ms: int
    """Epoch milliseconds at which the invocation began."""
    metrics: Mapping[str, float]
    """By name, in the unit of its kind."""
    properties: Mapping[str, Any]
    """The other members by name: free, and queryable in Logs Insights."""
    slot: int | None = None
    """Where the journal has it until it is printed."""

    def having(self, **properties: Any) -> InvocationRecord:
        return self._replace(properties={**self.properties, **properties})


def finished(
    pending: PendingRecord,
    config: Config,
    environment_id: str,
    signals: Sequence[str] = (),
    drift: Mapping[str, object] | None = None,
    dropped: int = 0,
    added: Mapping[str, object] = NOTHING,
) -> InvocationRecord:
    """The record, of what is known by now. `signals`: that it ran out of memory; `drift`: the verdict on the
    environment's memory, where one is due; `dropped`: what was lost since the line before; `added`: members of
    wings, by name."""
    death, reported = pending.death, pending.reported
    members: dict[str, object] = {
        **_properties(pending, config, environment_id),
        **added,
        "drift": drift or None,
        "outOfMemory": {"signals": [*signals]} if signals else None,
        "environmentKills": pending.kills()[1] or None,
        "ending": (death.document() or None) if death is not None else None,
        "lastSamples": (pending.last_samples() or None) if death is not None else None,
        "reportMissing": (pending.measured is not None and not reported.report_came) or None,
        "dropped": dropped or None,
    }
    properties = {name: members[name] for name in PROPERTIES if members.get(name) is not None}
    return InvocationRecord(pending.time_ms, _metrics(pending, config, signals, drift), properties, pending.slot)


def _metrics(
    pending: PendingRecord, config: Config, signals: Sequence[str], drift: Mapping[str, object] | None
) -> dict[str, float]:
    values: dict[str, float] = {}
    if pending.peak is not None:
        values["PeakRSS"] = mib(pending.peak.estimate)
    held = current(pending.window) if pending.window is not None else 0
    if held:
        values["CurrentRSS"] = mib(held)
    if pending.reported.max_memory_used_mib is not None:
        values["MaxMemoryUsed"] = pending.reported.max_memory_used_mib
    if drift:
        growth = drift.get("perInvocationKiB")
        if isinstance(growth, float):
            values["MemoryDrift"] = growth
        if drift.get("verdict") == GROWING:
            values["MemoryGrowing"] = 1
    if config.cpu_metric and pending.cpu_ns is not None:
        values["CpuTime"] = _ms(pending.cpu_ns)
    if signals:
        values["OutOfMemory"] = 1
    return values


def _properties(pending: PendingRecord, config: Config, environment_id: str) -> dict[str, object]:
    """All but what was concluded; None for what the line leaves out."""
    window, peak, reported, passed = pending.window, pending.peak, pending.reported, pending.answer
    memory = pending.measured.memory if pending.measured is not None else None
    is_exact = window is not None and window.opening.exact and pending.closed_by == NEXT_REQUEST
    return {
        "requestId": pending.request_id,
        "environmentId": environment_id,
        "invocation": pending.invocation,
        "coldStart": pending.cold_start or None,
        "suppressedInit": pending.suppressed_init or None,
        "initializationType": pending.initialization_type or None,
        "functionVersion": config.function_version or None,
        "tenantId": reported.tenant_id,
        "status": reported.status,
        "errorType": reported.error_type,
        "durationMs": reported.duration_ms or None,
        **_cpu(pending, config),
        **(_bounds(peak) if peak is not None else {}),
        "sharedBy": pending.shared_by or None,
        "closedBy": pending.closed_by or None,
        "mode": "exact" if is_exact else None,
        "requestBytes": passed.request_bytes if passed is not None else None,
        "responseBytes": passed.response_bytes if passed is not None else None,
        "handlerError": (passed.failed or None) if passed is not None else None,
        "resetDelayUs": (window.reset_delay_us or None) if window is not None else None,
        "initPeakRSS": mib(pending.init_peak.estimate) if pending.init_peak is not None else None,
        "highWaterMark": mib(pending.high_water_mark) or None,
        "memoryLimit": config.memory_mib or None,
        **(
            _at_close(window, memory, is_shared=bool(pending.shared_by))
            if window is not None and peak is not None
            else {}
        ),
        "environment": _environment(memory),
    }


def _cpu(pending: PendingRecord, config: Config) -> dict[str, object]:
    """CPU time, and what the platform says of time beside the duration, which it bills rounded up to a ms."""
    reported, cpu_ns = pending.reported, pending.cpu_ns
    duration_ms, billed_ms = reported.duration_ms, reported.billed_ms
    is_usual = duration_ms is not None and billed_ms == -(-duration_ms // 1)
    members: dict[str, object] = {
        "billedDurationMs": None if is_usual else billed_ms,
        "initDurationMs": reported.init_ms,
        "restoreDurationMs": reported.restore_ms,
        "initCpuMs": None if pending.init_cpu_ns is None else _ms(pending.init_cpu_ns),
    }
    if cpu_ns is not None:
        members["cpuMs"] = _ms(cpu_ns)
        if duration_ms and config.memory_mib:
            members["cpuShare"] = round(_ms(cpu_ns) / duration_ms / config.cpu_share, 2)
    return members


def _ms(ns: int) -> float:
    return round(ns / 1e6, 2)


def _bounds(peak: Peak) -> dict[str, object]:
    lower, upper = mib(peak.lower) or None, mib(peak.upper) or None
    return {"method": peak.method, "peakLower": lower, "peakUpper": upper, "raced": peak.raced or None}


def _at_close(window: Window, memory: HeldMemory | None, is_shared: bool) -> dict[str, object]:
    closing = window.closing
    is_known = window.opening.settled() and not is_shared
    holders: dict[str, object] = {"function": mib(current(window))}
    if memory is not None:
        holders["truemem"] = mib(memory.sidecar)
        holders["extensions"] = {name: mib(rss) for name, rss in memory.extensions.items()}
    members: dict[str, object] = {
        "baselineRSS": mib(window.baseline) if is_known else None,
        "holders": {name: held for name, held in holders.items() if held},
    }
    if closing:
        members["rss"] = {
            "anon": mib(sum(status.anon for status in closing)),
            "file": mib(sum(status.file for status in closing)),
            "shmem": mib(sum(status.shmem for status in closing)),
        }
        members["processes"] = len(closing)
        members["threads"] = sum(status.threads for status in closing)
    return members


def _environment(memory: HeldMemory | None) -> dict[str, object] | None:
    if memory is None or memory.environment is None:
        return None
    usage = memory.environment
    used = mib(usage.used) if memory.function_lived else None
    peak = mib(usage.peak) if usage.peak is not None else None
    members = {"source": usage.source, "used": used, "peak": peak}
    return {name: value for name, value in members.items() if value is not None}
