"""Measures `truemem report --engine spark` on a fleet's lines: one worker process, and two, beside one machine.

`python -m benchmarks.spark [--environments 10000]` writes a fleet's log files, lets each engine report them, fails
unless all reports are the same document, and puts the figures, with what a terabyte costs, into
benchmarks/results/spark.md. It needs `make pyspark`, and Java 17.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil

from benchmarks import report
from benchmarks.publish import ROOT, machine, markdown

RESULTS = ROOT / "benchmarks" / "results" / "spark.md"
WORKERS = (1, 2)
MEMORY_MB = 2048
"""Of each worker, with one core."""
LOOK_S = 0.25
TERABYTE = 10**12
GB_PER_VCPU = 4
"""Memory of a worker of EMR Serverless for each vCPU. The least that can be chosen for 4 vCPU is 2 GB each."""
HEADINGS = ("engine", "lines", "seconds", "CPU seconds", "lines a second", "lines a CPU second")


@dataclass(frozen=True)
class Figures:
    """Of one run."""

    engine: str
    lines: int
    size: int
    """Bytes of the lines."""
    seconds: float
    """Of the whole command, the start of Spark included."""
    cpu_seconds: float
    """Of all its processes: Python, Java, and Python below Java."""

    def row(self) -> Sequence[str]:
        return (
            self.engine,
            f"{self.lines:,}",
            f"{self.seconds:,.0f}",
            f"{self.cpu_seconds:,.0f}",
            f"{self.lines / self.seconds:,.0f}",
            f"{self.lines / self.cpu_seconds:,.0f}",
        )


@click.command()
@click.option("--environments", default=1000, show_default=True, help=f"Each of {report.INVOCATIONS:,} invocations.")
@click.option("--vcpu-hour", default=0.052624, show_default=True, help="USD; EMR Serverless, us-east-1, x86_64.")
@click.option("--gb-hour", default=0.0057785, show_default=True, help="USD; the same.")
@click.option("--busy", default=0.8, show_default=True, help="Share of the paid time in which a vCPU has work.")
def main(environments: int, vcpu_hour: float, gb_hour: float, busy: float) -> None:
    """Measure, compare, publish."""
    with tempfile.TemporaryDirectory(prefix="truemem-fleet-") as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        files = report.write(logs, environments)
        size = sum(file.stat().st_size for file in files)
        lines = environments * report.INVOCATIONS
        ways: dict[str, list[str | Path]] = {"one machine": [*files]}
        for count in WORKERS:
            cluster = f"local-cluster[{count},1,{MEMORY_MB}]"
            ways[f"Spark, {count} worker{'s' * (count > 1)}"] = [logs, "--engine", "spark", "--master", cluster]
        rows, documents = [], []
        for engine, arguments in ways.items():
            seconds, cpu_seconds, document = run(["report", "--json", *arguments], Path(folder) / "report.json")
            rows.append(Figures(engine, lines, size, seconds, cpu_seconds))
            documents.append(document)
            click.echo(" | ".join(rows[-1].row()) + f" | load {os.getloadavg()[0]:.1f}")
    report.check(documents[0], environments)
    if any(document != documents[0] for document in documents[1:]):
        raise click.ClickException("the reports are not the same")
    table = markdown(HEADINGS, [figures.row() for figures in rows])
    note = (
        f"Each once, on {os.cpu_count()} cores that other work shared, so seconds say little: count the CPU seconds."
        " All reports were the same document, and found the planted leaks and no others."
    )
    price = cost(rows[-1], vcpu_hour, gb_hour, busy)
    RESULTS.write_text(f"# truemem report on Spark\n\n{machine()}\n\n{table}\n\n{note}\n\n{price}\n")
    click.echo(f"{table}\n\n{price}")


def cost(figures: Figures, vcpu_hour: float, gb_hour: float, busy: float) -> str:
    """What a terabyte of lines costs on EMR Serverless, in words."""
    lines = TERABYTE * figures.lines / figures.size
    hours = figures.cpu_seconds / figures.lines * lines / 3600 / busy
    price = vcpu_hour + GB_PER_VCPU * gb_hour
    return (
        f"A terabyte (10¹² bytes before gzip, {lines / 1e9:.2f} thousand million lines) takes, at"
        f" {figures.lines / figures.cpu_seconds:,.0f} lines a CPU second, {hours:,.0f} vCPU-hours, if vCPUs are like"
        f" these cores and have work in {busy:.0%} of the paid time. At ${vcpu_hour} for a vCPU-hour and"
        f" {GB_PER_VCPU} GB at ${gb_hour} for a GB-hour, that is **${hours * price:,.2f}**; with 100 vCPUs"
        f" {60 * hours / 100:,.0f} minutes."
    )


def run(arguments: Sequence[str | Path], output: Path) -> tuple[float, float, Any]:
    """A command's seconds, the CPU seconds of all its processes, and the document that it prints."""
    command = [sys.executable, "-m", "truemem_workbench.cli", *map(str, arguments)]
    began = time.monotonic()
    used: dict[tuple[int, float], float] = {}  # of those that have ended, as last seen
    with (
        output.open("w") as file,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=file, stderr=errors) as process,
    ):
        family = psutil.Process(process.pid)
        while process.poll() is None:
            look(family, used)
            time.sleep(LOOK_S)
        seconds = time.monotonic() - began
        if process.returncode:
            errors.seek(0)
            raise click.ClickException(errors.read().decode(errors="replace")[-2000:])
    return seconds, sum(used.values()), json.loads(output.read_text())


def look(family: psutil.Process, used: dict[tuple[int, float], float]) -> None:
    """Note the CPU seconds of the process and its descendants."""
    try:
        processes = [family, *family.children(recursive=True)]
    except psutil.Error:
        return
    for process in processes:
        try:
            times = process.cpu_times()
            used[process.pid, process.create_time()] = times.user + times.system
        except psutil.Error:
            continue


if __name__ == "__main__":
    main()
