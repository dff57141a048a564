"""Measures what `--lines` costs, by language: off, on, and while the function is profiled.

A function with the heap's probe runs under the local Lambda and the layer of `make layer`, with `TRUEMEM_LINES` off and
on, by turns. It keeps nothing, and no profile is asked for; or it keeps 40 KiB of each invocation, and is profiled.
Requests come at once after each other, so that the caller waits for what is done after an answer. What it takes while
nothing is profiled is timed where it is spent (lines_look), and decides the promise. Writes results/lines_cost.md and
the tables of docs/heap.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import gc
import json
import math
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import in_exact_mode, with_probe
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.accuracy import percentile
from benchmarks.contenders import EXECUTABLE
from benchmarks.lines_look import Look, middle, take
from benchmarks.publish import ROOT, exit_if_broken, machine, markdown, measuring, replace
from benchmarks.running import VCPU_MIB, confined

RESULTS = Path(__file__).with_name("results") / "lines_cost.md"
PAGE, BY = ROOT / "docs" / "heap.md", "python -m benchmarks.lines_cost"
FUNCTIONS = Path(__file__).with_name("functions") / "lines"

OFF, ON = "off", "on"
NONE: Mapping[str, str] = MappingProxyType({})
PYTHON, NODE, JAVA = LANGUAGES = ("Python", "Node.js", "Java")
HANDLERS = {"works": "works", "allocates": "allocates"}
START, IDLE, PROFILED = "start", "not profiled", "profiled"
JVM = ("-XX:+UseSerialGC", "-Xmx64m", "-Xshare:auto", "-XX:TieredStopAtLevel=1")
"""As AWS's own runtimes start it, with a smaller heap."""

BLOCK = 5
"""So many in a row, then it is the other's turn."""
WARM_UP, IDLE_BLOCKS = 15, 15
"""Blocks of an environment that keeps nothing."""
IDLE_ROUNDS = 2
"""So many times more environments of it."""
MOST = 240
"""Blocks until a profile has ended, at most,"""
LATER = 10
"""and until it is printed."""
SMALL_MIB = 128
SMALL = f"{PROFILED}, the CPU of {SMALL_MIB} MB"
CPU_PERCENT, MEMORY_KIB = 1.0, 1024
"""The promise, of a function that is not profiled."""


@dataclass
class Figures:
    """Of one side in one state."""

    responses_ms: list[float] = field(default_factory=list)
    """As the caller sees them. Of a start: the init."""
    cpu_ms: list[float] = field(default_factory=list)
    """Of the function for an invocation, in the mean of each block. Of a start: all until the first answer."""
    sidecar_ms: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)
    """Highest peak of each environment, as its lines have it."""
    sidecar_mib: list[float] = field(default_factory=list)
    """PSS at the end of each."""

    @property
    def invocations(self) -> int:
        """In an environment, in the mean."""
        return round(len(self.responses_ms) / max(1, len(self.peak_mib)))


@dataclass
class Pair:
    off: Figures = field(default_factory=Figures)
    on: Figures = field(default_factory=Figures)
    more_percent: list[float] = field(default_factory=list)
    """CPU of the function, on against off, in each two environments."""
    look: Look = field(default_factory=Look)
    """What it takes while it is not profiled: two processes of one kind differ by more."""

    def compare(self, blocks: int) -> None:
        """Note more_percent of the latest blocks."""
        on, off = (statistics.fmean(each.cpu_ms[-blocks:]) for each in (self.on, self.off))
        self.more_percent.append(100 * (on / off - 1))

    @property
    def more(self) -> tuple[float, float]:
        """Percent, and the standard error. Not profiled: the look's part of the CPU of function and sidecar."""
        if self.look.sidecar:
            invocation_us = 1000 * (statistics.fmean(self.off.cpu_ms) + statistics.fmean(self.off.sidecar_ms))
            added, its_error = self.look.added
            return 100 * added / invocation_us, 100 * its_error / invocation_us
        count = len(self.more_percent)
        error = statistics.stdev(self.more_percent) / count**0.5 if count > 1 else math.inf
        return statistics.fmean(self.more_percent), error

    @property
    def of_side(self) -> dict[str, Figures]:
        return {OFF: self.off, ON: self.on}


class Side:
    """One environment, after its first invocation."""

    def __init__(self, local: LocalLambda, start: Figures) -> None:
        self.local = local
        first = local.report(local.invoke({"keep": False}).request_id)
        assert first.init_duration_ms is not None
        processes = local.processes()
        self._function, self._sidecar = processes["runtime"], processes[f"extension:{EXECUTABLE.name}"]
        self._measured: list[tuple[Figures, str]] = [(start, first.request_id)]
        start.responses_ms.append(first.init_duration_ms)
        start.cpu_ms.append(cpu_ms(self._function))
        start.sidecar_ms.append(cpu_ms(self._sidecar))

    def turn(self, event: dict[str, object], figures: Figures | None) -> None:
        """A block of invocations, until all is at rest."""
        cpu, sidecar = cpu_ms(self._function), cpu_ms(self._sidecar)
        took = []
        for _ in range(BLOCK):
            began = time.perf_counter()
            answer = self.local.invoke(event)
            took.append((time.perf_counter() - began) * 1000)
            assert answer.function_error is None, answer
            if figures is not None:
                self._measured.append((figures, answer.request_id))
        self.local.settle()
        if figures is not None:
            figures.responses_ms += took
            figures.cpu_ms.append((cpu_ms(self._function) - cpu) / BLOCK)
            figures.sidecar_ms.append((cpu_ms(self._sidecar) - sidecar) / BLOCK)

    def look(self, figures: Figures) -> None:
        """While there is the other sidecar as well: they share pages."""
        figures.sidecar_mib.append(pss_mib(self._sidecar))

    def finish(self) -> None:
        """End the environment, and note its peaks."""
        self.local.stop()
        peaks = {line["requestId"]: float(line["PeakRSS"]) for line in self.lines()}
        for each in {id(figures): figures for figures, _ in self._measured}.values():
            each.peak_mib.append(max(peaks[request] for of, request in self._measured if of is each))

    def is_profiled(self) -> bool | None:
        """None before it is asked for."""
        marks = list((self.local.environment_dir / "tmp").glob(".truemem-asked-*"))
        return marks[0].read_text() != "0\n" if marks else None

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.local.extension_stdout(EXECUTABLE.name)]

    def profile(self) -> dict[str, object]:
        """Empty until it is printed."""
        return next((line["growthProfile"] for line in self.lines() if "growthProfile" in line), {})

    def pids(self) -> list[int]:
        return list(self.local.processes().values())


def cpu_ms(pid: int) -> float:
    """CPU time so far of all threads, also of those that have ended (clock_getcpuclockid(3))."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e6


def pss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@dataclass(frozen=True)
class Case:
    language: str
    handler: str
    classes: Path
    """Folder of Java's."""
    memory_mib: int = VCPU_MIB

    def function(self, file: str = "app") -> Function:
        if self.language == JAVA:
            command = (str(shutil.which("java")), *JVM, "-cp", str(self.classes), "App", self.handler)
            return Function(command, self.classes, "App", None, (self.classes,))
        if self.language == NODE:
            return from_node_handler(f"{FUNCTIONS}/{file}.mjs:{self.handler}", None, lambda _: None)
        return Function.from_handler(f"{FUNCTIONS}/{file}.py:{self.handler}")

    def environment(
        self, lines: str, extension: Path = EXECUTABLE, more: Mapping[str, str] = NONE, file: str = "app"
    ) -> LocalLambda:
        """With the heap's probe, in exact mode."""
        setting = "on,java" if lines == ON and self.language == JAVA else lines
        made = in_exact_mode(self.function(file), {"TRUEMEM_LINES": setting, **more}, EXECUTABLE)
        assert made is not None, "the program of exact mode is not there: run `make layer`"
        function, variables = made
        settings = Settings(
            memory_mib=self.memory_mib,
            timeout_s=300,
            extensions=[extension],
            environment=variables,
            user="current",  # HotSpot has no counters of a user without a name
        )
        return LocalLambda(with_probe(function, variables), settings)

    @contextmanager
    def sides(self, start: Pair, last: Pair) -> Iterator[dict[str, Side]]:
        """Both environments. `last`: the state that they end in."""
        gc.collect()
        gc.disable()  # the benchmark's own, not in the middle of an invocation
        with ExitStack() as stack:
            stack.callback(gc.enable)
            made = {}
            for name, figures in start.of_side.items():
                made[name] = Side(stack.enter_context(self.environment(name)), figures)
            look(made, start)
            start.compare(1)
            yield made
            look(made, last)
            for side in made.values():
                side.finish()


def look(made: dict[str, Side], figures: Pair) -> None:
    for name, of_side in figures.of_side.items():
        made[name].look(of_side)


def turns(made: dict[str, Side], event: dict[str, object], figures: Pair | None, at_once: bool = False) -> None:
    """A block of each side."""
    of_side = figures.of_side if figures is not None else {}
    with ThreadPoolExecutor(2 if at_once else 1) as pool:
        list(pool.map(lambda name: made[name].turn(event, of_side.get(name)), random.sample(list(made), 2)))


def idle(made: dict[str, Side], figures: Pair) -> None:
    """It keeps nothing. Ends where it is profiled all the same, because V8's heap grows at first."""
    blocks = 0
    for number in range(WARM_UP + IDLE_BLOCKS):
        if made[ON].is_profiled() is None:
            turns(made, {"keep": False}, figures if number >= WARM_UP else None)
            blocks += number >= WARM_UP
    assert blocks, "it is profiled at once"


def profiled(made: dict[str, Side], case: Case, figures: Pair) -> None:
    """It leaks until a profile has ended."""
    share = case.memory_mib / VCPU_MIB
    is_confined = False
    blocks = 0
    with ExitStack() as stack:
        for _ in range(MOST):
            state = made[ON].is_profiled()
            if state is False:
                break
            if state and share < 1 and not is_confined:
                for name, side in made.items():
                    is_confined = stack.enter_context(confined(side.pids(), share, name))
                    assert is_confined, "a cpu cgroup is not permitted"
            # Only a major collection says how much of a JVM's heap is live.
            event: dict[str, object] = {"keep": True, "collect": not state and case.language == JAVA}
            turns(made, event, figures if state else None, at_once=is_confined)
            blocks += bool(state)
    for _ in range(LATER):
        if made[ON].profile():
            break
        turns(made, {"keep": False}, None)
    profile = made[ON].profile()
    assert profile and not profile.get("gaveUp"), f"{case.language}, {case.handler}: no profile: {profile}"
    figures.compare(blocks)


Rows = dict[tuple[str, str], Pair]
"""By language, and what it does."""


def measure(languages: Sequence[str], rounds: int, small: int, bar: Callable[[str, int], Callable[[], None]]) -> Rows:
    rows: Rows = {}

    def row(case: Case, *words: str) -> Pair:
        return rows.setdefault((case.language, ", ".join(words)), Pair())

    with tempfile.TemporaryDirectory(prefix="truemem-lines-", dir="/tmp") as name:
        classes = Path(name)
        classes.chmod(0o755)
        if JAVA in languages:
            subprocess.run(["javac", "-d", name, FUNCTIONS / "App.java"], check=True)
        for language in languages:
            for handler in HANDLERS:
                case = Case(language, handler, classes)
                start, calm, profile = row(case, START), row(case, handler, IDLE), row(case, handler, PROFILED)
                advance = bar(f"{language}, {handler}", (1 + IDLE_ROUNDS) * rounds + small)
                for _ in range(IDLE_ROUNDS * rounds):
                    with case.sides(start, calm) as made:
                        idle(made, calm)
                    take(partial(case.environment, ON, file="timed"), calm.look, language != JAVA)
                    advance()
                for _ in range(rounds):
                    with case.sides(start, profile) as made:
                        profiled(made, case, profile)
                    advance()
                case = Case(language, handler, classes, SMALL_MIB)
                for _ in range(small):
                    profile = row(case, handler, SMALL)
                    with case.sides(Pair(), profile) as made:
                        profiled(made, case, profile)
                    advance()
    return rows


LOOK_HEADINGS = ("", "function, µs", "sidecar, µs", "more CPU", "more memory, KiB")
HEADINGS = ("", "CPU, ms", "more", "in all, ms", "p50, ms", "p99, ms", "function, MiB", "sidecar, ms", "sidecar, MiB")


def cells(rows: Rows) -> list[list[str]]:
    made = []
    for (language, state), row in rows.items():
        made.append(
            [
                f"{language}, {state}",
                off_or_both(row, lambda each: statistics.fmean(each.cpu_ms)),
                more(row),
                f"{in_all_ms(row):.0f}" if is_profile(state) else "",
                both(row, lambda each: percentile(each.responses_ms, 50), 1),
                both(row, lambda each: percentile(each.responses_ms, 99), 1),
                both(row, lambda each: statistics.median(each.peak_mib), 1),
                off_or_both(row, lambda each: statistics.fmean(each.sidecar_ms)),
                both(row, lambda each: statistics.median(each.sidecar_mib), 2),
            ]
        )
    return made


def off_or_both(row: Pair, of: Callable[[Figures], float]) -> str:
    return f"{of(row.off):.2f}" if row.look.sidecar else both(row, of, 2)


def looks(rows: Rows) -> list[list[str]]:
    """Of those that are not profiled."""
    made = []
    for (language, state), row in rows.items():
        if row.look.sidecar:
            function, error = middle(row.look.function)
            look = f"{function:.1f} ± {error:.1f}" if row.look.function else "none"
            kib, its_error = more_kib(rows, language)
            sidecar = f"{statistics.fmean(row.look.sidecar):.1f}"
            made.append([f"{language}, {state}", look, sidecar, more(row), f"{kib:+.0f} ± {its_error:.0f}"])
    return made


def more_kib(rows: Rows, language: str) -> tuple[float, float]:
    """Memory of function and sidecar, on against off, and its error. Of the handler that works: V8's heap differs by
    more from process to process where it allocates."""
    row = rows[language, f"works, {IDLE}"]
    held = [zip(each.peak_mib, each.sidecar_mib, strict=True) for each in (row.on, row.off)]
    return middle([1024 * (sum(on) - sum(off)) for on, off in zip(*held, strict=True)])


def more(row: Pair) -> str:
    percent, error = row.more
    return f"{percent:+.1f} ± {error:.1f} %" if math.isfinite(error) else f"{percent:+.1f} %"


def both(row: Pair, of: Callable[[Figures], float], digits: int) -> str:
    return f"{of(row.off):.{digits}f} / {of(row.on):.{digits}f}"


def is_profile(state: str) -> bool:
    return PROFILED in state.split(", ")


def in_all_ms(row: Pair) -> float:
    """More CPU in all invocations of a profile."""
    return (statistics.fmean(row.on.cpu_ms) - statistics.fmean(row.off.cpu_ms)) * row.on.invocations


def broken(rows: Rows) -> list[str]:
    """Promises."""
    found = []
    for (language, state), row in rows.items():
        if row.look.sidecar:
            memory = more_kib(rows, language)
            for (value, error), most, unit in ((row.more, CPU_PERCENT, "% of CPU"), (memory, MEMORY_KIB, "KiB")):
                if value + 2 * error > most:
                    found.append(f"{language}, {state}: {value:.1f} ± {error:.1f} {unit}")
    return found


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True, help="Environments of each kind.")
@click.option("--small", default=2, show_default=True, help="The same with the CPU of 128 MB.")
@click.option("--only", multiple=True, type=click.Choice(LANGUAGES), help="These languages alone; nothing is written.")
def main(rounds: int, small: int, only: tuple[str, ...]) -> None:
    """See the module."""
    began = time.monotonic()
    with measuring() as bar:
        rows = measure(only or LANGUAGES, rounds, small, bar)
    table = f"{markdown(LOOK_HEADINGS, looks(rows))}\n\n{markdown(HEADINGS, cells(rows))}"
    click.echo(f"{table}\n\n{time.monotonic() - began:.0f} s")
    if not only:
        publish(table, rows, time.monotonic() - began)
    exit_if_broken(broken(rows))


def short(rows: Rows) -> tuple[str, str]:
    """While it is not profiled, of the handler that it costs more; and a profile, of the handler that works."""
    calm, made = [], []
    for language in LANGUAGES:
        state = max((f"{handler}, {IDLE}" for handler in HANDLERS), key=lambda state: rows[language, state].more)
        most, kib = rows[language, state], more_kib(rows, language)[0]
        function = f"{middle(most.look.function)[0]:.1f} µs" if most.look.function else "nothing"
        sidecar = f"{statistics.fmean(most.look.sidecar):.1f} µs"
        calm.append([language, function, sidecar, more(most), f"{kib:.0f} KiB"])
        row, small = rows[language, f"works, {PROFILED}"], rows[language, f"works, {SMALL}"]
        p99, small_p99 = (both(of, lambda each: percentile(each.responses_ms, 99), 0) for of in (row, small))
        made.append([language, *(f"{each} ms" for each in (f"{in_all_ms(row):.0f}", p99, small_p99))])
    return (
        markdown(["", "function", "sidecar", "more CPU", "more memory"], calm),
        markdown(["", "CPU in all", "p99", f"p99, {SMALL_MIB} MB"], made),
    )


def publish(table: str, rows: Rows, seconds: float) -> None:
    """Write the results page, and the short tables of the docs."""
    for name, text in zip(("lines-calm", "lines"), short(rows), strict=True):
        replace(PAGE, name, text, by=BY)
    counts = {len(row.on.responses_ms) for (_, state), row in rows.items() if IDLE in state}
    RESULTS.write_text(
        f"# What the lines cost\n\n`{BY}`, {datetime.now(UTC):%Y-%m-%d}, on {machine()};"
        f" {seconds:.0f} s.\n\n{table}\n\n## While nothing is profiled\n\nCPU time of an invocation: in the function,"
        " of its look whether a profile is asked for, against answers without it, by turns in one process; in the"
        " sidecar, by a clock around what the lines do there. More CPU: both, of the CPU that function and sidecar"
        " take for the invocation. More memory: of both, where the function works, as V8's heap differs by more from"
        f" process to process where it allocates. The promise is {CPU_PERCENT:g} % at most, and {MEMORY_KIB} KiB: each"
        " with two standard errors, or the benchmark fails.\n\n## All\n\nOf two figures the first is with"
        " `TRUEMEM_LINES` off, the second with it on, by turns, with the heap's probe and the same sidecar. CPU and"
        " sidecar: ms of an invocation, in the mean, off where it is not profiled; of a start, until its first answer."
        " More: mean of the environments, with its standard error; where it is not profiled, as above; in all: of a"
        " whole profile. p50, p99: of the response, as a caller sees it who waits for what is done after the last one;"
        " of a start, its init. Function: highest RSS, sidecar: PSS at the end. Works: parses and hashes. Allocates:"
        f" makes small objects all the time, and drops them. {max(counts)} invocations that are not profiled, of each"
        " function.\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
