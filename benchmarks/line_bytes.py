"""Measures the sidecar's lines in bytes, on runs under the local Lambda. Writes results/line_bytes.md.

Exit codes: 0 measured, 1 the median of a default setting is above the aim, 2 not measured.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from truemem_workbench.analysis.prices import LOG_GB, MILLION
from truemem_workbench.demo.workload import working_day
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import SIDECAR, in_exact_mode, with_probe
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.accuracy import percentile
from benchmarks.publish import ROOT, exit_if_broken, machine, markdown, measuring, shown

RESULTS = Path(__file__).with_name("results") / "line_bytes.md"
FUNCTIONS = Path(__file__).with_name("functions") / "line_bytes"
SAMPLE = ROOT / "sample_function"
FROM_SOURCE = Path("extension") / "truemem" / "run"
MEDIAN_AIM = 600
"""Bytes, newline included."""
PAUSE_S = 0.005
"""Between two invocations: telemetry takes so long."""


@dataclass(frozen=True)
class Case:
    """One function and its settings."""

    title: str
    handler: Path
    is_exact: bool = False
    has_probe: bool = False
    has_aim: bool = False
    """Is its median to be within the aim? Not with a heap on each line, nor where most peaks are raced."""


@dataclass(frozen=True)
class Lines:
    """Bytes of the lines of one environment."""

    case: Case
    lines: int
    median: float
    p90: float
    mean: float
    platform: float
    """Of START, END and REPORT of one invocation."""

    @property
    def dollars(self) -> float:
        """USD for the lines of a million invocations."""
        return self.mean * MILLION / 1e9 * LOG_GB


CASES: Sequence[Case] = [
    Case(title, handler, is_exact, has_probe, has_aim)
    for title, handler, has_probe, has_aim in (
        ("Python", FUNCTIONS / "app.py", False, True),
        ("Node.js", FUNCTIONS / "app.mjs", False, True),
        ("the sample", SAMPLE / "app.py", False, False),
        ("Python, `--heap`", FUNCTIONS / "app.py", True, False),
        ("Node.js, `--heap`", FUNCTIONS / "app.mjs", True, False),
    )
    for is_exact in (False, True)
]


def lines_of(case: Case, sidecar: Path, count: int, models: Path) -> Lines:
    """Invoke the function so often, with the sidecar attached; see Lines. `models`: a folder with the sample's."""
    spec = f"{case.handler}:handler"
    function = from_node_handler(spec, None, lambda _: None) if case.handler.suffix == ".mjs" else None
    function = function or Function.from_handler(spec)
    variables: Mapping[str, str] = {"MODEL_DIR": str(models)} if case.handler.parent == SAMPLE else {}
    if case.has_probe:
        function = with_probe(function, variables)
    if case.is_exact:
        exact = in_exact_mode(function, variables, sidecar) or in_exact_mode(function, variables, ROOT / FROM_SOURCE)
        if exact is None:
            raise RuntimeError("the program of exact mode is not there: make layer")
        function, variables = exact
    settings = Settings(memory_mib=1024, environment=variables, extensions={SIDECAR: sidecar})
    calls = [call.payload() for call in working_day(count)]
    with LocalLambda(function, settings) as local:
        for call in calls:
            local.invoke({**call, "padding": "x" * 2000})
            time.sleep(PAUSE_S)
        local.stop()
        printed = [len(line.encode()) + 1 for line in local.extension_stdout(SIDECAR)]
        platform = [len(entry.text.encode()) + 1 for entry in local.logs if entry.source == "platform"]
    if len(printed) != count:
        raise RuntimeError(f"{case.title}: {len(printed)} lines of {count} invocations")
    return Lines(
        case,
        count,
        statistics.median(printed),
        percentile(printed, 90),
        statistics.fmean(printed),
        sum(platform) / count,
    )


def measure(
    sidecar: Path, count: int, advance: Callable[[], None] = lambda: None, cases: Sequence[Case] = CASES
) -> list[Lines]:
    """Lines of each case, with this sidecar. Raises RuntimeError and what the local Lambda raises."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder)
        models.chmod(0o1777)  # the function runs as another user
        if any(case.handler.parent == SAMPLE for case in cases):
            made = [sys.executable, str(SAMPLE / "models.py"), "make", folder]
            subprocess.run(made, check=True, capture_output=True)
        for case in cases:
            found.append(lines_of(case, sidecar, count, models))
            advance()
    return found


def above_the_aim(found: Sequence[Lines]) -> list[str]:
    """What is above it, for `make gate`: empty where nothing is."""
    return [
        f"lines of {each.case.title}{', exact mode' if each.case.is_exact else ''}: {each.median:.0f} bytes"
        for each in found
        if each.case.has_aim and each.median > MEDIAN_AIM
    ]


HEADINGS = ("function", "mode", "median", "p90", "mean", "a million", "the platform's")


def rows(found: Sequence[Lines], before: Sequence[Lines]) -> list[list[str]]:
    """The table's cells: before and now, where there is a before."""

    def cell(at: int, value: Callable[[Lines], str]) -> str:
        return " / ".join(value(each[at]) for each in (before, found) if each)

    return [
        [
            each.case.title,
            "exact" if each.case.is_exact else "default",
            cell(at, lambda lines: f"{lines.median:.0f}"),
            cell(at, lambda lines: f"{lines.p90:.0f}"),
            cell(at, lambda lines: f"{lines.mean:.0f}"),
            cell(at, lambda lines: f"${lines.dollars:.3f}"),
            f"{each.platform:.0f}",
        ]
        for at, each in enumerate(found)
    ]


@click.command(help=__doc__)
@click.option("--invocations", default=400, show_default=True, help="Of each case.")
@click.option("--before", type=click.Path(exists=True, path_type=Path), help="A checkout to compare with.")
@click.option("--write/--no-write", default=True, help="Write the page.")
def main(invocations: int, before: Path | None, write: bool) -> None:
    """See the module."""
    with measuring() as bar:
        advance = bar("lines", len(CASES) * (1 if before is None else 2))
        was = [] if before is None else measure(before / FROM_SOURCE, invocations, advance)
        found = measure(ROOT / FROM_SOURCE, invocations, advance)
    cells = rows(found, was)
    Console(width=140).print(shown("Bytes of a line", HEADINGS, cells))
    if write:
        first = "Before (commit 6815edd0) / now. " if was else ""
        RESULTS.write_text(
            f"""# Bytes of a line

{first}Newline included. {invocations} invocations of each, under a name of eight letters. A million: the lines of
a million invocations, ${LOG_GB:.2f} a GB. The platform's: START, END and REPORT. Aim: {MEDIAN_AIM} at the median, but
for the sample, whose peaks are often intervals, and the heap.
Made by `python -m benchmarks.line_bytes`, {machine()}.

{markdown(HEADINGS, cells, 2)}
"""
        )
    exit_if_broken(above_the_aim(found))


if __name__ == "__main__":
    main()
