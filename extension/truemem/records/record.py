"""What is known of one invocation: the schema of our lines, in one place.

Absent means unknown or not so: no nulls, no zeros for what was not measured. Sizes are kept in KiB, as the
kernel prints them, and leave in MiB with two decimals.
"""

from __future__ import annotations

from ..measure.window import current, peak
from ..support.units import mib
from .out_of_memory import kills

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.cgroup import MemoryUsage
    from ..linux.heap_page import Heap
    from ..measure.environment_memory import HeldMemory
    from ..measure.race import Boundary
    from ..measure.window import Peak, Window
    from .out_of_memory import DeathReport

NEXT_REQUEST = "next-request"
"""`closedBy` of a window that was closed when the runtime asked for its next event."""


class InvocationRecord:
    """One invocation, filled in as its parts become known."""

    __slots__ = (
        "children_kib",
        "closed",
        "closed_at_ms",
        "closed_by",
        "cold_start",
        "done_ns",
        "drift",
        "dropped",
        "duration_ms",
        "ending",
        "environment",
        "environment_id",
        "environment_kills",
        "error_type",
        "extensions",
        "handler_failed",
        "heap",
        "high_water_mark",
        "init_peak",
        "initialization_type",
        "invocation",
        "kernel_kills",
        "max_memory_used_mib",
        "opening",
        "peak",
        "recovered",
        "report_came",
        "request_bytes",
        "request_id",
        "response_bytes",
        "shared_by",
        "sidecar",
        "signals",
        "slot",
        "started",
        "status",
        "suppressed_init",
        "tenant_id",
        "time_ms",
        "window",
    )

    def __init__(self, request_id: str, invocation: int, time_ms: int) -> None:  # noqa: PLR0915 - one for each member
        self.request_id = request_id
        self.invocation = invocation
        """Number in this environment, from 1."""
        self.time_ms = time_ms
        """Epoch milliseconds at which the invocation began."""
        self.cold_start = False
        """The environment's first."""
        self.suppressed_init = False
        """The init phase was done (again) within it: after a reset, or after a first one that failed."""
        self.initialization_type = ""
        """On the environment's first, where it is not `on-demand`."""
        self.environment_id = ""
        """The log stream (`initStart.instanceId`), or an id of our own where telemetry does not say."""

        self.window: Window | None = None
        self.peak: Peak | None = None
        self.closed = False
        self.closed_at_ms = 0.0
        """Running time of the environment, freezes left out, when the window closed."""
        self.closed_by = ""
        """`next-request` (the runtime's, in exact mode), `next-invoke` or `shutdown`."""
        self.opening: Boundary | None = None
        """What is known of the time around the event that began it."""
        self.started = False
        """platform.start of it has come."""
        self.request_bytes: int | None = None
        """Size of the event that the runtime was given; known in exact mode."""
        self.response_bytes: int | None = None
        """The same of what the runtime answered."""
        self.handler_failed = False
        """The runtime answered with an error. The platform may call that a success."""
        self.init_peak: Peak | None = None
        self.high_water_mark = 0
        """Our own mark since the environment's start, of the function's processes."""
        self.sidecar = 0
        """RSS of this sidecar when the window closed."""
        self.extensions: dict[str, int] = {}
        """RSS of each other extension when the window closed, by name."""
        self.environment: MemoryUsage | None = None
        self.heap: Heap | None = None
        """What the allocator says, where the function imports the probe."""
        self.children_kib: int | None = None
        """RSS of the largest child that the function has ever waited for, where it imports the probe."""

        self.drift: dict[str, object] = {}
        """The verdict on the environment's memory so far: leak or not; empty where none is due."""
        self.shared_by = 0
        """Most requests that ran at once while it did, itself included; 0 where they never do."""
        self.done_ns: int | None = None
        """When the runtime was done, or gone, as the platform says: epoch ns, in steps of a ms."""
        self.kernel_kills: int | None = None
        """OOM kills of the function's processes that the kernel has counted in it; None where nothing counts."""
        self.environment_kills = 0
        """The same of all others: extensions, what cannot have been the function's, and the init phase before it."""
        self.ending: DeathReport | None = None
        """Of an invocation that died."""
        self.signals: list[str] = []
        """That it ran out of memory: see out_of_memory."""
        self.recovered = False
        """Written by the process after the one that saw it."""
        self.slot: int | None = None
        """In the journal, from its close to its print."""

        self.status: str | None = None
        self.error_type: str | None = None
        self.duration_ms: float | None = None
        self.tenant_id: str | None = None
        self.max_memory_used_mib: float | None = None
        self.report_came = False
        self.dropped = 0
        """What was lost since the last line: telemetry, readings, lines."""

    def holds(self, memory: HeldMemory, noted: Heap | None) -> None:
        """What the environment held when the window closed, and what the function's probe has noted, if it is there."""
        self.environment, self.sidecar, self.extensions = memory.environment, memory.sidecar, memory.extensions
        self.heap = noted if noted is not None and noted.source != "none" else None
        self.children_kib = noted.children_kib if noted is not None else None

    def settle(self) -> None:
        """Work the peak out by all that is known by now: the runtime's next event did not come before this one was
        done (platform.runtimeDone)."""
        if self.window is not None:
            self.window.end.prove(self.done_ns)
            self.peak = peak(self.window)


def metrics(record: InvocationRecord) -> dict[str, float]:
    """The record's metrics by name, in MiB (CloudWatch's `Megabytes`, as in REPORT) but for emf.UNITS."""
    values: dict[str, float] = {}
    if record.peak is not None:
        values["PeakRSS"] = mib(record.peak.estimate)
    held = current(record.window) if record.window is not None else 0
    if held:
        values["CurrentRSS"] = mib(held)
    if record.max_memory_used_mib is not None:
        values["MaxMemoryUsed"] = record.max_memory_used_mib
    growth = record.drift.get("perInvocationKiB")
    if isinstance(growth, float):
        values["MemoryDrift"] = growth
    if record.signals:
        values["OutOfMemory"] = 1
    return values


def properties(record: InvocationRecord, memory_limit_mib: int, function_version: str) -> dict[str, object]:
    """The record's other members by name: free, and queryable in Logs Insights."""
    members: dict[str, object] = {
        "requestId": record.request_id,
        "environmentId": record.environment_id,
        "invocation": record.invocation,
    }

    def put(name: str, value: object) -> None:
        if value:
            members[name] = value

    put("coldStart", record.cold_start)
    put("suppressedInit", record.suppressed_init)
    put("initializationType", record.initialization_type)
    put("functionVersion", function_version)
    put("tenantId", record.tenant_id)
    put("status", record.status)
    put("errorType", record.error_type)
    put("durationMs", record.duration_ms)
    if record.peak is not None:
        members["method"] = record.peak.method
        put("peakLower", mib(record.peak.lower))
        put("peakUpper", mib(record.peak.upper))
        put("raced", record.peak.raced)
    put("sharedBy", record.shared_by)
    put("closedBy", record.closed_by)
    members.update(_exact(record))
    put("resetDelayUs", record.window.reset_delay_us if record.window is not None else None)
    if record.init_peak is not None:
        members["initPeakRSS"] = mib(record.init_peak.estimate)
    put("highWaterMark", mib(record.high_water_mark))
    put("memoryLimit", memory_limit_mib)
    if record.window is not None and record.peak is not None:
        if record.window.opening.settled() and not record.shared_by:
            members["baselineRSS"] = mib(record.window.baseline)
        members.update(_at_close(record.window, record))
    if record.environment is not None:
        level: dict[str, object] = {"source": record.environment.source, "used": mib(record.environment.used)}
        if record.environment.peak is not None:
            level["peak"] = mib(record.environment.peak)
        members["environment"] = level
    if record.heap is not None:
        members["heap"] = record.heap.document()
    put("drift", record.drift)
    if record.signals:
        members["outOfMemory"] = {"signals": record.signals}
    put("environmentKills", kills(record)[1])
    if record.ending is not None:
        put("ending", record.ending.document())
        put("lastSamples", record.ending.samples)
    put("recovered", record.recovered)
    put("reportMissing", record.closed and not record.report_came)
    put("dropped", record.dropped)
    return members


def _exact(record: InvocationRecord) -> dict[str, object]:
    """What is known where the runtime talks through the sidecar."""
    members: dict[str, object] = {}
    if record.window is not None and record.window.opening.exact and record.closed_by == NEXT_REQUEST:
        members["mode"] = "exact"
    if record.request_bytes is not None:
        members["requestBytes"] = record.request_bytes
    if record.response_bytes is not None:
        members["responseBytes"] = record.response_bytes
    if record.handler_failed:
        members["handlerError"] = True
    return members


def _at_close(window: Window, record: InvocationRecord) -> dict[str, object]:
    """What the environment held when the window closed."""
    holders: dict[str, object] = {}
    held = current(window)
    if held:
        holders["function"] = mib(held)
    if record.sidecar:
        holders["truemem"] = mib(record.sidecar)
    if record.extensions:
        holders["extensions"] = {name: mib(rss) for name, rss in record.extensions.items()}
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
