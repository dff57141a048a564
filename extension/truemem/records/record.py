"""A finished record: what is known of one invocation under the names of its line (line_schema). Immutable.

Absent means unknown or not so: no nulls, no zeros for what was not measured. Sizes come in KiB and leave in MiB with
two decimals.
"""

from __future__ import annotations

import time

from ..config import ALWAYS, EMF
from ..line_schema import CLOUDWATCH, FULL, METRICS, PROPERTIES, SHORT, SMALL_BYTES
from ..measure.window import KERNEL_SLACK_KIB, current
from ..support.minijson import dumps
from ..support.named_tuple import NamedTuple
from ..support.numbers import mib, ms
from ..verdict import GROWING
from .pending_record import NEXT_INVOKE, NEXT_REQUEST, SUCCESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..config import Config
    from ..measure.environment_memory import HeldMemory
    from ..measure.window import Peak, Window
    from .pending_record import PendingRecord

NO_MEMBERS: Mapping[str, object] = {}

VALUES = 100
"""Most values of one metric in one line."""


def line(
    record: InvocationRecord, config: Config, columns: Mapping[str, object] = NO_MEMBERS, *, is_short: bool = False
) -> str:
    """The EMF document for one invocation, without a newline. `columns`: metrics with several values each, and what
    belongs to them; last, as Logs Insights finds the first 200 members of a line ("Supported logs and discovered
    fields"). `is_short`: leave out what ShortLines allows.

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
        **(_shortened(record) if is_short else record.properties),
        **({} if is_short and config.level == "INFO" else {"level": config.level}),
        "schema": SHORT if is_short else FULL,
    }
    made.update(columns)
    # Lambda takes a line without a timestamp for INFO, whatever its level says; and the time is also in `_aws`.
    if config.level != "INFO" or EMF not in config.outputs:
        made["timestamp"] = rfc3339(record.time_ms)
    return dumps(made)


def rfc3339(time_ms: int) -> str:
    """Epoch milliseconds as `2026-01-31T23:59:59.123Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time_ms // 1000)) + f".{time_ms % 1000:03d}Z"


EXTRAORDINARY = frozenset(
    (
        *("recovered", "coldStart", "suppressedInit", "initPeakRSS", "initDurationMs", "restoreDurationMs"),
        *("handlerError", "errorType", "outOfMemory", "environmentKills", "ending", "lastSamples", "dropped"),
        "growthProfile",
    )
)
"""Members of a record that needs attention: its line is full, and its own."""
NOT_SHORT = EXTRAORDINARY | {"sharedBy", "reportMissing", "drift"}
"""Members that no short line has."""
NEEDED_METRICS = frozenset(("PeakRSS", "CurrentRSS"))
NEEDED_PROPERTIES = frozenset(("durationMs", "peakLower", "peakUpper", "rss", "processes", "threads"))
"""Members that its record must have: where they are not on the line, they are known all the same."""
KNOWN_IN_EXACT_MODE = frozenset(("baselineRSS", "requestBytes", "responseBytes"))
FULL_EVERY = 16
"""Each invocation whose number is a multiple of this has a full line, as it may have a verdict on the memory; and so
have 1, 2, 4 and 8, for environments of a short life."""
SLACK_MIB = KERNEL_SLACK_KIB / 1024
RISE_MIB = 1.0
"""A line is full if the sidecar and the other extensions hold so much more than on any full one before."""


class ShortLines:
    """Decides which lines of an environment are short: those of ordinary invocations, of which all that is left out is
    known or is said by the full lines between them."""

    def __init__(self, config: Config) -> None:
        self._never = config.detail == ALWAYS
        self._held_mib = 0.0
        """Most that sidecar and extensions held by a full line."""

    def end(self) -> None:
        """Note that the next line is the environment's last one."""
        self._never = True

    def take(self, record: InvocationRecord) -> bool:
        """Is this record's line short?"""
        if "recovered" in record.properties:  # its figures are those of a file that the function can write
            return False
        holders = record.properties.get("holders", NO_MEMBERS)
        held_mib = holders.get("truemem", 0.0) + sum(holders.get("extensions", NO_MEMBERS).values())
        is_short = not self._never and held_mib < self._held_mib + RISE_MIB and _can_be_short(record)
        if not is_short:
            self._held_mib = max(self._held_mib, held_mib)
        return is_short


def _can_be_short(record: InvocationRecord) -> bool:
    members = record.properties
    is_exact = "mode" in members
    return (
        not _is_due(members["invocation"])
        and not members.keys() & NOT_SHORT
        and members.keys() >= NEEDED_PROPERTIES
        and members.get("status") == SUCCESS
        and members.get("closedBy") == (NEXT_REQUEST if is_exact else NEXT_INVOKE)
        and (not is_exact or members.keys() >= KNOWN_IN_EXACT_MODE)
        and record.metrics.keys() >= NEEDED_METRICS
    )


def _is_due(invocation: int) -> bool:
    return invocation % FULL_EVERY == 0 or (invocation < FULL_EVERY and not invocation & (invocation - 1))


NOT_SAID = ("status", "closedBy", "cpuShare", "holders", "environment", "highWaterMark", "resetDelayUs")
"""Members that a short line never has: they follow from the others, or only full lines say them."""
HEAP_NOT_SAID = ("gc", "threads")
"""Members of `heap` that a short line does not say."""


def _shortened(record: InvocationRecord) -> dict[str, object]:
    """The properties of a short line. `truemem_workbench.printed.document.completed` is the inverse."""
    members, metrics = record.properties, record.metrics
    made = {name: value for name, value in members.items() if name not in NOT_SAID}
    if members["peakUpper"] - members["peakLower"] <= SLACK_MIB:
        del made["peakLower"], made["peakUpper"]
    if members["threads"] == members["processes"]:
        del made["threads"]
    if members["processes"] == 1:
        del made["processes"]
    if members.get("functionVersion") == members["environmentId"].partition("[")[2].partition("]")[0]:
        del made["functionVersion"]
    made["rss"] = {name: mib for name, mib in members["rss"].items() if name != "anon" and (mib or name == "file")}
    if "heap" in members:
        made["heap"] = {name: value for name, value in members["heap"].items() if name not in HEAP_NOT_SAID}
    if "mode" in members:
        if members["baselineRSS"] == metrics["CurrentRSS"]:
            del made["baselineRSS"]
        if members["requestBytes"] < SMALL_BYTES > members["responseBytes"]:
            del made["requestBytes"], made["responseBytes"]
    return made


class InvocationRecord(NamedTuple):
    """One invocation, as its line and the journal have it."""

    time_ms: int
    """Epoch milliseconds at which the invocation began."""
    metrics: Mapping[str, float]
    """Metrics by name, each in the unit of its kind."""
    properties: Mapping[str, Any]
    """Members of the line that are no metrics, by name: free, and queryable in Logs Insights."""
    slot: int | None = None
    """The record's slot in the journal until it is printed."""

    def having(self, **properties: Any) -> InvocationRecord:
        return self._replace(properties={**self.properties, **properties})


def finished(
    pending: PendingRecord,
    config: Config,
    environment_id: str,
    signals: Sequence[str] = (),
    drift: Mapping[str, object] | None = None,
    dropped: int = 0,
    added: Mapping[str, Any] = NO_MEMBERS,
) -> InvocationRecord:
    """The record, of what is known by now. `signals`: that it ran out of memory; `drift`: the verdict on the
    environment's memory, where one is due; `dropped`: what was lost since the line before; `added`: members of
    wings, by name; those of `outOfMemory` beside its signals."""
    death, reported = pending.death, pending.reported
    members: dict[str, object] = {
        **_properties(pending, config, environment_id),  # in the line's order
        **added,
        "drift": drift or None,
        "outOfMemory": {"signals": [*signals], **added.get("outOfMemory", NO_MEMBERS)} if signals else None,
        "environmentKills": (pending.kills()[1] + pending.unplaced_kills()) or None,
        "ending": (death.document() or None) if death is not None else None,
        "lastSamples": (pending.last_samples() or None) if death is not None else None,
        "reportMissing": (pending.measured is not None and not reported.report_came) or None,
        "dropped": dropped or None,
    }
    names = [name for name in PROPERTIES if name in members] if added else members
    properties = {name: members[name] for name in names if members[name] is not None}
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
        values["CpuTime"] = ms(pending.cpu_ns)
    if signals:
        values["OutOfMemory"] = 1
    return values


def _properties(pending: PendingRecord, config: Config, environment_id: str) -> dict[str, object]:
    """Members of the line but for what was concluded; None for what the line leaves out."""
    window, peak, reported, passed = pending.window, pending.peak, pending.reported, pending.answer
    is_exact = window is not None and window.opening.exact and pending.closed_by == NEXT_REQUEST
    baseline_kib = None
    if window is not None and peak is not None and not pending.shared_by and window.opening.settled():
        baseline_kib = window.baseline
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
        "initRaced": (pending.init_peak.raced or None) if pending.init_peak is not None else None,
        "highWaterMark": mib(pending.high_water_mark) or None,
        "memoryLimit": config.memory_mib or None,
        "baselineRSS": mib(baseline_kib) if baseline_kib is not None else None,
        **pending.at_close(_at_close),
    }


def _cpu(pending: PendingRecord, config: Config) -> dict[str, object]:
    """CPU time, and what the platform says of time beside the duration, which it bills rounded up to a ms."""
    reported, cpu_ns = pending.reported, pending.cpu_ns
    duration_ms, billed_ms = reported.duration_ms, reported.billed_ms
    is_usual = duration_ms is not None and billed_ms == -(-duration_ms // 1)
    cpu_ms = share = None
    if cpu_ns is not None:
        cpu_ms = ms(cpu_ns)
        if duration_ms and config.memory_mib:
            share = round(cpu_ms / duration_ms / config.cpu_share, 2)
    return {
        "cpuMs": cpu_ms,
        "cpuShare": share,
        "initCpuMs": None if pending.init_cpu_ns is None else ms(pending.init_cpu_ns),
        "initDurationMs": reported.init_ms,
        "restoreDurationMs": reported.restore_ms,
        "billedDurationMs": None if is_usual else billed_ms,
    }


def _bounds(peak: Peak) -> dict[str, object]:
    lower, upper = mib(peak.lower) or None, mib(peak.upper) or None
    return {"method": peak.method, "peakLower": lower, "peakUpper": upper, "raced": peak.raced or None}


def _at_close(window: Window | None, memory: HeldMemory | None) -> dict[str, object]:
    """`window`: None where the function was never seen in it."""
    members: dict[str, object] = {}
    holders: dict[str, object] = {"function": mib(current(window))} if window is not None else {}
    if window is not None and memory is not None:
        holders["truemem"] = mib(memory.sidecar)
        holders["extensions"] = {name: mib(rss) for name, rss in memory.extensions.items()}
    if window is not None:
        members["holders"] = {name: held for name, held in holders.items() if held}
    closing = window.closing if window is not None else ()
    if closing:
        members["rss"] = {
            "anon": mib(sum([status.anon for status in closing])),
            "file": mib(sum([status.file for status in closing])),
            "shmem": mib(sum([status.shmem for status in closing])),
        }
        members["processes"] = len(closing)
        members["threads"] = sum([status.threads for status in closing])
    members["environment"] = _environment(memory)
    return members


def _environment(memory: HeldMemory | None) -> dict[str, object] | None:
    if memory is None or memory.environment is None:
        return None
    usage = memory.environment
    used = mib(usage.used) if memory.function_lived else None
    peak = mib(usage.peak) if usage.peak is not None else None
    members = {"source": usage.source, "used": used, "peak": peak}
    return {name: value for name, value in members.items() if value is not None}
