"""A finished record: what is known of one invocation under the names of its line (line_schema). Immutable.

Absent means unknown or not so: no nulls, no zeros for what was not measured. Sizes come in KiB and leave in MiB with
two decimals.
"""

from __future__ import annotations

from ..measure.window import current
from ..support.named_tuple import NamedTuple
from ..support.units import mib
from .pending_record import NEXT_REQUEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..config import Config
    from ..measure.environment_memory import HeldMemory
    from ..measure.window import Window
    from .pending_record import PendingRecord


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
        """The same with other values of these properties."""
        return self._replace(properties={**self.properties, **properties})


def finished(
    pending: PendingRecord,
    config: Config,
    environment_id: str,
    signals: Sequence[str] = (),
    drift: Mapping[str, object] | None = None,
    dropped: int = 0,
) -> InvocationRecord:
    """The record, of what is known by now. `signals`: that it ran out of memory; `drift`: the verdict on the
    environment's memory, where one is due; `dropped`: what was lost since the line before."""
    properties = _properties(pending, config, environment_id)

    def put(name: str, value: object) -> None:
        if value:
            properties[name] = value

    put("drift", drift)
    if signals:
        properties["outOfMemory"] = {"signals": [*signals]}
    put("environmentKills", pending.kills()[1])
    if pending.death is not None:
        put("ending", pending.death.document())
        put("lastSamples", pending.last_samples())
    put("reportMissing", pending.closed and not pending.report_came)
    put("dropped", dropped)
    return InvocationRecord(pending.time_ms, _metrics(pending, signals, drift), properties, pending.slot)


def _metrics(pending: PendingRecord, signals: Sequence[str], drift: Mapping[str, object] | None) -> dict[str, float]:
    values: dict[str, float] = {}
    if pending.peak is not None:
        values["PeakRSS"] = mib(pending.peak.estimate)
    held = current(pending.window) if pending.window is not None else 0
    if held:
        values["CurrentRSS"] = mib(held)
    if pending.max_memory_used_mib is not None:
        values["MaxMemoryUsed"] = pending.max_memory_used_mib
    growth = drift.get("perInvocationKiB") if drift else None
    if isinstance(growth, float):
        values["MemoryDrift"] = growth
    if signals:
        values["OutOfMemory"] = 1
    return values


def _properties(pending: PendingRecord, config: Config, environment_id: str) -> dict[str, object]:
    """All but what was concluded, in the line's order."""
    members: dict[str, object] = {
        "requestId": pending.request_id,
        "environmentId": environment_id,
        "invocation": pending.invocation,
    }

    def put(name: str, value: object) -> None:
        if value:
            members[name] = value

    put("coldStart", pending.cold_start)
    put("suppressedInit", pending.suppressed_init)
    put("initializationType", pending.initialization_type)
    put("functionVersion", config.function_version)
    put("tenantId", pending.tenant_id)
    put("status", pending.status)
    put("errorType", pending.error_type)
    put("durationMs", pending.duration_ms)
    if pending.peak is not None:
        members["method"] = pending.peak.method
        put("peakLower", mib(pending.peak.lower))
        put("peakUpper", mib(pending.peak.upper))
        put("raced", pending.peak.raced)
    put("sharedBy", pending.shared_by)
    put("closedBy", pending.closed_by)
    if pending.window is not None and pending.window.opening.exact and pending.closed_by == NEXT_REQUEST:
        members["mode"] = "exact"
    if pending.request_bytes is not None:
        members["requestBytes"] = pending.request_bytes
    if pending.response_bytes is not None:
        members["responseBytes"] = pending.response_bytes
    put("handlerError", pending.handler_failed)
    put("resetDelayUs", pending.window.reset_delay_us if pending.window is not None else None)
    if pending.init_peak is not None:
        members["initPeakRSS"] = mib(pending.init_peak.estimate)
    put("highWaterMark", mib(pending.high_water_mark))
    put("memoryLimit", config.memory_mib)
    if pending.window is not None and pending.peak is not None:
        if pending.window.opening.settled() and not pending.shared_by:
            members["baselineRSS"] = mib(pending.window.baseline)
        members.update(_at_close(pending.window, pending.memory))
    if pending.memory is not None and pending.memory.environment is not None:
        environment = pending.memory.environment
        level: dict[str, object] = {"source": environment.source, "used": mib(environment.used)}
        if environment.peak is not None:
            level["peak"] = mib(environment.peak)
        members["environment"] = level
    if pending.heap is not None:
        members["heap"] = pending.heap.document()
    return members


def _at_close(window: Window, memory: HeldMemory | None) -> dict[str, object]:
    """What the environment held when the window closed."""
    holders: dict[str, object] = {}
    held = current(window)
    if held:
        holders["function"] = mib(held)
    if memory is not None and memory.sidecar:
        holders["truemem"] = mib(memory.sidecar)
    if memory is not None and memory.extensions:
        holders["extensions"] = {name: mib(rss) for name, rss in memory.extensions.items()}
    members: dict[str, object] = {"holders": holders}
    closing = window.closing
    if closing:
        members["rss"] = {
            "anon": mib(sum(status.anon for status in closing)),
            "file": mib(sum(status.file for status in closing)),
            "shmem": mib(sum(status.shmem for status in closing)),
        }
        members["processes"] = len(closing)
        members["threads"] = sum(status.threads for status in closing)
    return members
