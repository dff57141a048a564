"""Requests at once, as on Managed Instances: in a round each place of the environment gets one, and then all rest.

A round stands for one invocation of a measurement. Where workers are processes, each has served one request in it, and
is judged by itself; where threads share a process, that process has served all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from ..printed.line import Line
from ..support.terminal import counted
from .measurement import Measurement, Peak, Recorded, Shared
from .workers import Held, held

if TYPE_CHECKING:
    from ..local import Invocation, LocalLambda
    from ..target.target import Target

PATIENCE_S = 5.0
"""If in this time no more workers have come, there are no more."""
OF_ALL = ("heap", "processes", "threads", "environment", "resources", "rss")
"""Members of a line that are of all workers together."""


class Rounds:
    """The rounds of one environment."""

    def __init__(self, local: LocalLambda, target: Target) -> None:
        self._local, self._workers = local, target.workers
        self.at_once = target.managed_instances or 1
        self._callers = ThreadPoolExecutor(self.at_once)
        self._ids: list[list[str]] = []
        """Of each round, the ids of its requests."""
        self.held: list[Held | None] = []
        """What was held after each round, when all rested."""
        self._alone: list[tuple[str, Held]] = []
        """Requests that ran by themselves, each with what was held before."""

    def close(self) -> None:
        """No more are made."""
        self._callers.shutdown(wait=False, cancel_futures=True)

    def make(self, event: object, timeout: float | None) -> Invocation:
        """Make a round of this event. Returns its first failed answer, or else the last. Raises as LocalLambda does."""
        self._rest()
        answers = [*self._callers.map(lambda _: self._local.invoke(event, timeout=timeout), range(self.at_once))]
        self._rest()
        self._ids.append([each.request_id for each in answers])
        self.held.append(self._held())
        return next((each for each in answers if each.error), answers[-1])

    def alone(self, event: object, timeout: float | None) -> None:
        """Make one request that no other runs beside: what it takes on top of what is held is its own."""
        self._rest()
        before = self._held()
        answer = self._local.invoke(event, timeout=timeout)
        self._rest()
        if before is not None and not answer.error:
            self._alone.append((answer.request_id, before))

    def processes(self) -> list[int]:
        """The pids of workers that are processes of their own, when last seen; empty where threads serve."""
        last = self.held[-1] if self.held else None
        return [*last.rss] if last is not None and last.forked else []

    def _held(self) -> Held | None:
        runtime = self._local.processes().get("runtime")
        return None if runtime is None else held(runtime)

    def _rest(self) -> None:
        """Until all workers wait for a request. One that has died is not waited for again."""
        before, now = -1, 0
        while before < now < self._workers or before < 0:
            before, now = now, self._local.rest(self._workers, PATIENCE_S)
        if 0 < now < self._workers:  # none: the environment has ended, and the next request starts another
            self._workers = now

    # --- what came of it ----------------------------------------------------------------------------------------------

    def recorded(self, lines: Mapping[str | None, Line]) -> list[Recorded]:
        """The rounds with a line, each as one of the environment, with shared pages counted once."""
        found, before = [], None
        for number, (ids, now) in enumerate(zip(self._ids, self.held, strict=True), 1):
            own = [lines[each] for each in ids if each in lines]
            if own:
                found.append(Recorded(number, _of_round(number, own, before, now)))
            before = now or before
        return found

    def took(self, durations: Mapping[str, float]) -> dict[int, float]:
        """Of each round, the duration of its slowest request, ms."""
        known = ((n, [durations[each] for each in ids if each in durations]) for n, ids in enumerate(self._ids, 1))
        return {number: max(took) for number, took in known if took}

    def _adds(self, lines: Mapping[str | None, Line]) -> float | None:
        """The most that one request has taken on top of what was held, MiB. None if none ran alone."""
        known = [
            max(0.0, line.bounds[0] - before.sum, (line.peak_rss or 0.0) - before.sum)
            for each, before in self._alone
            if (line := lines.get(each)) is not None
        ]
        return max(known, default=None)

    def shared(self, lines: Mapping[str | None, Line], seen: Sequence[Recorded]) -> Shared | None:
        """What the environment held. None if that could never be read."""
        most = max((each for each in self.held if each is not None), key=lambda each: each.once, default=None)
        if most is None:
            return None
        adds, together = self._adds(lines), None
        if adds is not None and seen:
            where = f"{counted(self.at_once, 'request')} at their highest at once"
            lower = max(each.peak.lower for each in seen)
            together = Peak(where, lower, max(lower, most.once + self.at_once * adds))
        return Shared(
            at_once=self.at_once,
            workers=len(most.rss),
            forked=most.forked,
            once=most.once,
            rss=most.sum,
            own=most.own / max(1, len(most.rss)),
            adds=adds,
            together=together,
        )

    def by_worker(self, measured: Measurement) -> list[Measurement]:
        """The measurement of each worker that is a process: its own RSS, what it keeps, and its part of the memory that
        is left. Of threads the one of their process, whose requests are counted one by one."""
        pids = self.processes()
        if not pids:
            return [_counted(measured, self.at_once)] if self.at_once > 1 else []
        made, last = [], self.held[-1]
        assert last is not None  # else no process is known
        for pid in pids:
            memory = last.rss[pid] + max(0.0, (measured.memory_mib or 0) - last.once) / len(pids)
            seen = [one for each in measured.seen if (one := self._of_worker(pid, each)) is not None]
            settled = [each for each in measured.settled if each.process == pid]
            made.append(
                replace(
                    measured,
                    seen=seen,
                    settled=settled,
                    memory_mib=round(memory),
                    shared=None,
                    left_in_tmp={},
                )
            )
        return made

    def _of_worker(self, pid: int, each: Recorded) -> Recorded | None:
        """The line of a round as one of this worker."""
        now = self.held[each.number - 1]
        if now is None or pid not in now.rss:
            return None
        line, rss = each.line, now.rss[pid]
        more = max(0.0, ((line.peak_rss or 0.0) - now.once) / len(now.rss))
        changes: dict[str, Any] = {"current_rss": rss, "peak_rss": rss + more, "peak_lower": None, "peak_upper": None}
        made = msgspec.structs.replace(line, **changes, heap=None, processes=None, threads=None)
        made.members = {name: value for name, value in line.members.items() if name not in OF_ALL}
        return replace(each, line=made)


def _of_round(number: int, lines: Sequence[Line], before: Held | None, now: Held | None) -> Line:
    """One line for a round: the line of its highest peak, or of a request that ran out of memory."""
    line = max(lines, key=lambda each: (each.out_of_memory, each.peak_rss or 0.0))
    changes: dict[str, Any] = {"invocation": number, "cold_start": any(each.cold_start for each in lines)}
    if now is not None:
        known = [each.overcount for each in (before, now) if each is not None]
        lower = now.once
        if line.peak_lower is not None:
            lower = max(lower, line.peak_lower - max(known))
        peak = max(lower, (line.peak_rss or 0.0) - now.overcount)
        changes |= {"current_rss": now.once, "peak_rss": peak, "peak_lower": lower}
        if line.peak_upper is not None:
            changes["peak_upper"] = max(peak, line.peak_upper - min(known))
    made = msgspec.structs.replace(line, **changes)
    made.members = line.members
    return made


def _counted(measured: Measurement, each: int) -> Measurement:
    """The same with each request of a round counted: rates are of one request."""

    def at(number: int) -> int:
        return number * each

    def of(one: Recorded) -> Recorded:
        line = msgspec.structs.replace(one.line, invocation=at(one.number))
        line.members = one.line.members
        return Recorded(at(one.number), line)

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
