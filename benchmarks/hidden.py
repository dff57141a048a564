"""Measures whether any record says less than was held, where that is easy to miss.

Children that end within 5 ms of the answer and that nothing waits for, daemons, threads that unmap while others touch:
in exact and in default mode, on two CPUs and on one. Writes results/hidden.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from benchmarks.accuracy import percentile
from benchmarks.contenders import EXACT_MODE, EXECUTABLE
from benchmarks.publish import exit_if_broken, machine, markdown, measuring, shown
from testing import workload
from testing.environment import SLACK_MIB, Environment

RESULTS = Path(__file__).with_name("results") / "hidden.md"
SEED = 1


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


def measure(mode: str, count: int, advance: Callable[[], None]) -> list[workload.HiddenJudgement]:
    """`count` runs of each kind in one environment."""
    plan = list(workload.hidden_events(count, SEED))
    variables = EXACT_MODE if mode == "exact" else {}
    with Environment(
        workload.HIDING_FUNCTION,
        sidecar=EXECUTABLE,
        memory_mib=workload.HIDING_MEMORY_MIB,
        release="aws",
        environment=variables,
    ) as environment:
        answers = []
        for _, event in plan:
            answers.append(environment.invoke(**event))
            advance()
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


def publish(made: Sequence[Row]) -> None:
    RESULTS.write_text(
        f"# Memory that is easy to miss\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n"
        f"Children that nothing waits for end within 5 ms of the answer, at random. What a run held is what its "
        f"processes have read of themselves: the truth, or a little less. Claim a figure: `vmhwm`, not raced, or "
        f"bounds within {SLACK_MIB} MiB. Width: of intervals with an upper bound, MiB.\n\n"
        f"{markdown(HEADINGS, [cells(row) for row in made], text_columns=2)}\n"
    )


@click.command(help=__doc__)
@click.option("--runs", default=200, show_default=True, help="Of each kind and mode.")
def main(runs: int) -> None:
    """See the module."""
    made: list[Row] = []
    cpus = os.sched_getaffinity(0)
    try:
        with measuring() as bar:
            for confined in (cpus, {min(cpus)}):
                os.sched_setaffinity(0, confined)  # whatever is started inherits it
                for mode in ("exact", "default"):
                    name = f"{mode}, {len(confined)} CPU{'s' * (len(confined) > 1)}"
                    verdicts = measure(mode, runs, bar(name, runs * len(workload.HIDDEN)))
                    for verdict in verdicts:
                        if verdict.is_false:
                            click.echo(f"false: {name}: {verdict}", err=True)
                    made += rows(name, verdicts)
    finally:
        os.sched_setaffinity(0, cpus)
    Console(width=150).print(shown("Memory that is easy to miss", HEADINGS, [cells(row) for row in made]))
    publish(made)
    exit_if_broken([f"{row.kind}, {row.mode}" for row in made if row.false_exact or row.outside])


if __name__ == "__main__":
    main()
