"""CPU time of an invocation, beside AWS's sample in Go and the floor.

With --before COMMIT its code runs by turns with the code of now. Writes results/speed.json as well: also what exact
mode, a line and `truemem report` take.
"""

from __future__ import annotations

import gc
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from truemem.config import VCPU_MIB

from benchmarks import exact, line_bytes, report
from benchmarks.kit.bench import Advance, Bench, in_turn, nothing
from benchmarks.kit.contenders import (
    BEFORE_HELP,
    EXECUTABLE,
    FLOOR,
    GO,
    GO_HELP,
    OURS,
    PLAIN,
    Contender,
    code_of,
    contenders,
    layer_of,
    wrapper_of,
)
from benchmarks.kit.running import HARDLY_SAMPLING, named
from faults.receivers import Collector
from testing.bare import FunctionProcesses, Runtime, telemetry
from testing.pages import ROOT, Result, Table

TITLE = "Speed"
NAMESPACE = True
SETTINGS = {"go": GO_HELP, "before": BEFORE_HELP}
DEFAULT, EXACT = "default mode", "exact mode"
"""In the default mode as in Lambda: frozen as soon as nothing waits for the extension, so that it samples nothing; the
telemetry of an invocation comes with the next one."""
AIMS_MS = {DEFAULT: 0.25, EXACT: 0.35}
"""Most CPU time of an invocation, hardly sampling."""
PAUSE_S = 0.002
"""Between two invocations: the extension sleeps, and is to be woken."""
WARM_UP, BLOCK, GATE_BLOCKS = 40, 20, 10
WITH_OTLP = f"{DEFAULT}, `emf,otlp`, a request each second"


@contextmanager
def side(contender: Contender, mode: str) -> Iterator[Callable[[int], float]]:
    """An environment with this extension, warm: runs so many invocations, and returns the CPU time of one, ms."""
    with contender.start(HARDLY_SAMPLING) as extension:
        api, numbers = extension.api, iter(range(1, 1_000_000))
        api.wait_for_next()
        wrapper = wrapper_of(Path(contender.command[0]))
        with Runtime(api.address, wrapper) if mode == EXACT else FunctionProcesses(api.address):
            if mode == EXACT:
                api.wait_for_runtime()

            def turn(count: int) -> float:
                spent = extension.cpu_ns()
                for _ in range(count):
                    time.sleep(PAUSE_S)
                    number = next(numbers)
                    os.kill(extension.pid, signal.SIGCONT)
                    api.invoke(named(number))
                    if mode == EXACT:
                        api.hand(named(number), b'{"key":"value"}')
                        api.wait_for_answer(named(number))
                        api.wait_for_runtime()
                    api.wait_for_next()
                    api.tell(*telemetry(named(number - (mode == DEFAULT))))
                    if mode == DEFAULT:
                        os.kill(extension.pid, signal.SIGSTOP)
                time.sleep(PAUSE_S)
                return (extension.cpu_ns() - spent) / count / 1e6

            turn(WARM_UP)
            yield turn


def cpu_ms(compared: dict[str, tuple[Contender, str]], blocks: int, advance: Advance = nothing) -> dict[str, float]:
    """CPU time of an invocation, telemetry and line included: the median of blocks, all by turns."""
    with ExitStack() as stack:
        sides = {name: partial(stack.enter_context(side(*each)), BLOCK) for name, each in compared.items()}
        gc.disable()
        found = in_turn(sides, blocks, advance)
        gc.enable()
    return {name: statistics.median(each) for name, each in found.items()}


def of_cpu(was: Path | None, compared: Sequence[Contender], bench: Bench) -> list[list[str]]:
    code = {"now": EXECUTABLE, **({"before": was} if was else {})}
    sides = {f"{name} {mode}": (Contender(name, (path,)), mode) for name, path in code.items() for mode in AIMS_MS}
    blocks = bench.count(50, 4)
    with Collector() as collector:
        variables = {**collector.start().variables, "TRUEMEM_OUTPUT": "emf,otlp"}
        # What is not taken from the sample in Go it keeps, and that takes ever more time.
        taken = {"DISPATCH_POST_URI": f"http://127.0.0.1:{collector.port}/"}
        for each in compared:
            if each.name in (GO, FLOOR):
                sides[f"{each.name} {DEFAULT}"] = replace(each, variables={**each.variables, **taken}), DEFAULT
        sides[f"now {WITH_OTLP}"] = (Contender(OURS, (EXECUTABLE,), variables, errors=False), DEFAULT)
        found = cpu_ms(sides, blocks, bench.step("CPU of an invocation", blocks))
    rows = []
    for mode, aim in {**AIMS_MS, WITH_OTLP: 1.1 * AIMS_MS[DEFAULT]}.items():
        values = (found.get(f"{name} {mode}") for name in ("before", "now", GO, FLOOR))
        cells = ["" if value is None else f"{value:.3f}" for value in values]
        rows.append([mode, *cells, f"{aim:.2f}", "yes" if found[f"now {mode}"] <= aim else "no"])
    return rows


def ratios(compared: Sequence[Contender]) -> dict[str, float]:
    """What `make gate` compares, in a minute: nothing that depends on the machine's speed alone."""
    plain = next(each for each in compared if each.name == PLAIN)
    ours = Contender(OURS, (EXECUTABLE,))
    found = cpu_ms({"ours": (ours, DEFAULT), "plain": (plain, DEFAULT), "exact": (ours, EXACT)}, GATE_BLOCKS)
    (large,) = exact.measure(exact.KINDS[1], VCPU_MIB, Bench(GATE_BLOCKS / exact.KINDS[1].blocks))
    of_report = report.measured(report.EVEN, 300, 3, None)
    (name, lines), *_ = line_bytes.measure(ROOT, Bench(0.25), ["Python"]).items()
    made = {
        f"CPU of an invocation against {PLAIN}": found["ours"] / found["plain"],
        "CPU of an invocation, exact mode against default mode": found["exact"] / found["ours"],
        f"CPU of an {large.name}, exact mode against default mode": large.cpu_ms[1] / large.cpu_ms[0],
        f"bytes of a line, {name}": lines.median,
        "`truemem report` by `json.loads` of each line": of_report.by_parse(report.REPORT),
    }
    return {name: round(value, 4) for name, value in made.items()}


def run(bench: Bench) -> Result:
    commit = bench.settings.get("before")
    with code_of(commit) as code, tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        compared = contenders(Path(folder), bench.settings.get("go"))
        rows = of_cpu(layer_of(code) if code else None, compared, bench)
        now = ratios(compared)
    note = f"ms, telemetry and line included, hardly sampling; medians, by turns. Before: commit {commit or 'none'}."
    headings = ("CPU of an invocation", "before", "now", GO, FLOOR, "aim", "met")
    return Result([Table("", headings, rows, note)], ratios=now)
