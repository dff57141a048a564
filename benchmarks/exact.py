"""What exact mode adds: the same function and sidecar in turn, with the wrapper and without.

Also whether many processes delay an invocation: up to 2,000 idle children, with and without the sidecar. Runs the layer
of `make layer` under the local Lambda. Writes results/exact.md and the table of docs/overhead.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from truemem.config import VCPU_MIB
from truemem_workbench.local import Function, LocalLambda, Settings

from benchmarks.kit import namespace
from benchmarks.kit.bench import Bench, apart, in_turn, percentile
from benchmarks.kit.contenders import BEFORE_HELP, EXACT_MODE, EXECUTABLE, code_of, layer_of, wrapper_of
from benchmarks.kit.local import Side
from testing.pages import ROOT, Result, Table, markdown

TITLE = "Exact mode"
NAMESPACE = True
SETTINGS = {"before": BEFORE_HELP}
DOCS = "docs/overhead.md"
FUNCTIONS = ROOT / "benchmarks" / "functions"
BLOCK = 5
"""So many in a row, then it is the other's turn."""
WARM_UP, SMALL_MIB = 20, 128
PAUSE_S = 0.05
"""Between two invocations with a share of a CPU: each begins with a period that is not used up. Beside many processes:
the sidecar's work after the answer is done by then."""
LARGE = 6_000_000
"""Bytes. Lambda takes 6 MiB. The kernel sends every byte a second time, on another connection."""


@dataclass(frozen=True)
class PayloadKind:
    """One event and its response."""

    name: str
    event: dict[str, Any]
    blocks: int
    may_add_ms: float
    """The promise, of the response time's median."""
    may_add_cpu_ms: float
    """The promise, of the sidecar's CPU time for one invocation."""


KINDS = (
    PayloadKind("small event and response", {"answer": 10}, 120, 0.15, 0.15),
    PayloadKind("event of 6 MB", {"answer": 10, "padding": "x" * LARGE}, 24, 0.6, 1.5),
    PayloadKind("response of 6 MB", {"answer": LARGE}, 24, 0.6, 1.5),
)
SHARE_MAY_ADD_MS = 10.0
"""The promise for a function of SMALL_MIB with its share of a CPU, whatever its payload."""
AFTER_MS = 0.1
"""What may be added after the runtime is done: nothing, measured so well."""
CHILDREN, TURNS = (0, 64, 200, 1000, 2000), 10
MAY_ADD_MS = {"default": (1.0, 5.0), "exact": (3.0, 7.0)}
"""The promise, whatever the number of children: to the response, and after it. Twelve processes are read before the
answer goes on (0.3 ms; twice in exact mode), the others for 2 ms at most, and the platform allows 1,024."""
Pair = tuple[float, float]
"""Without exact mode, and with it."""


@dataclass(frozen=True)
class Row:
    """Times in ms."""

    name: str
    p50: Pair
    """From the event sent to the runtime, until its response is there."""
    p90: Pair
    added: float
    """To the response time: median of the differences from turn to turn."""
    next_p50: Pair
    """The time from the response to the runtime's request for the next event."""
    after_p50: Pair
    """The time from that request to the end of the invocation."""
    cpu_ms: Pair
    """CPU time of the sidecar for one invocation."""
    added_cpu_ms: float
    is_kept: bool

    def cells(self) -> list[str]:
        pairs = (self.p50, self.p90, self.next_p50, self.after_p50, self.cpu_ms)
        p50, p90, following, after, cpu = (f"{without:.2f} / {attached:.2f}" for without, attached in pairs)
        return [self.name, p50, p90, f"{self.added:+.2f}", following, after, cpu, f"{self.added_cpu_ms:+.2f}"]


def environment(
    function: str, variables: Mapping[str, str], memory_mib: int, executables: Sequence[Any] = (EXECUTABLE,)
) -> LocalLambda:
    settings = Settings(
        memory_mib=memory_mib,
        memory_limit="off",  # that of 128 MiB is not what is measured here
        cpu="size" if memory_mib < VCPU_MIB else "off",
        timeout_s=300,
        extensions=list(executables),
        environment=variables,
    )
    return LocalLambda(Function.from_handler(f"{FUNCTIONS / function}:handler"), settings)


def measure(kind: PayloadKind, memory_mib: int, bench: Bench, executables: Sequence[Any] = (EXECUTABLE,)) -> list[Row]:
    """A row for each executable, all by turns."""
    is_small = memory_mib < VCPU_MIB
    blocks = bench.count(kind.blocks * (0.25 if is_small else 1), 2)
    with ExitStack() as stack:
        sides = []
        for each in executables:
            for variables in ({}, {"AWS_LAMBDA_EXEC_WRAPPER": str(wrapper_of(each))}):
                sides.append(Side(stack.enter_context(environment("sized.py", variables, memory_mib, [each]))))
                sides[-1].run({"answer": 10}, WARM_UP)
                sides[-1].run(kind.event, 2)
        turns = {
            str(number): partial(side.turn, kind.event, BLOCK, PAUSE_S * is_small) for number, side in enumerate(sides)
        }
        in_turn(turns, blocks, bench.step(f"{memory_mib} MiB, {kind.name}", blocks))
        is_confined = all(side.local.environment.cpu.group is not None for side in sides)
        return [_row(kind, memory_mib, is_confined, sides[at], sides[at + 1]) for at in range(0, len(sides), 2)]


def _row(kind: PayloadKind, memory_mib: int, is_confined: bool, alone: Side, attached: Side) -> Row:
    is_small = memory_mib < VCPU_MIB
    blocks = alone.blocks(), attached.blocks()
    medians = [[statistics.median(one[0] for one in block) for block in of] for of in blocks]
    every = [list(chain(*of)) for of in blocks]

    def both(column: int, percent: int) -> Pair:
        without, with_it = (percentile([one[column] for one in of], percent) for of in every)
        return without, with_it

    added, added_cpu_ms, after = apart(medians[1], medians[0]), apart(attached.cpu_ms, alone.cpu_ms), both(2, 50)
    is_kept = added <= kind.may_add_ms and after[1] - after[0] <= AFTER_MS and added_cpu_ms <= kind.may_add_cpu_ms
    if is_small:
        is_kept = not is_confined or added <= SHARE_MAY_ADD_MS
    return Row(
        kind.name + (f", {memory_mib} MiB's CPU share{'' if is_confined else ' (not permitted)'}" if is_small else ""),
        both(0, 50),
        both(0, 90),
        added,
        both(1, 50),
        after,
        (statistics.median(alone.cpu_ms), statistics.median(attached.cpu_ms)),
        added_cpu_ms,
        is_kept,
    )


def beside_children(children: int, bench: Bench) -> list[list[str]]:
    """What the sidecar adds beside so many idle children, in each mode: cells of a table."""
    event, turns = {"children": children}, bench.count(TURNS, 2)
    modes: dict[str, tuple[Mapping[str, str], Sequence[Any]]] = {
        "without": ({}, []),
        "default": ({}, [EXECUTABLE]),
        "exact": (EXACT_MODE, [EXECUTABLE]),
    }
    with ExitStack() as stack:
        made = {}
        for mode, (variables, executables) in modes.items():
            made[mode] = Side(stack.enter_context(environment("many.py", variables, VCPU_MIB, executables)))
            made[mode].run(event, BLOCK, PAUSE_S)
        in_turn({mode: partial(side.turn, event, BLOCK, PAUSE_S) for mode, side in made.items()}, turns)
        seen = {mode: list(chain(*side.blocks())) for mode, side in made.items()}
    medians = {
        mode: (percentile([one[0] for one in of], 50), percentile([one[1] + one[2] for one in of], 50))
        for mode, of in seen.items()
    }
    rows = []
    for mode, promised in MAY_ADD_MS.items():
        added = [with_it - without for with_it, without in zip(medians[mode], medians["without"], strict=True)]
        is_kept = all(value <= most for value, most in zip(added, promised, strict=True))
        cpu = f"{statistics.fmean(made[mode].cpu_ms):.2f}"
        cells = [f"{children:,}", mode, *(f"{value:+.2f}" for value in added), cpu]
        rows.append([*cells, "" if is_kept else "**broken promise**"])
    return rows


HEADINGS = (
    "",
    "response p50, ms",
    "p90",
    "added",
    "to the next request",
    "after that",
    "CPU of the sidecar",
    "added CPU",
)
SHORT = (0, 1, 3, 4, 6, 7)
"""Columns of the docs."""
EXPLAINED = """\
Without / with exact mode, by turns, the same sidecar attached. Response: from the event on its way to the runtime until
the response is with the API; added: the median of the differences from turn to turn. To the next request: from the
response to the runtime's request for the next event being with the API; after that: until the invocation's end. CPU:
median of the turns, in ms of one invocation."""


def run(bench: Bench) -> Result:
    names = [kind.name for kind in KINDS] + [f"{children} children" for children in CHILDREN]
    chosen = bench.chosen(names)
    with code_of(bench.settings.get("before")) as code:
        executables = [EXECUTABLE, *([layer_of(code)] if code else [])]
        kinds = [(kind, mib) for mib in (VCPU_MIB, SMALL_MIB) for kind in KINDS if kind.name in chosen]
        measured = [measure(kind, mib, bench, executables) for kind, mib in kinds]
    rows = [now for now, *_ in measured]
    older = [was for _, *others in measured for was in others]
    counts = [children for children in CHILDREN if f"{children} children" in chosen]
    many = [row for children in bench.each("many processes", counts) for row in beside_children(children, bench)]
    cells = [row.cells() for row in rows]
    short = [[row[column] for column in SHORT] for row in (HEADINGS, *cells)]
    promised = "; ".join(f"in {mode} mode at most {ms[0]} and {ms[1]} ms" for mode, ms in MAY_ADD_MS.items())
    beside = Table(
        "Many processes",
        ("children", "mode", "response, ms", "after it, ms", "CPU of the sidecar, ms", ""),
        many,
        "What the sidecar adds to an invocation of a function with so many idle children, to the response and to the"
        f" time after it, against the same function without the sidecar, by turns. Promised: {promised}.",
        text_columns=2,
    )
    broken = [row.name for row in rows if not row.is_kept] + [f"{row[0]} children, {row[1]}" for row in many if row[-1]]
    tables = [Table("", HEADINGS, cells, EXPLAINED), beside]
    if older:
        tables.append(Table(f"Before: commit {bench.settings['before']}", HEADINGS, [row.cells() for row in older]))
    return Result(
        tables,
        broken,
        {(DOCS, "exact"): f"{markdown(short[0], short[1:])}\n\n{EXPLAINED}"},
        note=namespace.described(),
    )
