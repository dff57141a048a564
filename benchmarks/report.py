"""Measures `truemem report` on a fleet's lines: lines per second, and peak memory.

`python -m benchmarks.report [--full]` writes a fleet's log files, runs the command on them, checks that it found the
planted leaks, and puts the figures into benchmarks/results/report.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
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
from truemem_workbench.support.terminal import counted

from benchmarks.publish import ROOT, machine, markdown

FILES = 16
INVOCATIONS = 1000
FUNCTIONS = 200
"""The environments belong to so many functions in turn."""
LEAKY_EVERY = 50
"""One environment of so many keeps LEAK_MIB with each invocation. They belong to four of the functions."""
LEAK_MIB = 0.125
"""It reaches the memory limit soon: a slower leak is `warming` before 1,024 invocations."""
BEGIN_MS = 1_795_288_667_424
GAP_MS = 1_500
AIM_LINES_PER_SECOND = 100_000
RESULTS = ROOT / "benchmarks" / "results" / "report.md"
HEADINGS = (
    "environments",
    "lines",
    "on disk",
    "seconds",
    "CPU seconds",
    "lines a second",
    "peak RSS",
    "temporary files",
)

# a line as in tests/attach/captured.txt: what is the same in all of them is written once
LINE = (
    '{"_aws":{"Timestamp":%d,"CloudWatchMetrics":[{"Namespace":"truemem","Dimensions":[["FunctionName"]],"Metrics":'
    '[{"Name":"PeakRSS","Unit":"Megabytes"},{"Name":"CurrentRSS","Unit":"Megabytes"},{"Name":"MaxMemoryUsed","Unit":'
    '"Megabytes"}]}]},"FunctionName":"function-%03d","PeakRSS":%.2f,"CurrentRSS":%.2f,"MaxMemoryUsed":%d,"requestId":'
    '"%08x-7e9b-4967-8952-%012x","environmentId":"2026/11/21/[$LATEST]%032x","invocation":%d,"functionVersion":"$LATEST",'
    '"status":"success","durationMs":%.3f,"method":"vmhwm","peakLower":%.2f,"peakUpper":%.2f,"closedBy":"next-invoke",'
    '"resetDelayUs":184,"highWaterMark":%.2f,"memoryLimit":512,"baselineRSS":%.2f,"holders":{"function":%.2f,"truemem":'
    '5.12},"rss":{"anon":%.2f,"file":8.14,"shmem":0.0},"processes":1,"threads":1,"environment":{"source":"meminfo",'
    '"used":%.2f},"level":"INFO","schema":1}\n'
)


@dataclass(frozen=True)
class Figures:
    """Of one run."""

    environments: int
    lines: int
    size: int
    """Bytes on disk."""
    seconds: float
    """Of the whole command, its start included."""
    cpu_seconds: float
    """Of all its processes."""
    rss: int
    """Bytes; the highest sum over the command and its own processes, looked at every 50 ms."""
    temporary: int
    """Bytes; the highest sum of its files in TMPDIR."""

    @property
    def lines_per_second(self) -> float:
        return self.lines / self.seconds

    def row(self) -> Sequence[str]:
        return (
            f"{self.environments:,}",
            f"{self.lines:,}",
            f"{self.size / 1e9:,.2f} GB",
            f"{self.seconds:,.1f}",
            f"{self.cpu_seconds:,.1f}",
            f"{self.lines_per_second:,.0f}",
            f"{self.rss / 2**20:,.0f} MiB",
            f"{self.temporary / 1e9:,.2f} GB",
        )


@click.command()
@click.option("--environments", default=1000, show_default=True, help=f"Each of {INVOCATIONS:,} invocations.")
@click.option("--full", is_flag=True, help="10,000 environments besides, once: 10 GB of disk, some minutes.")
@click.option("--runs", default=3, show_default=True, help="Of which the median counts.")
def main(environments: int, full: bool, runs: int) -> None:
    """Measure, check, publish."""
    rows = [measured(environments, runs), *([measured(10_000, 1)] if full else ())]
    table = markdown(HEADINGS, [figures.row() for figures in rows], text_columns=0)
    pictures = drawn(environments)
    note = (
        f"{os.cpu_count()} cores, shared with other work; the median of {counted(runs, 'run')};"
        " the file system's cache is warm."
    )
    RESULTS.write_text(f"# truemem report\n\n{machine()}\n\n{table}\n\n{note}\n\n{pictures}\n")
    click.echo(f"{table}\n\n{pictures}")
    if rows[-1].lines_per_second < AIM_LINES_PER_SECOND:  # the largest: of a smaller one, the start is a larger share
        raise click.ClickException(f"fewer than {AIM_LINES_PER_SECOND:,} lines a second")


def measured(environments: int, runs: int) -> Figures:
    """Write a fleet, report it, check the report."""
    with tempfile.TemporaryDirectory(prefix="truemem-fleet-") as folder:
        files = write(Path(folder), environments)
        size = sum(file.stat().st_size for file in files)
        output = Path(folder) / "report.json"
        ran = sorted(run(["report", "--json", *files], output) for _ in range(runs))
        seconds, cpu_seconds, rss, temporary = ran[len(ran) // 2]
        check(json.loads(output.read_text()), environments)
        return Figures(environments, environments * INVOCATIONS, size, seconds, cpu_seconds, rss, temporary)


def drawn(environments: int) -> str:
    """What it takes to draw a fleet's lines, as a table. Once each."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="truemem-fleet-") as folder:
        files = write(Path(folder), environments)
        html, output = Path(folder) / "page.html", Path(folder) / "output"
        one = f"{0:032x}"
        ways: dict[str, list[str | Path]] = {
            "`report`": ["report", "--json"],
            "`report --output page.html`": ["report", "--json", "--output", html],
            "`page`": ["page", "--output", html],
            "`page --environment`, one": ["page", "--output", html, "--environment", one],
        }
        for name, command in ways.items():
            seconds, _, rss, _ = run([*command, *files], output)
            rows.append((name, f"{seconds:,.0f}", f"{rss / 2**20:,.0f} MiB"))
    return markdown((f"{environments * INVOCATIONS:,} lines", "seconds", "peak RSS"), rows)


def write(folder: Path, environments: int) -> list[Path]:
    """Log files of the fleet, each of some environments, in the order of time."""
    noise = random.Random(7)
    files = [folder / f"{number}.log" for number in range(min(FILES, environments))]
    for number, path in enumerate(files):
        held = {environment: 90 + noise.random() * 20 for environment in range(number, environments, len(files))}
        with path.open("w") as file:
            for invocation in range(1, INVOCATIONS + 1):
                file.writelines(line(environment, invocation, at, noise) for environment, at in held.items())
    return files


def line(environment: int, invocation: int, level: float, noise: random.Random) -> str:
    leak = LEAK_MIB * invocation if environment % LEAKY_EVERY == 0 else 0.0
    current = level + leak + noise.random() / 4
    peak = current + 5 + 30 * noise.random()
    mark = level + leak + 60 + invocation // 100
    time_ms = BEGIN_MS + invocation * GAP_MS + environment
    return LINE % (
        time_ms,
        environment % FUNCTIONS,
        peak,
        current,
        mark,
        invocation,
        environment,
        environment,
        invocation,
        40 + 20 * noise.random(),
        peak,
        peak,
        peak,
        current,
        current,
        current - 8.14,
        current + 45,
    )


def run(arguments: Sequence[str | Path], output: Path) -> tuple[float, float, int, int]:
    """A command's seconds and CPU seconds; bytes in memory, and in TMPDIR."""
    temporary = output.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "truemem_workbench.cli", *map(str, arguments)]
    began = time.monotonic()
    highest = on_disk = 0
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with output.open("w") as file, subprocess.Popen(command, stdout=file, env=environment) as process:
        family = psutil.Process(process.pid)
        while process.poll() is None:
            highest = max(highest, resident(family))
            on_disk = max(on_disk, size_of(temporary))
            time.sleep(0.05)
    if process.returncode:
        raise click.ClickException(f"truemem {arguments[0]} ended with {process.returncode}")
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, highest, on_disk


def resident(family: psutil.Process) -> int:
    """Bytes of the process and its descendants, pages that they share counted for each."""
    total = 0
    try:
        for process in (family, *family.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.Error:
        return 0  # one has just ended: the next look counts
    return total


def size_of(folder: Path) -> int:
    """Bytes that its files take; those that vanish meanwhile count for nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(place) / name).lstat().st_size
    return total


def check(report: Any, environments: int) -> None:
    """Raises click.ClickException unless the leaks that were planted were found and come first, and no others."""
    planted = len(range(0, environments, LEAKY_EVERY))
    found = sum(function["growing"] for function in report["functions"])
    lines = sum(function["peaks"]["invocations"] for function in report["functions"])
    if (lines, found) != (environments * INVOCATIONS, planted):
        raise click.ClickException(f"{found} leaks found, {planted} planted, in {lines} lines")
    leaky = {f"function-{environment % FUNCTIONS:03d}" for environment in range(0, environments, LEAKY_EVERY)}
    first = {action["function"] for action in report["actions"][: len(leaky)]}
    if first != leaky:
        raise click.ClickException(f"first in the list: {sorted(first)}; planted: {sorted(leaky)}")


if __name__ == "__main__":
    main()
