"""Plants 60 leaks at random places of 12 handlers, and 30 times none: does `truemem check --explain` name the line?

Each runs under the tracer alone. The first line must be the one that keeps in 95 % of the leaks, it must be among the
first three in all, and its KiB per invocation within 10 % of the planted, where that is known. It writes
results/explain.md.

Exit codes: 0 every promise was kept, 1 one was broken.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from truemem_workbench.explain.explanation import Explanation
from truemem_workbench.explain.run import explain
from truemem_workbench.local import Function, Settings
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.explain_plants import CACHES, LEAKS, PAYLOAD, Planted, planted
from benchmarks.publish import machine, markdown

RESULTS = Path(__file__).with_name("results") / "explain.md"
INVOCATIONS = 160
FIRST, RATE = 0.95, 0.10


@dataclass(frozen=True)
class Found:
    planted: Planted
    explanation: Explanation
    place: int | None
    """Place of the true line, from 1."""
    error: float | None
    """Error of KiB per invocation, as a share of the planted."""


def traced(each: Planted, folder: Path, console: Console) -> Explanation:
    path = folder / each.handler
    path.write_text(each.source)
    path.chmod(0o644)
    spec = f"{path}:handler"
    function = Function.from_handler(spec) if path.suffix == ".py" else from_node_handler(spec, None, console.print)
    return explain(
        function,
        Settings(name="planted", memory_mib=2048, timeout_s=120),
        [{}],
        invocations=INVOCATIONS,
        plain_seconds=60,
        measured_kib=PAYLOAD / 1024,
        progress=lambda _, __, ___: None,
    )


def judged(each: Planted, explanation: Explanation) -> Found:
    lines = [(Path(holder.file).name, holder.line) for holder in explanation.holders]
    true = (each.handler, each.line)
    place = lines.index(true) + 1 if true in lines else None
    if place is None or not each.kind.sized:
        return Found(each, explanation, place, None)
    return Found(each, explanation, place, explanation.holders[place - 1].kib / (PAYLOAD / 1024) - 1)


@click.command()
@click.option("--leaks", default=60, show_default=True)
@click.option("--clean", default=30, show_default=True)
def main(leaks: int, clean: int) -> None:
    """Run all of it: some six minutes."""
    console, began = Console(stderr=True), time.monotonic()
    found: list[Found] = []
    accused: list[tuple[Planted, Explanation]] = []
    with tempfile.TemporaryDirectory(prefix="truemem-explain-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for each in planted(LEAKS, leaks):
            found.append(judged(each, traced(each, folder, console)))
            last = found[-1]
            error = "" if last.error is None else f"{last.error:+.1%}"
            console.print(f"{len(found)} of {leaks}: {each.kind.name} in {each.handler}: {last.place} {error}")
            if last.place != 1 or last.explanation.missing:
                console.print("\n".join(last.explanation.lines()), markup=False)
        for each in planted(CACHES, clean):
            explanation = traced(each, folder, console)
            console.print(f"clean: {each.kind.name} in {each.handler}: {len(explanation.holders)}")
            if explanation.holders:
                accused.append((each, explanation))
                console.print("\n".join(explanation.lines()), markup=False)
    table, kept = _summary(found, accused, clean)
    seconds = time.monotonic() - began
    RESULTS.write_text(
        f"# Which line leaks\n\n`python -m benchmarks.explain`, {datetime.now(UTC):%Y-%m-%d}, on {machine()};"
        f" {seconds:.0f} s.\n\n{table}\n\nFirst: the true line is the first that is named. Error: KiB per invocation"
        f" against the planted {PAYLOAD:,} bytes, the largest of its kind. Each runs {INVOCATIONS} invocations under"
        " the tracer alone. Of a boto3 session, a zlib stream and the variables that a"
        " traceback keeps the bytes are not known.\n",
        encoding="utf-8",
    )
    click.echo(table)
    sys.exit(0 if kept else 1)


def _summary(found: list[Found], accused: list[tuple[Planted, Explanation]], clean: int) -> tuple[str, bool]:
    rows = []
    for name in dict.fromkeys(each.planted.kind.name for each in found):
        of = [each for each in found if each.planted.kind.name == name]
        errors = [each.error for each in of if each.error is not None]
        rows.append(
            (
                name,
                f"{len(of)}",
                f"{sum(each.place == 1 for each in of)}",
                f"{sum(each.place is not None and each.place <= 3 for each in of)}",
                f"{max(errors, key=abs):+.1%}" if errors else "",
            )
        )
    first = sum(each.place == 1 for each in found)
    three = sum(each.place is not None and each.place <= 3 for each in found)
    rates = [abs(each.error) for each in found if each.error is not None]
    rows.append(("all", f"{len(found)}", f"{first}", f"{three}", f"{max(rates, default=0):.1%}"))
    rows.append(("no leak", f"{clean}", f"{len(accused)} accused", "", ""))
    kept = first >= FIRST * len(found) and three == len(found) and max(rates, default=0) <= RATE and not accused
    return markdown(("planted", "number", "first", "first three", "largest error"), rows), kept


if __name__ == "__main__":
    main()
