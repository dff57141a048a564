"""Does the function name the line from its own life? 40 planted leaks, and 30 times none.

Each runs as if deployed, under the local Lambda: exact mode, freezes between invocations, the heap's probe, and
`TRUEMEM_LINES=on`. It is invoked until a line of the log has `growthProfile`. The first line must be the one that keeps
in 90 % of the leaks in objects, it must be among the first three in 97 %, native memory must be told as such, and
none may be named where nothing leaks. 20 minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from truemem_workbench.runs.here import Run
from truemem_workbench.target.resolve import resolve

from benchmarks.kit.bench import Bench
from benchmarks.kit.plants import told_of
from testing.pages import Result, Table
from testing.plants import Planted, by_kind, place_of, put

TITLE = "The line, named by the function itself"
NUMBERS = {"leaks": 40, "clean": 30}
MEMORY_MIB, TIMEOUT_S = 512, 60
MOST = 700
"""Invocations in which it must be named."""
FIRST, THREE = 0.90, 0.97
NATIVE = "ctypes malloc"
"""The kind of which the function's own profile knows no line."""
NOTES = """\
First: the line that keeps is named first. Native: no line, and as much outside of Python's objects; of memory that
ctypes allocates no line is known. Invocations: until the log has the answer, median and most of those that have one.
CPU: what an invocation took more while it was profiled, median and most."""


@dataclass(frozen=True)
class Named:
    planted: Planted
    lines: Sequence[dict[str, Any]]
    profile: dict[str, Any]
    invocations: int
    """Until the answer was on a line; MOST if it never was."""

    @property
    def is_native(self) -> bool:
        """Told as native: no line, and what grows outside of Python's objects."""
        return not self.lines and float(self.profile.get("restKiB", 0)) > 0.8 * (self.planted.kind.kib or 1)

    @property
    def place(self) -> int | None:
        """Place of the true line, from 1."""
        return place_of(self.planted, [(str(each.get("file")), each.get("line")) for each in self.lines])


def run_of(each: Planted, folder: Path, bench: Bench) -> Named:
    target = resolve(f"{put(each, folder)}:handler")
    variables = {**target.environment, "TRUEMEM_LINES": "on"}
    target = replace(target, memory_mib=MEMORY_MIB, timeout_s=TIMEOUT_S, environment=variables)
    told: list[Mapping[str, Any]] = []
    with Run(target) as run:
        for number in range(1, MOST + 1):
            run.invoke({})
            if number % 20 == 0:
                told = [seen.line.members for seen in run.so_far(0).seen if "growthProfile" in seen.line.members]
                if told:
                    break
    members: Mapping[str, Any] = told[0] if told else {}
    found = Named(each, members.get("growthLines", []), members.get("growthProfile", {}), number)
    bench.echo(
        f"{each.kind.name} in {each.handler}, line {each.line}: place {found.place}, {number}, {found.lines[:1]}"
    )
    return found


def _range(values: Sequence[float], unit: str = "") -> str:
    return f"{statistics.median(values):.0f}{unit}, {max(values):.0f}{unit}" if values else ""


def _row(name: str, of: Sequence[Named]) -> list[str]:
    return [
        name,
        f"{len(of)}",
        f"{sum(each.place == 1 for each in of)}",
        f"{sum((each.place or 9) <= 3 for each in of)}",
        f"{sum(each.is_native for each in of)}",
        _range([each.invocations for each in of if each.profile]),
        _range([float(each.profile["cpuPercent"]) for each in of if "cpuPercent" in each.profile], "%"),
    ]


def run(bench: Bench) -> Result:
    named, cleared = told_of(bench, run_of, **NUMBERS)
    groups = by_kind(named)
    for language, ending in (("Python", ".py"), ("Node.js", ".mjs")):
        groups[f"all in {language}"] = [each for each in named if each.planted.handler.endswith(ending)]
    accused = sum(bool(each.lines) for each in cleared)
    rows = [_row(kind, of) for kind, of in groups.items() if of]
    rows.append(["no leak", f"{len(cleared)}", f"{accused} accused", "", "", "", ""])
    of = [each for each in named if each.planted.kind.name != NATIVE]
    first, three = sum(each.place == 1 for each in of), sum((each.place or 9) <= 3 for each in of)
    promises = {
        f"{first} of {len(of)} first": first >= FIRST * len(of),
        f"{three} of {len(of)} among three": three >= THREE * len(of),
        f"{NATIVE}: not told as native": all(each.is_native for each in named if each not in of),
        f"{accused} accused": not accused,
    }
    headings = ("planted", "number", "first", "first three", "native", "invocations", "CPU")
    return Result([Table("", headings, rows, NOTES)], [words for words, is_kept in promises.items() if not is_kept])
