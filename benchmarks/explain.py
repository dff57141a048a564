"""Plants 60 leaks at random places of 12 handlers, and 30 times none: does `truemem check --explain` name the line?

Each is checked as the command does it: a plain run, and after it one under the tracer. The first line must be the one
that keeps in 95 % of the leaks, it must be among the first three in all, and its KiB per invocation within 10 % of the
planted. It writes results/explain.md.

Exit codes: 0 every promise was kept, 1 one was broken.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from truemem_workbench.check.invocations import Plan
from truemem_workbench.check.limits import Limits
from truemem_workbench.check.local_run import explanation, measure
from truemem_workbench.check.target import resolve
from truemem_workbench.explain.explanation import Explanation

from benchmarks.explain_plants import CACHES, LEAKS, PAYLOAD, Planted, planted
from benchmarks.publish import machine, markdown

RESULTS = Path(__file__).with_name("results") / "explain.md"
PLAN = Plan(invocations=130, most=260, warm_up=50)
LIMITS = Limits(drift_kib=4)
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
        lines = [(Path(holder.file).name, holder.line) for holder in self.explanation.holders]
        true = (self.planted.handler, self.planted.line)
        return lines.index(true) + 1 if true in lines else None

    @property
    def error(self) -> float | None:
        """Error of KiB per invocation at the true line, as a share of the planted."""
        if self.place is None:
            return None
        kib = self.planted.kind.kib or self.explanation.measured_kib
        return self.explanation.holders[self.place - 1].kib / kib - 1

    @property
    def times(self) -> float | None:
        """Seconds under the tracer of Python's blocks for each of the plain run."""
        is_python = self.planted.handler.endswith(".py")
        return self.explanation.first_run_s / self.plain_s if is_python else None


def checked(each: Planted, folder: Path, console: Console) -> Found:
    path = folder / each.handler
    path.write_text(each.source)
    path.chmod(0o644)
    target = resolve(f"{path}:handler", notify=console.print)
    target = replace(target, memory_mib=MEMORY_MIB, timeout_s=TIMEOUT_S)
    plain = measure(target, [{}], PLAN, LIMITS, exact=True, progress=lambda _, __, ___: None)
    return Found(each, explanation(target, [{}], plain, lambda _, __, ___: None), plain.seconds)


@click.command()
@click.option("--leaks", default=60, show_default=True)
@click.option("--clean", default=30, show_default=True)
def main(leaks: int, clean: int) -> None:
    """Run all of it: some 20 minutes."""
    console, began = Console(stderr=True), time.monotonic()
    found: list[Found] = []
    cleared: list[Found] = []
    with tempfile.TemporaryDirectory(prefix="truemem-explain-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for each in planted(LEAKS, leaks):
            found.append(last := checked(each, folder, console))
            error = "" if last.error is None else f"{last.error:+.1%}"
            times = "" if last.times is None else f"{last.times:.1f} times"
            console.print(f"{len(found)} of {leaks}: {each.kind.name} in {each.handler}: {last.place} {error} {times}")
            if last.place != 1 or last.explanation.missing:
                console.print("\n".join(last.explanation.lines()), markup=False)
        for each in planted(CACHES, clean):
            cleared.append(last := checked(each, folder, console))
            console.print(f"clean: {each.kind.name} in {each.handler}: {len(last.explanation.holders)}")
            if last.explanation.holders:
                console.print("\n".join(last.explanation.lines()), markup=False)
    table, kept = _summary(found, cleared)
    seconds = time.monotonic() - began
    RESULTS.write_text(
        f"# Which line leaks\n\n`python -m benchmarks.explain`, {datetime.now(UTC):%Y-%m-%d}, on {machine()};"
        f" {seconds:.0f} s.\n\n{table}\n\n{NOTES}\n",
        encoding="utf-8",
    )
    click.echo(table)
    sys.exit(0 if kept else 1)


def _summary(found: list[Found], cleared: list[Found]) -> tuple[str, bool]:
    by_kind: dict[str, list[Found]] = {}
    for each in found:
        by_kind.setdefault(each.planted.kind.name, []).append(each)
    rows = [_row(name, of) for name, of in (*by_kind.items(), ("all", found))]
    accused = sum(bool(each.explanation.holders) for each in cleared)
    rows.append(("no leak", f"{len(cleared)}", f"{accused} accused", "", "", _times(cleared)))
    first = sum(each.place == 1 for each in found)
    three = sum(each.place is not None and each.place <= 3 for each in found)
    rate = max((abs(each.error) for each in found if each.error is not None), default=0.0)
    kept = first >= FIRST * len(found) and three == len(found) and rate <= RATE and not accused
    titles = ("planted", "number", "first", "first three", "largest error", "times")
    return markdown(titles, rows), kept


def _row(name: str, of: list[Found]) -> tuple[str, ...]:
    errors = [each.error for each in of if each.error is not None]
    return (
        name,
        f"{len(of)}",
        f"{sum(each.place == 1 for each in of)}",
        f"{sum(each.place is not None and each.place <= 3 for each in of)}",
        f"{max(errors, key=abs):+.1%}" if errors else "",
        _times(of),
    )


def _times(of: list[Found]) -> str:
    times = [each.times for each in of if each.times is not None]
    return f"{statistics.median(times):.1f}, {max(times):.1f}" if times else ""


if __name__ == "__main__":
    main()
