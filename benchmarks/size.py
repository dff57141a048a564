"""Durations that are predicted from CPU time, beside those of a sweep over memory sizes.

Each handler runs in the local Lambda with the CPU of each size, the sizes in turn. From what was seen at one size every
other within a factor of 8 is predicted. 90 % of the swept durations are to be in the predicted interval, and no size
that the report would propose dearer or much slower. It needs a cpu cgroup of v1.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
from truemem.config import VCPU_MIB
from truemem_workbench.judge.prices import GB_SECOND
from truemem_workbench.judge.size_prediction import CPU_INVOCATIONS_NEEDED, SLOWER, Invocations, percentile, predict
from truemem_workbench.judge.sizing import Fit, fit_of
from truemem_workbench.local import LocalLambda, Settings
from truemem_workbench.local.processes.cgroups import Cgroup, NotPermitted, create
from truemem_workbench.target.resolve import resolve

from benchmarks.kit.bench import Bench, in_turn
from testing.pages import ROOT, Result, Table

TITLE = "Durations at other sizes"
FUNCTIONS = ROOT / "benchmarks" / "functions"
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
SIZES = (128, 256, 512, 1024, VCPU_MIB, 3008)
ROUNDS, FACTOR, ENOUGH_COVERED = 20, 8, 0.9
PAUSE_S = 0.02, 0.05
"""Between two invocations: a handler begins anywhere in a period."""
WARM_UP = 8
"""Rounds that do not count: so many invocations of Node.js are slower, until it has compiled what is hot."""
Pair = tuple[float, float]
"""Duration and CPU time of an invocation, ms, as the handler measures them: the runtime's own is not in it."""
WHY = """\
A prediction is an interval, because duration and CPU time at one size do not say how waiting and computing were
arranged: a quota that is used up hides waiting between short computations and beside them, and below one vCPU the CPU
time of several threads is that of one. numpy's and onnxruntime's threads spin while they wait for each other, so even
their CPU time is another at each size.

Handlers composed at random have one to eight steps: waiting, computing, computing in two threads, in a child, or while
a request waits. Their work varies by half from one invocation to the next. All others do the same each time.
"""


@contextmanager
def preferred() -> Iterator[None]:
    """A cpu cgroup for all that this process starts: what a quota permits it has at once, whatever else runs."""
    try:
        group = create("cpu", f"truemem-size-{os.getpid()}", only_version=1)
    except NotPermitted as refusal:
        raise RuntimeError(str(refusal)) from None
    try:
        group.write("cpu.shares", "100000")  # others have 1,024
        group.add(os.getpid())
        yield
    finally:
        Cgroup(group.path.parent, 1).add(os.getpid())
        group.remove()


def sweep(name: str, rounds: int) -> dict[int, list[Pair]]:
    """Invoke the handler so many times at each size, as `truemem size` does."""
    program = FUNCTIONS / ("sizes.mjs" if name.startswith("node_") else "sizes.py")
    with ExitStack() as stack:
        ways = {}
        for size in SIZES:
            settings = Settings(memory_mib=size, cpu="size", environment={"WORK": name})
            local = stack.enter_context(LocalLambda(resolve(f"{program}:handler").function, settings))
            ways[str(size)] = partial(invoke, local)
        seen = in_turn(ways, WARM_UP + rounds)
    return {size: seen[str(size)][WARM_UP:] for size in SIZES}


def invoke(local: LocalLambda) -> Pair:
    time.sleep(random.uniform(*PAUSE_S))
    answer = local.invoke({})
    assert isinstance(answer.payload, list), answer.payload
    assert local.limits_cpu, "a cpu cgroup is not permitted"
    local.report(answer.request_id)  # it comes when all is frozen
    duration, cpu = answer.payload
    return duration, cpu


class Compared(NamedTuple):
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


def compared(handler: str, seen: Mapping[int, Sequence[Pair]]) -> Iterator[Compared]:
    at = {size: Invocations.of(size, pairs) for size, pairs in seen.items()}
    for size, each in at.items():
        known = Invocations(size, each.duration_ms, each.cpu_ms, np.full(len(each.count), CPU_INVOCATIONS_NEEDED))
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


def middle(pairs: Sequence[Pair]) -> Pair:
    """p50 of the durations, and of the CPU times."""
    duration, cpu = map(statistics.median, zip(*pairs, strict=True))
    return duration, cpu


def covered(made: Sequence[Compared]) -> str:
    return f"{sum(one.is_covered for one in made) / len(made):.0%} of {len(made)}" if made else "none"


def of_predictions(swept: Mapping[str, Mapping[int, Sequence[Pair]]], made: Sequence[Compared], rounds: int) -> Table:
    rows = []
    for name, each in swept.items():
        its = [one for one in made if one.handler == name]
        figures = [*(middle(each[size])[0] for size in SIZES), middle(each[VCPU_MIB])[1]]
        inside = f"{sum(one.is_covered for one in its)} of {len(its)}"
        rows.append([HANDLERS[name], *(f"{figure:,.0f}" for figure in figures), inside])
    of_group = {group: [one for one in made if one.handler in of] for group, of in GROUPS.items()}
    groups = "; ".join(f"{group}: {covered(of)}" for group, of in of_group.items())
    proposed = [one for one in made if one.is_proposed]
    return Table(
        "",
        ["handler", *(f"{size:,} MB" for size in SIZES), "CPU", "in interval"],
        rows,
        f"p50 of the duration at each size, and of the CPU time at {VCPU_MIB:,} MB, in ms. {rounds} invocations each,"
        f" in turn, with the CPU of the size. From each size to each other"
        f" within a factor of {FACTOR}, the swept p50 was in the interval, or within 5 % of it, in {covered(made)}"
        f" ({ENOUGH_COVERED:.0%} are wanted). {groups}. Of {len(proposed)} smaller sizes that the report would propose,"
        f" {sum(one.is_dearer for one in proposed)} were dearer in the sweep, and p99 was more than {SLOWER:.0f} times"
        f" as long in {sum(one.is_slow for one in proposed)}.",
    )


def run(bench: Bench) -> Result:
    rounds = bench.count(ROUNDS, 2)
    with preferred():
        swept = {name: sweep(name, rounds) for name in bench.each("handlers", bench.chosen(HANDLERS))}
    made = [one for name, each in swept.items() for one in compared(name, each)]
    promises = {
        f"{covered(made)} in the interval": sum(one.is_covered for one in made) >= ENOUGH_COVERED * len(made),
        "a proposal was dearer": not any(one.is_proposed and one.is_dearer for one in made),
        "a proposal was slow": not any(one.is_proposed and one.is_slow for one in made),
    }
    broken = [words for words, is_kept in promises.items() if not is_kept]
    return Result([of_predictions(swept, made, rounds)], broken, note=WHY)
