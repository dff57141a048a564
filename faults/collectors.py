"""Collectors and agents that are late, slow, rude or gone: does the function notice, and are losses told?

Each environment is compared with one that sends nothing, invocation by invocation in turns, so that both meet the same
noise: how long after INVOKE does the sidecar ask for its next event? Lambda waits for that, and for nothing else of it.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import psutil

from benchmarks.kit.bench import percentile
from faults import receivers
from faults.environment import FaultEnvironment, tally
from faults.receivers import Agent, Behaviour, Collector
from faults.result import Row, counted
from faults.subject import Subject

NOTICED_MS = 1.0
"""Longer at the median of all invocations: the function has noticed it."""
STOOD_S = 1.0
"""Longest that an invocation may have waited for the sidecar: nothing waits for a second, on a busy machine either."""
BUSY = 0.1
"""Share of a CPU that it may take more than one that sends nothing: a loop that does not wait takes all of it."""
SHUTDOWN_S = 2.0
"""What the platform gives extensions at SHUTDOWN."""
PERIODS = 4
"""Of a second each: requests to a collector."""
LATE_S = 2.5
"""When a late collector begins to listen."""

IN_ALL = re.compile(r"otlp to \S+: .*?(\d+)(?: invocations dropped)? in all")
DATAGRAMS = re.compile(r"dogstatsd: (\d+) datagrams dropped so far")


@dataclass(frozen=True)
class Fault:
    """What a collector does."""

    title: str
    behaviour: Behaviour = receivers.takes
    listens: bool = True
    reads: bool = True
    late: bool = False


FAULTS = (
    Fault("a collector takes all"),
    Fault("nobody listens", listens=False),
    Fault(f"a collector that listens {LATE_S:g} s late", listens=False, late=True),
    Fault("a collector that never answers", receivers.never),
    Fault("one that does not read", reads=False),
    Fault("one that answers byte by byte", receivers.slowly(0.001)),
    Fault("429 with Retry-After, always", receivers.answers(receivers.status(429, "Retry-After: 1\r\n"))),
    Fault("503 once", receivers.once(receivers.answers(receivers.status(503)))),
    Fault("500, always", receivers.answers(receivers.status(500))),
    Fault("garbage", receivers.answers(b"\x16\x03\x01\x00" * 300)),
    Fault("an answer without an end", receivers.floods),
    Fault("a connection that breaks in each answer", receivers.dies),
    Fault("a connection that is closed after each answer", receivers.takes_and_closes, True),
    Fault(
        "3 data points of each request are refused",
        receivers.answers(receivers.status(200, "", receivers.PARTIAL), taken=True),
    ),
)


def sends(subject: Subject, fault: Fault, seconds: float, advance: Callable[[], None]) -> Row:
    """Run two environments in turns: one that sends to such a collector, and one that sends nothing."""
    title = f"OpenTelemetry: {fault.title}"
    took: dict[bool, list[float]] = {True: [], False: []}
    broken: list[str] = []
    with ExitStack() as stack:
        collector = stack.enter_context(Collector(fault.behaviour, reads=fault.reads))
        if fault.listens:
            collector.start()
        variables = {"TRUEMEM_OUTPUT": "emf,otlp", **collector.variables, "OTEL_EXPORTER_OTLP_TIMEOUT": "1000"}
        sender = stack.enter_context(FaultEnvironment(subject, variables))
        other = stack.enter_context(FaultEnvironment(subject))
        for environment in (sender, other):
            environment.begin()
        begun, is_late = time.monotonic(), fault.late
        while time.monotonic() - begun < seconds:
            for environment in (sender, other):
                environment.longest_s = 0.0
                environment.invoke("hold 64 5")
                took[environment is sender].append(environment.longest_s * 1000)
            if is_late and time.monotonic() - begun > LATE_S:
                collector.start()
                is_late = False
        advance()
        busy = (cpu_s(sender) - cpu_s(other)) / (time.monotonic() - begun)
        since = time.monotonic()
        code = sender.shut_down()
        ended_s = time.monotonic() - since
        other.shut_down()
        log, served = sender.said(), sender.served
        missing = sum(not number for number in tally(served, sender.records()).values())
        longest_s, wrong = max(took[True]) / 1000, sender.wrong
        taken = collector.invocations
    added = statistics.median(took[True]) - statistics.median(took[False])
    told = max((int(found) for found in IN_ALL.findall(log)), default=0)
    silent = len(served) - taken - told
    broken += [f"{title}: exit code {code}"] if code != 0 else []
    broken += [f"{title}: {missing} lines are missing"] if missing else []
    broken += [f"{title}: {wrong} wrong answers"] if wrong else []
    broken += [f"{title}: {silent} invocations lost in silence"] if silent > 0 else []
    broken += [f"{title}: {-silent} invocations were sent twice"] if taken > len(served) else []
    broken += [f"{title}: {added:.2f} ms longer"] if added > NOTICED_MS else []
    broken += [f"{title}: an invocation waited {longest_s:.1f} s"] if longest_s > STOOD_S else []
    broken += [f"{title}: the sidecar took {busy:.0%} of a CPU"] if busy > BUSY else []
    broken += [f"{title}: SHUTDOWN took {ended_s:.1f} s"] if ended_s > SHUTDOWN_S else []
    lost = f"no line; {_loss(told, taken)}"
    p99, p99_other = (percentile(took[which], 99) for which in (True, False))
    saw = f"{added:+.2f} ms at the median, p99 {p99:.1f} ms ({p99_other:.1f} without); {busy:.1%} of a CPU"
    return Row(title, f"{counted(len(served), 'invocation')}", saw, lost, broken)


def cpu_s(environment: FaultEnvironment) -> float:
    """CPU time that its sidecar has taken, in seconds."""
    assert environment.sidecar is not None
    times = psutil.Process(environment.sidecar.pid).cpu_times()
    return float(times.user + times.system)


def _loss(told: int, taken: int) -> str:
    return f"{taken:,} taken, {told:,} dropped and reported" if told else f"{taken:,} taken, none dropped"


AGENTS = {"an agent takes all": True, "nobody listens": False}


def datagrams(subject: Subject, title: str, count: int, advance: Callable[[], None]) -> Row:
    """Run one environment that sends to such an agent."""
    listens, name = AGENTS[title], f"DogStatsD: {title}"
    agent = Agent()
    with agent:
        variables = {"TRUEMEM_OUTPUT": "emf,dogstatsd", **agent.variables}
    if listens:
        agent = Agent()
        variables.update(agent.variables)
    received = 0
    with FaultEnvironment(subject, variables) as environment:
        environment.begin()
        for _ in range(count):
            environment.invoke()
            advance()
            received += len(agent.waiting()) if listens else 0
        code = environment.shut_down()
        received += len(agent.received()) if listens else 0
        log, served = environment.said(), environment.served
        missing = sum(not number for number in tally(served, environment.records()).values())
        longest_s = environment.longest_s
    told = max((int(found) for found in DATAGRAMS.findall(log)), default=0)
    silent = len(served) - received - told
    broken = [f"{name}: exit code {code}"] if code != 0 else []
    broken += [f"{name}: {missing} lines are missing"] if missing else []
    broken += [f"{name}: {silent} datagrams lost in silence"] if silent > 0 else []
    broken += [f"{name}: an invocation waited {longest_s:.1f} s"] if longest_s > STOOD_S else []
    lost = f"no line; {_loss(told, received)}"
    return Row(name, counted(len(served), "invocation"), "nothing", lost, broken)


def titles(quick: bool) -> Sequence[Fault]:
    """All faults of a collector, or some."""
    return (FAULTS[1], FAULTS[5], FAULTS[8]) if quick else FAULTS
