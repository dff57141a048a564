"""Kills the sidecar at random moments: is every invocation on stdout exactly once?

The sidecar cannot know of an event that it has not read, so such invocations are counted separately. To recognise them,
the sidecar is first stopped, then looked at, then killed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truemem_workbench.printed.document import spread

from faults.environment import WAIT_S, Died, FaultEnvironment, stands, unread
from faults.result import Row, counted
from faults.subject import Subject
from testing.environment import Environment as Scenario

EARLY = 0.25
"""Share of the kills that come in the init phase, or soon after it."""
INIT_S = 0.03
"""A kill in the init phase comes within this time of the start."""
SERVING_S = 0.06
"""Any other within this time, after a few invocations."""
UNREAD, UNNOTED = "unread", "unnoted"
WORK = ("hold 256 0", "hold 512 0", "hold 1024 1", "hold 256 4", "hold 2048 12")


@dataclass
class Count:
    """Counts the invocations by their result. Each is in one of these, or in `wrong`."""

    kills: Counter[str] = field(default_factory=Counter)
    """Kills by the sidecar's work: `init`, `serving` an invocation, `waiting` for the next."""
    invocations: int = 0
    once: int = 0
    """On one line, printed by the process that measured it."""
    recovered: int = 0
    """On one line, printed from the journal."""
    repeated: int = 0
    """On the first process's line perhaps, and once more for each kill that came while it was printed: `mayRepeat`."""
    unknown: int = 0
    """Not printed, and the event was not read."""
    unnoted: int = 0
    """Not printed: killed between reading the event and noting it."""
    wrong: list[str] = field(default_factory=list)

    def judge(self, name: str, lines: Sequence[Mapping[str, Any]], left: str = "") -> None:
        """Judge one invocation by its lines. `left` is its state at the kill: UNREAD, UNNOTED, or ""."""
        self.invocations += 1
        certain = [line for line in lines if not line.get("mayRepeat")]
        if len(certain) == 1 and len(lines) == 1:
            if certain[0].get("recovered"):
                self.recovered += 1
            else:
                self.once += 1
        elif len(certain) <= 1 and lines:
            self.repeated += 1  # marked lines beside one that may have got out
        elif not lines and left == UNREAD:
            self.unknown += 1
        elif not lines and left == UNNOTED:
            self.unnoted += 1
        else:
            told = ", ".join(",".join(k for k in ("recovered", "mayRepeat") if k in line) or "plain" for line in lines)
            self.wrong.append(f"{name}: {told or 'no line'}")


class Killer:
    """Kills the sidecar after a delay, in a thread of its own, without notice."""

    def __init__(self, environment: FaultEnvironment, after_s: float) -> None:
        assert environment.sidecar is not None
        self._environment = environment
        self._sidecar = environment.sidecar
        self.gate = threading.Lock()
        """Held while an event is sent: it is either sent before the kill, or not at all."""
        self.struck = False
        self.left = ""
        """State of the invocation that was sent last: UNREAD, UNNOTED, or "" if the journal has it."""
        self._timer = threading.Timer(after_s, self._strike)
        self._timer.start()

    def _strike(self) -> None:
        with self.gate:
            self._sidecar.send_signal(signal.SIGSTOP)
            if stands(self._sidecar.pid) and self._environment.served:
                name = self._environment.served[-1]
                self.left = how_left(self._sidecar.pid, self._environment.api.address, self._environment.tmp, name)
            self.struck = True
            self._sidecar.send_signal(signal.SIGKILL)

    def wait(self) -> None:
        """Wait for the kill."""
        self._timer.join()


AGGREGATE = {"TRUEMEM_AGGREGATE": "300"}
"""Invocations wait for a line together."""


def kills(
    subject: Subject,
    count: int,
    advance: Callable[[], None],
    seed: int = 6,
    variables: Mapping[str, str] | None = None,
    name: str = "SIGKILL of the sidecar at random moments",
) -> Row:
    """`count` kills in one environment, which is reset after each."""
    chance = random.Random(seed)
    totals = Count()
    left: dict[str, str] = {}
    with FaultEnvironment(subject, variables) as environment:
        for _ in range(count):
            _one_life(environment, chance, totals, left)
            environment.kill()
            advance()
        environment.begin()
        environment.invoke()
        code = environment.shut_down()
        wrong_answers = environment.wrong
        served, records = environment.served, environment.records()
    if code != 0:
        totals.wrong.append(f"exit code {code} at SHUTDOWN")
    if wrong_answers:
        totals.wrong.append(f"{wrong_answers} wrong answers")
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for record in (one for line in records for one in spread(line)):
        lines.setdefault(record["requestId"], []).append(record)
    for request in served:
        totals.judge(request, lines.pop(request, []), left.get(request, ""))
    totals.wrong += [f"{request}: was never invoked" for request in lines]
    return row(name, totals)


def _one_life(environment: FaultEnvironment, chance: random.Random, totals: Count, left: dict[str, str]) -> None:
    """From a start to a kill."""
    where = "init"
    environment.start()
    killer = Killer(environment, chance.uniform(0, INIT_S)) if chance.random() < EARLY else None
    try:
        environment.await_next()
        environment.employ()
        if killer is None:
            for _ in range(chance.randrange(6)):
                environment.invoke(chance.choice(WORK))
            killer = Killer(environment, chance.uniform(0, SERVING_S))
        while True:
            where = "waiting"
            if chance.random() < 0.3:
                time.sleep(chance.uniform(0, 0.01))
            name = str(uuid.uuid4())
            with killer.gate:
                if killer.struck:
                    break
                environment.send(name)
            where = "serving"
            environment.work(name, chance.choice(WORK))
    except Died:
        pass
    assert killer is not None, "the sidecar has ended, and was not killed"
    killer.wait()
    totals.kills[where] += 1
    if where == "serving":
        left[environment.served[-1]] = killer.left


def kills_under_the_local_lambda(subject: Subject, count: int, advance: Callable[[], None], seed: int = 6) -> Row:
    """The same with a real runtime, freeze and reset: each kill is the platform's Extension.Crash."""
    chance = random.Random(seed)
    totals = Count()
    left: dict[str, str] = {}
    with Scenario(sidecar=subject.path) as environment:
        for number in range(count):
            for _ in range(1 + chance.randrange(3)):
                environment.invoke(mib=chance.randrange(8), ms=chance.choice((0, 2, 10)))
            environment.local.settle(timeout=30)
            pid = environment.local.processes()[f"extension:{environment.name}"]
            if number % 4 == 3:
                totals.kills["frozen"] += 1
                os.kill(pid, signal.SIGKILL)
                environment.attempt(mib=4, ms=0)  # it fails because of that, and extensions get no INVOKE
                left[environment.invocations[-1].request_id] = UNREAD
            else:
                totals.kills["serving"] += 1
                with ThreadPoolExecutor(1) as pool:
                    struck = pool.submit(_strike_amid, environment, pid, chance.uniform(0.02, 0.15))
                    environment.attempt(mib=4, ms=400)
                    left[environment.invocations[-1].request_id] = struck.result()
            advance()
        environment.invoke()
        records = environment.records()
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        lines.setdefault(record.requestId, []).append(record.document)
    for made in environment.invocations:
        totals.judge(made.request_id, lines.pop(made.request_id, []), left.get(made.request_id, ""))
    totals.wrong += [f"{name}: was never invoked" for name in lines]
    return row("the same under the local Lambda, each a reset", totals)


def _strike_amid(environment: Scenario, pid: int, after_s: float) -> str:
    """Kill the sidecar after this delay from the next invocation's start. Returns the state that it left."""
    begun = len(environment.invocations)
    until = time.monotonic() + WAIT_S
    while len(started := _started(environment)) <= begun:
        if time.monotonic() > until:
            raise TimeoutError("no platform.start")
        time.sleep(0.002)
    time.sleep(after_s)
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    address = next(each for each in variables if each.startswith(b"AWS_LAMBDA_RUNTIME_API=")).decode()
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
        folder = environment.local.environment_dir / "tmp"
        left = how_left(pid, address, folder, started[-1]) if stands(pid) else UNREAD
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)
    return left


def _started(environment: Scenario) -> list[str]:
    """Request ids."""
    return [event["record"]["requestId"] for event in environment.local.events if event["type"] == "platform.start"]


def how_left(pid: int, address: str, tmp: Path, name: str) -> str:
    """Find out what a stopped sidecar knows of the invocation."""
    journals = [path.read_bytes() for path in tmp.glob(".truemem-*")]
    if not journals or any(name.encode() in journal for journal in journals):
        return ""
    return UNREAD if unread(pid, address) else UNNOTED


def row(name: str, totals: Count) -> Row:
    """The row of this experiment."""
    moments = ", ".join(f"{number} {where}" for where, number in totals.kills.most_common())
    gone = [
        *([f"{totals.unknown:,} whose event it had not read"] if totals.unknown else []),
        *([f"{totals.unnoted:,} whose event it had read and not noted yet"] if totals.unnoted else []),
    ]
    pieces = [
        f"{totals.once:,} on their line",
        f"{totals.recovered:,} recovered",
        f"{totals.repeated:,} marked `mayRepeat`",
    ]
    return Row(
        name,
        f"{counted(totals.kills.total(), 'kill')} ({moments}), {totals.invocations:,} invocations",
        "the platform's reset; its own answers right",
        f"{', '.join(gone) or 'nothing'}; {', '.join(pieces)}",
        totals.wrong,
    )
