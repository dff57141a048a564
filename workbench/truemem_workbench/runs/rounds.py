"""Requests at once, as on Managed Instances: in a round each place of the environment gets one, and then all rest.

A round stands for one invocation of a measurement. Between two rounds every process's watermark is read and reset, from
outside: no sidecar runs, which would reset them as well. Where workers are processes, each has served one request in a
round, and is judged by itself; where threads share a process, that process has served all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
from truemem.line_schema import FULL

from ..printed.line import Holders, Line, Metadata
from .measurement import Measurement, Recorded, Shared
from .workers import Held, held

if TYPE_CHECKING:
    from ..local import Invocation, LocalLambda
    from ..target.target import Target

PATIENCE_S = 5.0
"""If in this time no more workers have come, there are no more."""
OUT_OF_MEMORY = "Runtime.OutOfMemory"


@dataclass(frozen=True)
class Round:
    """One round, and what was held when all rested before and after it."""

    ids: list[str]
    """Ids of its requests."""
    environment: str
    begun_ms: float
    error: str
    before: Held | None
    after: Held | None
    extensions: Mapping[str, float]
    """RSS of each, MiB."""
    killed: int = 0
    """Processes that the memory limit has killed in it. A worker that dies alone is not told otherwise: its request
    times out."""

    def line(self, number: int, memory_mib: int) -> Line | None:
        """The round as the line of an invocation: its peak is that of the environment if all requests are at their
        highest at once. None if its processes could not be read."""
        now = self.after or self.before
        if now is None:
            return None
        overcount = min(each.overcount for each in (self.before, self.after) if each is not None)
        peak = max(now.once, now.highest - overcount)
        is_bounded = self.before is not None and self.after is not None and self.before.ended == self.after.ended
        return Line(
            environment=self.environment,
            schema=FULL,
            invocation=number,
            request_id=self.ids[0],
            metadata=Metadata(time_ms=self.begun_ms),
            cold_start=self.before is None or self.after is None or self.before.rss.keys() != self.after.rss.keys(),
            current_rss=now.once,
            peak_rss=peak,
            peak_lower=peak,
            peak_upper=peak if is_bounded else None,
            memory_limit=memory_mib,
            oom_count=int(self.killed > 0 or OUT_OF_MEMORY in self.error),
            mode="exact",
            method="vmhwm-sum",
            holders=Holders(extensions=dict(self.extensions)),
        )

    @property
    def adds(self) -> float:
        """The most that a worker has had in it beyond what it had before, MiB."""
        if self.before is None or self.after is None:
            return 0.0
        known = self.before.rss
        return max((peak - known[pid] for pid, peak in self.after.peaks.items() if pid in known), default=0.0)


class Rounds:
    """The rounds of one environment."""

    def __init__(self, local: LocalLambda, target: Target) -> None:
        self._local, self._target, self._workers = local, target, target.workers
        self.at_once = target.managed_instances or 1
        self._callers = ThreadPoolExecutor(self.at_once)
        self.made: list[Round] = []

    def close(self) -> None:
        """No more are made."""
        self._callers.shutdown(wait=False, cancel_futures=True)

    def make(self, event: object, timeout: float | None) -> Invocation:
        """Make a round of this event. Returns its first failed answer, or else the last. Raises as LocalLambda does."""
        self._rest()
        before, begun_ms, killed = self._held(reset=True), time.time() * 1000, self._local.kills()
        answers = [*self._callers.map(lambda _: self._local.invoke(event, timeout=timeout), range(self.at_once))]
        self._rest()
        told = next((each for each in answers if each.error), answers[-1])
        ids, processes = [each.request_id for each in answers], self._local.processes()
        beside = {name.partition(":")[2]: pid for name, pid in processes.items() if name != "runtime"}
        extensions = {name: now.sum for name, pid in beside.items() if (now := held(pid)) is not None}
        killed = self._local.kills() - killed
        made = Round(ids, told.environment, begun_ms, told.error, before, self._held(), extensions, killed)
        self.made.append(made)
        return told

    def processes(self) -> list[int]:
        """The pids of workers that are processes of their own, when last seen; empty where threads serve."""
        last = self.made[-1].after if self.made else None
        return [*last.rss] if last is not None and last.forked else []

    def _held(self, *, reset: bool = False) -> Held | None:
        runtime = self._local.processes().get("runtime")
        return None if runtime is None else held(runtime, reset=reset)

    def _rest(self) -> None:
        """Until all workers wait for a request. One that has died is not waited for again."""
        before, now = -1, 0
        while before < now < self._workers or before < 0:
            before, now = now, self._local.rest(self._workers, PATIENCE_S)
        if 0 < now < self._workers:  # none: the environment has ended, and the next request starts another
            self._workers = now

    # --- what came of it ----------------------------------------------------------------------------------------------

    def recorded(self) -> list[Recorded]:
        """The rounds, each as one of the environment, with shared pages counted once."""
        lines = ((number, each.line(number, self._target.memory_mib)) for number, each in enumerate(self.made, 1))
        return [Recorded(number, line) for number, line in lines if line is not None]

    def took(self, durations: Mapping[str, float]) -> dict[int, float]:
        """The duration of each round's slowest request, ms."""
        known = ((n, [durations[each] for each in one.ids if each in durations]) for n, one in enumerate(self.made, 1))
        return {number: max(took) for number, took in known if took}

    def shared(self) -> Shared | None:
        """What the environment held. None if that could never be read."""
        rests = [each.after for each in self.made if each.after is not None]
        most = max(rests, key=lambda each: each.once, default=None)
        if most is None:
            return None
        peaks = [each.line.peak_rss or 0.0 for each in self.recorded()]
        return Shared(
            at_once=self.at_once,
            workers=len(most.rss),
            forked=most.forked,
            once=most.once,
            rss=most.sum,
            own=most.own / max(1, len(most.rss)),
            adds=max(each.adds for each in self.made),
            peak=max(peaks),
        )

    def by_worker(self, measured: Measurement) -> list[Measurement]:
        """The measurement of each worker that is a process: its own RSS, what it keeps, and its part of the memory that
        is left. Of threads the one of their process, whose requests are counted one by one."""
        pids = self.processes()
        if not pids:
            return [_counted(measured, self.at_once)] if self.at_once > 1 else []
        made, last = [], self.made[-1].after
        assert last is not None  # else no process is known
        for pid in pids:
            memory = last.rss[pid] + max(0.0, (measured.memory_mib or 0) - last.once) / len(pids)
            seen = [one for each in measured.seen if (one := self._of_worker(pid, each)) is not None]
            settled = [each for each in measured.settled if each.process == pid]
            of_worker = replace(measured, seen=seen, settled=settled, memory_mib=round(memory), left_in_tmp={})
            made.append(replace(of_worker, shared=None))
        return made

    def _of_worker(self, pid: int, each: Recorded) -> Recorded | None:
        """The line of a round as one of this worker."""
        now = self.made[each.number - 1].after
        if now is None or pid not in now.rss:
            return None
        peak = now.peaks[pid]
        sizes = {"current_rss": now.rss[pid], "peak_rss": peak, "peak_lower": peak, "peak_upper": peak}
        return replace(each, line=msgspec.structs.replace(each.line, **sizes))


def _counted(measured: Measurement, each: int) -> Measurement:
    """The same with each request of a round counted: rates are of one request."""

    def at(number: int) -> int:
        return number * each

    def of(one: Recorded) -> Recorded:
        return Recorded(at(one.number), msgspec.structs.replace(one.line, invocation=at(one.number)))

    return replace(
        measured,
        seen=[of(one) for one in measured.seen],
        settled=[replace(one, invocation=at(one.invocation)) for one in measured.settled],
        invocations=at(measured.invocations),
        warm_up=at(measured.warm_up),
        new_from=None if measured.new_from is None else at(measured.new_from - 1) + 1,
        kinds={at(number): name for number, name in measured.kinds.items()},
        slowed={at(number) for number in measured.slowed},
        judged_until=None if measured.judged_until is None else at(measured.judged_until),
        left_in_tmp={at(number): mib for number, mib in measured.left_in_tmp.items()},
        shared=None,
    )
