"""Measures whether any record says less than was held, where that is easy to miss.

Children that end within 5 ms of the answer and that nothing waits for, daemons, threads that unmap while others touch:
in exact and in default mode, on two CPUs and on one. With --before, the same by an older sidecar. Writes
results/hidden.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress
from truemem_workbench.local import BadInput

from benchmarks.accuracy import percentile
from benchmarks.contenders import EXACT_MODE, EXECUTABLE
from benchmarks.publish import machine, markdown, shown
from testing import workload
from testing.environment import SLACK_MIB, Environment

RESULTS = Path(__file__).with_name("results") / "hidden.md"


@dataclass(frozen=True)
class Row:
    """One kind, in one mode. Sizes in MiB."""

    kind: str
    mode: str
    runs: int
    exact: int
    """Claim one figure."""
    false_exact: int
    """Of those: more was held."""
    outside: int
    """More was held than the upper bound."""
    unbounded: int
    width_p50: float | None
    """Of intervals that have an upper bound."""


def measure(mode: str, count: int, seed: int, sidecar: Path, progress: Progress) -> list[workload.HiddenJudgement]:
    """`count` runs of each kind in one environment."""
    plan = list(workload.hidden_events(count, seed))
    variables = EXACT_MODE if mode == "exact" else {}
    with Environment(
        workload.HIDING_FUNCTION,
        sidecar=sidecar,
        memory_mib=workload.HIDING_MEMORY_MIB,
        release="aws",
        environment=variables,
    ) as environment:
        answers = [environment.invoke(**event) for _, event in progress.track(plan, description=mode)]
        records = environment.records()
    pairs = zip(plan, records, answers, strict=True)
    return [workload.HiddenJudgement(kind, record, answer["truth"]) for (kind, _), record, answer in pairs]


def rows(mode: str, verdicts: Sequence[workload.HiddenJudgement]) -> list[Row]:
    made = []
    for kind in workload.HIDDEN:
        of = [verdict for verdict in verdicts if verdict.kind == kind]
        bounded = [each.width for each in of if each.record.peakUpper is not None and not each.claims_exactness]
        made.append(
            Row(
                kind,
                mode,
                len(of),
                sum(each.claims_exactness for each in of),
                sum(each.claims_exactness and each.missed > SLACK_MIB for each in of),
                sum(each.outside for each in of),
                sum(each.record.peakUpper is None for each in of),
                round(percentile(bounded, 50), 1) if bounded else None,
            )
        )
    return made


HEADINGS = ("", "", "runs", "claim a figure", "and held more", "above the upper bound", "no upper bound", "width p50")


def cells(row: Row) -> list[str]:
    figures = (row.runs, row.exact, row.false_exact, row.outside, row.unbounded)
    return [row.mode, row.kind, *map(str, figures), "" if row.width_p50 is None else f"{row.width_p50}"]


def publish(made: Sequence[Row], before: Sequence[Row]) -> None:
    text = (
        f"# Memory that is easy to miss\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n"
        f"Children that nothing waits for end within 5 ms of the answer, at random. What a run held is what its "
        f"processes have read of themselves: the truth, or a little less. Claim a figure: `vmhwm`, not raced, or "
        f"bounds within {SLACK_MIB} MiB. Width: of intervals with an upper bound, MiB.\n\n"
        f"{markdown(HEADINGS, [cells(row) for row in made], text_columns=2)}\n"
    )
    if before:
        older = markdown(HEADINGS, [cells(row) for row in before], text_columns=2)
        text += f"\n## An older sidecar (--before)\n\n{older}\n"
    RESULTS.write_text(text)


@click.command(help=__doc__)
@click.option("--runs", default=200, show_default=True, help="Of each kind and mode.")
@click.option("--seed", default=1, show_default=True)
@click.option("--before", type=click.Path(exists=True, path_type=Path), help="An older sidecar, to compare with.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
@click.option("--write/--no-write", default=True, help="Write the results page.")
def main(runs: int, seed: int, before: Path | None, as_json: bool, write: bool) -> None:
    """See the module."""
    made: list[Row] = []
    older: list[Row] = []
    console = Console(width=150, file=sys.stderr if as_json else None)
    cpus = os.sched_getaffinity(0)
    try:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            for confined in (cpus, {min(cpus)}):
                os.sched_setaffinity(0, confined)  # whatever is started inherits it
                for mode in ("exact", "default"):
                    name = f"{mode}, {len(confined)} CPU{'s' * (len(confined) > 1)}"
                    verdicts = measure(mode, runs, seed, EXECUTABLE, progress)
                    for verdict in verdicts:
                        if verdict.is_false:
                            click.echo(f"false: {name}: {verdict}", err=True)
                    made += rows(name, verdicts)
                    if before:
                        older += rows(name, measure(mode, runs, seed, before, progress))
    except (OSError, AssertionError, RuntimeError, BadInput) as error:
        click.echo(f"could not measure: {error!r}", err=True)
        sys.exit(2)
    finally:
        os.sched_setaffinity(0, cpus)
    console.print(shown("Memory that is easy to miss", HEADINGS, [cells(row) for row in made]))
    if older:
        console.print(shown("Before", HEADINGS, [cells(row) for row in older]))
    if as_json:
        click.echo(json.dumps([asdict(row) for row in made]))
    if write:
        publish(made, older)
    if any(row.false_exact or row.outside for row in made):
        sys.exit(1)


if __name__ == "__main__":
    main()
