"""Stops the sidecar and the function for moments, each by itself and at random.

On a shared CPU a process can be stopped between any two system calls. A record's claims have to be true in that case
too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from faults.result import Row, counted
from faults.subject import Subject
from testing.environment import Environment
from testing.workload import Judgement, events

LIMIT_MIB = 1769
MODES = {
    "default": "the sidecar and the function are stopped for moments",
    "exact": "the same in exact mode",
}
"""Title of each."""

RUNS_MS = 10
STANDS_MS = 4
"""Mean length of a stop in ms: as long as a race takes. A function takes a MiB in less than a ms."""


class Stops:
    """Stops one process again and again until `end`."""

    def __init__(self, pid: int, seed: int) -> None:
        self.count = 0
        self._pid = pid
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._stop_and_go)
        self._thread.start()

    def end(self) -> int:
        """Let the process run. Returns how often it was stopped."""
        self._over.set()
        self._thread.join()
        return self.count

    def _stop_and_go(self) -> None:
        with suppress(ProcessLookupError):
            while not self._over.wait(self._chance.expovariate(1000 / RUNS_MS)):
                os.kill(self._pid, signal.SIGSTOP)
                self._over.wait(self._chance.expovariate(1000 / STANDS_MS))
                os.kill(self._pid, signal.SIGCONT)
                self.count += 1


def stalls(subject: Subject, mode: str, count: int, advance: Callable[[], None], seed: int = 6) -> Row:
    """`count` invocations of known size, one after the other in one environment; all that is said of them, judged."""
    exact = mode == "exact"
    with Environment(sidecar=subject.path, memory_mib=LIMIT_MIB, release="together", exact=exact) as made:
        made.invoke()
        pids = made.local.processes()
        stops = [Stops(pids[name], seed + len(name)) for name in ("runtime", f"extension:{made.name}")]
        try:
            for event in events(count, seed):
                made.attempt(**event)
                advance()
        finally:
            stopped = sum(each.end() for each in stops)
        records = made.records()[1:]
    served = made.invocations[1:]
    complete = [record.requestId for record in records] == [invocation.request_id for invocation in served]
    pairs = zip(records, served, strict=False)
    judged = [
        Judgement(record, json.loads(invocation.raw), LIMIT_MIB)
        for record, invocation in pairs
        if invocation.function_error is None
    ]
    return row(MODES[mode], exact, stopped, complete, judged, len(served) - len(judged))


def row(title: str, exact: bool, stopped: int, complete: bool, judged: Sequence[Judgement], failed: int) -> Row:
    """The row: a line for each invocation, and records without `raced` are exact. In exact mode none is raced."""
    wrong = [each for each in judged if not each.honest or (exact and (each.record.raced or not each.record.mode))]
    raced = sum(bool(each.record.raced) for each in judged)
    return Row(
        title,
        f"{counted(len(judged), 'invocation')}, {counted(stopped, 'stop')}",
        counted(failed, "error") if failed else "nothing",
        f"nothing; {raced:,} `raced`, nothing else inexact" if complete and not wrong else "see below",
        [
            *([] if stopped else [f"{title}: no process was stopped"]),
            *([] if complete else [f"{title}: not one line for each invocation"]),
            *([f"{title}: {counted(failed, 'error')} of the function"] if failed else []),
            *(f"{title}: {each}" for each in wrong),
        ],
    )
