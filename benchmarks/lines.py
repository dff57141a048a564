"""Plants leaks at random places of handlers, and some times none: does the function name the line from its own life?

Each runs as if deployed, under the local Lambda: exact mode, freezes between invocations, the heap's probe, and
`TRUEMEM_LINES=on`. It is invoked until a line of the log has `growthProfile`. The first line must be the one that keeps
in 90 % of the leaks in objects, it must be among the first three in 97 %, native memory must be told as such, and
none may be named where nothing leaks. It writes
results/lines.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from truemem_workbench.check.local_run import Run
from truemem_workbench.check.target import resolve

from benchmarks.explain_plants import CACHES, LEAKS, Planted, planted
from benchmarks.publish import exit_if_broken, machine, markdown, measuring

RESULTS = Path(__file__).with_name("results") / "lines.md"
MEMORY_MIB, TIMEOUT_S = 512, 60
MOST = 700
"""Invocations in which it must be named."""
FIRST, THREE = 0.90, 0.97
NATIVE = "ctypes malloc"
"""The kind of which the function's own profile knows no line."""


@dataclass(frozen=True)
class Named:
    planted: Planted
    lines: Sequence[dict[str, Any]]
    profile: dict[str, Any]
    invocations: int
    """Until the answer was on a line; MOST if it never was."""
    seconds: float

    @property
    def is_native(self) -> bool:
        """Told as native: no line, and what grows outside of Python's objects."""
        return not self.lines and float(self.profile.get("restKiB", 0)) > 0.8 * (self.planted.kind.kib or 1)

    @property
    def place(self) -> int | None:
        """Place of the true line, from 1."""
        true = (self.planted.handler, self.planted.line)
        found = [(Path(str(each.get("file"))).name, each.get("line")) for each in self.lines]
        return found.index(true) + 1 if true in found else None


def run_of(each: Planted, folder: Path) -> Named:
    path = folder / each.handler
    path.write_text(each.source)
    path.chmod(0o644)
    target = resolve(f"{path}:handler")
    target = replace(
        target, memory_mib=MEMORY_MIB, timeout_s=TIMEOUT_S, environment={**target.environment, "TRUEMEM_LINES": "on"}
    )
    began = time.monotonic()
    with Run(target) as run:
        for number in range(1, MOST + 1):
            run.invoke({})
            if number % 20 == 0:
                told = [seen.line.members for seen in run.so_far(0).seen if "growthProfile" in seen.line.members]
                if told:
                    break
        else:
            told = []
    members = told[0] if told else {}
    return Named(
        each, members.get("growthLines", []), members.get("growthProfile", {}), number, time.monotonic() - began
    )


@click.command()
@click.option("--leaks", default=40, show_default=True)
@click.option("--clean", default=30, show_default=True)
@click.option("--only", default="", help="Only handlers with this ending: .py or .mjs.")
def main(leaks: int, clean: int, only: str) -> None:
    """Run all of it: some 20 minutes."""
    began = time.monotonic()
    named: list[Named] = []
    cleared: list[Named] = []
    with measuring() as bar, tempfile.TemporaryDirectory(prefix="truemem-lines-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for title, kinds, number, into in (("leaks", LEAKS, leaks, named), ("clean", CACHES, clean, cleared)):
            step = bar(title, number)
            for each in planted(kinds, number):
                if each.handler.endswith(only):
                    into.append(last := run_of(each, folder))
                    place = f"{each.line}: place {last.place}" if title == "leaks" else f"{len(last.lines)} lines"
                    click.echo(
                        f"{title}: {each.kind.name} in {each.handler}: {place}, {last.invocations} invocations,"
                        f" {last.profile}, {list(last.lines[:1])}",
                        err=True,
                    )
                step()
    table = _table(named, cleared)
    RESULTS.write_text(
        f"# The line, named by the function itself\n\n`python -m benchmarks.lines`, {datetime.now(UTC):%Y-%m-%d}, on"
        f" {machine()}; {time.monotonic() - began:.0f} s.\n\n{table}\n\nFirst: the line that keeps is named first."
        " Native: no line, and as much outside of Python's objects; of memory that ctypes allocates no line is known."
        " Invocations: until the log has the answer, median and most of those that have one. CPU: what an invocation"
        " took more while it was profiled, median and most.\n",
        encoding="utf-8",
    )
    click.echo(table)
    of = [each for each in named if each.planted.kind.name != NATIVE]
    first, three = sum(each.place == 1 for each in of), sum((each.place or 9) <= 3 for each in of)
    exit_if_broken(
        [
            *([f"{first} of {len(of)} first"] if first < FIRST * len(of) else []),
            *([f"{three} of {len(of)} among three"] if three < THREE * len(of) else []),
            *([f"{NATIVE}: not told as native"] if not all(each.is_native for each in named if each not in of) else []),
            *([f"{accused} accused"] if (accused := sum(bool(each.lines) for each in cleared)) else []),
        ]
    )


def _table(named: Sequence[Named], cleared: Sequence[Named]) -> str:
    by_kind: dict[str, list[Named]] = {}
    for each in named:
        by_kind.setdefault(each.planted.kind.name, []).append(each)
    by_kind |= {
        "all in Python": [each for each in named if each.planted.handler.endswith(".py")],
        "all in Node.js": [each for each in named if each.planted.handler.endswith(".mjs")],
    }
    rows = [
        (
            name,
            f"{len(of)}",
            f"{sum(each.place == 1 for each in of)}",
            f"{sum((each.place or 9) <= 3 for each in of)}",
            f"{sum(each.is_native for each in of)}",
            _range([each.invocations for each in of if each.profile]),
            _range([float(each.profile["cpuPercent"]) for each in of if "cpuPercent" in each.profile], "%"),
        )
        for name, of in by_kind.items()
        if of
    ]
    accused = sum(bool(each.lines) for each in cleared)
    rows.append(("no leak", f"{len(cleared)}", f"{accused} accused", "", "", "", ""))
    return markdown(("planted", "number", "first", "first three", "native", "invocations", "CPU"), rows)


def _range(values: Sequence[float], unit: str = "") -> str:
    return f"{statistics.median(values):.0f}{unit}, {max(values):.0f}{unit}" if values else ""


if __name__ == "__main__":
    main()
