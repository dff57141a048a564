"""Measures how well the peak of a function with children is known, in exact and in default mode.

Children of 20 ms to 1 s and 20 to 300 MiB, spawned and forked; many short ones, in Python and in shell, where curl is
the runtime client; workers that fork; and what leaves no account in the parent. The truth is the kernel's own trace of
all changes of RSS (benchmarks/rss_trace.py, as root). Writes results/children.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from truemem.linux.procfs import watermark_slack_kib
from truemem_workbench.local import Function

from benchmarks.accuracy import percentile
from benchmarks.contenders import EXECUTABLE
from benchmarks.publish import exit_if_broken, machine, markdown, measuring, shown
from benchmarks.rss_trace import TreeTrace, Truth, tracing
from testing.environment import Environment, Record

RESULTS = Path(__file__).with_name("results") / "children.md"
FUNCTIONS = Path(__file__).with_name("functions")
FAMILY = f"{FUNCTIONS / 'family.py'}:handler"
SHELL = str(FUNCTIONS / "shell" / "bootstrap")
MODES = ("exact", "default")
INVOCATIONS = 200
"""Invocations of each kind and mode."""
FIRST = 1
"""Invocations before those: the first one has the init phase beside it."""

MEMORY_MIB = (256, 512, 1769)
LIVES_MS = (20, 50, 100, 300, 1000)
TIMES = {20: 8, 50: 8, 100: 8, 300: 4, 1000: 2}
"""Invocations of each size, number and start, by the life of its children."""
SIZES_MIB = (20, 80, 300)
COUNTS = (1, 4)
HOW = ("spawn", "fork")
ROOM = 0.85
"""Share of the memory size that the function may take."""
OWN_MIB = {"spawn": 10, "fork": 30}
"""What a child holds besides,"""
RUNTIME_MIB = 45
"""and what the runtime does."""

SLACK_MIB = round(watermark_slack_kib() / 1024, 2)
"""The kernel's own error on this machine, which one of the kinds provokes."""
NEAR = 0.1
"""`PeakRSS` is within this part of the truth."""
WIDTH_P50, WIDTH_P90 = 25, 100
"""The promise, MiB, of all records with children in one mode. No bound is false, and none is above the memory size."""


@dataclass(frozen=True)
class Kind:
    """What one environment is invoked with."""

    name: str
    memory_mib: int
    event: Mapping[str, object]
    """With "count": [least, most], any number in between."""
    spec: str = FAMILY
    variables: Mapping[str, str] = field(default_factory=dict)
    has_children: bool = True

    def drawn(self, chance: random.Random) -> dict[str, object]:
        event = dict(self.event)
        if isinstance(span := event.get("count"), list):
            event["count"] = chance.randint(*span)
        return event


HOLDS = {"HOLD": "60000000"}
KINDS = (
    Kind("1 to 20 times /bin/true", 256, {"how": "true", "count": [1, 20]}),
    Kind("1 to 20 times python -c pass", 512, {"how": "python", "count": [1, 20]}),
    Kind("a pool of 4 workers", 1024, {"how": "pool", "count": 4, "mib": 20}),
    Kind("the same pool, kept", 1024, {"how": "pool", "count": 4, "mib": 20, "kept": True}),
    Kind("shell: curl alone", 256, {}, SHELL),
    Kind("shell: 1 to 20 times /bin/true", 256, {"how": "true", "count": [1, 20]}, SHELL),
    Kind("shell: seq, grep, sort, head", 512, {"how": "pipe"}, SHELL),
    Kind("shell that holds 60 MiB: /bin/true", 512, {"how": "true", "count": [1, 20]}, SHELL, HOLDS),
    Kind("beside a loop of /bin/true, 300 MiB held", 512, {"how": "loop", "mib": 300, "ms": 5}),
    Kind("held between vfork and exec, 100 MiB held", 512, {"how": "held", "mib": 100, "ms": 2}),
    Kind("SIGCHLD ignored for one child", 512, {"how": "ignored", "mib": 50}),
    Kind("SA_NOCLDWAIT for one child", 512, {"how": "nocldwait", "mib": 50}),
    Kind("huge pages of a child", 512, {"how": "huge", "mib": 48, "count": 1}),
    Kind("rings of io_uring of a child", 512, {"how": "rings", "count": 4, "ms": 0}),
    Kind("rings, the child lives 15 ms", 512, {"how": "rings", "count": 4, "ms": 15}),
    Kind("no child: huge pages", 512, {"how": "huge", "mib": 48, "count": 0}, has_children=False),
    Kind("no child: counters of each CPU", 512, {"how": "counters"}, has_children=False),
)


@dataclass(frozen=True)
class Made:
    """One invocation, and what its record says."""

    kind: str
    mode: str
    memory_mib: int
    has_children: bool
    record: Record
    inner: Truth
    """While the handler ran,"""
    whole: Truth
    """and from the invocation until the next one."""

    @property
    def upper(self) -> float:
        return float(self.memory_mib if self.record.peakUpper is None else self.record.peakUpper)

    @property
    def width(self) -> float:
        return self.upper - float(self.record.peakLower)

    @property
    def claims(self) -> bool:
        """Is its peak a figure?"""
        return self.record.method == "vmhwm" and not self.record.raced

    @property
    def near(self) -> bool:
        """What fork() hands on may count once or in each process."""
        return bool((1 - NEAR) * self.inner.once <= self.record.PeakRSS <= (1 + NEAR) * self.whole.rss)

    @property
    def is_false(self) -> bool:
        least, most = self.inner.once - SLACK_MIB, self.whole.rss + SLACK_MIB
        wrong = self.claims and not least <= self.record.PeakRSS <= most
        return bool(wrong or self.upper < least or self.record.peakLower > most)

    @property
    def impossible(self) -> bool:
        """A bound is above the memory size. (No function here holds so much.)"""
        return max(float(self.record.peakLower), self.upper) > self.memory_mib

    def __repr__(self) -> str:
        return f"{self.kind}, {self.mode}: truth {self.inner}, with all around it {self.whole}: {self.record}"


@dataclass(frozen=True)
class Row:
    """Records of one kind. Widths in MiB."""

    kind: str
    mode: str
    records: int
    near: int
    width_p50: float
    width_p90: float
    false: int
    impossible: int


def planned(memory_mib: int, part: float) -> list[dict[str, object]]:
    """Children that hold their memory together: all that fit into the memory size, in any order."""
    events: list[dict[str, object]] = []
    for how, count, mib, life in product(HOW, COUNTS, SIZES_MIB, LIVES_MS):
        if RUNTIME_MIB + count * (mib + OWN_MIB[how]) <= ROOM * memory_mib:
            events += [{"how": how, "count": count, "mib": mib, "ms": life}] * max(1, round(TIMES[life] * part))
    random.Random(4).shuffle(events)
    return events


def name_of(event: Mapping[str, object]) -> str:
    verb = {"spawn": "spawned", "fork": "forked"}[str(event["how"])]
    return f"{verb}, {event['count']} x {event['mib']} MiB"


def measure(
    kind: Kind, events: Sequence[dict[str, object]], mode: str, sidecar: Path, advance: Callable[[], None]
) -> list[Made]:
    """One environment. Raises AssertionError if the function failed, RuntimeError where nothing can be traced."""
    function = Function.from_spec(kind.spec)
    settings: dict[str, Any] = {"sidecar": sidecar, "memory_mib": kind.memory_mib, "environment": kind.variables}
    truths: list[tuple[Truth, Truth]] = []
    with tracing() as trace:
        if trace is None:
            raise RuntimeError("the kernel cannot be traced: run it as root")
        with Environment(function, exact=mode == "exact", **settings) as environment:
            for event in events:
                truths.append(invoke(environment, event, trace))
                advance()
            records = environment.records()
    return [
        Made(name_of(event) if not kind.name else kind.name, mode, kind.memory_mib, kind.has_children, record, *truth)
        for record, event, truth in list(zip(records, events, truths, strict=True))[FIRST:]
    ]


SETTLE_S = 0.01
"""After the answer a shell asks for its next event, by a process of its own: then it is frozen."""


def invoke(environment: Environment, event: dict[str, object], trace: TreeTrace) -> tuple[Truth, Truth]:
    """The truth while the handler ran, and until the function was at rest again."""
    trace.forget()
    began = time.monotonic_ns()
    made = environment.local.invoke(event)
    answered = time.monotonic_ns()
    assert made.function_error is None, made.payload
    time.sleep(SETTLE_S)
    trace.read(environment.local.processes()["runtime"])
    span = made.payload.get("span") if isinstance(made.payload, dict) else None
    return trace.most(*(span or (began, answered))), trace.most(began, time.monotonic_ns())


def row(kind: str, mode: str, made: Sequence[Made]) -> Row:
    widths = [each.width for each in made]
    return Row(
        kind,
        mode,
        len(made),
        sum(each.near for each in made),
        round(percentile(widths, 50), 1),
        round(percentile(widths, 90), 1),
        sum(each.is_false for each in made),
        sum(each.impossible for each in made),
    )


def rows(made: Sequence[Made]) -> list[Row]:
    """A row for each mode and kind, as they come."""
    groups: dict[tuple[str, str], list[Made]] = {}
    for each in made:
        groups.setdefault((each.mode, each.kind), []).append(each)
    return [row(kind, mode, each) for (mode, kind), each in groups.items()]


def totals(made: Sequence[Made]) -> list[Row]:
    """All records with children, by mode."""
    found = [[each for each in made if each.mode == mode and each.has_children] for mode in MODES]
    return [row("all with children", mode, each) for mode, each in zip(MODES, found, strict=True) if each]


HEADINGS = ("", "mode", "records", "within 10 %", "width p50", "p90", "false", "above memory")


def cells(row: Row) -> list[str]:
    def share(count: int) -> str:
        return f"{100 * count / row.records:.1f} %"

    widths = f"{row.width_p50:.1f}", f"{row.width_p90:.1f}"
    return [row.kind, row.mode, f"{row.records}", share(row.near), *widths, share(row.false), share(row.impossible)]


def broken(made: Sequence[Made]) -> list[str]:
    """Promises that were not kept."""
    wide = [
        f"{row.mode}: width {row.width_p50} at p50, {row.width_p90} at p90"
        for row in totals(made)
        if row.width_p50 > WIDTH_P50 or row.width_p90 > WIDTH_P90
    ]
    false = [f"false: {row.kind}, {row.mode}" for row in rows(made) if row.false]
    return [*wide, *false, *(f"above memory: {row.kind}, {row.mode}" for row in rows(made) if row.impossible)]


def published(made: Sequence[Made]) -> str:
    """The results page."""
    explained = (
        "One invocation after the other. The truth is what all processes of the function held together, as the "
        "kernel's own trace has it. Within 10 %: `PeakRSS` is within 10 % of it. Width: of the interval `peakLower` to "
        "`peakUpper`, MiB; where there is no upper bound, up to the memory size. False: a bound that the truth is "
        f"beyond, {SLACK_MIB} MiB of the kernel's bookkeeping allowed, or a figure that is wrong by more. What "
        "`fork()` hands on is in parent and child: an upper bound may count it once. Above memory: a bound is above "
        f"the memory size. Promised, of all records with children: at most {WIDTH_P50} MiB at p50 and {WIDTH_P90} at "
        "p90, none false, none above the memory size."
    )
    both = totals(made), rows(made)
    tables = [markdown(HEADINGS, [cells(each) for each in table], text_columns=2) for table in both]
    return (
        f"# Functions with children\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n"
        f"{explained}\n\n{tables[0]}\n\n## By kind\n\n{tables[1]}\n"
    )


@click.command(help=__doc__)
@click.option("--part", default=1.0, show_default=True, help="Of the usual number of invocations.")
@click.option("--sidecar", default=EXECUTABLE, type=click.Path(exists=True, path_type=Path), help="Another one.")
@click.option("--page", default=RESULTS, type=click.Path(dir_okay=False, path_type=Path), help="Where to write.")
@click.option("--kind", "chosen", default="", help="Only kinds whose names have this.")
def main(part: float, sidecar: Path, page: Path, chosen: str) -> None:
    """See the module."""
    made: list[Made] = []
    count = max(2, round(INVOCATIONS * part)) + FIRST
    with measuring() as bar:
        work = [(kind, [kind.drawn(chance) for _ in range(count)]) for kind in KINDS for chance in [random.Random(2)]]
        work += [(Kind("", memory_mib, {}), planned(memory_mib, part)) for memory_mib in MEMORY_MIB]
        work = [(kind, events) for kind, events in work if chosen in kind.name]
        for mode in MODES:
            advance = bar(mode, sum(len(events) for _, events in work))
            for kind, events in work:
                made += measure(kind, events, mode, sidecar, advance)
    for each in made:
        if each.is_false:
            click.echo(f"false: {each}", err=True)
    Console(width=150).print(shown("Is the peak known?", HEADINGS, [cells(each) for each in totals(made) + rows(made)]))
    page.write_text(published(made))
    exit_if_broken(broken(made))


if __name__ == "__main__":
    main()
