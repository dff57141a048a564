"""Ends segments of time on Managed Instances: when one is due, and when a request begins or ends."""

from __future__ import annotations

from ..measure import sampling_schedule
from ..measure.segment_recorder import SegmentRecorder
from ..measure.segments import RESOLUTION_NS, Segments
from ..measure.window import current
from .kill_placement import KillPlacement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..measure.window import Window
    from ..records.environment_state import EnvironmentState
    from ..records.request_overlap import Requests
    from .parts import Parts

MS = 1_000_000

BUSY_NS = 20 * MS
"""Length of a segment while requests run, if the CPU budget allows,"""
IDLE_NS = sampling_schedule.SPARSE_NS
"""and else."""
BUSY_FOR_NS = 1000 * MS
"""Requests are taken to run for so long after telemetry: it comes late, and where one was there will be more."""

AT_ONCE = 8
"""Processes that can be read while a request waits."""

FOREVER_NS = 3_600_000 * MS


class SegmentLoop:
    """The segments of one environment. Times are monotonic ns, unless they say otherwise."""

    def __init__(self, parts: Parts, environment_state: EnvironmentState, requests: Requests) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._environment_state = environment_state
        self._requests = requests
        self._kills = KillPlacement(parts.kills)
        self.segments = Segments()
        self.recorder = SegmentRecorder(parts.table, parts.recorder, parts.clock.epoch_ns)
        self.seen_ns = 0
        """What ended up to here lies within segments: epoch ns, as telemetry tells it."""
        self.is_last = False
        """The environment ends: a kill whose process is not known yet will not be placed later."""
        self._deduplicated_kib = 0
        """Window.together of the last segment at whose end the function was alive."""
        now_ns = self._clock.monotonic_ns()
        self.budget = sampling_schedule.Budget(parts.config.cpu_budget, parts.config.cpu_share, now_ns)
        self._ended_at_ns = now_ns
        """When the last segment was ended, or tried to be."""
        self._heard_at_ns = now_ns  # so that the function is known by its first request
        self._affordable_at_ns = now_ns

    def heard(self) -> None:
        """Telemetry has told of a request: segments are short for a while."""
        self._heard_at_ns = self._clock.monotonic_ns()

    def due_ns(self) -> int:
        """When the open segment is to end."""
        if self._parts.telemetry_server is None:
            return self._ended_at_ns + FOREVER_NS
        busy = self._requests.any() or self._clock.monotonic_ns() - self._heard_at_ns < BUSY_FOR_NS
        return max(self._ended_at_ns + (BUSY_NS if busy else IDLE_NS), self._affordable_at_ns)

    def end(self, cpu_at_wake: int) -> None:
        """End the open segment. `cpu_at_wake`: CPU time before the loop woke up for it."""
        if self._parts.telemetry_server is None:
            return
        self._ended_at_ns = self._clock.monotonic_ns()
        self._read()
        self._spend(cpu_at_wake)

    def end_if_affordable(self) -> None:
        """A request begins or ends, and waits. End the segment if the CPU time is there, and few processes are to be
        read."""
        affordable = self._clock.monotonic_ns() >= self._affordable_at_ns
        if self._parts.telemetry_server is None or not affordable or len(self._parts.table.function()) > AT_ONCE:
            return
        cpu_ns = self._clock.cpu_ns()
        try:
            self._read()
        finally:
            self._ended_at_ns = self._clock.monotonic_ns()
            self._spend(cpu_ns)

    def _spend(self, cpu_before_ns: int) -> None:
        """CPU time since then, for reading."""
        now_ns = self._clock.monotonic_ns()
        self.budget.spend(self._clock.cpu_ns() - cpu_before_ns, now_ns)
        self._affordable_at_ns = now_ns + self.budget.wait_ns(now_ns)

    def _read(self) -> None:
        made = self.recorder.end_segment()
        self.segments.add(made)
        self.seen_ns = made.end_ns - RESOLUTION_NS
        if made.window is not None:
            self._deduplicate(made.window)
            self._kills.place(made.window, self._requests, self._clock.monotonic_ns(), self.is_last)
        self._environment_state.reached(made.estimate)

    def _deduplicate(self, window: Window) -> None:
        """What workers share, a mapped model, each of them has in its RSS."""
        if window.closing:
            largest = self._parts.recorder.levels.largest_process
            counted_kib = current(window) if len(window.closing) > 1 else 0
            self._deduplicated_kib = self._parts.environment_memory.together_kib(
                largest[1] if largest is not None else 0, counted_kib, self._parts.config.memory_mib * 1024
            )
        window.together = self._deduplicated_kib
