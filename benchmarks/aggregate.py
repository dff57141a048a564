"""Measures what TRUEMEM_AGGREGATE saves and costs. Writes the table of docs/report.md.

Exit codes: 0 measured, 1 not measured, or shared lines are more than a fifth of the bytes.
"""

from __future__ import annotations

import statistics
import sys

import click
import psutil
from truemem_workbench.analysis.prices import LOG_GB
from truemem_workbench.lines.record import parse_lines

from benchmarks.publish import ROOT, machine, markdown, replace
from testing.environment import Environment

PAGE = ROOT / "docs" / "report.md"
BY = "python -m benchmarks.aggregate"
SIDECAR = ROOT / "dist" / "x86_64" / "extensions" / "truemem"
INVOCATIONS = 2002
"""The first and the last have a line of their own."""
MONTHLY = 100e6


def once(environ: dict[str, str]) -> dict[str, float]:
    """Bytes of log and µs of CPU an invocation, and PSS at the end in MiB."""
    with Environment(sidecar=SIDECAR, environment=environ, freeze="off") as environment:
        sidecar = psutil.Process(environment.local.processes()[f"extension:{SIDECAR.name}"])
        environment.invoke(mib=1)
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


@click.command(help=__doc__)
@click.option("--runs", default=3, show_default=True)
def main(runs: int) -> None:
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
            f"${one['bytes'] * MONTHLY / 1e9 * LOG_GB:.2f}",
            f"{one['cpu']:.0f} µs",
            f"{one['pss']:.1f} MiB",
        ]
        for name, one in medians.items()
    ]
    head = ["", "bytes of log an invocation", "a month, of 100 million", "CPU an invocation", "PSS"]
    table = markdown(head, rows)
    note = f"Medians of {runs} runs of {INVOCATIONS:,} invocations, in turn, on {machine()}."
    replace(PAGE, "aggregate", f"{table}\n\n{note}", by=BY)
    click.echo(table)
    alone, together = (one["bytes"] for one in medians.values())
    sys.exit(together > alone / 5)


if __name__ == "__main__":
    main()
