"""What it costs to send records elsewhere, beside the line alone in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from benchmarks.kit.bench import Bench, in_turn
from benchmarks.kit.contenders import EXECUTABLE, OURS, Contender
from benchmarks.kit.pages import Result, Table
from benchmarks.kit.running import HARDLY_SAMPLING, attached, invoke
from faults.receivers import Agent, Collector
from testing.bare import Extension

TITLE = "What outputs cost"
BLOCK, WARM_UP, COUNT, ROUNDS = 25, 2, 1000, 30
"""Invocations in a row, then it is the next one's turn; blocks that do not count; invocations, and starts of each."""
HOUR_MS, SECOND_MS = "3600000", "1000"
MEMORY_AFTER = 300
OURS_QUIET = Contender(OURS, (EXECUTABLE,), errors=False)


def start(variables: Mapping[str, str]) -> tuple[float, float]:
    """Start it once: ms from exec to register, and to `next`."""
    with OURS_QUIET.start(variables) as extension:
        extension.api.wait_for_next()
        return extension.ms_since_exec("register"), extension.ms_since_exec("next")


def block(extension: Extension) -> float:
    """ms of CPU time of an invocation."""
    before = extension.cpu_ns()
    for number in range(BLOCK):
        time.sleep(0.002)  # as if frozen in between
        invoke(extension, number)
    return (extension.cpu_ns() - before) / BLOCK / 1e6


def memory(variables: Mapping[str, str]) -> tuple[int, int]:
    """One environment alone: PSS and private dirty, KiB, after MEMORY_AFTER invocations, the last of them sent."""
    with attached(OURS_QUIET, {**HARDLY_SAMPLING, **variables}) as extension:
        for number in range(MEMORY_AFTER):
            invoke(extension, number)
        time.sleep(1.1)
        invoke(extension, MEMORY_AFTER)
        time.sleep(0.3)
        held = extension.memory_kib()
        return held["Pss"], held["Private_Dirty"]


def run(bench: Bench) -> Result:
    with Agent() as agent, Collector() as hourly, Collector() as each_second, ExitStack() as stack:
        hour, second = ({**each.start().variables, "TRUEMEM_OUTPUT": "emf,otlp"} for each in (hourly, each_second))
        sides: dict[str, dict[str, str]] = {
            "`emf`": {},
            "`json`": {"TRUEMEM_OUTPUT": "json"},
            "`emf,otlp`, no request in that time": {**hour, "OTEL_METRIC_EXPORT_INTERVAL": HOUR_MS},
            "`emf,otlp`, a request each second": {**second, "OTEL_METRIC_EXPORT_INTERVAL": SECOND_MS},
            "`emf,dogstatsd`": {"TRUEMEM_OUTPUT": "emf,dogstatsd", **agent.variables},
        }
        rounds, blocks = bench.count(ROUNDS, 2), bench.count(COUNT / BLOCK, 2) + WARM_UP
        starts = in_turn({name: partial(start, of) for name, of in sides.items()}, rounds, bench.step("starts", rounds))
        running = {
            name: stack.enter_context(attached(OURS_QUIET, {**HARDLY_SAMPLING, **of})) for name, of in sides.items()
        }
        advance = bench.step("CPU of an invocation", blocks)

        def taken() -> None:
            agent.waiting()
            advance()

        cpu = in_turn({name: partial(block, extension) for name, extension in running.items()}, blocks, taken)
        held = {name: memory(of) for name, of in bench.each("memory", list(sides.items()))}
        agent.waiting()
    figures = {
        name: (
            *(min(of[at] for of in starts[name]) for at in (0, 1)),
            statistics.median(cpu[name][WARM_UP:]),
            *held[name],
        )
        for name in sides
    }
    first = figures["`emf`"]
    units = (("ms", 2), ("ms", 2), ("ms", 2), ("KiB", 0), ("KiB", 0))
    rows = [
        [name]
        + [
            f"{value / of:.2f} ({value:.{digits}f} {unit})"
            for value, of, (unit, digits) in zip(its, first, units, strict=True)
        ]
        for name, its in figures.items()
    ]
    note = (
        "Beside `emf` alone, in the same run (absolute values in brackets), with the layer's executable. Starts are"
        f" minima of {rounds}; CPU: medians over {(blocks - WARM_UP) * BLOCK:,} invocations, by turns; memory: after"
        f" {MEMORY_AFTER} invocations, each alone."
    )
    headings = ("", "exec to register", "exec to `next`", "CPU of an invocation", "PSS", "private dirty")
    return Result([Table("", headings, rows, note)])
