"""`make faults`: breaks things, records what the function notices and what is lost, and writes the results.

Exit codes: 0 all is as promised, 1 something was lost without a report or did harm, 2 an experiment could not be run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from faults.experiments import Experiment, experiments
from faults.page import HEADINGS, table, write
from faults.result import NotHere, Row
from faults.subject import chosen

NAMES = [experiment.name for experiment in experiments(chosen())]


@click.command(help=__doc__, context_settings={"max_content_width": 100})
@click.option("--quick", is_flag=True, help="A few of each, in less than a minute: what the tests do.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="This experiment alone; can be repeated.")
@click.option("--write/--no-write", "keep", default=True, help="Write the tables that were run in full.")
def main(quick: bool, only: tuple[str, ...], keep: bool) -> None:
    """See the module."""
    subject = chosen()
    rows: dict[str, list[Row]] = {name: [] for name in HEADINGS}
    unfinished = set(HEADINGS) if quick else set()
    skipped: list[str] = []
    columns = (TextColumn("{task.description:16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def task(experiment: Experiment) -> Callable[[], None]:
            return partial(progress.advance, progress.add_task(experiment.name, total=experiment.total))

        for experiment in experiments(subject, quick=quick):
            if only and experiment.name not in only:
                unfinished.add(experiment.table)
                continue
            advance = task(experiment)
            for step in experiment.steps:
                try:
                    rows[experiment.table] += step(advance)
                except NotHere as reason:
                    skipped.append(f"{experiment.name}: {reason}")
                except (OSError, AssertionError, RuntimeError, LookupError) as error:
                    skipped.append(f"{experiment.name}: {error!r}")
    broken = [each for made in rows.values() for row in made for each in row.broken]
    console = Console(width=160)
    for name, made in rows.items():
        if made:
            console.print(table(made, name))
    for each in skipped:
        click.echo(f"could not run {each}", err=True)
    for each in broken:
        click.echo(f"not as promised: {each}", err=True)
    if keep and not skipped:
        for name in rows.keys() - unfinished:
            write(rows[name], subject, name)
    sys.exit(1 if broken else 2 if skipped else 0)


if __name__ == "__main__":
    main(prog_name="python -m faults")
