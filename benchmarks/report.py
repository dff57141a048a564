"""`truemem report` on the lines of fleets, beside one process that only parses each line.

Lines as they come have the curves, heaps and lengths of `testing.fleet_logs`. So have full lines
(TRUEMEM_DETAIL=always), 500 of each environment. Even lines have no heap, hardly any noise, and there are 1,000 of each
environment. The command must find the planted leaks; among the even ones, no others. With --before COMMIT its code runs
by turns with the code of now.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import psutil
from truemem_workbench.report.collect import WORTH_A_POOL

from benchmarks.kit.bench import Bench, in_turn
from benchmarks.kit.contenders import BEFORE_HELP, code_of
from testing import fleet_logs
from testing.pages import ROOT, Result, Table

TITLE = "truemem report"
SETTINGS = {
    "before": BEFORE_HELP,
    "environments": "Even lines of so many environments are measured besides, once: 10000 are 10 GB of disk.",
}
FILES, INVOCATIONS, FUNCTIONS = 16, 1000, 200
"""The environments belong to so many functions in turn."""
FULL_INVOCATIONS = 500
LEAKY_EVERY = 50
"""One environment of so many keeps LEAK_MIB with each invocation. They belong to four of the functions."""
LEAK_MIB = 0.125
"""It reaches the memory limit soon: a slower leak is `warming` before 1,024 invocations."""
BEGIN_MS, GAP_MS = 1_795_288_667_424, 1_500
LOOK_S = 0.2
"""Between two looks at a command's processes: each takes some ms of a core that the command has."""
AIM_RATIO = 1.5
"""Most CPU time of the command, by that of one process that only parses the lines; of so many lines that the command
has a process for each core, the most time."""
SURELY = 1024
"""Invocations from which on a planted leak must be found among lines as they come."""
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
AS_THEY_COME, EVEN, FULL = "as they come", "even", "full"


class Figures(NamedTuple):
    """Of several runs in turn."""

    fleet: str
    lines: int
    in_pool: bool
    runs: dict[str, list[Ran]]
    """By what was run: REPORT, PARSE, and perhaps the code before."""

    def by_parse(self, name: str) -> float:
        """The median of its time by PARSE's, of runs one after the other."""
        pairs = zip(self.runs[name], self.runs[PARSE], strict=True)
        return statistics.median(one.seconds / parse.seconds for one, parse in pairs)

    def cpu_by_parse(self, name: str) -> float:
        """The same of CPU times."""
        pairs = zip(self.runs[name], self.runs[PARSE], strict=True)
        return statistics.median(one.cpu_seconds / parse.cpu_seconds for one, parse in pairs)

    def rows(self) -> list[Sequence[str]]:
        made: list[Sequence[str]] = []
        for name, runs in self.runs.items():
            ran = sorted(runs)[len(runs) // 2]
            speed = f"{ran.seconds:,.1f}", f"{ran.cpu_seconds:,.1f}", f"{self.cpu_by_parse(name):.2f}"
            each = f"{self.lines / ran.seconds:,.0f}", f"{ran.rss / 2**20:,.0f} MiB"
            made.append((self.fleet, name, f"{self.lines:,}", f"{len(runs)}", *speed, *each))
        return made


def run(bench: Bench) -> Result:
    environments, many = bench.count(1000, 100), int(bench.settings.get("environments", 0))
    with code_of(bench.settings.get("before")) as code:
        fleets = (FULL, bench.count(400, 40)), (AS_THEY_COME, environments), (EVEN, environments)
        found = [measured(fleet, count, bench.count(3), code) for fleet, count in fleets]
    more = measured(EVEN, many, 1, None).rows() if many else []
    note = (
        f"CPU seconds are those of all processes of the command; by `json.loads`: by those of the process that only"
        f" parses the lines, with which it takes turns. The aim is {AIM_RATIO} or less; where the command has a process"
        f" for each core, that holds for the seconds. {os.cpu_count()} cores, shared with others; the median counts,"
        " and the cache of files is warm."
    )
    headings = ("lines", "", "lines", "runs", "seconds", "CPU seconds", "by `json.loads`", "lines a second", "peak RSS")
    rows = [*chain.from_iterable(each.rows() for each in found), *more]
    ratios = [each.by_parse(REPORT) if each.in_pool else each.cpu_by_parse(REPORT) for each in found]
    broken = [
        f"{each.fleet}, {each.lines:,} lines: {ratio:.2f} of that process's {'time' if each.in_pool else 'CPU'}"
        for each, ratio in zip(found, ratios, strict=True)
        if ratio > AIM_RATIO
    ]
    return Result([Table("", headings, rows, note, text_columns=2)], broken)


def measured(fleet: str, environments: int, runs: int, code: Path | None) -> Figures:
    """Write a fleet, report it in turn with the others, check the report. `code`: the folder of other code."""
    with tempfile.TemporaryDirectory(prefix="truemem-fleet-") as name:
        folder = Path(name)
        lives = lives_of(fleet, environments)
        if fleet == EVEN:
            files = write(folder, environments)
        else:
            files = fleet_logs.write(folder, lives, FILES, FUNCTIONS, 1 if fleet == FULL else fleet_logs.FULL_EVERY)
        output = folder / "report.json"
        ways = {
            REPORT: partial(reported, files, output, fleet, lives),
            PARSE: partial(ran, [sys.executable, "-c", PARSES, *map(str, files)], output),
        }
        if code is not None:
            ways[REPORT_BEFORE] = partial(command, ["report", "--json", *files], output, code)
        size = sum(path.stat().st_size for path in files)
        return Figures(fleet, sum(life.length for life in lives), size >= WORTH_A_POOL, in_turn(ways, runs))


def lives_of(fleet: str, environments: int) -> list[fleet_logs.Life]:
    lives = fleet_logs.lives(environments)
    if fleet == AS_THEY_COME:
        return lives
    return [each._replace(length=INVOCATIONS if fleet == EVEN else FULL_INVOCATIONS) for each in lives]


def reported(files: Sequence[Path], output: Path, fleet: str, lives: Sequence[fleet_logs.Life]) -> Ran:
    """Run the command, and check what it says."""
    made = command(["report", "--json", *files], output)
    document = json.loads(output.read_text())
    check(document, len(lives)) if fleet == EVEN else check_planted(document, lives)
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
    highest, before = 0, _waited_for()
    began = time.monotonic()
    environment = {**os.environ, **environ, "TMPDIR": str(temporary)}
    with output.open("w") as file, subprocess.Popen(command, stdout=file, env=environment) as process:
        family = psutil.Process(process.pid)
        while process.poll() is None:
            highest = max(highest, looked(family))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
    if process.returncode:
        raise RuntimeError(f"{command[:5]} ended with {process.returncode}")
    return Ran(time.monotonic() - began, _waited_for() - before, highest)


def _waited_for() -> float:
    """CPU seconds of the processes that were waited for, and of those that they have waited for: a pool does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def looked(family: psutil.Process) -> int:
    """Bytes of the process and its descendants, pages that they share counted for each."""
    try:
        return sum(process.memory_info().rss for process in (family, *family.children(recursive=True)))
    except psutil.Error:
        return 0  # one has just ended: the next look counts


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


def check_planted(report: Any, lives: Sequence[fleet_logs.Life]) -> None:
    """Raises RuntimeError unless all lines were read, and the leaks of long lives were found."""
    lines = sum(each["peaks"]["invocations"] for each in report["functions"])
    growing = {
        each["environment_id"] for each in report["environments"] if each["finding"]["cause"] in ("leak", "native")
    }
    missed = [life for life in lives if life.leaks and life.length >= SURELY and life.environment not in growing]
    if lines != sum(life.length for life in lives) or missed:
        raise RuntimeError(f"{lines} lines; leaks that were missed: {missed}")
