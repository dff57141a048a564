"""Measures how well the peak of a function with short-lived children is known, in exact mode, with the layer's
executable.

Children of 20 ms to 1 s and 20 to 300 MiB, spawned and forked, one and four at once, at three memory sizes, one
invocation after the other. Writes results/children.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from truemem_workbench.local import Function

from benchmarks.accuracy import percentile
from benchmarks.contenders import EXACT_MODE, EXECUTABLE
from benchmarks.publish import exit_if_broken, machine, markdown, measuring, shown
from testing.environment import SLACK_MIB, Environment

RESULTS = Path(__file__).with_name("results") / "children.md"
FUNCTION = Path(__file__).with_name("functions") / "family.py"

MEMORY_MIB = (256, 512, 1769)
LIVES_MS = (20, 50, 100, 300, 1000)
TIMES = {20: 8, 50: 8, 100: 8, 300: 4, 1000: 2}
"""Invocations of each kind, by the life of its children."""
SIZES_MIB = (20, 80, 300)
COUNTS = (1, 4)
HOW = ("spawn", "fork")
ROOM = 0.85
"""Share of the memory size that the function may take."""
OWN_MIB = {"spawn": 10, "fork": 30}
"""What a child holds besides,"""
RUNTIME_MIB = 45
"""and what the runtime does."""

NEAR = 0.1
FROM_MS = 50
LEAST_NEAR = 0.95
"""The promise: from this life on, this share is within NEAR of the truth."""


@dataclass(frozen=True)
class Made:
    """One invocation, and what its record says."""

    memory_mib: int
    event: dict[str, Any]
    lived_ms: float
    near: bool
    """`PeakRSS` is within NEAR of the truth."""
    told: bool
    """The interval is wider than that: it is not known."""
    outside: bool
    """The truth lies outside of the interval."""
    width: float

    @property
    def life(self) -> int:
        """The longest of LIVES_MS that the children have reached: what is to be touched takes time as well."""
        return max(life for life in LIVES_MS if life <= self.lived_ms)


@dataclass(frozen=True)
class Result:
    """One row."""

    name: str
    life: int
    invocations: int
    near: int
    told: int
    """Of the others."""
    untold: int
    """The others still: far off, and said to be known."""
    outside: int
    width_p50: float

    @property
    def promise_kept(self) -> bool:
        """See FROM_MS; below it, the record still has to say what it does not know."""
        enough = self.life < FROM_MS or self.near >= LEAST_NEAR * self.invocations
        return enough and not self.untold and not self.outside


def planned(memory_mib: int, part: float, seed: int = 4) -> list[dict[str, Any]]:
    """All events that fit into the memory size, in any order."""
    events = []
    for how, count, mib, life in product(HOW, COUNTS, SIZES_MIB, LIVES_MS):
        if RUNTIME_MIB + count * (mib + OWN_MIB[how]) <= ROOM * memory_mib:
            events += [{"how": how, "count": count, "mib": mib, "ms": life}] * max(1, round(TIMES[life] * part))
    random.Random(seed).shuffle(events)
    return events


def measure(memory_mib: int, events: Sequence[dict[str, Any]], advance: Callable[[], None]) -> list[Made]:
    """One environment. Raises AssertionError if the function failed."""
    function = Function.from_handler(f"{FUNCTION}:handler")
    with Environment(function, sidecar=EXECUTABLE, memory_mib=memory_mib, environment=EXACT_MODE) as environment:
        answers = []
        for event in events:
            made = environment.local.invoke(event)
            assert made.function_error is None, made.payload
            answers.append(json.loads(made.raw))
            advance()
        records = environment.records()
    found = []
    for record, event, answer in zip(records, events, answers, strict=True):
        assert record.mode == "exact", record
        truth = answer["truth"] / 1024
        upper = memory_mib if record.peakUpper is None else record.peakUpper
        width = upper - record.peakLower
        outside = not record.peakLower - SLACK_MIB <= truth <= upper + SLACK_MIB
        near = abs(record.PeakRSS - truth) <= NEAR * truth
        found.append(Made(memory_mib, event, answer["ms"], near, width > NEAR * truth, outside, width))
    return found


def grouped(made: Sequence[Made], name: Callable[[Made], str]) -> list[Result]:
    """A row for each name and life, by life and then as they come."""
    groups: dict[tuple[str, int], list[Made]] = {}
    for one in made:
        groups.setdefault((name(one), one.life), []).append(one)
    rows = []
    for (title, life), ones in sorted(groups.items(), key=lambda item: item[0][1]):
        far = [one for one in ones if not one.near]
        told = sum(one.told for one in far)
        outside = sum(one.outside for one in ones)
        width = percentile([one.width for one in ones], 50)
        rows.append(
            Result(title, life, len(ones), len(ones) - len(far), told, len(far) - told, outside, round(width, 1))
        )
    return rows


def lived(life: int) -> str:
    """`50 ms to 100 ms`."""
    longer = [other for other in LIVES_MS if other > life]
    return f"{life} to {longer[0]} ms" if longer else f"{life} ms and more"


HEADINGS = (
    "",
    "children lived",
    "invocations",
    "within 10 %",
    "else: not known",
    "else: wrong",
    "outside",
    "width p50",
)


def cells(results: Sequence[Result]) -> list[list[str]]:
    """For people."""
    return [
        [
            result.name,
            lived(result.life),
            str(result.invocations),
            f"{100 * result.near / result.invocations:.0f} %",
            *(str(count) for count in (result.told, result.untold, result.outside)),
            f"{result.width_p50:.1f}",
        ]
        for result in results
    ]


def by_size(one: Made) -> str:
    """The function's memory size."""
    return f"{one.memory_mib} MiB"


def by_kind(one: Made) -> str:
    """What the children were."""
    verb = {"spawn": "spawned", "fork": "forked"}[one.event["how"]]
    return f"{verb}, {one.event['count']} x {one.event['mib']} MiB"


def publish(sizes: Sequence[Result], kinds: Sequence[Result]) -> None:
    """Write the results page."""
    explained = (
        "Exact mode, the layer's executable, one invocation after the other. Within 10 %: `PeakRSS` is within 10 % of "
        "the truth, which is what all processes held while all children held everything. Else not known: the interval "
        "`peakLower` to `peakUpper` is wider than 10 % of the truth; else wrong: it is not. Outside: the truth is not "
        f"within the interval, {SLACK_MIB} MiB of the kernel's bookkeeping allowed. The interval's width is in MiB. "
        "Children that have more to touch than their time allows live longer: they count where they have lived."
    )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        f"# Children that do not live long\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n"
        f"{explained}\n\n## By memory size\n\n{markdown(HEADINGS, cells(sizes), text_columns=2)}\n\n"
        f"## By kind, all memory sizes\n\n{markdown(HEADINGS, cells(kinds), text_columns=2)}\n"
    )


@click.command(help=__doc__)
@click.option("--part", default=1.0, show_default=True, help="Of the usual number of invocations.")
def main(part: float) -> None:
    """See the module."""
    made: list[Made] = []
    with measuring() as bar:
        for memory_mib in MEMORY_MIB:
            events = planned(memory_mib, part)
            made += measure(memory_mib, events, bar(f"{memory_mib} MiB", len(events)))
    sizes, kinds = grouped(made, by_size), grouped(sorted(made, key=by_kind), by_kind)
    console = Console(width=150)
    console.print(shown("Is the peak known?", HEADINGS, cells(sizes)))
    console.print(shown("By kind", HEADINGS, cells(kinds)))
    publish(sizes, kinds)
    exit_if_broken([f"{result.name}, {lived(result.life)}" for result in sizes if not result.promise_kept])


if __name__ == "__main__":
    main()
