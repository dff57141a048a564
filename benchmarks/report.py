"""`truemem report` on a fleet's lines, beside one process that only parses each line.

The command must find the planted leaks and no others. With --before COMMIT its code runs by turns with the code of now.
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
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import psutil

from benchmarks.kit.bench import Bench, in_turn
from benchmarks.kit.contenders import BEFORE_HELP, code_of
from testing.pages import ROOT, Result, Table

TITLE = "truemem report"
SETTINGS = {
    "before": BEFORE_HELP,
    "environments": "Each of 1,000 invocations (1000). More are measured besides, once: 10000 are 10 GB of disk.",
}
FILES, INVOCATIONS, FUNCTIONS = 16, 1000, 200
"""The environments belong to so many functions in turn."""
LEAKY_EVERY = 50
"""One environment of so many keeps LEAK_MIB with each invocation. They belong to four of the functions."""
LEAK_MIB = 0.125
"""It reaches the memory limit soon: a slower leak is `warming` before 1,024 invocations."""
BEGIN_MS, GAP_MS = 1_795_288_667_424, 1_500
LOOK_S = 0.2
"""Between two looks at a command's processes: each takes some ms of a core that the command has."""
AIM_RATIO = 0.5
"""Most time of the command, by that of one process that only parses the lines."""
PARSES = """
import json, sys
for path in sys.argv[1:]:
    with open(path) as file:
        for line in file:
            json.loads(line)
"""

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


REPORT, PARSE = "`truemem report`", "one process, `json.loads` of each line"
REPORT_BEFORE = "the code before"


class Figures(NamedTuple):
    """Of several runs in turn."""

    environments: int
    runs: dict[str, list[Ran]]
    """By what was run: REPORT, PARSE, and perhaps the code before."""

    def by_parse(self, name: str) -> float:
        """The median of its time by PARSE's, of runs one after the other."""
        pairs = zip(self.runs[name], self.runs[PARSE], strict=True)
        return statistics.median(one.seconds / parse.seconds for one, parse in pairs)

    def rows(self) -> list[Sequence[str]]:
        lines = self.environments * INVOCATIONS
        made: list[Sequence[str]] = []
        for name, runs in self.runs.items():
            ran = sorted(runs)[len(runs) // 2]
            speed = f"{ran.seconds:,.1f}", f"{ran.cpu_seconds:,.1f}", f"{lines / ran.seconds:,.0f}"
            made.append((name, f"{lines:,}", f"{len(runs)}", *speed, f"{ran.rss / 2**20:,.0f} MiB"))
        return made


def run(bench: Bench) -> Result:
    environments, many = bench.count(1000, 100), int(bench.settings.get("environments", 0))
    with code_of(bench.settings.get("before")) as code:
        found = measured(environments, bench.count(3), code)
    more = measured(many, 1, None).rows() if many else []
    ratio = found.by_parse(REPORT)
    note = (
        f"The time of the report by that of one process that only parses the lines: {ratio:.2f}; the aim is {AIM_RATIO}"
        f" or less. {os.cpu_count()} cores, shared with other work; runs in turn, the median counts; the file system's"
        " cache is warm."
    )
    headings = ("of 1,000 lines each", "lines", "runs", "seconds", "CPU seconds", "lines a second")
    table = Table("", (*headings, "peak RSS"), [*found.rows(), *more], note)
    return Result([table], [f"{ratio:.2f} of that process's time"] * (ratio > AIM_RATIO))


def measured(environments: int, runs: int, code: Path | None) -> Figures:
    """Write a fleet, report it in turn with the others, check the report. `code`: the folder of other code."""
    with tempfile.TemporaryDirectory(prefix="truemem-fleet-") as folder:
        files = write(Path(folder), environments)
        output = Path(folder) / "report.json"
        ways = {
            REPORT: partial(reported, files, output, environments),
            PARSE: partial(ran, [sys.executable, "-c", PARSES, *map(str, files)], output),
        }
        if code is not None:
            ways[REPORT_BEFORE] = partial(command, ["report", "--json", *files], output, code)
        return Figures(environments, in_turn(ways, runs))


def reported(files: Sequence[Path], output: Path, environments: int) -> Ran:
    """Run the command, and check what it says."""
    made = command(["report", "--json", *files], output)
    check(json.loads(output.read_text()), environments)
    return made


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


def command(arguments: Sequence[str | Path], output: Path, code: Path = ROOT) -> Ran:
    """Run a command of truemem, with the code of a folder."""
    environ = {"PYTHONPATH": os.pathsep.join(str(code / name) for name in ("workbench", "extension"))}
    return ran([sys.executable, "-m", "truemem_workbench.commands", *map(str, arguments)], output, environ)


def ran(command: Sequence[str], output: Path, environ: Mapping[str, str] = MappingProxyType({})) -> Ran:
    """Run a command. Raises RuntimeError if it fails."""
    temporary = output.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    cpu_seconds: dict[int, float] = {}
    highest = 0
    began = time.monotonic()
    environment = {**os.environ, **environ, "TMPDIR": str(temporary)}
    with output.open("w") as file, subprocess.Popen(command, stdout=file, env=environment) as process:
        family = psutil.Process(process.pid)
        while process.poll() is None:
            highest = max(highest, looked(family, cpu_seconds))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
    if process.returncode:
        raise RuntimeError(f"{command[:5]} ended with {process.returncode}")
    return Ran(time.monotonic() - began, sum(cpu_seconds.values()), highest)


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


def check(report: Any, environments: int) -> None:
    """Raises RuntimeError unless the leaks that were planted were found and come first, and no others."""
    planted = len(range(0, environments, LEAKY_EVERY))
    found = sum(function["growing"] for function in report["functions"])
    lines = sum(function["peaks"]["invocations"] for function in report["functions"])
    if (lines, found) != (environments * INVOCATIONS, planted):
        raise RuntimeError(f"{found} leaks found, {planted} planted, in {lines} lines")
    leaky = {f"function-{environment % FUNCTIONS:03d}" for environment in range(0, environments, LEAKY_EVERY)}
    first = {action["function"] for action in report["actions"][: len(leaky)]}
    if first != leaky:
        raise RuntimeError(f"first in the list: {sorted(first)}; planted: {sorted(leaky)}")
