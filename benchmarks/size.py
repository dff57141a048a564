"""Compares durations that are predicted from CPU time with those of a sweep over memory sizes.

Each handler runs under the quota of each size, a few invocations in turn. From what was seen at one size every other
within a factor of 8 is predicted. Exit codes: 0 measured, 1 fewer than 90 % of the predictions are within 15 %, or a
size that the report would propose is dearer, 2 not measured (no permission for a cpu cgroup).
"""

from __future__ import annotations

import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from truemem.config import VCPU_MIB
from truemem_workbench.analysis.prices import GB_SECOND
from truemem_workbench.analysis.size_prediction import ENOUGH, Invocations, predict

from benchmarks.publish import ROOT, exit_if_broken, machine, markdown, measuring, shown

RESULTS = ROOT / "benchmarks" / "results" / "size.md"
FUNCTIONS = ROOT / "benchmarks" / "functions"
HANDLERS = {
    "waits": "waiting",
    "hashes": "one thread that computes",
    "a_burst": "waiting, then a short burst",
    "in_turn": "waiting, then computing",
    "in_many_turns": "waiting and computing in 20 turns",
    "at_once": "computing while other requests wait",
    "threads": "two threads that compute",
    "objects": "JSON, made and parsed",
    "pages": "fresh memory, and waiting",
    "children": "two child processes that compute",
    "matrices": "numpy, on all cores",
    "inference": "onnxruntime, on all cores",
    "node_computes": "Node.js: JSON",
    "node_in_turn": "Node.js: waiting, then computing",
    "node_pool": "Node.js: two threads of its pool",
}
SIZES = (128, 256, 512, 1024, VCPU_MIB, 3008)
FACTOR = 8
NEAR = 0.15
ENOUGH_NEAR = 0.9
SURE = 1.3
"""Width of an interval that says something."""
WHY = """\
The likely p50 is of one thread that waits and computes in turn. It is wrong where waiting and computing overlap (in
20 turns, or while other requests wait): a quota that is used up hides the waiting. It is wrong for several threads:
below one vCPU their CPU time is that of one. numpy's and onnxruntime's threads spin while they wait for each other,
so even their CPU time is another at each size.
"""
PERIOD_US = 20_000
SHARES = 100_000
"""Of the cpu cgroup, where others have 1,024: what the quota permits it has at once, also on a busy machine."""
PAUSE_S = 0.05
"""Longest pause between two invocations: a handler begins anywhere in a period."""


@dataclass(frozen=True)
class Compared:
    """One prediction: from a size to another, and what the sweep has there. p50 in ms."""

    handler: str
    seen: int
    size: int
    likely: float
    low: float
    high: float
    swept: float
    is_proposed: bool
    """True if it is a smaller size that the report would propose."""
    is_dearer: bool
    """True if it is dearer in the sweep, by more than 2 %."""

    @property
    def error(self) -> float:
        return self.likely / self.swept - 1

    @property
    def is_near(self) -> bool:
        return abs(self.error) <= NEAR

    @property
    def is_sure(self) -> bool:
        return self.high <= SURE * self.low

    @property
    def is_covered(self) -> bool:
        """True if it is in the interval, or out of it by no more than 5 %."""
        return 0.95 * self.low <= self.swept <= 1.05 * self.high


@contextmanager
def worker(handler: str, group: Path) -> Iterator[subprocess.Popen[str]]:
    """The loop of one handler, warm, in a cgroup of its own."""
    program = "sizes.mjs" if handler.startswith("node_") else "sizes.py"
    runtime = "node" if program.endswith("mjs") else sys.executable
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.shares").write_text(str(SHARES))
        with subprocess.Popen(
            [runtime, FUNCTIONS / program, handler], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                process.stdout.readline()
                for thread in Path(f"/proc/{process.pid}/task").iterdir():
                    (group / "tasks").write_text(thread.name)
                yield process
            finally:
                process.kill()
    finally:
        group.rmdir()


def sweep(handler: str, rounds: int) -> dict[int, list[tuple[float, float]]]:
    """Durations and CPU times in ms, by memory size. The sizes take turns, so that all see the same machine."""
    seen: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
    group = Path(f"/sys/fs/cgroup/cpu/truemem-size-{os.getpid()}")
    with ExitStack() as stack:
        process = stack.enter_context(worker(handler, group))
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(rounds):
            for size in SIZES:
                (group / "cpu.cfs_quota_us").write_text(str(round(PERIOD_US * size / VCPU_MIB)))
                time.sleep(random.uniform(0.02, PAUSE_S))
                process.stdin.write("go\n")
                process.stdin.flush()
                duration, cpu = map(float, process.stdout.readline().split())
                seen[size].append((duration, cpu))
    return seen


def compared(handler: str, seen: dict[int, list[tuple[float, float]]]) -> Iterator[Compared]:
    for size, pairs in seen.items():
        each = Invocations.of(size, pairs)
        known = Invocations(size, each.duration_ms, each.cpu_ms, np.full(len(pairs), ENOUGH))
        for other in SIZES:
            if other != size and max(size, other) <= FACTOR * min(size, other):
                found = predict(known, other, GB_SECOND["x86_64"])
                assert found is not None
                swept = statistics.median(duration for duration, _ in seen[other])
                yield Compared(
                    handler,
                    size,
                    other,
                    found.likely_p50,
                    found.p50.low,
                    found.p50.high,
                    swept,
                    is_proposed=other < size and found.is_cheaper,
                    is_dearer=mean_gb_ms(other, seen) > 1.02 * mean_gb_ms(size, seen),
                )


def mean_gb_ms(size: int, seen: dict[int, list[tuple[float, float]]]) -> float:
    """What is billed for an invocation, as the price of computing counts it."""
    return size / 1024 * statistics.mean(math.ceil(duration) for duration, _ in seen[size])


def row(handler: str, seen: dict[int, list[tuple[float, float]]], made: list[Compared]) -> list[str]:
    worst = max(made, key=lambda each: abs(each.error))
    return [
        HANDLERS[handler],
        *(f"{statistics.median(duration for duration, _ in seen[size]):,.0f}" for size in SIZES),
        f"{statistics.median(cpu for _, cpu in seen[VCPU_MIB]):,.0f}",
        f"{sum(each.is_near for each in made)} of {len(made)}",
        f"{sum(each.is_covered for each in made)}",
        f"{worst.error:+.0%}, {worst.seen:,} to {worst.size:,}",
    ]


@click.command(help=__doc__)
@click.option("--rounds", default=12, show_default=True)
@click.option(
    "--handler", "names", multiple=True, type=click.Choice(list(HANDLERS)), help="Only these; writes nothing."
)
def main(rounds: int, names: tuple[str, ...]) -> None:
    """See the module."""
    rows, everything = [], []
    with measuring() as bar:
        advance = bar("handlers", len(names or HANDLERS))
        for handler in names or HANDLERS:
            seen = sweep(handler, rounds)
            made = list(compared(handler, seen))
            rows.append(row(handler, seen, made))
            everything += made
            advance()
    near = sum(each.is_near for each in everything) / len(everything)
    sure = [each for each in everything if each.is_sure]
    proposed = [each for each in everything if each.is_proposed]
    dearer = sum(each.is_dearer for each in proposed)
    covered = sum(each.is_covered for each in everything) / len(everything)
    head = ["handler", *(f"{size:,} MB" for size in SIZES), "CPU", f"within {NEAR:.0%}", "in interval", "worst"]
    period_ms = PERIOD_US // 1000
    note = (
        f"p50 of the duration at each size, and of the CPU time at {VCPU_MIB:,} MB, in ms. {rounds} invocations each,"
        f" in turn, under the quota of the size in periods of {period_ms} ms. From each size to each other within a"
        f" factor of {FACTOR}, the likely p50 was within {NEAR:.0%} of the swept one in {near:.0%} of {len(everything)}"
        f" predictions ({ENOUGH_NEAR:.0%} are wanted); the swept one was in the interval, or within 5 % of it, in"
        f" {covered:.0%}. Where the interval is no wider than {SURE - 1:.0%}, the likely p50 was as near in"
        f" {sum(each.is_near for each in sure)} of {len(sure)}. Of {len(proposed)} smaller sizes that the report would"
        f" propose, {dearer} were dearer in the sweep."
    )
    from rich.console import Console

    Console().print(shown("Predicted and swept", head, rows))
    click.echo(note)
    if not names:
        table = markdown(head, rows)
        RESULTS.write_text(f"# Durations predicted at other sizes\n\n{machine()}\n\n{table}\n\n{note}\n\n{WHY}")
    promises = {f"{near:.0%} within {NEAR:.0%}": near < ENOUGH_NEAR, f"{dearer} proposals dearer": dearer > 0}
    exit_if_broken([promise for promise, is_broken in promises.items() if is_broken])


if __name__ == "__main__":
    main()
