"""Measures `truemem report` on a fleet's lines: its time by that of one Python process that only parses each line,
lines per second, and peak memory.

`python -m benchmarks.report [--full]` writes a fleet's log files, runs the command on them, in turn with that process
and with the code of BEFORE, checks that it found the planted leaks, and puts the figures into results/report.md. It
fails if the command takes more than AIM_RATIO of that process's time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import click
import psutil

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
LOOK_S = 0.2
"""Between two looks at a command's processes: each takes some ms of a core that the command has."""
AIM_RATIO = 0.5
"""Most time of the command, by that of one process that only parses the lines."""
BEFORE = "6815edd0"
"""The commit to compare with."""
PARSES = """
import json, sys
for path in sys.argv[1:]:
    with open(path) as file:
        for line in file:
            json.loads(line)
"""
RESULTS = ROOT / "benchmarks" / "results" / "report.md"
HEADINGS = (
    "of 1,000 lines each",
    "lines",
    "on disk",
    "runs",
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


class Ran(NamedTuple):
    """One run of a command."""

    seconds: float
    """Its start included."""
    cpu_seconds: float
    """Of all its processes."""
    rss: int
    """Bytes; the highest sum over the command and its own processes, looked at every LOOK_S."""
    temporary: int
    """Bytes; the highest sum of its files in TMPDIR."""


@dataclass(frozen=True)
class Figures:
    """Of several runs in turn."""

    environments: int
    size: int
    """Bytes on disk."""
    runs: dict[str, list[Ran]]
    """By what was run: REPORT, PARSE, and perhaps the code of BEFORE."""

    @property
    def ratio(self) -> float:
        """The median of REPORT's time by PARSE's, of runs one after the other."""
        return self.by_parse(REPORT)

    def by_parse(self, name: str) -> float:
        """The same of what ran under this name."""
        pairs = zip(self.runs[name], self.runs[PARSE], strict=True)
        return statistics.median(one.seconds / parse.seconds for one, parse in pairs)

    def rows(self) -> list[Sequence[str]]:
        lines = self.environments * INVOCATIONS
        made: list[Sequence[str]] = []
        for name, runs in self.runs.items():
            ran = sorted(runs)[len(runs) // 2]
            made.append((
                name, f"{lines:,}", f"{self.size / 1e9:,.2f} GB", f"{len(runs)}", f"{ran.seconds:,.1f}",
                f"{ran.cpu_seconds:,.1f}", f"{lines / ran.seconds:,.0f}", f"{ran.rss / 2**20:,.0f} MiB",
                f"{ran.temporary / 1e9:,.2f} GB",
            ))  # fmt: skip
        return made


REPORT, PARSE = "`truemem report`", "one process, `json.loads` of each line"
REPORT_BEFORE = "the code before"


@click.command()
@click.option("--environments", default=1000, show_default=True, help=f"Each of {INVOCATIONS:,} invocations.")
@click.option("--full", is_flag=True, help="10,000 environments besides, once: 10 GB of disk, some minutes.")
@click.option("--runs", default=3, show_default=True, help="Of which the median counts.")
@click.option("--draw/--no-draw", default=True, help="Also measure what draws the lines.")
def main(environments: int, full: bool, runs: int, draw: bool) -> None:
    """Measure, check, publish."""
    with code_of(BEFORE) as before:
        found = [measured(environments, runs, before), *([measured(10_000, 1, None)] if full else ())]
    table = markdown(HEADINGS, [row for figures in found for row in figures.rows()])
    ratios = " and ".join(f"{each.ratio:.2f} for {each.environments * INVOCATIONS:,} lines" for each in found)
    pictures = f"\n{drawn(environments)}\n" if draw else ""
    note = (
        f"The time of the report by that of one process that only parses the lines: {ratios}; the aim is {AIM_RATIO} or"
        f" less. {os.cpu_count()} cores, shared with other work; runs in turn, the median counts; the file system's"
        f" cache is warm. Before: commit {BEFORE}."
    )
    RESULTS.write_text(f"# truemem report\n\n{machine()}\n\n{table}\n\n{note}\n{pictures}")
    click.echo(f"{table}\n\n{note}\n{pictures}")
    if max(each.ratio for each in found) > AIM_RATIO:
        raise click.ClickException(f"more than {AIM_RATIO} of that process's time")


def ratio(environments: int = 300, runs: int = 3) -> float:
    """The time of the report by that of one process that only parses the lines, of a small fleet: within a minute."""
    return measured(environments, runs, None).ratio


@contextlib.contextmanager
def code_of(commit: str) -> Iterator[Path]:
    """A folder with the code of a commit."""
    with tempfile.TemporaryDirectory(prefix="truemem-before-") as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--force", folder, commit], check=True, capture_output=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True, capture_output=True)


def measured(environments: int, runs: int, before: Path | None) -> Figures:
    """Write a fleet, report it in turn with the others, check the report. `before`: the folder of other code."""
    with tempfile.TemporaryDirectory(prefix="truemem-fleet-") as folder:
        files = write(Path(folder), environments)
        output = Path(folder) / "report.json"
        found: dict[str, list[Ran]] = {}
        for _ in range(runs):
            found.setdefault(REPORT, []).append(run(["report", "--json", *files], output))
            check(json.loads(output.read_text()), environments)
            found.setdefault(PARSE, []).append(ran([sys.executable, "-c", PARSES, *map(str, files)], output))
            if before is not None:
                found.setdefault(REPORT_BEFORE, []).append(run(["report", "--json", *files], output, before))
        return Figures(environments, sum(file.stat().st_size for file in files), found)


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
            figures = run([*command, *files], output)
            rows.append((name, f"{figures.seconds:,.0f}", f"{figures.rss / 2**20:,.0f} MiB"))
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


def run(arguments: Sequence[str | Path], output: Path, code: Path = ROOT) -> Ran:
    """Run a command of truemem, with the code of a folder."""
    environ = {"PYTHONPATH": os.pathsep.join(str(code / name) for name in ("workbench", "extension"))}
    return ran([sys.executable, "-m", "truemem_workbench.cli", *map(str, arguments)], output, environ)


def ran(command: Sequence[str], output: Path, environ: Mapping[str, str] = MappingProxyType({})) -> Ran:
    """Run a command. Raises click.ClickException if it fails."""
    temporary = output.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    cpu_seconds: dict[int, float] = {}
    highest = on_disk = 0
    began = time.monotonic()
    environment = {**os.environ, **environ, "TMPDIR": str(temporary)}
    with output.open("w") as file, subprocess.Popen(command, stdout=file, env=environment) as process:
        family = psutil.Process(process.pid)
        while process.poll() is None:
            highest = max(highest, looked(family, cpu_seconds))
            on_disk = max(on_disk, size_of(temporary))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
    if process.returncode:
        raise click.ClickException(f"{command[:5]} ended with {process.returncode}")
    return Ran(time.monotonic() - began, sum(cpu_seconds.values()), highest, on_disk)


def looked(family: psutil.Process, cpu_seconds: dict[int, float]) -> int:
    """Bytes of the process and its descendants, pages that they share counted for each. Sets the CPU seconds of each,
    by its id: some are not waited for by their parents."""
    total = 0
    try:
        for process in (family, *family.children(recursive=True)):
            times = process.cpu_times()
            cpu_seconds[process.pid] = times.user + times.system
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
