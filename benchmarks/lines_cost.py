"""What `--lines` costs an invocation, by language: one that is not profiled, and one that is.

Two processes of one kind differ by some percent, so what differs by 0.5 % does not show between them. So the calm ones
are timed where it is spent: the function sends eight answers with the preload's look whether a profile is asked for,
and eight without, by turns; in the sidecar a clock is around what the lines do. Durations are those of two
environments, one without lines, that are invoked in turn. Writes results/lines_cost.md and the tables of docs/heap.md.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import in_exact_mode, with_probe
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.kit.bench import Bench, middle
from benchmarks.kit.contenders import EXECUTABLE, EXTENSIONS
from testing.bare import cpu_ns
from testing.pages import ROOT, Result, Table

TITLE = "What the lines cost"
FUNCTIONS = ROOT / "benchmarks" / "functions" / "lines"
PYTHON, NODE, JAVA = LANGUAGES = ("Python", "Node.js", "Java")
JVM = ("-XX:+UseSerialGC", "-Xmx64m", "-Xshare:auto", "-XX:TieredStopAtLevel=1")
"""As AWS's own runtimes start it, with a smaller heap."""
ROUNDS, IDLE = 4, 75
"""Environments of each kind; invocations of one without lines."""
EACH, WARM_UP, MOST = 8, 6, 60
"""Answers of a turn in functions/lines/timed.*, from one look of the preload to the next; turns."""
CPU_PERCENT = 1.0
"""The promise."""
CALM, GROWING = 200, 300
"""Invocations that are timed before memory grows, and while it does: in these a line is named."""


def function_of(language: str, classes: Path, file: str) -> Function:
    if language == JAVA:
        command = (str(shutil.which("java")), *JVM, "-cp", str(classes), "App")
        return Function(command, classes, "App", None, (classes,))
    if language == NODE:
        return from_node_handler(f"{FUNCTIONS}/{file}.mjs:works", None, lambda _: None)
    return Function.from_handler(f"{FUNCTIONS}/{file}.py:works")


def environment(function: Function, extension: Path, variables: Mapping[str, str]) -> LocalLambda:
    """With the heap's probe, in exact mode."""
    made = in_exact_mode(function, variables, EXECUTABLE)
    assert made is not None, "the program of exact mode is not there: run `make layer`"
    function, variables = made
    settings = Settings(
        memory_mib=1769,
        timeout_s=300,
        extensions=[extension],
        environment=variables,
        user="current",  # HotSpot has no counters of a user without a name
    )
    return LocalLambda(with_probe(function, variables), settings)


def invoke(local: LocalLambda, event: dict[str, object] | None = None) -> Any:
    answer = local.invoke({"keep": False, **(event or {})})
    assert answer.function_error is None, answer
    return answer.payload


def is_asked(local: LocalLambda) -> bool:
    """Has the sidecar asked for a profile? V8's heap grows at first."""
    return any((local.environment_dir / "tmp").glob(".truemem-asked-*"))


def invocation_us(language: str, classes: Path) -> float:
    """CPU of function and sidecar for an invocation without lines."""
    with environment(function_of(language, classes, "app"), EXECUTABLE, {"TRUEMEM_LINES": "off"}) as local:
        for _ in range(IDLE):
            invoke(local)
        pids = [local.processes()[name] for name in ("runtime", f"extension:{EXECUTABLE.name}")]
        before = sum(map(cpu_ns, pids))
        for _ in range(IDLE):
            invoke(local)
        local.settle()
        return (sum(map(cpu_ns, pids)) - before) / IDLE / 1000


def timed(language: str, classes: Path) -> tuple[list[float], float]:
    """One environment until it is profiled, µs: the look in the function, of each two turns; and the sidecar's."""
    with tempfile.TemporaryDirectory(prefix="truemem-look-", dir="/tmp") as name:
        extension, file = Path(name) / "truemem", Path(name) / "timed.json"
        extension.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {EXTENSIONS / "timed_lines.py"} "$0"\n')
        extension.chmod(0o755)
        variables = {"TRUEMEM_LINES": "on,java" if language == JAVA else "on", "TIMED": str(file)}
        looks: list[float] = []
        with environment(function_of(language, classes, "timed"), extension, variables) as local:
            turns = 0
            while turns < WARM_UP + MOST and not is_asked(local):
                for _ in range(EACH):
                    invoke(local)
                turns += 1
            turns -= is_asked(local)
            assert turns > WARM_UP + 1, "it is profiled at once"
            if language != JAVA:
                spent = invoke(local, {"spent": True})
                pairs = zip(spent[WARM_UP:turns:2], spent[WARM_UP + 1 : turns : 2], strict=False)
                looks = [(looked - past) / EACH for looked, past in pairs]
        return looks, statistics.fmean(json.loads(file.read_text())[EACH * WARM_UP : EACH * turns])


def durations(language: str, classes: Path) -> dict[str, list[float]]:
    """Durations, ms, of invocations in two environments that are invoked in turn: without lines, and with them while
    nothing grows; and of those in which the one is profiled, with the other's at the same time. Of a JVM, all in which
    memory grows: nothing tells when it is asked."""
    with_lines = "on,java" if language == JAVA else "on"
    found: dict[str, list[float]] = {name: [] for name in COLUMNS}
    with (
        environment(function_of(language, classes, "app"), EXECUTABLE, {"TRUEMEM_LINES": "off"}) as without,
        environment(function_of(language, classes, "app"), EXECUTABLE, {"TRUEMEM_LINES": with_lines}) as lines,
    ):
        for number in range(IDLE + CALM + GROWING):
            grows = number >= IDLE + CALM
            was_asked = is_asked(lines)
            for local in (without, lines)[:: -1 if number % 2 else 1]:
                invoke(local, {"keep": grows})
            if number < IDLE:
                continue
            profiled = grows and (language == JAVA or was_asked or is_asked(lines))
            if grows and not profiled:
                continue
            pair = COLUMNS[2:] if profiled else COLUMNS[:2]
            for name, local in zip(pair, (without, lines), strict=True):
                found[name].append(local.reports[-1].duration_ms)
    return found


COLUMNS = ("without lines", "with lines", "at the same time without", "while profiled")


def _two(values: Sequence[float]) -> str:
    """Median and 99th percentile."""
    return f"{statistics.median(values):.2f}, {np.percentile(values, 99):.2f} ms" if values else "none"


def run(bench: Bench) -> Result:
    rows, broken, timings = [], [], []
    with tempfile.TemporaryDirectory(prefix="truemem-lines-", dir="/tmp") as name:
        classes = Path(name)
        classes.chmod(0o755)
        for language in bench.each("languages", bench.chosen(LANGUAGES)):
            if language == JAVA:
                subprocess.run(["javac", "-d", name, FUNCTIONS / "App.java"], check=True)
            rounds = range(bench.count(ROUNDS, 2))
            looks, sidecars = zip(*(timed(language, classes) for _ in rounds), strict=True)
            whole = statistics.fmean(invocation_us(language, classes) for _ in rounds)
            (function, error), sidecar = middle([*chain(*looks)]), statistics.fmean(sidecars)
            spread = statistics.variance(sidecars) / len(sidecars)
            percent, its_error = 100 * (function + sidecar) / whole, 100 * (error**2 + spread) ** 0.5 / whole
            broken += [f"{language}: {percent:.1f} ± {its_error:.1f} %"] * (percent + 2 * its_error > CPU_PERCENT)
            cells = "nothing" if language == JAVA else f"{function:.1f} µs", f"{sidecar:.1f} µs"
            rows.append([language, *cells, f"{percent:+.1f} ± {its_error:.1f} %"])
            each = [durations(language, classes) for _ in rounds]
            timings.append([language, *(_two([*chain(*(one[name] for one in each))]) for name in COLUMNS)])
    note = (
        "CPU time of an invocation; more CPU: both, of the CPU that function and sidecar take for the invocation"
        f" without lines. The promise is {CPU_PERCENT:g} % at most, with two standard errors."
    )
    table = Table("", ("", "function", "sidecar", "more CPU"), rows, note)
    note = (
        "Median and 99th percentile of the duration in REPORT. With an answer that is sent while V8 or Python is looked"
        " at, a request that comes at once waits: here each comes at once."
    )
    durations_of = Table("Durations", ("", *COLUMNS), timings, note)
    pages = {"lines-calm": table, "lines-durations": durations_of._replace(title="")}
    tables = {("docs/heap.md", name): each._replace(note="").markdown() for name, each in pages.items()}
    return Result([table, durations_of], broken, tables)
