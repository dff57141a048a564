"""One invocation while its parts become known: what was measured, what the platform reports, how it died.

Sizes are in KiB, as the kernel prints them. A record's members are read everywhere and written here alone: each part
that becomes known has a method.
"""

from __future__ import annotations

from ..linux.heap_page import Heap
from ..measure.window import peak
from ..platform.telemetry_events import REPORT, RUNTIME_DONE, START
from . import out_of_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..linux.runtime_heap import RuntimeHeap
    from ..measure.environment_memory import HeldMemory
    from ..measure.race import Boundary
    from ..measure.resources import Usage
    from ..measure.window import Peak, Window
    from ..platform.exact_mode import Invocation
    from ..platform.telemetry_events import Event
    from .out_of_memory import DeathReport
    from .trace_context import Trace

SUCCESS = "success"
"""Status of an invocation."""
FAILURE = "failure"
"""Reason of a SHUTDOWN."""
NEXT_REQUEST = "next-request"
"""`closedBy` of a window that was closed when the runtime asked for its next event."""


class PendingRecord:
    """What is known of one invocation so far. None: not known."""

    trace: Trace | None = None
    """Known only where records are sent somewhere that can show it."""

    def __init__(self, request_id: str, invocation: int, time_ms: int, opening: Boundary | None = None) -> None:
        self.request_id = request_id
        self.invocation = invocation
        """Number in this environment, from 1."""
        self.time_ms = time_ms
        """Epoch milliseconds at which the invocation began."""
        self.opening = opening
        """What is known of the time around the event that began it."""
        self.cold_start = self.suppressed_init = False
        """The environment's first; the init phase was done (again) within it."""
        self.initialization_type = ""

        self.window: Window | None = None
        self.peak: Peak | None = None
        """By what is known now: telemetry may still raise it."""
        self.init_peak: Peak | None = None
        self.closed = False
        self.closed_at_ms = 0.0
        """Running time of the environment, freezes left out, when the window closed."""
        self.closed_by = ""
        """`next-request` (exact mode), `next-invoke` or `shutdown`; "" where no window was closed for it."""
        self.high_water_mark = 0
        """Highest peak of the function since the environment started."""
        self.memory: HeldMemory | None = None
        """What the environment held when the window closed."""
        self.heap: Heap | RuntimeHeap | None = None
        """What the allocator or the runtime says, where it does."""
        self.usage: Usage | None = None
        """What else was in use when the window closed."""
        self.kernel_kills: int | None = None
        """OOM kills of the function's processes that the kernel has counted in it; None where nothing counts."""
        self.environment_kills = 0
        """The same of all others: extensions, what cannot have been the function's, and the init phase before it."""
        self.death: DeathReport | None = None
        self.slot: int | None = None
        """In the journal, from its close to its print."""

        self.request_bytes: int | None = None
        self.response_bytes: int | None = None
        self.handler_failed = False
        """In exact mode: the runtime answered with an error. The platform may call that a success."""
        self.shared_by = 0
        """Most requests that ran at once while it did, itself included; 0 where they never do."""

        self.started = self.report_came = False
        """platform.start of it has come; platform.report has."""
        self.done_ns: int | None = None
        """When the runtime was done, or gone, as the platform says: epoch ns, in steps of a ms."""
        self.status: str | None = None
        self.error_type: str | None = None
        self.duration_ms: float | None = None
        self.tenant_id: str | None = None
        self.max_memory_used_mib: float | None = None

    # How it began

    def follows_init(self, cold_start: bool, suppressed: bool, initialization_type: str = "") -> None:
        """It is the first of the function's processes. `suppressed`: their init phase was done within it."""
        self.cold_start, self.suppressed_init = cold_start, suppressed
        self.initialization_type = initialization_type if cold_start else ""

    def traced(self, trace: Trace | None) -> None:
        """It belongs to this trace."""
        self.trace = trace

    def init_measured(self, reached: Peak | None) -> None:
        """The init phase before it had this peak."""
        self.init_peak = reached

    def shared(self, at_once: int) -> None:
        """It and others, `at_once` in all, run at the same time."""
        self.shared_by = max(self.shared_by, at_once)

    # What was measured

    def measured(self, window: Window, closed_by: str, at_ms: float) -> None:
        """Its window was closed by such an event, at this running time."""
        self.closed, self.closed_by, self.closed_at_ms = True, closed_by, at_ms
        self.window = window
        self.update_peak()

    def measured_in_segments(self, window: Window | None, reached: Peak | None, exact: bool) -> None:
        """Others ran at the same time: the segments tell its peak. `exact`: both its ends have passed the sidecar."""
        self.closed, self.window, self.peak = True, window, reached
        if exact:
            self.closed_by = NEXT_REQUEST

    def not_measured(self, at_ms: float) -> None:
        """Reading the function failed: its line has what the platform says."""
        self.closed, self.closed_at_ms = True, at_ms

    def environment_held(
        self, memory: HeldMemory, noted: Heap | RuntimeHeap | None, shown: RuntimeHeap | None = None
    ) -> None:
        """What the environment held when the window closed, what the function's probe has noted, and what its runtime
        shows of its heap."""
        self.memory = memory
        self.heap = shown if noted is None or (isinstance(noted, Heap) and noted.source == "none") else noted

    def used(self, usage: Usage) -> None:
        """/tmp, descriptors, threads and processes when the window closed."""
        self.usage = usage

    def mark_reached(self, kib: int) -> int:
        """The environment's high-water mark is at least this. Returns this record's."""
        self.high_water_mark = max(self.high_water_mark, kib)
        return self.high_water_mark

    def update_peak(self) -> None:
        """Work the peak out by all that is known by now: the runtime's next event did not come before this one was
        done (platform.runtimeDone)."""
        if self.window is not None:
            self.window.end.prove(self.done_ns)
            self.peak = peak(self.window)

    def mark_rose(self, before_mib: float) -> None:
        """Max Memory Used of the invocation before is `before_mib`: its rise bounds the peak."""
        mark_mib = self.max_memory_used_mib
        if self.window is not None and not self.shared_by and mark_mib is not None and 0 < before_mib < mark_mib:
            self.window.risen = round((mark_mib - before_mib) * 1024)
            self.update_peak()

    def answered(self, invocation: Invocation) -> None:
        """In exact mode: its event and its response have passed."""
        self.request_bytes = invocation.size
        self.response_bytes = invocation.answer.body_bytes if invocation.answer is not None else None
        self.handler_failed = invocation.failed

    # How it ended

    def killed(self, of_function: int | None) -> None:
        """OOM kills of the function's processes in it; None where nothing counts."""
        self.kernel_kills = of_function

    def others_killed(self, total: int) -> None:
        """OOM kills of all others in it, so far."""
        self.environment_kills = total

    def died(self, report: DeathReport, done_ns: int | None = None) -> None:
        """The environment ended with it, at `done_ns` if that is known."""
        self.death = report
        self.done_ns = done_ns or self.done_ns
        if report.reason == out_of_memory.TIMED_OUT:  # SHUTDOWN's word is the platform's, with telemetry or without
            self.status = self.status or out_of_memory.TIMED_OUT

    def blame_extension(self) -> None:
        """The environment has ended with a failure, and the kernel has killed an extension: that is why. The platform
        may have said before that the runtime was done. Its report, which says it, often comes too late."""
        if self.death is not None and self.death.reason == FAILURE and self.error_type is None and self.kills()[1]:
            self.status, self.error_type = "error", out_of_memory.EXTENSION_CRASH

    def journaled(self, slot: int | None) -> None:
        """The journal has it in this slot until it is printed."""
        self.slot = slot

    # What the platform says

    def reported(self, event: Event) -> None:
        """platform.start, runtimeDone or report of this invocation."""
        if event.kind == START:
            self.started = True
            if self.opening is not None:
                self.opening.prove(event.time_ns)
            self.tenant_id = event.text("tenantId") or self.tenant_id
        elif event.kind in (RUNTIME_DONE, REPORT):
            if event.kind == RUNTIME_DONE:
                self.done_ns = event.time_ns
            if event.kind == REPORT or self.error_type is None:  # else it is known what came after the runtime was done
                self.status = event.text("status") or self.status
            self.error_type = event.text("errorType") or self.error_type
            self.tenant_id = event.text("tenantId") or self.tenant_id
            duration = event.metric("durationMs")
            # The report's duration is the one that REPORT shows and that is billed; runtimeDone's comes sooner.
            if duration is not None and not self.report_came:
                self.duration_ms = duration
            if event.kind == REPORT:
                if self.status == SUCCESS:
                    self.error_type = None
                    if self.closed_by == NEXT_REQUEST:  # the environment has ended after it
                        self.death = None
                self.max_memory_used_mib = event.metric("maxMemoryUsedMB")
                self.report_came = True

    # What follows from it

    def last_samples(self) -> list[list[float]]:
        """Of one that died, the end of its curve: [ms before the end, MiB], oldest first."""
        if self.death is None or self.window is None:
            return []
        curve = self.window.curve
        if self.death.at_ms:  # the end is not known
            return curve.tail(0, curve.last_ns())
        return curve.tail(self.time_ms * 1_000_000, self.done_ns or curve.last_ns())

    def kills(self) -> tuple[int, int]:
        """OOM kills in it: of the function's processes, and of others of the environment."""
        return out_of_memory.split_kills(self)

    def signals(self, limit_mib: int, mark_before_mib: float) -> list[str]:
        """That it ran out of memory: see out_of_memory.signals."""
        return out_of_memory.signals(self, limit_mib, mark_before_mib)
