"""Measures what it costs to look at /tmp, descriptors, threads and processes. Writes results/resources.md.

Exit codes: 0 measured, 1 not measured.
"""

from __future__ import annotations

import json
import os
import posix
import resource
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import click
from truemem.config import VCPU_MIB
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import Procfs, Status
from truemem.measure.sampling import Budget
from truemem.resources import Descriptors, ResourceDrift, Resources, TmpDisk, Usage
from truemem.support import minijson
from truemem.support.clock import Clock

from benchmarks.publish import ROOT, machine, markdown, replace

PAGE = ROOT / "benchmarks" / "results" / "resources.md"
BY = "python -m benchmarks.resources"
COUNTS = (10, 1_000, 10_000)
MOST = 12_000
SIZES = (128, 512, VCPU_MIB)
LINES = 2_000

FUNCTION_CODE = """
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
for _ in range(int(sys.argv[1]) - 3):
    os.open(os.devnull, os.O_RDONLY)
print(flush=True)
sys.stdin.read()
"""
"""A process with so many descriptors: another's folder costs more than one's own."""


class Table:
    """One environment: a function of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def function(self) -> list[Process]:
        return [self._process]

    def others(self) -> list[Process]:
        return []

    def zombies(self, again: bool = True) -> int:
        return 0


def middle(measure: Callable[[], object], times: int = 300) -> float:
    """Median CPU time of a call, µs."""
    took = []
    for _ in range(times):
        began = time.process_time_ns()
        measure()
        took.append(time.process_time_ns() - began)
    return statistics.median(took) / 1000


def of_descriptors(count: int) -> dict[str, float]:
    """µs of stat, of listing, and of the whole step with each, for a process that has so many."""
    command = [sys.executable, "-S", "-c", FUNCTION_CODE, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        proc = Procfs()
        process = Process(child.pid, 1, 1, FUNCTION, proc.process(child.pid))
        descriptors = Descriptors(proc)
        if not descriptors.is_sized:
            raise click.ClickException("This kernel is older than Linux 6.2: both ways cannot be compared here.")
        table: Any = Table(process)
        reader = Resources(table, proc, Clock(), TmpDisk("/dev/shm"))
        closing, rich = [Status(2, 1, 1, 0, 0, 3)], Budget(100.0, 100.0, 0)
        found = {}
        for name, is_sized in (("stat", True), ("list", False)):
            descriptors.is_sized = reader._descriptors.is_sized = is_sized
            found[name] = middle(lambda: descriptors.count(process))
            found[f"step {name}"] = middle(lambda: reader.read(closing, rich))
        child.stdin.close()
    return found


def of_verdicts() -> tuple[float, float, float]:
    """µs for each line of an environment that grows, and of one that does not; and KiB that they take."""

    def us(usages: list[Usage]) -> float:
        drift = ResourceDrift()
        began = time.process_time_ns()
        for number, usage in enumerate(usages):
            drift.add(usage, number)
            drift.members(usage, always=False)
        return (time.process_time_ns() - began) / 1000 / len(usages)

    calm = [Usage((1024, 524288), 12, 1024, {"function": 12}, 4, 1, 0, 1024)] * LINES
    grows = [Usage((1024, 524288), n // 3, 1024, {"function": n // 3}, 4, 1, 0, 1024) for n in range(LINES)]
    tracemalloc.start()
    drift = ResourceDrift()
    before = tracemalloc.get_traced_memory()[0]
    for number, usage in enumerate(grows):
        drift.add(usage, number)
    held = (tracemalloc.get_traced_memory()[0] - before) / 1024
    tracemalloc.stop()
    return statistics.median(us(grows) for _ in range(9)), statistics.median(us(calm) for _ in range(9)), held


def of_bytes() -> list[list[str]]:
    """Bytes that a line has more."""
    rows = []
    for name, count, number in (("200 of 1,024 descriptors", 200, 40), ("the same, growing, on a 16th line", 200, 160)):
        drift, usage = ResourceDrift(), Usage()
        for n in range(1, number + 1):
            opened = count if number == 40 else count - number + n
            usage = Usage(None, opened, 1024, {"function": opened, "truemem": 25}, 4, 1, 0, 1024)
            drift.add(usage, n)
        text = minijson.dumps({"resources": drift.members(usage, always=False)})
        rows.append([f"bytes of a line that tells of {name}", f"{len(text) - 1}"])
    return rows


@click.command(help=__doc__)
def main() -> None:
    """See the module."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < MOST:
        raise click.ClickException(f"{MOST:,} descriptors are not permitted here.")
    costs = {count: of_descriptors(count) for count in COUNTS}
    names = {
        "stat": "count, Linux 6.2 and later: one `stat`",
        "list": "count, before that: a list of the folder",
        "step stat": "the whole step, Linux 6.2 and later",
        "step list": "the whole step, before that",
    }
    rows = [[words, *(f"{costs[count][name]:,.0f} µs" for count in COUNTS)] for name, words in names.items()]
    table = markdown(["open descriptors", *(f"{count:,}" for count in COUNTS)], rows)
    disk, own = TmpDisk("/dev/shm"), Procfs()
    process = Process(os.getpid(), 1, 1, FUNCTION, own.process(os.getpid()))
    grows, calm, held = of_verdicts()
    listing_us = costs[1_000]["list"]
    others = [
        ["/tmp: `statvfs`", f"{middle(disk.read):.1f} µs"],
        ["limits of a process, once", f"{middle(lambda: Descriptors(own).limits(process)):.0f} µs"],
        ["a zombie: is it still there?", f"{middle(lambda: posix.access('/proc/1', posix.F_OK)):.1f} µs"],
        ["verdicts, for each line, where nothing grows", f"{calm:.1f} µs"],
        ["verdicts, for each line, where descriptors grow", f"{grows:.1f} µs"],
        ["what the verdicts keep", f"{held:.0f} KiB"],
        *of_bytes(),
        *(
            [
                f"lists of 1,000 descriptors that the CPU budget of {size:,} MB pays",
                f"{10_000 * size / VCPU_MIB / listing_us:,.1f} a second",
            ]
            for size in SIZES
        ),
    ]
    more = markdown(["", ""], others)
    replace(PAGE, "cost", f"{table}\n\n{more}\n\nCPU time, medians, on {machine()}.", by=BY)
    click.echo(json.dumps(costs, indent=1))
    click.echo(more)


if __name__ == "__main__":
    main()
