"""Measures what it costs to send records elsewhere, beside the line alone in the same run. Writes results/outputs.md.

Exit codes: 0 measured, 1 not measured.
"""

from __future__ import annotations

import select
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

import click
from truemem import output_settings as settings
from truemem.config import Config
from truemem.outputs.otlp_sender import OtlpOutput
from truemem.records.record import InvocationRecord
from truemem.support.clock import Clock

from benchmarks.contenders import EXECUTABLE, OURS, Contender
from benchmarks.publish import ROOT, machine, markdown
from benchmarks.running import HARDLY_SAMPLING, attached, invoke
from faults.receivers import Agent, Collector

RESULT = ROOT / "benchmarks" / "results" / "outputs.md"
BLOCK = 25
"""Invocations in a row; then it is the next one's turn."""
HOUR_MS, SECOND_MS = "3600000", "1000"
MEMORY_AFTER = REQUESTS = 300
OURS_QUIET = Contender(OURS, (EXECUTABLE,), errors=False)


@dataclass
class Side:
    """One setting, and what was measured of it."""

    name: str
    variables: dict[str, str]
    register: list[float] = field(default_factory=list)
    """ms from exec."""
    next: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """ms of an invocation, block by block."""
    pss_kib: int = 0
    dirty_kib: int = 0


def sides(collectors: dict[str, Collector], agent: Agent) -> list[Side]:
    """All of them; the first is the default."""
    hour, second = collectors["hour"].variables, collectors["second"].variables
    return [
        Side("`emf`", {}),
        Side("`json`", {"TRUEMEM_OUTPUT": "json"}),
        Side(
            "`emf,otlp`, no request in that time",
            {"TRUEMEM_OUTPUT": "emf,otlp", **hour, "OTEL_METRIC_EXPORT_INTERVAL": HOUR_MS},
        ),
        Side(
            "`emf,otlp`, a request each second",
            {"TRUEMEM_OUTPUT": "emf,otlp", **second, "OTEL_METRIC_EXPORT_INTERVAL": SECOND_MS},
        ),
        Side("`emf,dogstatsd`", {"TRUEMEM_OUTPUT": "emf,dogstatsd", **agent.variables}),
    ]


def starts(side: Side) -> None:
    """Start it once."""
    with OURS_QUIET.start(side.variables) as extension:
        extension.api.wait_for_next()
        side.register.append(extension.ms_since_exec("register"))
        side.next.append(extension.ms_since_exec("next"))


def run(made: list[Side], count: int, agent: Agent) -> None:
    """All environments at once, by turns: CPU time."""
    with ExitStack() as stack:
        running = [
            (side, stack.enter_context(attached(OURS_QUIET, {**HARDLY_SAMPLING, **side.variables}))) for side in made
        ]
        number = 0
        for block in range(count // BLOCK + 2):
            for side, extension in running:
                before = extension.cpu_ns()
                for _ in range(BLOCK):
                    number += 1
                    time.sleep(0.002)  # as if frozen in between
                    invoke(extension, number)
                if block > 1:
                    side.cpu.append((extension.cpu_ns() - before) / BLOCK / 1e6)
            agent.waiting()


def memory(side: Side, agent: Agent) -> None:
    """One environment alone: what it holds after MEMORY_AFTER invocations, the last of them sent."""
    with attached(OURS_QUIET, {**HARDLY_SAMPLING, **side.variables}) as extension:
        for number in range(MEMORY_AFTER):
            invoke(extension, number)
        time.sleep(1.1)
        invoke(extension, MEMORY_AFTER)
        time.sleep(0.3)
        held = extension.memory_kib()
        side.pss_kib, side.dirty_kib = held["Pss"], held["Private_Dirty"]
    agent.waiting()


def request_ms(collector: Collector) -> float:
    """CPU time of a request from its making to its answer, at the median: of the source, in this process."""
    found, _ = settings.otlp({name.encode(): value.encode() for name, value in collector.variables.items()})
    assert found is not None
    output = OtlpOutput(found, Config({}), "eu-central-1", Clock())
    now_ns, took = time.monotonic_ns(), []
    for number in range(REQUESTS):
        record = InvocationRecord(number, {"PeakRSS": 50.0, "CurrentRSS": 40.0}, {"environmentId": "one"})
        output.add(record, None)
        now_ns += 2_000_000_000
        before = time.thread_time_ns()
        output.step(now_ns, 0.0)
        while output.interest(0.0) is not None:
            select.select([output.interest(0.0)[0]], [], [])  # type: ignore[index]
            output.step(now_ns, 0.0)
        took.append((time.thread_time_ns() - before) / 1e6)
    return statistics.median(took)


def rows(made: list[Side]) -> list[list[str]]:
    """A row for each, beside the first."""
    first = made[0]

    def beside(value: float, of: float, unit: str, digits: int = 2) -> str:
        return f"{value / of:.2f} ({value:.{digits}f} {unit})"

    return [
        [
            side.name,
            beside(min(side.register), min(first.register), "ms"),
            beside(min(side.next), min(first.next), "ms"),
            beside(statistics.median(side.cpu), statistics.median(first.cpu), "ms"),
            beside(side.pss_kib, first.pss_kib, "KiB", 0),
            beside(side.dirty_kib, first.dirty_kib, "KiB", 0),
        ]
        for side in made
    ]


@click.command(help=__doc__)
@click.option("--count", default=1000, show_default=True, help="Invocations of each.")
@click.option("--rounds", default=30, show_default=True, help="Starts of each.")
def main(count: int, rounds: int) -> None:
    """See the module."""
    if not EXECUTABLE.exists():
        raise click.ClickException(f"{EXECUTABLE} is not there: run `make layer`.")
    with Agent() as agent, Collector() as hour, Collector() as second:
        collectors = {"hour": hour.start(), "second": second.start()}
        made = sides(collectors, agent)
        for _ in range(rounds):
            for side in made:
                starts(side)
        run(made, count, agent)
        for side in made:
            memory(side, agent)
        second.bodies.clear()
        each_ms = request_ms(second)
        size = statistics.fmean(map(len, second.bodies))
    headings = ["", "exec to register", "exec to `next`", "CPU of an invocation", "PSS", "private dirty"]
    table = markdown(headings, rows(made))
    text = (
        f"{table}\n\nBeside `emf` alone, in the same run (absolute values in brackets), with the layer's executable. "
        f"Starts are minima of {rounds}; CPU: medians over {len(made[0].cpu) * BLOCK:,} invocations, by turns; memory: "
        f"after {MEMORY_AFTER} invocations, each alone. A request, of {size:,.0f} bytes, takes {each_ms:.1f} ms of CPU "
        f"time (the source under python3). On {machine()}."
    )
    RESULT.write_text(f"# What outputs cost\n\n{text}\n")
    click.echo(text)


if __name__ == "__main__":
    main()
