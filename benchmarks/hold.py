"""What does seeing the runtime come back buy, and what does it cost? TRUEMEM_HOLD=auto beside its alternatives.

Exactness: durations drawn log-uniformly from 1 ms to 1 s, the allocations and spikes of the tests' own workload, the
extension released at the same instant as the runtime. Cost: handlers of 1 to 500 ms, under each mode and beside an
extension that waits for platform.runtimeDone. Writes results/hold.md and the README's table.

Exit codes: 0 every promise held, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import publish
from benchmarks.hold_cost import (
    AUTO,
    BLOCK,
    BUDGET,
    FULL_MIB,
    HANDLERS,
    NOISE,
    OFF,
    SHORT_WARM_UP,
    WARM_UP,
    Cost,
    Mode,
    endings,
    post_runtime,
)
from benchmarks.hold_cost import measure as measure_cost
from tests.scenarios.environment import SLACK_MIB
from tests.scenarios.workload import KINDS, Judgement

RESULTS = Path(__file__).with_name("results") / "hold.md"
INVOCATIONS = 2000
SHORTEST_MS, LONGEST_MS = 1.0, 1000.0


@dataclass(frozen=True)
class Exactness:
    """One row of the first table."""

    mode: str
    invocations: int
    within_bounds: int
    held: int
    """Held open until the runtime was seen to come back: their record has holdMs."""
    held_and_raced: int
    held_error_max: float | None
    """Of those with one process, |PeakRSS - truth| in MiB."""
    raced: int
    let_go: int
    """Holds that ended otherwise."""
    post_share: float
    """Post-runtime time, in percent of the billed time."""
    ended: str
    """What ended the watching, if anything did."""
    wrong: tuple[str, ...]
    """The records that broke a promise, each beside its event and its truth."""
    promise_kept: bool


def events(count: int, seed: int = 2026) -> Iterator[dict[str, Any]]:
    """`count` events, the same for the same seed: the workload's kinds, as long as is drawn (spikes as they are)."""
    chance = random.Random(seed)
    for _ in range(count):
        name, _, settings = chance.choices(KINDS, [share for _, share, _ in KINDS])[0]
        event = {"do": name.split()[0], "mib": chance.choice([1, 5, 20, 64]), **settings}
        ms = math.exp(chance.uniform(math.log(SHORTEST_MS), math.log(LONGEST_MS)))
        yield event if event["do"] == "spike" else {**event, "ms": ms}


def measure_exactness(mode: Mode, count: int, progress: Progress) -> Exactness:
    """Run the workload once."""
    task = progress.add_task(f"exactness, {mode.name}", total=count)
    answers = []
    with mode.environment(FULL_MIB) as environment:
        environment.invoke()  # the cold start is not part of the comparison
        for event in events(count):
            answers.append(environment.invoke(**event))
            progress.advance(task)
        records = environment.records()
        log = environment.log()
        local = environment.local
    made = [Judgement(record, answer, FULL_MIB) for record, answer in zip(records[1:], answers, strict=True)]
    held = [judgement for judgement in made if judgement.record.holdMs is not None]
    error = max((abs(judgement.error) for judgement in held if judgement.record.method == "vmhwm"), default=None)
    wrong = [f"{event}: {judgement}" for event, judgement in zip(events(count), made, strict=True) if broken(judgement)]
    posts, billed = post_runtime(local, [invocation.request_id for invocation in environment.invocations[1:]])
    return Exactness(
        mode=mode.name,
        invocations=count,
        within_bounds=sum(judgement.within_bounds for judgement in made),
        held=len(held),
        held_and_raced=sum(judgement.record.raced is True for judgement in held),
        held_error_max=error,
        raced=sum(judgement.record.raced is True for judgement in made),
        let_go=log.count(" is let go"),
        post_share=100 * sum(posts) / sum(billed),
        ended=endings(log),
        wrong=tuple(wrong),
        promise_kept=not wrong and (mode is not AUTO or bool(held)),  # without a hold nothing was shown
    )


def broken(judgement: Judgement) -> bool:
    """Does it claim what is not so?"""
    held = judgement.record.holdMs is not None
    inexact = judgement.record.method == "vmhwm" and abs(judgement.error) > SLACK_MIB
    return not judgement.within_bounds or (held and (judgement.record.raced is True or inexact))


EXACTNESS_HEADINGS = (
    *("", "invocations", "within bounds", "raced", "held", "held and raced", "largest error if held"),
    "post-runtime time",
)
COST_HEADINGS = (
    *("handler", "MiB", "mode", "invocations", "p50", "p99", "max", "share", "added, ms", "added"),
    *("added by difference", "held", "CPU, ms", "CPU added, ms"),
)
SHORT_HEADINGS = (
    *("handler", "auto holds", "auto adds", "always adds", "a waiter adds"),
    *("CPU off, ms", "auto", "always", "a waiter"),
)


EXACTNESS_EXPLAINED = f"""\
Durations from {SHORTEST_MS:g} ms to {LONGEST_MS / 1000:g} s, drawn log-uniformly (spikes: 0.2 and 2 ms); the \
extension released at the same instant as the runtime. Held: open until the runtime was seen to come back. The error \
is that of one process's peak; bounds have {SLACK_MIB} MiB for the kernel's bookkeeping. Post-runtime time: as a \
share of the billed time."""

COST_EXPLAINED = f"""\
- Post-runtime time, in ms: from the runtime's end to the invocation's, `extensionOverhead` of `platform.report`; and \
its sum as a share of the billed time.
- Added: beyond `off` in the same run, as a share of the mode's own billed time, ± one standard error from block to \
block. By difference: the same from REPORT's duration less that of `platform.runtimeDone`. That has the local \
Lambda's thaw in it, before the runtime is released, and all the noise of that.
- CPU time is the extension's, for one invocation, by the scheduler's count.
- The modes took turns, {BLOCK} invocations each, every one in an environment of its own, after some that are not \
counted: {WARM_UP} for `auto`, which compares its signal with telemetry first and may have saved up to 50 ms by then, \
{SHORT_WARM_UP} for the others. The local Lambda's garbage collector was off meanwhile.
- A waiter: an extension that waits for `platform.runtimeDone` and does nothing else (`extensions/waiter.py`).
- The local Lambda does not slow a small function down: at 128 and 512 MiB it is the sidecar that allows itself a \
smaller share of CPU."""


def exactness_rows(results: Sequence[Exactness]) -> list[list[str]]:
    """The first table's cells."""
    return [
        [
            f"`{result.mode}`",
            *(str(count) for count in (result.invocations, result.within_bounds, result.raced)),
            *(str(count) for count in (result.held, result.held_and_raced)),
            "" if result.held_error_max is None else f"{result.held_error_max:.2f} MiB",
            f"{result.post_share:.2f} %",
        ]
        for result in results
    ]


def cost_rows(costs: Sequence[Cost]) -> list[list[str]]:
    """The second table's cells."""
    return [
        [
            *(cost.handler, f"{cost.memory_mib}", cost.mode, f"{cost.invocations}"),
            *(f"{figure:.2f}" for figure in (cost.post_p50, cost.post_p99, cost.post_max)),
            f"{cost.post_share:.2f} %",
            f"{cost.added:.3f}",
            f"{cost.added_share:.2f} ± {cost.added_share_error:.2f} %",
            f"{cost.added_share_by_difference:.2f} %",
            "" if cost.held is None else f"{cost.held:.0f} %",
            *(f"{figure:.2f}" for figure in (cost.cpu, cost.cpu_added)),
        ]
        for cost in costs
    ]


def short_rows(costs: Sequence[Cost]) -> list[list[str]]:
    """One row for each handler, for the README."""
    rows = []
    for handler in HANDLERS:
        found = {c.mode: c for c in costs if (c.handler, c.memory_mib) == (handler.name, handler.memory_mib)}
        auto = found[AUTO.name]
        names = [mode.name for mode in HANDLERS[0].modes]
        added = [found[name].added_share if name in found else None for name in names[1:]]
        cpu = [found[name].cpu if name in found else None for name in names]
        size = "" if handler.memory_mib == FULL_MIB else f", {handler.memory_mib} MiB"
        rows.append(
            [
                handler.name + size,
                f"{auto.held:.0f} %",
                *("" if share is None else f"{share:.1f} %" for share in added),
                *("" if figure is None else f"{figure:.2f}" for figure in cpu),
            ]
        )
    return rows


def remarks(exactness: Sequence[Exactness], costs: Sequence[Cost]) -> list[str]:
    """What did not go as it should: one line each."""
    made = [
        f"- exactness, `{r.mode}`: {r.let_go} holds were let go without the runtime seen" for r in exactness if r.let_go
    ]
    made += [f"- exactness, `{result.mode}`, wrong: {wrong}" for result in exactness for wrong in result.wrong]
    made += [f"- exactness, `{result.mode}`: {result.ended}" for result in exactness if result.ended]
    made += [f"- {c.handler}, {c.memory_mib} MiB, `{c.mode}`: {c.ended}" for c in costs if c.ended]
    return made


def write_results(exactness: Sequence[Exactness], costs: Sequence[Cost]) -> None:
    """Write the results page, and the README's tables between its two marks. Raises click.ClickException."""
    first = publish.markdown(EXACTNESS_HEADINGS, exactness_rows(exactness))
    odd = remarks(exactness, costs)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        f"# Hold\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {publish.machine()}.\n\n"
        f"## Exactness\n\n{first}\n\n{EXACTNESS_EXPLAINED}\n\n"
        f"## Cost\n\n{publish.markdown(COST_HEADINGS, cost_rows(costs), text_columns=3)}\n\n{COST_EXPLAINED}\n"
        + ("\n## What did not go as it should\n\n" + "\n".join(odd) + "\n" if odd else "")
    )
    short = publish.markdown(SHORT_HEADINGS, short_rows(costs))
    short_explained = "Shares of the billed time, beyond what `off` has; CPU time of the extension for one invocation."
    text = f"{first}\n\n{EXACTNESS_EXPLAINED}\n\n{short}\n\n{short_explained}"
    publish.replace(publish.ROOT / "README.md", "hold", text)


def shown(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table for people."""
    table = Table(title=title, title_justify="left")
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="right" if column else "left")
    for cells in rows:
        table.add_row(*cells)
    return table


@click.command(help=__doc__)
@click.option(
    "--invocations", default=INVOCATIONS, show_default=True, help="Of `auto`, for exactness; all else in proportion."
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
@click.option("--write/--no-write", default=True, help="Write the results page and the README's table.")
def main(invocations: int, as_json: bool, write: bool) -> None:
    """See the module."""
    exactness: list[Exactness] = []
    costs: list[Cost] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            exactness.append(measure_exactness(AUTO, invocations, progress))
            exactness.append(measure_exactness(OFF, max(20, invocations // 4), progress))
            for handler in HANDLERS:
                blocks = max(2, round(handler.count * invocations / INVOCATIONS / BLOCK))
                wanted = replace(handler, count=blocks * BLOCK)
                task = progress.add_task(
                    f"cost, {handler.name}, {handler.memory_mib} MiB", total=wanted.count * len(wanted.modes)
                )
                costs += measure_cost(wanted, partial(progress.advance, task))
    except (OSError, AssertionError, RuntimeError, LookupError) as error:
        click.echo(f"could not measure: {error!r}", err=True)
        sys.exit(2)
    console = Console(width=200, file=sys.stderr if as_json else None)
    console.print(shown("Exactness", EXACTNESS_HEADINGS, exactness_rows(exactness)))
    console.print(shown("Post-runtime time in ms, and CPU time", COST_HEADINGS, cost_rows(costs)))
    for line in remarks(exactness, costs):
        console.print(line, markup=False, highlight=False)
    if as_json:
        click.echo(json.dumps({"exactness": [asdict(r) for r in exactness], "cost": [asdict(c) for c in costs]}))
    if write:
        try:
            write_results(exactness, costs)
        except click.ClickException as error:
            click.echo(f"{error.message}: left alone", err=True)
    broken = [f"exactness, {result.mode}" for result in exactness if result.promise_kept is False]
    broken += [
        f"cost, {cost.handler}, {cost.memory_mib} MiB: {cost.added_share:.2f} % > {BUDGET:g} + {NOISE:g} %"
        for cost in costs
        if cost.promise_kept is False
    ]
    if broken:
        click.echo(f"broken promise: {'; '.join(broken)}. (Is the machine idle?)", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
