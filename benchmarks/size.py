"""Durations that are predicted from CPU time, beside those of a sweep over memory sizes; and the local Lambda.

Each handler runs under the quota of each size, the sizes in turn. From what was seen at one size every other within a
factor of 8 is predicted. Some handlers also run in the local Lambda, in the same rounds. 90 % of the swept durations
are to be in the predicted interval, no size that the report would propose dearer or much slower, and the local Lambda
within 10 % of the quota. It needs a cpu cgroup of v1.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from truemem.config import VCPU_MIB
from truemem_workbench.analysis.prices import GB_SECOND
from truemem_workbench.analysis.size_prediction import ENOUGH, SLOWER, Invocations, percentile, predict
from truemem_workbench.analysis.sizing import Fit, fit_of
from truemem_workbench.check.target import resolve
from truemem_workbench.local import LocalLambda, Settings
from truemem_workbench.local.processes.cgroups import Cgroup, NotPermitted, create
from truemem_workbench.local.processes.cpu import PERIOD_US
from truemem_workbench.local.processes.memory import CgroupMemory, MiB
from truemem_workbench.support.bad_input import BadInput

from benchmarks.kit.bench import Bench
from benchmarks.kit.pages import ROOT, Result, Table

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
IN_LOCAL_LAMBDA = ("hashes", "in_turn", "children", "node_computes")
SIZES = (128, 256, 512, 1024, VCPU_MIB, 3008)
MEGABYTES = [f"{size:,} MB" for size in SIZES]
ROUNDS, FACTOR, ENOUGH_COVERED = 20, 8, 0.9
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


SHARES = 100_000
"""Of this benchmark's cpu cgroup, where others have 1,024: what a quota permits it has at once."""
PAUSE_S = 0.02, 0.05
"""Between two invocations: a handler begins anywhere in a period."""
WARM_UP = 8
"""Rounds that do not count: so many invocations of Node.js are slower, until it has compiled what is hot."""
Invoke = Callable[[], tuple[float, float]]
"""Invokes the handler, and returns duration and CPU time in ms, as it measures them itself."""


@dataclass(frozen=True)
class Swept:
    """What one handler did, by memory size. Times in ms."""

    plain: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """Duration and CPU time of each invocation, under the quota alone."""
    local: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """The same under the local Lambda. Empty if it was not asked for."""


@contextmanager
def preferred() -> Iterator[Path]:
    """A cpu cgroup that has SHARES, for this process and all that it starts. Raises BadInput without permission."""
    try:
        group = create("cpu", f"truemem-size-{os.getpid()}", only_version=1)
    except NotPermitted as refusal:
        raise BadInput(str(refusal)) from None
    try:
        group.write("cpu.shares", str(SHARES))
        group.add(os.getpid())
        yield group.path
    finally:
        Cgroup(group.path.parent, 1).add(os.getpid())
        group.remove()


def sweep(name: str, sizes: Sequence[int], rounds: int, within: Path, *, is_local: bool) -> Swept:
    """Invoke the handler so many times at each size, in rounds of all sizes and both ways, each in another order: so
    all see the same machine."""
    seen = Swept()
    with ExitStack() as stack:
        ways: list[tuple[Invoke, list[tuple[float, float]]]] = []
        for size in sizes:
            plain = stack.enter_context(_plain(name, size, within / f"plain-{size}"))
            ways.append((plain, seen.plain.setdefault(size, [])))
            if is_local:
                local = stack.enter_context(_local(name, size))
                ways.append((local, seen.local.setdefault(size, [])))
        for number in range(WARM_UP + rounds):
            for invoke, done in random.sample(ways, len(ways)):
                time.sleep(random.uniform(*PAUSE_S))
                measured = invoke()
                if number >= WARM_UP:
                    done.append(measured)
    return seen


@contextmanager
def _plain(name: str, size: int, group: Path) -> Iterator[Invoke]:
    """A process that runs the handler, in cgroups of its own. The quota is written once: the kernel would
    forget what an invocation has used in advance."""
    program, runtime = _program(name, size)
    group.mkdir()
    # From its first instruction: V8 asks for the memory that it may use when it starts.
    memory = CgroupMemory(create("memory", f"{group.parent.name}-{group.name}"), size * MiB)
    within_limit = ("/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', memory.group.path / "cgroup.procs")
    try:
        with subprocess.Popen(
            [*within_limit, *runtime, program, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            stdin, stdout = process.stdin, process.stdout

            def invoke() -> tuple[float, float]:
                process.send_signal(signal.SIGCONT)
                stdin.write("go\n")
                stdin.flush()
                duration, cpu = map(float, stdout.readline().split())
                process.send_signal(signal.SIGSTOP)  # as Lambda freezes: else collectors would work between them
                return duration, cpu

            try:
                stdout.readline()
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(round(PERIOD_US * size / VCPU_MIB)))
                (group / "cgroup.procs").write_text(str(process.pid))
                yield invoke
            finally:
                process.kill()
    finally:
        memory.close()
        Cgroup(group, 1).remove()


@contextmanager
def _local(name: str, size: int) -> Iterator[Invoke]:
    """The same as a real function, as `truemem size` runs it."""
    program, _ = _program(name, size)
    settings = Settings(memory_mib=size, cpu="size", environment={"WORK": name})
    with LocalLambda(resolve(f"{program}:handler").function, settings) as local:

        def invoke() -> tuple[float, float]:
            answer = local.invoke({})
            assert isinstance(answer.payload, list), answer.payload
            local.report(answer.request_id)  # it comes when all is frozen
            duration, cpu = answer.payload
            return duration, cpu

        invoke()
        assert local.limits_cpu
        yield invoke


def _program(name: str, size: int) -> tuple[Path, Sequence[str]]:
    """The file of a handler, and what runs it."""
    if name.startswith("node_"):
        # As Lambda: the size of V8's young generation decides how much CPU time the collector takes.
        return FUNCTIONS / "sizes.mjs", (
            "node",
            f"--max-semi-space-size={size // 20}",
            f"--max-old-space-size={size * 9 // 10}",
        )
    return FUNCTIONS / "sizes.py", (sys.executable,)


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


def middle(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """p50 of the durations, and of the CPU times."""
    duration, cpu = map(statistics.median, zip(*pairs, strict=True))
    return duration, cpu


def for_cpu_time(pairs: Sequence[tuple[float, float]]) -> float:
    """ms that a ms of CPU time takes. That is what a quota decides. How much CPU time the same work needs is not: it
    varies by half in Node.js, with its collector and with what else this machine does."""
    durations, cpu_times = map(sum, zip(*pairs, strict=True))
    return float(durations / cpu_times)


def covered(made: Sequence[Compared]) -> str:
    return f"{sum(one.is_covered for one in made) / len(made):.0%} of {len(made)}" if made else "none"


def of_predictions(swept: Mapping[str, Swept], made: Sequence[Compared], rounds: int) -> Table:
    rows = []
    for name, each in swept.items():
        its = [one for one in made if one.handler == name]
        figures = [*(middle(each.plain[size])[0] for size in SIZES), middle(each.plain[VCPU_MIB])[1]]
        inside = f"{sum(one.is_covered for one in its)} of {len(its)}"
        rows.append([HANDLERS[name], *(f"{figure:,.0f}" for figure in figures), inside])
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


def run(bench: Bench) -> Result:
    rounds = bench.count(ROUNDS, 2)
    with preferred() as group:
        chosen = bench.each("handlers", bench.chosen(HANDLERS))
        swept = {name: sweep(name, SIZES, rounds, group, is_local=name in IN_LOCAL_LAMBDA) for name in chosen}
    made = [one for name, each in swept.items() for one in compared(name, each.plain)]
    ratios = {
        name: [for_cpu_time(each.local[size]) / for_cpu_time(each.plain[size]) for size in SIZES]
        for name, each in swept.items()
        if each.local
    }
    local = Table(
        "The local Lambda over the quota alone",
        ["handler", *MEGABYTES],
        [[HANDLERS[name], *(f"{ratio:.2f}" for ratio in each)] for name, each in ratios.items()],
        "Duration for the same CPU time, over all rounds, as the handler measures both: the runtime's own is not in it."
        " How much CPU time the same work takes is not the quota's: Node.js's JSON takes up to twice as much in one"
        " invocation as in the next.",
    )
    promises = {
        f"{covered(made)} in the interval": sum(one.is_covered for one in made) >= ENOUGH_COVERED * len(made),
        "a proposal was dearer": not any(one.is_proposed and one.is_dearer for one in made),
        "a proposal was slow": not any(one.is_proposed and one.is_slow for one in made),
        "the local Lambda is not as the quota": all(abs(each - 1) <= QUOTA for of in ratios.values() for each in of),
    }
    broken = [words for words, is_kept in promises.items() if not is_kept]
    return Result([of_predictions(swept, made, rounds), local], broken, note=WHY)
