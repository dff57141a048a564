"""The sidecar's lines in bytes, on runs under the local Lambda.

With --before COMMIT also those of its code. Fails if the median of a default setting is above the aim.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from truemem_workbench.analysis.prices import LOG_GB, MILLION
from truemem_workbench.demo.workload import working_day
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import SIDECAR, in_exact_mode, with_probe
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.kit import before
from benchmarks.kit.bench import Bench, percentile
from testing.pages import ROOT, Result, Table

TITLE = "Bytes of a line"
SETTINGS = {"before": before.HELP}
SOURCE = Path("extension") / "truemem" / "run"
FUNCTIONS = ROOT / "benchmarks" / "functions" / "line_bytes"
SAMPLE = ROOT / "sample_function"
MEDIAN_AIM = 600
"""Bytes, newline included."""
PAUSE_S = 0.005
"""Between two invocations: telemetry takes so long."""


class Case(NamedTuple):
    """One function and its settings."""

    handler: Path
    has_probe: bool = False
    has_aim: bool = False
    """Is its median to be within the aim? Not with a heap on each line, nor where most peaks are raced."""
    is_exact: bool = False


class Lines(NamedTuple):
    """Bytes of the lines of one environment."""

    median: float
    p90: float
    mean: float
    dollars: float
    """USD for the lines of a million invocations."""
    platform: float
    """Of START, END and REPORT of one invocation."""


_FUNCTIONS = {
    "Python": Case(FUNCTIONS / "app.py", has_aim=True),
    "Node.js": Case(FUNCTIONS / "app.mjs", has_aim=True),
    "the sample": Case(SAMPLE / "app.py"),
    "Python, `--heap`": Case(FUNCTIONS / "app.py", has_probe=True),
    "Node.js, `--heap`": Case(FUNCTIONS / "app.mjs", has_probe=True),
}
CASES = {
    f"{name}{words}": case._replace(is_exact=bool(words))
    for name, case in _FUNCTIONS.items()
    for words in ("", ", exact mode")
}


def lines_of(case: Case, sidecar: Path, count: int, models: Path) -> Lines:
    """Invoke the function so often, with the sidecar attached. `models`: a folder with the sample's."""
    spec = f"{case.handler}:handler"
    is_node = case.handler.suffix == ".mjs"
    function = from_node_handler(spec, None, lambda _: None) if is_node else Function.from_handler(spec)
    variables: Mapping[str, str] = {"MODEL_DIR": str(models)} if case.handler.parent == SAMPLE else {}
    if case.has_probe:
        function = with_probe(function, variables)
    if case.is_exact:
        exact = in_exact_mode(function, variables, sidecar) or in_exact_mode(function, variables, ROOT / SOURCE)
        assert exact is not None, "the program of exact mode is not there: make layer"
        function, variables = exact
    settings = Settings(memory_mib=1024, environment=variables, extensions={SIDECAR: sidecar})
    with LocalLambda(function, settings) as local:
        for call in working_day(count):
            local.invoke({**call.payload(), "padding": "x" * 2000})
            time.sleep(PAUSE_S)
        local.stop()
        printed = [len(line.encode()) + 1 for line in local.extension_stdout(SIDECAR)]
        platform = [len(entry.text.encode()) + 1 for entry in local.logs if entry.source == "platform"]
    assert len(printed) == count, f"{len(printed)} lines of {count} invocations"
    mean = statistics.fmean(printed)
    dollars = mean * MILLION / 1e9 * LOG_GB
    return Lines(statistics.median(printed), percentile(printed, 90), mean, dollars, sum(platform) / count)


def measure(code: Path, bench: Bench, names: Sequence[str]) -> dict[str, Lines]:
    """Lines of these cases, with the sidecar of this code."""
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder)
        models.chmod(0o1777)  # the function runs as another user
        if any(CASES[name].handler.parent == SAMPLE for name in names):
            made = [sys.executable, str(SAMPLE / "models.py"), "make", folder]
            subprocess.run(made, check=True, capture_output=True)
        count = bench.count(400, 20)
        return {name: lines_of(CASES[name], code / SOURCE, count, models) for name in bench.each("lines", names)}


def run(bench: Bench) -> Result:
    names, commit = bench.chosen(CASES), bench.settings.get("before")
    with before.code_of(commit) as code:
        was = measure(code, bench, names) if code else {}
        now = measure(ROOT, bench, names)

    def cell(name: str, value: Callable[[Lines], str]) -> str:
        return " / ".join(value(each[name]) for each in (was, now) if each)

    rows = [
        [
            name,
            *(cell(name, lambda lines, at=at: f"{lines[at]:.0f}") for at in range(3)),  # type: ignore[misc]
            cell(name, lambda lines: f"${lines.dollars:.3f}"),
            f"{lines.platform:.0f}",
        ]
        for name, lines in now.items()
    ]
    note = (
        (f"Before (commit {commit}) / now. " if was else "")
        + f"Newline included. {bench.count(400, 20)} invocations of each, under a name of eight letters. A million: the"
        f" lines of a million invocations, ${LOG_GB:.2f} a GB. The platform's: START, END and REPORT. Aim: {MEDIAN_AIM}"
        " at the median, but for the sample, whose peaks are often intervals, and the heap."
    )
    over = {name: lines.median for name, lines in now.items() if CASES[name].has_aim and lines.median > MEDIAN_AIM}
    broken = [f"lines of {name}: {median:.0f} bytes" for name, median in over.items()]
    headings = ("function", "median", "p90", "mean", "a million", "the platform's")
    return Result([Table("", headings, rows, note)], broken)
