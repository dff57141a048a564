"""What else grows in an environment: verdicts on /tmp, descriptors, threads and processes. Pure.

The verdicts are those of memory (drift, leak_verdict), whose thresholds are KiB: a descriptor, thread or process stands
for COUNTED_KIB. So a rise of up to 21 is none: a pool of connections or threads that fills. From one in 24 invocations
on, growth may be a leak. Counts move less than memory: growth that goes on is called a leak from the 128th invocation,
however far the limit is.
"""

from __future__ import annotations

from ..measure.resources import Usage, matters
from ..support.units import mib
from .drift import EVERY, Drift
from .leak_verdict import GROWING, STABLE, LeakVerdict
from .trend import LEAST_KIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COUNTED_KIB = 24
"""What one of a kind stands for: LEAST_KIB is 21 of them, and leak_verdict.GATE_KIB one in 24 invocations."""


class _Verdict(LeakVerdict):
    """Where nothing has moved there is nothing to look at: most functions, always."""

    def look(
        self,
        levels: Sequence[float],
        floors: Sequence[float],
        invocations: int,
        room_kib: float | None = None,
        spikes: int = 0,
    ) -> None:
        if not self.since and max(levels) - min(levels) < LEAST_KIB:
            self.name, self.growth, self.ended = STABLE, (0.0, 0.0, 0.0), ""
        else:
            super().look(levels, floors, invocations, room_kib, spikes)


class _Series:
    """One kind of thing, from invocation to invocation."""

    def __init__(self, unit_kib: int, is_patient: bool) -> None:
        self._unit_kib = unit_kib
        self._drift = Drift(_Verdict(is_patient))
        self._used: int | None = None
        """As last known: it stands for an invocation at which it was not counted."""

    def add(self, used: int | None, limit: int | None, time_ms: int) -> None:
        self._drift.see(0, 0)
        self._used = self._used if used is None else used
        if self._used is not None:
            limit_kib = None if limit is None else limit * self._unit_kib
            self._drift.add(self._used * self._unit_kib, time_ms, limit_kib)

    @property
    def is_growing(self) -> bool:
        return self._drift.verdict.name == GROWING

    def verdict(self, rate_name: str, room: int | None) -> dict[str, object]:
        """As the line has it; empty before there is one. `room` is left until the limit."""
        verdict = self._drift.verdict
        if not verdict.name:
            return {}
        rate = verdict.growth[0] / self._unit_kib
        members: dict[str, object] = {"verdict": verdict.name}
        if verdict.name != STABLE:
            members[rate_name] = round(rate, 3) + 0.0
        if self.is_growing and rate > 0 and room is not None:
            members["invocationsLeft"] = int(max(0, room) / rate)
        return members


class ResourceDrift:
    """The drift of what the processes that run now use. After a reset they are new, and so is this; /tmp is not
    cleared then, but what fills it begins anew."""

    def __init__(self) -> None:
        # What is kept in /tmp is often a cache, as in memory.
        self._tmp = _Series(1, is_patient=True)
        self._descriptors, self._threads, self._processes = (_Series(COUNTED_KIB, is_patient=False) for _ in range(3))
        self._count = 0

    def add(self, usage: Usage, time_ms: int) -> None:
        """Add an invocation that began at `time_ms`."""
        self._count += 1
        used, size = usage.tmp or (None, None)
        tasks = usage.task_limit
        self._tmp.add(used, size, time_ms)
        self._descriptors.add(usage.descriptors, usage.descriptor_limit, time_ms)
        self._threads.add(usage.threads or None, tasks, time_ms)
        self._processes.add(usage.processes or None, tasks, time_ms)

    def members(self, usage: Usage, always: bool) -> dict[str, object] | None:
        """The member of the line of the invocation that was added last: what is above a tenth of its limit, or grows;
        with `always` all that is known. Every 16th has the verdicts. None where there is nothing to tell."""
        due = self._count % EVERY == 0
        found: dict[str, object] = {}

        def tell(
            name: str, figures: Mapping[str, object], series: _Series, used: int, limit: int | None, beside: int = 0
        ) -> None:
            if always or matters(used, limit) or (due and series.is_growing):
                room = None if limit is None else limit - used - beside
                rate_name = "perInvocationKiB" if series is self._tmp else "perInvocation"
                known = {key: value for key, value in figures.items() if value is not None}
                found[name] = {**known, **(series.verdict(rate_name, room) if due else {})}

        if usage.tmp is not None:
            used, size = usage.tmp
            tell("tmp", {"used": mib(used), "size": mib(size)}, self._tmp, used, size)
        if usage.descriptors is not None:
            opened, limit = usage.descriptors, usage.descriptor_limit
            holders = usage.holders if usage.holders != {"function": opened} else None
            figures = {"open": opened, "limit": limit, "holders": holders}
            tell("descriptors", figures, self._descriptors, opened, limit)
        if usage.threads:
            threads, processes, zombies, limit = usage.threads, usage.processes, usage.zombies, usage.task_limit
            # Each thread has a place among all that the user may have, and each process that was not waited for.
            tell("threads", {"count": threads, "limit": limit}, self._threads, threads, limit, zombies)
            figures = {"count": processes, "zombies": zombies or None, "limit": limit}
            tell("processes", figures, self._processes, processes, limit, threads + zombies - processes)
        return found or None
