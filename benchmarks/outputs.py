"""Measures what it costs to send records elsewhere, beside the line alone in the same run. Writes docs/outputs.md.

Exit codes: 0 measured, 1 not measured.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

import click

from benchmarks.bare import Extension, FunctionProcesses
from benchmarks.contenders import EXECUTABLE, OURS, Contender
from benchmarks.publish import ROOT, machine, markdown, replace
from benchmarks.running import HARDLY_SAMPLING, invoke
from faults.receivers import Agent, Collector

PAGE = ROOT / "docs" / "outputs.md"
BY = "python -m benchmarks.outputs"
BLOCK = 25
"""Invocations in a row; then it is the next one's turn."""
HOUR_MS, SECOND_MS = "3600000", "1000"


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
    requests: int = 0
    bytes: float = 0.0
    """Of a request."""


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
    with Contender(OURS, (EXECUTABLE,), errors=False).start(side.variables) as extension:
        extension.api.wait_for_next()
        side.register.append(extension.ms_since_exec("register"))
        side.next.append(extension.ms_since_exec("next"))


def run(made: list[Side], count: int, agent: Agent, collectors: dict[str, Collector]) -> None:
    """All environments at once, by turns."""
    with ExitStack() as stack:
        running: list[tuple[Side, Extension]] = []
        for side in made:
            variables = {**HARDLY_SAMPLING, **side.variables}
            extension = stack.enter_context(Contender(OURS, (EXECUTABLE,), errors=False).start(variables))
            extension.api.wait_for_next()
            stack.enter_context(FunctionProcesses(extension.api.address))
            running.append((side, extension))
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
        for side, extension in running:
            side.pss_kib = extension.memory_kib()["Pss"]
        sender = made[3]
        bodies = collectors["second"].bodies
        sender.requests, sender.bytes = len(bodies), statistics.fmean(map(len, bodies)) if bodies else 0.0


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
            beside(statistics.fmean(side.cpu), statistics.fmean(first.cpu), "ms"),
            beside(side.pss_kib, first.pss_kib, "KiB", 0),
        ]
        for side in made
    ]


@click.command(help=__doc__)
@click.option("--count", default=1000, show_default=True, help="Invocations of each.")
@click.option("--rounds", default=30, show_default=True, help="Starts of each.")
@click.option("--write/--no-write", default=True, help="Write the table.")
def main(count: int, rounds: int, write: bool) -> None:
    """See the module."""
    if not EXECUTABLE.exists():
        raise click.ClickException(f"{EXECUTABLE} is not there: run `make layer`.")
    with Agent() as agent, Collector() as hour, Collector() as second:
        collectors = {"hour": hour.start(), "second": second.start()}
        made = sides(collectors, agent)
        for _ in range(rounds):
            for side in made:
                starts(side)
        for collector in collectors.values():
            collector.bodies.clear()
        run(made, count, agent, collectors)
    headings = ["", "exec to register", "exec to `next`", "CPU of an invocation, median", "mean", "PSS"]
    table = markdown(headings, rows(made))
    sender, quiet = made[3], made[2]
    total_ms = (statistics.fmean(sender.cpu) - statistics.fmean(quiet.cpu)) * len(sender.cpu) * BLOCK
    each_ms = total_ms / max(1, sender.requests)
    text = (
        f"{table}\n\nBeside `emf` alone, in the same run (absolute values in brackets); starts are minima of {rounds}. "
        f"{len(made[0].cpu) * BLOCK:,} invocations of each, by turns, with the layer's executable. A request of "
        f"{sender.bytes:,.0f} bytes takes {each_ms:.1f} ms of CPU time, all in all ({sender.requests} requests). "
        f"On {machine()}."
    )
    if write:
        replace(PAGE, "outputs", text, by=BY)
    click.echo(text)


if __name__ == "__main__":
    main()
