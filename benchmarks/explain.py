"""Does `truemem check --explain` name the line? 60 planted leaks, and 30 times none.

They are at random places of 12 handlers. Each is checked as the command does it: a plain run, and after it one under
the tracer. The first line must be the one that keeps in 95 % of the leaks, it must be among the first three in all, and
its KiB per invocation within 10 % of the planted. 20 minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from truemem_workbench.answer.limits import Limits, LimitsDecision
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.run import explained
from truemem_workbench.runs.here import measure
from truemem_workbench.runs.passes import Plan
from truemem_workbench.target.resolve import resolve

from benchmarks.kit.bench import Bench
from benchmarks.kit.plants import told_of
from testing.pages import Result, Table
from testing.plants import PAYLOAD, Planted, by_kind, place_of, put

TITLE = "Which line leaks"
NUMBERS = {"leaks": 60, "clean": 30}
PLAN, LIMITS = Plan(invocations=130, most=260, warm_up=50), Limits(drift_kib=4)
MEMORY_MIB, TIMEOUT_S = 2048, 120
FIRST, RATE = 0.95, 0.10
NOTES = f"""First: the true line is the first that is named. Error: KiB per invocation against what was planted, the
largest of its kind: {PAYLOAD:,} bytes, a zlib stream by its formula; for boto3 sessions and tracebacks, which keep more
than was planted, against the growth of RSS in the plain run. Times: seconds of the run that traces Python's blocks for
each second of the plain run, median and most. Each is checked with {PLAN.invocations} invocations, after {PLAN.warm_up}
at most to warm up."""


@dataclass(frozen=True)
class Found:
    planted: Planted
    explanation: Explanation
    plain_s: float

    @property
    def place(self) -> int | None:
        """Place of the true line, from 1."""
        return place_of(self.planted, [(holder.file, holder.line) for holder in self.explanation.holders])

    @property
    def error(self) -> float | None:
        """Error of KiB per invocation at the true line, as a share of the planted."""
        if self.place is None:
            return None
        kib = self.planted.kind.kib or self.explanation.measured_kib
        return self.explanation.holders[self.place - 1].kib / kib - 1


def checked(each: Planted, folder: Path, bench: Bench) -> Found:
    target = resolve(f"{put(each, folder)}:handler", notify=bench.echo)
    target = replace(target, memory_mib=MEMORY_MIB, timeout_s=TIMEOUT_S)
    plain = measure(target, [{}], PLAN, LimitsDecision(LIMITS))
    found = Found(each, explained(target, [{}], plain, lambda *_: None), plain.seconds)
    bench.echo(f"{each.kind.name} in {each.handler}, line {each.line}: place {found.place}, error {found.error}")
    if found.place != 1 or found.explanation.missing:
        bench.echo("\n".join(found.explanation.lines()))
    return found


def _row(name: str, of: Sequence[Found], words: str = "") -> list[str]:
    errors = [each.error for each in of if each.error is not None]
    times = [each.explanation.first_run_s / each.plain_s for each in of if each.planted.handler.endswith(".py")]
    return [
        name,
        f"{len(of)}",
        words or f"{sum(each.place == 1 for each in of)}",
        "" if words else f"{sum((each.place or 9) <= 3 for each in of)}",
        f"{max(errors, key=abs):+.1%}" if errors else "",
        f"{statistics.median(times):.1f}, {max(times):.1f}" if times else "",
    ]


def run(bench: Bench) -> Result:
    found, cleared = told_of(bench, checked, **NUMBERS)
    accused = sum(bool(each.explanation.holders) for each in cleared)
    rows = [_row(kind, of) for kind, of in (*by_kind(found).items(), ("all", found))]
    rows.append(_row("no leak", cleared, f"{accused} accused"))
    first, three = sum(each.place == 1 for each in found), sum((each.place or 9) <= 3 for each in found)
    promises = {
        f"{first} of {len(found)} first": first >= FIRST * len(found),
        f"{three} of {len(found)} among three": three == len(found),
        "a rate is off by more": all(abs(each.error) <= RATE for each in found if each.error is not None),
        f"{accused} accused": not accused,
    }
    headings = ("planted", "number", "first", "first three", "largest error", "times")
    return Result([Table("", headings, rows, NOTES)], [words for words, is_kept in promises.items() if not is_kept])
