"""The sidecar's lines in bytes, on runs under the local Lambda.

With --before COMMIT also those of its code. Fails if the median of a default setting is above the aim.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from truemem_workbench.demo.workload import working_day
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import SIDECAR, in_exact_mode
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.kit.bench import Bench, percentile
from benchmarks.kit.contenders import BEFORE_HELP, code_of
from testing.pages import ROOT, Result, Table

TITLE = "Bytes of a line"
SETTINGS = {"before": BEFORE_HELP}
SOURCE = Path("extension") / "truemem" / "run"
FUNCTIONS = ROOT / "benchmarks" / "functions" / "line_bytes"
MEDIAN_AIM = 600
"""Bytes, newline included."""
PAUSE_S = 0.005
"""Between two invocations: telemetry takes so long."""


class Lines(NamedTuple):
    """Bytes of the lines of one environment."""

    median: float
    p90: float
    mean: float


CASES = {
    f"{name}{words}": (FUNCTIONS / file, bool(words))
    for name, file in (("Python", "app.py"), ("Node.js", "app.mjs"))
    for words in ("", ", exact mode")
}
"""The handler, and is it in exact mode?"""


def lines_of(handler: Path, is_exact: bool, sidecar: Path, count: int) -> Lines:
    """Invoke the function so often, with the sidecar attached."""
    spec = f"{handler}:handler"
    is_node = handler.suffix == ".mjs"
    function = from_node_handler(spec, None, lambda _: None) if is_node else Function.from_handler(spec)
    variables: Mapping[str, str] = {}
    if is_exact:
        exact = in_exact_mode(function, {}, sidecar) or in_exact_mode(function, {}, ROOT / SOURCE)
        assert exact is not None, "the program of exact mode is not there: make layer"
        function, variables = exact
    settings = Settings(memory_mib=1024, environment=variables, extensions={SIDECAR: sidecar})
    with LocalLambda(function, settings) as local:
        for call in working_day(count):
            local.invoke({**call.payload(), "padding": "x" * 2000})
            time.sleep(PAUSE_S)
        local.stop()
        printed = [len(line.encode()) + 1 for line in local.extension_stdout(SIDECAR)]
    assert len(printed) == count, f"{len(printed)} lines of {count} invocations"
    mean = statistics.fmean(printed)
    return Lines(statistics.median(printed), percentile(printed, 90), mean)


def measure(code: Path, bench: Bench, names: Sequence[str]) -> dict[str, Lines]:
    """Lines of these cases, with the sidecar of this code."""
    count = bench.count(400, 20)
    return {name: lines_of(*CASES[name], code / SOURCE, count) for name in bench.each("lines", names)}


def run(bench: Bench) -> Result:
    names, commit = bench.chosen(CASES), bench.settings.get("before")
    with code_of(commit) as code:
        was = measure(code, bench, names) if code else {}
        now = measure(ROOT, bench, names)
    sides = [each for each in (was, now) if each]
    rows = [[name, *(" / ".join(f"{side[name][at]:.0f}" for side in sides) for at in range(3))] for name in now]
    note = (
        f"{f'Before (commit {commit}) / now. ' if was else ''}Newline included. {bench.count(400, 20)} invocations of"
        f" each, under a name of eight letters. Aim: {MEDIAN_AIM} at the median."
    )
    broken = [f"lines of {name}: {lines.median:.0f} bytes" for name, lines in now.items() if lines.median > MEDIAN_AIM]
    headings = ("function", "median", "p90", "mean")
    return Result([Table("", headings, rows, note)], broken)
