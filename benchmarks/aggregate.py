"""Measures what TRUEMEM_AGGREGATE saves and costs. Writes the table of docs/report.md, and by its figures what a fleet
costs into docs/platform-team.md.

Exit codes: 0 measured, 1 not measured, or shared lines are more than a fifth of the bytes.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import click
import psutil
from truemem_workbench.analysis.prices import MILLION
from truemem_workbench.lines.record import parse_lines

from benchmarks.cost import alarms_and_dashboards, cost, logs, metrics_by_emf
from benchmarks.publish import ROOT, machine, markdown, replace
from testing.environment import Environment

PAGE = ROOT / "docs" / "report.md"
BY = "python -m benchmarks.aggregate"
SIDECAR = ROOT / "dist" / "x86_64" / "extensions" / "truemem"
INVOCATIONS = 2002
"""The first and the last have a line of their own."""
MONTHLY = 100e6
FLEET_PAGE = ROOT / "docs" / "platform-team.md"
FLEET_MONTHLY = (10_000_000, 100_000_000, 1_000_000_000)
"""Invocations a month of all functions together."""
FLEET_MIB = 1024


def once(environ: dict[str, str]) -> dict[str, float]:
    """Bytes of log and µs of CPU an invocation, and PSS at the end in MiB."""
    with Environment(sidecar=SIDECAR, environment=environ, freeze="off") as environment:
        environment.invoke(mib=1)
        sidecar = psutil.Process(environment.local.processes()[f"extension:{SIDECAR.name}"])
        began = sum(sidecar.cpu_times()[:2])
        for number in range(INVOCATIONS - 1):
            environment.invoke(mib=number % 5)
        spent = sum(sidecar.cpu_times()[:2]) - began
        pss = sidecar.memory_full_info().pss
        environment.local.stop()
        lines = environment.local.extension_stdout(SIDECAR.name)[1:-1]
    told = len(parse_lines(lines))
    if told != INVOCATIONS - 2:
        raise click.ClickException(f"{told} invocations are told of, not {INVOCATIONS - 2}")
    written = sum(len(line.encode()) + 1 for line in lines)
    return {"bytes": written / told, "cpu": spent / (INVOCATIONS - 1) * 1e6, "pss": pss / 2**20}


def fleet(functions: int, alone: dict[str, float], together: dict[str, float]) -> list[list[str]]:
    """Rows of the fleet's table, in dollars a month. `alone` and `together` are what `once` has measured without and
    with TRUEMEM_AGGREGATE."""

    def row(name: str, of: Callable[[int], float]) -> list[str]:
        return [name, *(f"${of(invocations):,.0f}" for invocations in FLEET_MONTHLY)]

    a_million = cost(FLEET_MIB, 0, alone["cpu"] / 1000, 0, 0).duration_at_most
    return [
        row("log lines", lambda invocations: logs(invocations, alone["bytes"])),
        row("with `TRUEMEM_AGGREGATE=60`", lambda invocations: logs(invocations, together["bytes"])),
        row("four metrics each", lambda _: metrics_by_emf(functions)),
        row("alarms and dashboards", lambda _: alarms_and_dashboards(functions)),
        row(f"billed time at most, at {FLEET_MIB:,} MiB", lambda invocations: a_million * invocations / MILLION),
    ]


@click.command(help=__doc__)
@click.option("--runs", default=3, show_default=True)
@click.option("--functions", default=200, show_default=True, help="Of the fleet.")
@click.option("--write/--no-write", default=True, help="Write the pages' tables.")
def main(runs: int, functions: int, write: bool) -> None:
    """See the module."""
    usual = {"TRUEMEM_DETAIL": "auto"}
    kinds = {"a line each": usual, "`TRUEMEM_AGGREGATE=60`": {**usual, "TRUEMEM_AGGREGATE": "60"}}
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in kinds}
    for _ in range(runs):
        for name, environ in kinds.items():  # in turn: the machine has other tenants
            measured[name].append(once(environ))
    medians = {
        name: {what: statistics.median(each[what] for each in made) for what in made[0]}
        for name, made in measured.items()
    }
    rows = [
        [
            name,
            f"{one['bytes']:.0f}",
            f"${logs(MONTHLY, one['bytes']):.2f}",
            f"{one['cpu']:.0f} µs",
            f"{one['pss']:.1f} MiB",
        ]
        for name, one in medians.items()
    ]
    head = ["", "bytes of log an invocation", "a month, of 100 million", "CPU an invocation", "PSS"]
    table = markdown(head, rows)
    note = f"Medians of {runs} runs of {INVOCATIONS:,} invocations, in turn, on {machine()}."
    alone, together = medians.values()
    monthly = [f"{count // MILLION:,} million" for count in FLEET_MONTHLY]
    total = markdown([f"{functions} functions, a month, with invocations", *monthly], fleet(functions, alone, together))
    click.echo(f"{table}\n\n{total}")
    if write:
        replace(PAGE, "aggregate", f"{table}\n\n{note}", by=BY)
        replace(FLEET_PAGE, "fleet", total, by=BY)
    sys.exit(together["bytes"] > alone["bytes"] / 5)


if __name__ == "__main__":
    main()
