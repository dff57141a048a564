"""Compares durations that are predicted from CPU time with those of a sweep over memory sizes, and the local Lambda
with the quota alone.

Each handler runs under the quota of each size, the sizes in turn. From what was seen at one size every other within a
factor of 8 is predicted. Some handlers also run in the local Lambda, in the same rounds.

Exit codes: 0 measured; 1 fewer than 90 % of the swept durations are in the predicted interval, or a size that the
report would propose is dearer or much slower, or the local Lambda is not within 10 % of the quota; 2 not measured (no
permission for a cpu cgroup of v1).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import click
import numpy as np
from truemem.config import VCPU_MIB
from truemem_workbench.analysis.prices import GB_SECOND
from truemem_workbench.analysis.size_prediction import ENOUGH, SLOWER, Invocations, percentile, predict
from truemem_workbench.analysis.sizing import Fit, fit_of
from truemem_workbench.local.processes.cpu import PERIOD_US

from benchmarks.publish import ROOT, exit_if_broken, machine, markdown, measuring, shown
from benchmarks.size_sweep import Swept, preferred, sweep

RESULTS = ROOT / "benchmarks" / "results" / "size.md"
IN_TURN = {
    "waits": "waiting",
    "hashes": "one thread that computes",
    "a_burst": "waiting, then a short burst",
    "in_turn": "waiting, then computing",
    "objects": "JSON, made and parsed",
    "pages": "fresh memory, and waiting",
    "children": "two child processes, one after the other",
    "node_computes": "Node.js: JSON",
    "node_in_turn": "Node.js: waiting, then computing",
}
OTHERS = {
    "in_many_turns": "waiting and computing in 20 turns",
    "at_once": "computing while other requests wait",
    "threads": "two threads that compute",
    "matrices": "numpy, on all cores",
    "inference": "onnxruntime, on all cores",
    "node_pool": "Node.js: two threads of its pool",
}
COMPOSED = {f"composed_{seed}": f"composed at random, {seed}" for seed in range(1, 13)}
HANDLERS = IN_TURN | OTHERS | COMPOSED
GROUPS = {"one thread in turn": IN_TURN, "others": OTHERS, "composed at random": COMPOSED}
IN_LOCAL_LAMBDA = ("hashes", "in_turn", "children", "node_computes")
SIZES = (128, 256, 512, 1024, VCPU_MIB, 3008)
MEGABYTES = [f"{size:,} MB" for size in SIZES]
FACTOR = 8
NEAR = 0.15
ENOUGH_COVERED = 0.9
ALIKE = 1.05
"""Most by which two handlers of a pair differ in duration and in CPU time at one size."""
APART = (1 + NEAR) / (1 - NEAR)
"""No duration is within NEAR of two durations that are farther apart."""
MOST_PAIRS = 5
QUOTA = 0.1
"""Most that the local Lambda may differ from the quota alone."""
WHY = """\
A prediction is an interval, because duration and CPU time at one size do not say how waiting and computing were
arranged: a quota that is used up hides waiting between short computations and beside them, and below one vCPU the CPU
time of several threads is that of one. numpy's and onnxruntime's threads spin while they wait for each other, so even
their CPU time is another at each size. The spread over invocations does not help: where the quota was used up, a ms of
CPU time more takes 1,769 / size ms for all of them, and where nothing was throttled 1 ms; in between, invocations that
compute more mostly wait more too.

Handlers composed at random have one to eight steps: waiting, computing, computing in two threads, in a child, or while
a request waits. Their work varies by half from one invocation to the next. All others do the same each time.
"""


@dataclass(frozen=True)
class Compared:
    """One prediction: from a size to another, and what the sweep has there. p50 in ms."""

    handler: str
    seen: int
    size: int
    low: float
    high: float
    swept: float
    is_proposed: bool
    """True if it is a smaller size that the report would propose."""
    is_dearer: bool
    """True if it is dearer in the sweep, by more than 2 %."""
    is_slow: bool
    """True if its p99 in the sweep is more than SLOWER times what it was."""

    @property
    def is_covered(self) -> bool:
        """True if it is in the interval, or out of it by no more than 5 %."""
        return 0.95 * self.low <= self.swept <= 1.05 * self.high


def compared(handler: str, seen: Mapping[int, Sequence[tuple[float, float]]]) -> Iterator[Compared]:
    at = {size: Invocations.of(size, pairs) for size, pairs in seen.items()}
    for size, each in at.items():
        known = Invocations(size, each.duration_ms, each.cpu_ms, np.full(len(each.count), ENOUGH))
        for other in SIZES:
            if other != size and max(size, other) <= FACTOR * min(size, other):
                found = predict(known, other, GB_SECOND["x86_64"])
                assert found is not None
                yield Compared(
                    handler,
                    size,
                    other,
                    found.p50.low,
                    found.p50.high,
                    middle(seen[other])[0],
                    is_proposed=other < size and fit_of(size, other, found) is Fit.OVERSIZED,
                    is_dearer=mean_gb_ms(at[other]) > 1.02 * mean_gb_ms(each),
                    is_slow=percentile(at[other].duration_ms, at[other].count, 0.99) > SLOWER * found.p99_now,
                )


def mean_gb_ms(seen: Invocations) -> float:
    """What is billed for an invocation, as the price of computing counts it."""
    return seen.size / 1024 * float(np.ceil(seen.duration_ms).mean())


@dataclass(frozen=True)
class Table:
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str
    text_columns: int = 1

    def __str__(self) -> str:
        """A section of Markdown."""
        return f"## {self.title}\n\n{markdown(self.head, self.rows, self.text_columns)}\n\n{self.note}"


def middle(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """p50 of the durations, and of the CPU times."""
    duration, cpu = map(statistics.median, zip(*pairs, strict=True))
    return duration, cpu


def for_cpu_time(pairs: Sequence[tuple[float, float]]) -> float:
    """ms that a ms of CPU time takes. That is what a quota decides. How much CPU time the same work needs is not: it
    varies by half in Node.js, with its collector and with what else this machine does."""
    durations, cpu_times = map(sum, zip(*pairs, strict=True))
    return float(durations / cpu_times)


def of_predictions(swept: Mapping[str, Swept], made: Sequence[Compared], rounds: int) -> Table:
    rows = []
    for name, each in swept.items():
        its = [one for one in made if one.handler == name]
        rows.append(
            [
                HANDLERS[name],
                *(f"{middle(each.plain[size])[0]:,.0f}" for size in SIZES),
                f"{middle(each.plain[VCPU_MIB])[1]:,.0f}",
                f"{sum(one.is_covered for one in its)} of {len(its)}",
            ]
        )
    of_group = {group: [one for one in made if one.handler in of] for group, of in GROUPS.items()}
    groups = "; ".join(f"{group}: {covered(of)}" for group, of in of_group.items())
    proposed = [one for one in made if one.is_proposed]
    return Table(
        "Predicted and swept",
        ["handler", *MEGABYTES, "CPU", "in interval"],
        rows,
        f"p50 of the duration at each size, and of the CPU time at {VCPU_MIB:,} MB, in ms. {rounds} invocations each,"
        f" in turn, under the quota of the size in periods of {PERIOD_US // 1000} ms. From each size to each other"
        f" within a factor of {FACTOR}, the swept p50 was in the interval, or within 5 % of it, in {covered(made)}"
        f" ({ENOUGH_COVERED:.0%} are wanted). {groups}. Of {len(proposed)} smaller sizes that the report would propose,"
        f" {sum(one.is_dearer for one in proposed)} were dearer in the sweep, and p99 was more than {SLOWER:.0f} times"
        f" as long in {sum(one.is_slow for one in proposed)}.",
    )


def covered(made: Sequence[Compared]) -> str:
    return f"{sum(one.is_covered for one in made) / len(made):.0%} of {len(made)}" if made else "none"


def of_pairs(swept: Mapping[str, Swept]) -> Table:
    """Two handlers that are alike at one size, and APART at another."""
    found = []
    for one, two in combinations(swept, 2):
        at = {size: (middle(swept[one].plain[size]), middle(swept[two].plain[size])) for size in SIZES}
        ratio = {size: apart(a, b) for size, ((a, _), (b, _)) in at.items()}
        alike = [size for size, (a, b) in at.items() if max(map(apart, a, b)) <= ALIKE]
        others = [(ratio[to], seen, to) for seen in alike for to in SIZES if 1 / FACTOR <= seen / to <= FACTOR]
        if others and (farthest := max(others))[0] > APART:
            _, seen, to = farthest
            cells = (
                f"{HANDLERS[name]}: {at[seen][of][0]:,.0f} ms ({at[seen][of][1]:,.0f} of CPU time) at {seen:,} MB,"
                f" {at[to][of][0]:,.0f} ms at {to:,} MB"
                for of, name in enumerate((one, two))
            )
            found.append((ratio[to], list(cells)))
    return Table(
        "The same duration and CPU time, but not at another size",
        ["one handler", "another"],
        [cells for _, cells in sorted(found, reverse=True)[:MOST_PAIRS]],
        f"No formula of duration and CPU time is within {NEAR:.0%} of both. {len(found)} pairs of handlers are within"
        f" {ALIKE - 1:.0%} of each other at one size, and so far apart at another; of these the farthest.",
        text_columns=2,
    )


def apart(one: float, other: float) -> float:
    return max(one, other) / min(one, other)


def of_local_lambda(ratios: Mapping[str, Sequence[float]]) -> Table:
    return Table(
        "The local Lambda over the quota alone",
        ["handler", *MEGABYTES],
        [[HANDLERS[name], *(f"{ratio:.2f}" for ratio in each)] for name, each in ratios.items()],
        "Duration for the same CPU time, over all rounds, as the handler measures both: the runtime's own is not in it."
        " How much CPU time the same work takes is not the quota's: Node.js's JSON takes up to twice as much in one"
        " invocation as in the next.",
    )


@click.command(help=__doc__)
@click.option("--rounds", default=20, show_default=True)
@click.option(
    "--handler", "names", multiple=True, type=click.Choice(list(HANDLERS)), help="Only these; writes nothing."
)
def main(rounds: int, names: tuple[str, ...]) -> None:
    """See the module."""
    chosen = names or tuple(HANDLERS)
    with measuring() as bar, preferred() as group:
        advance = bar("handlers", len(chosen))
        swept: dict[str, Swept] = {}
        for name in chosen:
            swept[name] = sweep(name, SIZES, rounds, group, is_local=name in IN_LOCAL_LAMBDA)
            advance()
    made = [one for name, each in swept.items() for one in compared(name, each.plain)]
    ratios = {
        name: [for_cpu_time(each.local[size]) / for_cpu_time(each.plain[size]) for size in SIZES]
        for name, each in swept.items()
        if each.local
    }
    tables = (of_predictions(swept, made, rounds), of_pairs(swept), of_local_lambda(ratios))
    from rich.console import Console

    for table in tables:
        Console().print(shown(table.title, table.head, table.rows))
        click.echo(table.note)
    if not names:
        RESULTS.write_text("\n\n".join(["# Durations at other sizes", machine(), *map(str, tables), WHY]))
    promises = {
        f"{covered(made)} in the interval": sum(one.is_covered for one in made) < ENOUGH_COVERED * len(made),
        "a proposal was dearer": any(one.is_proposed and one.is_dearer for one in made),
        "a proposal was slow": any(one.is_proposed and one.is_slow for one in made),
        "the local Lambda is not as the quota": any(abs(each - 1) > QUOTA for of in ratios.values() for each in of),
    }
    exit_if_broken([promise for promise, is_broken in promises.items() if is_broken])


if __name__ == "__main__":
    main()
