"""Measures what costs time or money most, in one run against the code before: exact mode, CPU of an invocation, bytes
of a line, and `truemem report`; AWS's sample in Go and the floor beside. Profiles say where the time goes. Writes
results/speed.md, and results/speed.json (which `make gate` compares with).

Exit codes: 0 measured, 2 not measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from benchmarks import cpu, exact, line_bytes, namespace, report, speed_profile
from benchmarks.contenders import EXECUTABLE, FLOOR, GO, OURS, PLAIN, Contender, contenders
from benchmarks.publish import ROOT, machine, markdown, measuring, shown
from benchmarks.running import VCPU_MIB

RESULTS = Path(__file__).with_name("results") / "speed.md"
RATIOS = RESULTS.with_suffix(".json")
CPU_ADDED_MS = 0.15
"""Most CPU time that exact mode may add to an invocation, whatever its payload."""
CPU_MS = {cpu.DEFAULT: 0.25, cpu.EXACT: 0.35}
"""Most of an invocation, hardly sampling."""
GATE_BLOCKS = 10
ENVIRONMENTS = 1_000
"""Of 1,000 lines each, for the report."""


Step = Callable[[str, int], Callable[[], None]]
"""See `publish.measuring`."""


@dataclass(frozen=True)
class Figure:
    """One row."""

    name: str
    before: float
    now: float
    aim: float
    digits: int = 2
    go: float | None = None
    """The same of AWS's sample in Go."""
    floor: float | None = None

    def cells(self) -> list[str]:
        values = (self.before, self.now, self.go, self.floor)
        numbers = ["" if value is None else f"{value:.{self.digits}f}" for value in values]
        return [self.name, *numbers, f"{self.aim:g}", "yes" if self.now <= self.aim else "no"]


HEADINGS = ("", "before", "now", "AWS's sample in Go", "floor: static C", "aim", "met")


def of_exact_mode(before: Path, part: float, step: Step) -> list[Figure]:
    """What it adds to the response, and to the CPU time. `before`: another executable."""
    figures = []
    for memory_mib in (VCPU_MIB, exact.SMALL_MIB):
        is_small = memory_mib < VCPU_MIB
        for kind in exact.KINDS:
            blocks = max(2, round(kind.blocks * part * (0.25 if is_small else 1)))
            advance = step(f"{memory_mib} MiB, {kind.name}", blocks)
            now, was = exact.measure(kind, memory_mib, blocks, advance, (EXECUTABLE, before))
            name = f"exact mode, {kind.name}{f', {memory_mib} MiB' if is_small else ''}"
            aim = exact.SHARE_MAY_ADD_MS if is_small else kind.may_add_ms
            figures.append(Figure(f"{name}: added to the response, ms", was.added, now.added, aim))
            if not is_small:
                added = was.added_cpu_ms, now.added_cpu_ms
                figures.append(Figure(f"{name}: CPU above without, ms", *added, CPU_ADDED_MS))
    return figures


def of_cpu(before: Path, compared: Sequence[Contender], part: float, step: Step) -> list[Figure]:
    """CPU time of an invocation, telemetry and line included."""
    blocks = max(4, round(50 * part))
    rows = cpu.measure(cpu.in_their_modes(compared, [before]), blocks, step("CPU of an invocation", blocks))
    found = {(row.name, row.mode): row.median for row in rows}
    return [
        Figure(
            f"CPU of an invocation, {mode}, ms",
            found[str(before), mode],
            found[OURS, mode],
            aim,
            3,
            found.get((GO, mode)),
            found.get((FLOOR, mode)),
        )
        for mode, aim in CPU_MS.items()
    ]


def of_lines(before: Path, part: float, step: Step) -> list[Figure]:
    """Bytes of a line, of those cases that have an aim. `before`: other code."""
    cases = [case for case in line_bytes.CASES if case.has_aim]
    advance = step("lines", 2 * len(cases))
    count = max(50, round(200 * part))
    sources = (before / line_bytes.FROM_SOURCE, ROOT / line_bytes.FROM_SOURCE)
    was, now = (line_bytes.measure(source, count, advance, cases) for source in sources)
    return [
        Figure(
            f"bytes of a line, median, {one.case.title}{', exact mode' if one.case.is_exact else ''}",
            other.median,
            one.median,
            line_bytes.MEDIAN_AIM,
            0,
        )
        for other, one in zip(was, now, strict=True)
    ]


def of_report(before: Path) -> list[Figure]:
    """Its time by that of one process that only parses the lines."""
    found = report.measured(ENVIRONMENTS, 3, before)
    return [
        Figure(
            f"`truemem report` of {ENVIRONMENTS * report.INVOCATIONS:,} lines, by `json.loads` of each",
            found.by_parse(report.REPORT_BEFORE),
            found.ratio,
            report.AIM_RATIO,
        )
    ]


def ratios(compared: Sequence[Contender], advance: Callable[[], None] = lambda: None) -> dict[str, float]:
    """What `make gate` compares, in a minute: nothing that depends on the machine's speed alone."""
    by_name = {each.name: each for each in compared}
    sides = [(by_name[OURS], cpu.DEFAULT), (by_name[PLAIN], cpu.DEFAULT), (by_name[OURS], cpu.EXACT)]
    ours, plain, in_exact_mode = (row.median for row in cpu.measure(sides, GATE_BLOCKS, advance))
    (large,) = exact.measure(exact.KINDS[1], VCPU_MIB, GATE_BLOCKS, advance)
    found = line_bytes.measure(ROOT / line_bytes.FROM_SOURCE, 100, advance, line_bytes.CASES[:1])
    made = {
        f"CPU of an invocation against {PLAIN}": ours / plain,
        "CPU of an invocation, exact mode against default mode": in_exact_mode / ours,
        f"CPU of an {large.name}, exact mode against default mode": large.cpu_ms[1] / large.cpu_ms[0],
        f"bytes of a line, {found[0].case.title}": found[0].median,
        "`truemem report` by `json.loads` of each line": report.ratio(),
    }
    return {name: round(value, 4) for name, value in made.items()}


def layer_of(code: Path) -> Path:
    """Build the layer of this code; its executable. Raises CalledProcessError."""
    command = [sys.executable, "-m", "layer", "--output", str(code / "dist")]
    subprocess.run(command, cwd=code, check=True, capture_output=True)
    return code / "dist" / EXECUTABLE.relative_to(ROOT / "dist")


def write(figures: Sequence[Figure], profiles: str) -> None:
    """The results page. `profiles`: why aims are missed."""
    table = markdown(HEADINGS, [figure.cells() for figure in figures])
    RESULTS.write_text(
        f"# Speed\n\n`python -m benchmarks.speed --go PATH`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n"
        f"{table}\n\n"
        f"Before: commit {report.BEFORE}. All by turns in one run, medians; what is added is the median of the"
        " differences from turn to turn. 6 MB are 6,000,000 bytes, and 128 MiB have 7.2 % of a CPU.\n\n"
        f"{profiles}\n"
    )


@click.command(help=__doc__)
@click.option("--part", default=1.0, show_default=True, help="Of the usual number of turns.")
@click.option(
    "--go", type=click.Path(exists=True, path_type=Path), help=f"Compare with {GO}: a checkout, or its build."
)
def main(part: float, go: Path | None) -> None:
    """See the module."""
    namespace.enter()
    with measuring() as step, report.code_of(report.BEFORE) as before, tempfile.TemporaryDirectory() as folder:
        for each in (before, Path(folder)):
            each.chmod(0o755)  # an extension runs as an ordinary user
        compared = contenders(Path(folder), go)
        executable = layer_of(before)
        figures = [
            *of_cpu(executable, compared, part, step),
            *of_exact_mode(executable, part, step),
            *of_lines(before, part, step),
            *of_report(before),
        ]
        measured = ratios(compared)
        profiles = speed_profile.sections(compared)
    Console(width=160).print(shown("Speed", HEADINGS, [figure.cells() for figure in figures]))
    write(figures, profiles)
    RATIOS.write_text(json.dumps({"machine": machine(), "ratios": measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
