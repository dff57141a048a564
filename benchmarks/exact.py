"""Measures what exact mode adds: the same function and the same sidecar in turn, with the wrapper and without.

Runs the layer of `make layer` under the local Lambda. Writes results/exact.md and the table of docs/overhead.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from truemem_workbench.local import Function, LocalLambda, Settings

from benchmarks import namespace
from benchmarks.accuracy import percentile
from benchmarks.added import spans
from benchmarks.bare import cpu_ns
from benchmarks.contenders import EXECUTABLE, wrapper_of
from benchmarks.publish import ROOT, exit_if_broken, machine, markdown, measuring, replace, shown
from benchmarks.running import VCPU_MIB

RESULTS = Path(__file__).with_name("results") / "exact.md"
PAGE = ROOT / "docs" / "overhead.md"
FUNCTION = Path(__file__).with_name("functions") / "sized.py"

WITHOUT, WITH = "without", "with"
BLOCK = 5
"""So many in a row, then it is the other's turn."""
WARM_UP = 20
SMALL_MIB = 128
PAUSE_S = 0.05
"""Between two invocations with a share of a CPU: each begins with a period that is not used up."""
LARGE = 6_000_000
"""Bytes. Lambda takes 6 MiB."""
CPU_LARGE_MS = 1.5
"""Of them: the kernel sends every byte a second time, on another connection."""


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
    PayloadKind("event of 6 MB", {"answer": 10, "padding": "x" * LARGE}, 24, 0.6, CPU_LARGE_MS),
    PayloadKind("response of 6 MB", {"answer": LARGE}, 24, 0.6, CPU_LARGE_MS),
)
SHARE_MAY_ADD_MS = 10.0
"""The promise for a function of SMALL_MIB with its share of a CPU, whatever its payload."""
AFTER_MS = 0.1
"""What may be added after the runtime is done: nothing, measured so well."""


@dataclass(frozen=True)
class Result:
    """One row. Times in ms; of two figures the first is without exact mode, the second with it."""

    name: str
    memory_mib: int
    confined: bool
    """To the share of a CPU that the memory size buys?"""
    invocations: int
    """Of each side."""
    response_p50: tuple[float, float]
    """From the event sent to the runtime, until its response is there."""
    response_p90: tuple[float, float]
    added: float
    """To the response time: median of the differences from turn to turn."""
    next_p50: tuple[float, float]
    """From the response to the runtime's request for the next event."""
    after_p50: tuple[float, float]
    """From that to the end of the invocation."""
    cpu_ms: tuple[float, float]
    """Of the sidecar, for one invocation."""
    added_cpu_ms: float
    """Median of the differences from turn to turn."""
    promise_kept: bool | None


@dataclass
class Side:
    """One environment, and what was measured in it."""

    local: LocalLambda
    cpu_ms: list[float] = field(default_factory=list)
    """Of one invocation, by turn."""
    blocks: list[list[str]] = field(default_factory=list)

    def extension(self) -> int:
        """The sidecar's pid."""
        return self.local.processes()[f"extension:{EXECUTABLE.name}"]

    def run(self, event: dict[str, Any], count: int, pause_s: float = 0.0) -> list[str]:
        """Invoke, until all is at rest; request ids."""
        gc.collect()  # the local Lambda's own, not in the middle of an invocation
        gc.disable()
        asked = []
        for _ in range(count):
            time.sleep(pause_s)
            asked.append(self.local.invoke(event))
            self.local.settle()  # the next event is not made while the runtime still asks for it
        gc.enable()
        failed = next((each for each in asked if each.function_error is not None), None)
        assert failed is None, failed
        return [each.request_id for each in asked]

    def turn(self, event: dict[str, Any], count: int, pause_s: float) -> None:
        """The same, measured."""
        pid = self.extension()
        before = cpu_ns(pid)
        asked = self.run(event, count, pause_s)
        self.cpu_ms.append((cpu_ns(pid) - before) / count / 1e6)
        self.blocks.append(asked)


def environment(memory_mib: int, exact: bool, executable: Path) -> LocalLambda:
    """With this sidecar."""
    wrapper = {"AWS_LAMBDA_EXEC_WRAPPER": str(wrapper_of(executable))}
    settings = Settings(
        memory_mib=memory_mib,
        memory_limit="off",  # that of 128 MiB is not what is measured here
        cpu="size" if memory_mib < VCPU_MIB else "off",
        timeout_s=300,
        extensions=[executable],
        environment=wrapper if exact else {},
    )
    return LocalLambda(Function.from_handler(f"{FUNCTION}:handler"), settings)


@contextmanager
def sides(memory_mib: int, executables: Sequence[Path]) -> Iterator[tuple[list[dict[str, Side]], bool]]:
    """Both environments of each executable, warm, and if all had the CPU of their size. At a whole CPU and more nothing
    is limited."""
    with ExitStack() as stack:
        pairs = [
            {name: Side(stack.enter_context(environment(memory_mib, name == WITH, each))) for name in (WITHOUT, WITH)}
            for each in executables
        ]
        every = [side for made in pairs for side in made.values()]
        for side in every:
            side.run({"answer": 10}, WARM_UP)
        yield pairs, all(side.local.environment.cpu.group is not None for side in every)


def measure(
    kind: PayloadKind,
    memory_mib: int,
    blocks: int,
    advance: Callable[[], None],
    executables: Sequence[Path] = (EXECUTABLE,),
) -> list[Result]:
    """A row for each executable, all by turns."""
    pause_s = 0.0 if memory_mib >= VCPU_MIB else PAUSE_S
    with sides(memory_mib, executables) as (pairs, held):
        order = [side for made in pairs for side in made.values()]
        for side in order:
            side.run(kind.event, 2)
        for _ in range(blocks):
            for side in order:
                side.turn(kind.event, BLOCK, pause_s)
            order.reverse()
            advance()
    return [_row(kind, memory_mib, held, made) for made in pairs]


def _row(kind: PayloadKind, memory_mib: int, is_confined: bool, made: dict[str, Side]) -> Result:
    blocks: dict[str, list[list[tuple[float, float, float]]]] = {}
    for name, side in made.items():
        known = spans(side.local)
        blocks[name] = [[known[request_id] for request_id in block] for block in side.blocks]
    every = {name: [one for block in blocks[name] for one in block] for name in made}
    added = statistics.median(
        statistics.median(one[0] for one in attached) - statistics.median(one[0] for one in alone)
        for alone, attached in zip(blocks[WITHOUT], blocks[WITH], strict=True)
    )

    def both(column: int, percent: int) -> tuple[float, float]:
        first, second = (percentile([one[column] for one in every[name]], percent) for name in (WITHOUT, WITH))
        return round(first, 3), round(second, 3)

    after = both(2, 50)
    without, attached = made[WITHOUT].cpu_ms, made[WITH].cpu_ms
    added_cpu_ms = statistics.median(one - other for other, one in zip(without, attached, strict=True))
    if memory_mib >= VCPU_MIB:
        in_time = added <= kind.may_add_ms and after[1] - after[0] <= AFTER_MS
        kept: bool | None = in_time and added_cpu_ms <= kind.may_add_cpu_ms
    else:
        kept = added <= SHARE_MAY_ADD_MS if is_confined else None
    return Result(
        kind.name,
        memory_mib,
        is_confined,
        len(every[WITH]),
        both(0, 50),
        both(0, 90),
        round(added, 3),
        both(1, 50),
        after,
        (round(statistics.median(without), 3), round(statistics.median(attached), 3)),
        round(added_cpu_ms, 3),
        kept,
    )


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


def cells(results: Sequence[Result]) -> list[list[str]]:
    """For people."""
    rows = []
    for result in results:
        share = f", {result.memory_mib} MiB's CPU share" if result.memory_mib < VCPU_MIB else ""
        pairs = result.response_p50, result.response_p90, result.next_p50, result.after_p50, result.cpu_ms
        p50, p90, asked, after, cpu = (f"{without:.2f} / {attached:.2f}" for without, attached in pairs)
        added, added_cpu = f"{result.added:+.2f}", f"{result.added_cpu_ms:+.2f}"
        rows.append([f"{result.name}{share}", p50, p90, added, asked, after, cpu, added_cpu])
    return rows


SHORT = [
    HEADINGS.index(heading) for heading in ("", "response p50, ms", "added", "to the next request", *HEADINGS[-2:])
]
"""Columns of the page."""


def explained(results: Sequence[Result]) -> str:
    """What the columns are."""
    shares = [result for result in results if result.memory_mib < VCPU_MIB]
    unheld = "" if all(result.confined for result in shares) else " A cpu cgroup was not permitted: no share was kept."
    counts = "; ".join(f"{result.invocations} x {result.name}" for result in results if result not in shares)
    return (
        "Without / with exact mode, by turns, the same sidecar attached. Response: from the event on its way to the "
        "runtime until the response is with the API; added: the median of the differences from turn to turn. To the "
        "next request: from the response to the runtime's request for the next event being with the API; after that: "
        "until the invocation's end. CPU: median of the turns, in ms of one invocation. "
        f"{counts} on each side.{unheld} {namespace.described()}"
    )


def publish(results: Sequence[Result]) -> None:
    """Write the results page and the short table of the docs."""
    text = f"{markdown(HEADINGS, cells(results))}\n\n{explained(results)}"
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(f"# Exact mode\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n{text}\n")
    short = [[row[column] for column in SHORT] for row in (HEADINGS, *cells(results))]
    meaning = (
        "Without / with exact mode, ms. Response: from the event on its way to the runtime until the response is with "
        "the API. To the next request: from there until the runtime's next request is with the API."
    )
    replace(PAGE, "exact", f"{markdown(short[0], short[1:])}\n\n{meaning}")


@click.command(help=__doc__)
@click.option("--part", default=1.0, show_default=True, help="Of the usual number of turns.")
def main(part: float) -> None:
    """See the module."""
    namespace.enter()
    results: list[Result] = []
    with measuring() as bar:
        for memory_mib in (VCPU_MIB, SMALL_MIB):
            for kind in KINDS:
                blocks = max(2, round(kind.blocks * part * (1 if memory_mib >= VCPU_MIB else 0.25)))
                results.extend(measure(kind, memory_mib, blocks, bar(f"{memory_mib} MiB, {kind.name}", blocks)))
    Console(width=160).print(shown("Without / with exact mode", HEADINGS, cells(results)))
    publish(results)
    exit_if_broken([result.name for result in results if result.promise_kept is False])


if __name__ == "__main__":
    main()
