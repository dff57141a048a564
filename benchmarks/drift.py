"""Measures how often the verdict on drift is right, beside published methods on the same curves.

Two corpora of labelled curves (truemem_workbench.testing.drift), recorded programs, and short series. Writes
results/drift.md, and the recorded curves into docs/patterns.md. Exit codes: 0 as promised, 1 not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from multiprocessing import Pool
from multiprocessing.pool import Pool as Workers
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from truemem_workbench.testing.drift import recorded, synthetic
from truemem_workbench.testing.drift.corpus import BOUNDED

from benchmarks import drift_methods, drift_promises
from benchmarks.drift_page import corpus_page
from benchmarks.drift_promises import Promise
from benchmarks.drift_real import cost_page, drawn, real_page, short_page
from benchmarks.drift_series import CORPORA, Real, Result, Short, measure, measure_real, measure_short
from benchmarks.publish import ROOT, machine, replace

RESULTS = Path(__file__).with_name("results") / "drift.md"
PATTERNS = ROOT / "docs" / "patterns.md"
BY = "python -m benchmarks.drift"
SHORT_FREE, SHORT_LEAKS = 1000, 500
"""Short series, of all kinds by turns."""
FIRST_SHORT_SEED = 10_000
"""Tests use lower ones."""

Which = TypeVar("Which")
Told = TypeVar("Told")


def page(
    made: Sequence[Promise], results: dict[str, list[Result]], real: Sequence[Real], short: Sequence[Short]
) -> str:
    """The results."""
    judging = next(iter(results))
    broken = sum(not each.kept() for each in made)
    kept = f"**{broken} of {len(made)} promises are not kept.**" if broken else f"All {len(made)} promises are kept."
    every = [each for told in results.values() for each in told]
    bounded = sum(each.group == BOUNDED for each in results[judging])
    return "\n".join(
        [
            f"# Drift\n\n`{BY}`, on {machine()}.\n\n## Promised and measured\n\nOn the {judging} corpus, on real "
            f"programs, and on short series. {kept} Both forms have to keep them.\n",
            drift_promises.table(made),
            f"\nA share of 5 % of the {bounded:,} bounded series has a standard error of "
            f"{(0.05 * 0.95 / bounded) ** 0.5 * 100:.1f} %; more, as far as a kind's series are alike.",
            *(corpus_page(name, CORPORA[name], told) for name, told in results.items()),
            real_page(real),
            short_page(short),
            "\n## The published methods\n\n" + drift_methods.ABOUT.rstrip(),
            cost_page(every),
        ]
    )


def short_series() -> list[tuple[str, int]]:
    """Kind and seed of each."""
    return [
        (names[at % len(names)], FIRST_SHORT_SEED + at)
        for names, count in ((list(synthetic.LEAK_FREE), SHORT_FREE), (list(synthetic.LEAKS), SHORT_LEAKS))
        for at in range(count)
    ]


def measured(
    pool: Workers, progress: Progress, title: str, measure: Callable[[Which], Told], every: Sequence[Which]
) -> list[Told]:
    """What `measure` says of each, in order."""
    task = progress.add_task(title, total=len(every))
    told = []
    for each in pool.imap(measure, every, chunksize=4):
        told.append(each)
        progress.advance(task)
    return told


@click.command(help=__doc__)
@click.option("--series", default=40, show_default=True, help="Series of each kind; 200 take long.")
@click.option("--sealed/--no-sealed", default=True, help="Without the sealed corpus nothing is written or promised.")
@click.option("--write/--no-write", default=True, help="Write the results page.")
def main(series: int, sealed: bool, write: bool) -> None:
    """See the module."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Pool() as pool, Progress(*columns, console=Console(stderr=True)) as progress:
        results = {
            name: measured(
                pool, progress, name, measure, [(name, kind, seed) for seed in range(series) for kind in CORPORA[name]]
            )
            for name in (["sealed"] if sealed else []) + ["open"]
        }
        real = measured(pool, progress, "real programs", measure_real, list(recorded.REAL))
        short = measured(pool, progress, "short", measure_short, short_series())
    made = drift_promises.promises(next(iter(results.values())), real, short)
    text = page(made, results, real, short)
    click.echo(text)
    if not sealed:
        return
    if write:
        RESULTS.write_text(text)
        replace(PATTERNS, "curves", drawn(), BY)
    if broken := [each.what for each in made if not each.kept()]:
        click.echo(f"not as promised: {'; '.join(broken)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
