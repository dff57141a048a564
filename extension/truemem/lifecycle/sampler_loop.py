"""The sampler at work: samples the function, writes down its curve where it may soon be needed, and plans the next
tick."""

from __future__ import annotations

from ..measure import sampling_schedule
from ..measure.memory_curve import CurveCheckpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..measure.readings import Readings
    from ..records.publisher import Publisher
    from .parts import Parts

LATE_NS = 5 * sampling_schedule.MS
"""A tick this much behind its time means that the environment was frozen, or starved."""


class SamplerLoop:
    """The sampler of one environment. Times are monotonic ns."""

    def __init__(self, parts: Parts, publisher: Publisher) -> None:
        config, self._clock = parts.config, parts.clock
        self._recorder = parts.recorder
        self._environment_memory = parts.environment_memory
        self._publisher = publisher
        self._limit_kib = config.memory_mib * 1024
        now_ns = self._clock.monotonic_ns()
        self.budget = sampling_schedule.Budget(config.cpu_budget, config.cpu_share, now_ns)
        """CPU time, also for what else is read when a window closes."""
        self._checkpoint = CurveCheckpoint(self._limit_kib)
        self._began = now_ns
        self._moved_kib = 0
        self._urgent = False
        """The invocation may be about to die."""
        self._sample_ns = now_ns
        """When all is to be looked at next, not children alone."""
        self._watched = False
        self._child_in_ns: int | None = None
        self.next_ns = now_ns
        """When the next tick is due."""

    def begin(self, now_ns: int, exact: bool) -> None:
        """An invocation begins."""
        self._began = now_ns
        self._checkpoint.begin()
        self.next_ns = self._sample_ns = now_ns + (sampling_schedule.EXACT_NS if exact else sampling_schedule.DENSE_NS)

    def drain(self, readings: Readings) -> None:
        """Read the processes that the answer did not wait for, as far as the CPU budget goes."""
        if not readings.left:
            return
        now_ns, cpu_ns = self._clock.monotonic_ns(), self._clock.cpu_ns()
        self._recorder.read_rest(readings, self.budget.rest_ns(now_ns))
        self.budget.spend(self._clock.cpu_ns() - cpu_ns, now_ns, saved=True)

    def look(self, now_ns: int, exact: bool) -> None:
        """One tick."""
        recorder = self._recorder
        self._watched = now_ns < self._sample_ns
        if self._watched:
            self.next_ns = self._sample_ns  # should this one fail
            self._child_in_ns = recorder.levels.watch(self.budget.sparing(now_ns))
            return
        late = now_ns - self.next_ns > LATE_NS
        self.next_ns = now_ns + sampling_schedule.SPARSE_NS  # should this one fail: not at once again
        self._moved_kib = recorder.levels.sample(late, reset=not exact)
        if now_ns - self._began >= sampling_schedule.DENSE_AGE_NS:  # a short invocation's end will say it
            self._environment_memory.look()
        if recorder.levels.is_whole and recorder.window.multi_process:
            pid = recorder.levels.largest_process[1] if recorder.levels.largest_process is not None else 0
            recorder.window.together = self._environment_memory.together_kib(
                pid, recorder.levels.last_sample, self._limit_kib
            )
        if self._checkpoint.due(recorder.levels.last_sample + self._environment_memory.held_kib, self._urgent, now_ns):
            self._publisher.checkpoint(recorder, self._environment_memory)

    def plan(self, done_ns: int, cost_ns: int, exact: bool) -> None:
        """The tick is done, and has used `cost_ns` of CPU time."""
        self.budget.spend(cost_ns, done_ns, saved=self._watched)
        if not self._watched:
            self._sample_ns = done_ns + self._interval_ns(done_ns, exact)
        self.next_ns = self._sample_ns
        sparing = self.budget.sparing(done_ns)
        if sparing:
            watch_ns = sparing * sampling_schedule.WATCH_NS
            if self._child_in_ns is not None:
                watch_ns = min(watch_ns, self._child_in_ns)
            self.next_ns = min(self.next_ns, done_ns + watch_ns)

    def _interval_ns(self, done_ns: int, exact: bool) -> int:
        age_ns = done_ns - self._began
        interval_ns = sampling_schedule.interval_ns(age_ns, self._moved_kib, self.budget.wait_ns(done_ns), exact)
        urgent_ns = sampling_schedule.urgent_ns(self._limit_in_ns(), interval_ns)
        self._urgent = urgent_ns is not None
        if urgent_ns is not None:
            interval_ns = min(interval_ns, max(urgent_ns, self.budget.wait_ns(done_ns, sampling_schedule.OVERDRAFT_NS)))
        return interval_ns

    def _limit_in_ns(self) -> float | None:
        """When everybody together would be at the limit, if the function grows on as it does."""
        if not self._limit_kib:
            return None
        return self._recorder.window.curve.ns_until(self._limit_kib - self._environment_memory.held_kib)

    def plan_init(self, done_ns: int, found: bool) -> None:
        """The same in the init phase; `found`: is there a runtime yet?"""
        interval_ns = sampling_schedule.init_interval_ns(done_ns - self._began, found)
        urgent_ns = sampling_schedule.urgent_ns(self._limit_in_ns(), interval_ns)
        self.next_ns = self._sample_ns = done_ns + (interval_ns if urgent_ns is None else min(interval_ns, urgent_ns))
