"""Runs a soak: the local Lambda with several environments, arrivals on time, and what is kept of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ..answer.limits import LimitCheck
from ..local import LocalLambda
from ..local.configuration.layer import SIDECAR
from ..local.lifecycle.journal import LogLine
from ..local.scaling import Answer, Scaling
from ..local.session import Stopped
from ..printed.line import parse_event
from ..runs.here import Run
from ..runs.measurement import printable
from ..runs.settle.settler import Settler, collect, has_jvm
from ..support import web_adapter
from ..support.bad_input import BadInput
from ..support.exit_codes import Ended
from ..support.terminal import counted
from ..target.target import Target
from .driver import Arrival, drive
from .load import END_S, LoadProcess, LoadScript, arrived
from .saved import Changes, Saved
from .tally import Tally

LAST_LINES = 20
"""Lines of the function's log that are kept, for a function that fails."""
LOOK_S = 1.0
SAVED_EVERY_S = 10.0
SETTLED, LEAST_APART_S = 16, 2.0
"""So often in all each environment is settled after an answer; not more often than each so many seconds."""
Watch = Callable[[Tally], None]
"""Gets the figures so far every LOOK_S, in the caller's thread."""


def ignore(tally: Tally) -> None:
    """Watch nothing."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the function is run."""

    for_s: float
    scaling: Scaling
    managed_instances: int | None = None

    @property
    def most(self) -> str:
        """The option above which requests are throttled."""
        environments, reserved = self.scaling.environments, self.scaling.reserved_concurrency
        is_reserved = reserved is not None and reserved < environments * (self.managed_instances or 1)
        return f"--reserved-concurrency {reserved}" if is_reserved else f"--environments {environments}"


@dataclass
class Ran:
    """What came of it."""

    tally: Tally
    notices: list[str] = field(default_factory=list)
    log: Sequence[str] = ()
    """The end of what functions logged, if one failed."""
    limits: Sequence[LimitCheck] = ()
    """What the script has checked itself."""
    signal: int = 0
    """What ended it before its time."""
    is_cut: bool = False
    """True if it was ended before its time, by a signal or because no environment could start."""


def run(
    target: Target,
    traffic: Iterable[float] | LoadScript,
    payloads: Sequence[object],
    plan: Plan,
    saved: Saved | None,
    watch: Watch,
) -> Ran:
    """Send the requests that are due, or let the script send them, until all are answered or a signal comes. What was
    saved before goes on from there. Raises BadInput, also if the first environment cannot start."""
    tally = saved.tally() if saved else Tally()
    logged: deque[str] = deque(maxlen=LAST_LINES)

    def on_log(line: LogLine) -> None:
        if line.source == "function":
            logged.append(line.text)
        elif line.source == f"extension:{SIDECAR}" and line.stream == "stdout":
            for each in parse_event(line.text):
                tally.line(each, line.environment)

    def add(arrival: Arrival) -> None:
        if target.http is not None and arrival.answer is not None and not arrival.answer.error:
            arrival = replace(arrival, answer=_of_web_server(arrival.answer))
        tally.add(arrival)

    def on_answer(answer: Answer) -> None:
        add(arrived(answer, tally.zero_s))

    ran = Ran(tally)
    with Run(
        target,
        on_log=on_log,
        scaling=plan.scaling,
        on_environment=tally.change,
        on_answer=on_answer,
        trims=False,
        release="aws",
        managed_instances=plan.managed_instances,
    ) as here:
        local = here.local
        look = _Look(local, tally, saved, watch, here.settler, max(LEAST_APART_S, plan.for_s / SETTLED))
        try:
            if isinstance(traffic, LoadScript):
                local.run(_begin(tally))
                _load(traffic, local, look, ran)
            else:
                events = itertools.cycle([json.dumps(each).encode() for each in payloads])
                _wait(local.begin(_drive(local, tally, add, traffic, events)), look)
        except Ended as ended:
            ran.signal, ran.is_cut = ended.number, True
        except Stopped as stopped:
            if not tally.invocations:
                raise BadInput(
                    f"{target.spec}: {stopped}. Try truemem local run {target.spec} --event '{{}}'"
                ) from None
            ran.is_cut, sentence = True, f"An environment could not start: {stopped}."
            ran.limits = [LimitCheck("environments", "start", "one did not", "unknown", sentence)]
        with suppress(Stopped):
            local.stop(abort=ran.is_cut)
        if saved is not None:
            look.save(saved, saved.changes(tally))
        ran.notices = [*here.notices, *ran.notices, *look.unsaved]
    ran.log = [*logged] if tally.errors else []
    return ran


def _of_web_server(answer: Answer) -> Answer:
    """A response that says 4xx or 5xx has failed."""
    try:
        return replace(answer, error=web_adapter.failed(json.loads(answer.payload), None))
    except ValueError:  # of an adapter that streams
        return answer


async def _begin(tally: Tally) -> None:
    tally.begin(asyncio.get_running_loop().time(), time.time() * 1000)


async def _drive(
    local: LocalLambda,
    tally: Tally,
    add: Callable[[Arrival], None],
    arrivals: Iterable[float],
    events: Iterable[bytes],
) -> None:
    done_s = tally.seconds
    await _begin(tally)
    due = itertools.dropwhile(lambda moment: moment < done_s, arrivals)
    await drive(due, iter(events), local.answer, add, begun_s=tally.zero_s)


def _wait(driving: Future[None], look: Callable[[], None]) -> None:
    """Until all is answered. Raises what it raises."""
    try:
        while not wait([driving], LOOK_S).done:
            look()
        driving.result()
    finally:
        driving.cancel()


def _load(script: LoadScript, local: LocalLambda, look: Callable[[], None], ran: Ran) -> None:
    """Until the script has ended; a signal ends it. Raises BadInput."""
    if script.for_s is not None:
        script = replace(script, for_s=max(1.0, script.for_s - ran.tally.seconds))
    with LoadProcess(script, local.endpoint) as process:
        try:
            while not process.wait(LOOK_S):
                look()
        except Ended as ended:
            ran.signal, ran.is_cut = ended.number, True
            process.interrupt()
            process.wait(END_S)
        try:
            stats = process.stats()
        except BadInput as unread:
            if not ran.tally.asked:
                raise
            # what was measured here still counts, but not that the script's own limits were kept
            ran.limits = [LimitCheck("load", "exit code 0", "unknown", "unknown", f"{unread}.")]
            return
    if stats is None:
        return
    times = ", ".join(f"p{percent} {ms:,.0f} ms" for percent, ms in stats.percentiles_ms.items())
    failed = counted(stats.failures, "failed request", "failed requests")
    ran.notices.append(f"{stats.tool} saw {counted(stats.requests, 'request')}, {failed}{', ' * bool(times)}{times}")
    if stats.raised:
        ran.notices.append(f"a task of {script.path} raised {printable(stats.raised)}")
    if stats.exit_code:
        sentence = f"{stats.tool} ended with code {stats.exit_code}: a limit of {script.path} is not kept."
        ran.limits = [LimitCheck("load", "exit code 0", str(stats.exit_code), "broken", sentence)]


class _Look:
    """Looks at the figures while requests come: saves them now and then, and lets them be watched."""

    def __init__(
        self,
        local: LocalLambda,
        tally: Tally,
        saved: Saved | None,
        watch: Watch,
        settler: Settler,
        settled_each_s: float,
    ) -> None:
        self._local, self._tally, self._saved, self._watch = local, tally, saved, watch
        self._settler, self._settled_each_s = settler, settled_each_s
        self._next_s = self._settled_s = tally.seconds
        self._is_saved = False
        self.unsaved: list[str] = []
        """Since when nothing could be saved, a sentence; empty if all is."""

    def __call__(self) -> None:
        self._local.run(self._tick())
        if self._tally.seconds >= self._settled_s + self._settled_each_s:
            self._settler.ask()
            self._local.visit(has_jvm, collect)
            self._settled_s = self._tally.seconds
        if self._saved is not None and self._tally.seconds >= self._next_s:
            self.save(self._saved, self._local.run(self._changes(self._saved)))
            self._next_s = self._tally.seconds + SAVED_EVERY_S
        self._watch(self._tally)

    def save(self, saved: Saved, changes: Changes) -> None:
        """Raises BadInput if the disk does not take the first figures; a disk that is full later loses none of those
        that are to be printed."""
        try:
            saved.write(changes)
        except BadInput as refused:
            if not self._is_saved:
                raise
            self.unsaved = self.unsaved or [f"not saved since {self._tally.seconds:.0f} s: {refused}"]
        else:
            self._is_saved, self.unsaved = True, []

    # in the loop, where nothing else changes the tally

    async def _tick(self) -> None:
        self._tally.tick(asyncio.get_running_loop().time())

    async def _changes(self, saved: Saved) -> Changes:
        return saved.changes(self._tally)
