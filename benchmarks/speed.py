"""What costs time or money most: exact mode, CPU of an invocation, bytes of a line, and `truemem report`.

With --before COMMIT its code runs by turns with the code of now. AWS's sample in Go and the floor are beside. Writes
results/speed.json as well.
"""

from __future__ import annotations

import gc
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

from truemem.config import VCPU_MIB

from benchmarks import exact, line_bytes, report
from benchmarks.kit import before
from benchmarks.kit.bench import Advance, Bench, in_turn, nothing
from benchmarks.kit.contenders import EXECUTABLE, FLOOR, GO, GO_HELP, OURS, PLAIN, Contender, contenders, wrapper_of
from benchmarks.kit.running import HARDLY_SAMPLING, named
from faults.receivers import Collector
from testing.bare import FunctionProcesses, Runtime, telemetry
from testing.pages import ROOT, Result, Table

TITLE = "Speed"
NAMESPACE = True
SETTINGS = {"go": GO_HELP, "before": before.HELP}
DEFAULT, EXACT = "default mode", "exact mode"
"""In the default mode as in Lambda: frozen as soon as nothing waits for the extension, so that it samples nothing; the
telemetry of an invocation comes with the next one."""
AIMS_MS = {DEFAULT: 0.25, EXACT: 0.35}
"""Most CPU time of an invocation, hardly sampling."""
CPU_ADDED_MS = 0.15
"""Most that exact mode may add to it, whatever the payload."""
PAUSE_S = 0.002
"""Between two invocations: the extension sleeps, and is to be woken."""
WARM_UP, BLOCK, GATE_BLOCKS = 40, 20, 10
OTLP_NAME = "`emf,otlp`, a request each second"
OTLP = {"TRUEMEM_OUTPUT": "emf,otlp", "OTEL_METRIC_EXPORT_INTERVAL": "1000"}
ENVIRONMENTS = 1_000
"""Of 1,000 lines each, for the report."""


class Figure(NamedTuple):
    """One row."""

    name: str
    before: float | None
    now: float
    aim: float
    digits: int = 2
    go: float | None = None
    floor: float | None = None

    def cells(self) -> list[str]:
        values = (self.before, self.now, self.go, self.floor)
        numbers = ["" if value is None else f"{value:.{self.digits}f}" for value in values]
        return [self.name, *numbers, f"{self.aim:g}", "yes" if self.now <= self.aim else "no"]


class _Taken(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def destination() -> Iterator[str]:
    """Where the sample in Go sends telemetry to. What is not taken it keeps, and that takes ever more time."""
    with HTTPServer(("127.0.0.1", 0), _Taken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


@contextmanager
def side(contender: Contender, mode: str) -> Iterator[Callable[[int], float]]:
    """An environment with this extension, warm: runs so many invocations, and returns the CPU time of one, ms."""
    with destination() as uri, contender.start({"DISPATCH_POST_URI": uri, **HARDLY_SAMPLING}) as extension:
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


def of_cpu(was: Path | None, compared: Sequence[Contender], bench: Bench) -> list[Figure]:
    others = {each.name: each for each in compared if each.name in (GO, FLOOR)}
    code = {"now": EXECUTABLE, **({"before": was} if was else {})}
    sides = {f"{name} {mode}": (Contender(name, (path,)), mode) for name, path in code.items() for mode in AIMS_MS}
    blocks = bench.count(50, 4)
    sides |= {f"{name} {DEFAULT}": (each, DEFAULT) for name, each in others.items()}
    with Collector() as collector:
        variables = {**collector.start().variables, **OTLP}
        sides[OTLP_NAME] = (Contender(OURS, (EXECUTABLE,), variables, errors=False), DEFAULT)
        found = cpu_ms(sides, blocks, bench.step("CPU of an invocation", blocks))
    name = f"CPU of an invocation, {DEFAULT}, {OTLP_NAME}, ms"
    return [
        *(
            Figure(
                f"CPU of an invocation, {mode}, ms",
                found.get(f"before {mode}"),
                found[f"now {mode}"],
                aim,
                3,
                found.get(f"{GO} {mode}"),
                found.get(f"{FLOOR} {mode}"),
            )
            for mode, aim in AIMS_MS.items()
        ),
        Figure(name, None, found[OTLP_NAME], 1.1 * AIMS_MS[DEFAULT], 3),
    ]


def of_exact_mode(was: Path | None, bench: Bench) -> list[Figure]:
    """What it adds to the response, and to the CPU time."""
    figures = []
    for memory_mib in (VCPU_MIB, exact.SMALL_MIB):
        is_small = memory_mib < VCPU_MIB
        for kind in exact.KINDS:
            now, *other = exact.measure(kind, memory_mib, bench, (EXECUTABLE, *([was] if was else [])))
            then = other[0] if other else None
            name = f"exact mode, {kind.name}{f', {memory_mib} MiB' if is_small else ''}"
            aim = exact.SHARE_MAY_ADD_MS if is_small else kind.may_add_ms
            figures.append(Figure(f"{name}: added to the response, ms", then.added if then else None, now.added, aim))
            if not is_small:
                added = then.added_cpu_ms if then else None
                figures.append(Figure(f"{name}: CPU above without, ms", added, now.added_cpu_ms, CPU_ADDED_MS))
    return figures


def of_lines(code: Path | None, bench: Bench) -> list[Figure]:
    """Bytes of a line, of those cases that have an aim."""
    names = [name for name, case in line_bytes.CASES.items() if case.has_aim]
    now, was = (line_bytes.measure(each, bench, names) if each else {} for each in (ROOT, code))
    return [
        Figure(
            f"bytes of a line, median, {name}",
            was[name].median if was else None,
            now[name].median,
            line_bytes.MEDIAN_AIM,
            0,
        )
        for name in names
    ]


def of_report(code: Path | None, bench: Bench) -> Figure:
    """Its time by that of one process that only parses the lines."""
    environments = bench.count(ENVIRONMENTS, 100)
    found = report.measured(environments, 3, code)
    lines = f"{environments * report.INVOCATIONS:,} lines, by `json.loads` of each"
    then = found.by_parse(report.REPORT_BEFORE) if code else None
    return Figure(f"`truemem report` of {lines}", then, found.by_parse(report.REPORT), report.AIM_RATIO)


def ratios(compared: Sequence[Contender]) -> dict[str, float]:
    """What `make gate` compares, in a minute: nothing that depends on the machine's speed alone."""
    plain = next(each for each in compared if each.name == PLAIN)
    ours = Contender(OURS, (EXECUTABLE,))
    found = cpu_ms({"ours": (ours, DEFAULT), "plain": (plain, DEFAULT), "exact": (ours, EXACT)}, GATE_BLOCKS)
    (large,) = exact.measure(exact.KINDS[1], VCPU_MIB, Bench(GATE_BLOCKS / exact.KINDS[1].blocks))
    (name, lines), *_ = line_bytes.measure(ROOT, Bench(0.25), ["Python"]).items()
    made = {
        f"CPU of an invocation against {PLAIN}": found["ours"] / found["plain"],
        "CPU of an invocation, exact mode against default mode": found["exact"] / found["ours"],
        f"CPU of an {large.name}, exact mode against default mode": large.cpu_ms[1] / large.cpu_ms[0],
        f"bytes of a line, {name}": lines.median,
        "`truemem report` by `json.loads` of each line": report.measured(300, 3, None).by_parse(report.REPORT),
    }
    return {name: round(value, 4) for name, value in made.items()}


def run(bench: Bench) -> Result:
    commit = bench.settings.get("before")
    with before.code_of(commit) as code, tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        compared = contenders(Path(folder), bench.settings.get("go"))
        was = before.layer_of(code) if code else None
        figures = [*of_cpu(was, compared, bench), *of_exact_mode(was, bench), *of_lines(code, bench)]
        figures.append(of_report(code, bench))
        now = ratios(compared)
    note = (
        f"Before: commit {commit or 'none'}. All by turns in one run, medians; what is added is the median of the"
        " differences from turn to turn. 6 MB are 6,000,000 bytes, and 128 MiB have 7.2 % of a CPU."
    )
    headings = ("", "before", "now", GO, FLOOR, "aim", "met")
    return Result([Table("", headings, [figure.cells() for figure in figures], note)], ratios=now)
