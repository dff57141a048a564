"""What holding costs: time after the runtime is done, and CPU time, of each way of running, side by side.

All ways run by turns, in blocks, each in an environment of its own that stays open: they see the same machine.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from truemem_workbench.local import LocalLambda

from benchmarks.accuracy import percentile
from tests.scenarios.environment import SIDECAR, Environment

WAITER = Path(__file__).with_name("extensions") / "waiter.py"

FULL_MIB = 1769
"""Memory size that buys one full vCPU."""

WARM_UP = 60
"""Invocations before any is counted, of `auto`: it compares its signal with telemetry first."""

SHORT_WARM_UP = 10
"""The same of the others."""

BLOCK = 20
"""So many in a row, then it is the next one's turn."""

BUDGET = 1.0
"""What `auto` may add, in percent of the billed time: the default of TRUEMEM_HOLD_BUDGET."""

NOISE = 0.3
"""What the machine may add to that, in percent."""


@dataclass(frozen=True)
class Mode:
    """One way of running."""

    name: str
    sidecar: Path = SIDECAR
    hold: str = ""
    """TRUEMEM_HOLD; nothing for what is not truemem."""

    @property
    def warm_up(self) -> int:
        """Invocations before any is counted."""
        return WARM_UP if self.hold == "auto" else SHORT_WARM_UP

    def environment(self, memory_mib: int) -> Environment:
        """An environment of this kind; the extension and the runtime are released at the same instant."""
        variables = {"TRUEMEM_HOLD": self.hold} if self.hold else {}
        return Environment(memory_mib=memory_mib, extension_lead_us=0, sidecar=self.sidecar, environment=variables)


OFF = Mode("off", hold="off")
AUTO = Mode("auto", hold="auto")
MODES = (OFF, AUTO, Mode("always", hold="always"), Mode("a waiter", WAITER))


@dataclass(frozen=True)
class Handler:
    """What is invoked, and how often."""

    name: str
    do: str
    ms: float
    count: int
    """In each mode."""
    memory_mib: int = FULL_MIB
    modes: Sequence[Mode] = MODES


HANDLERS = (
    Handler("1 ms", "hold", 1, 400),
    Handler("5 ms", "hold", 5, 300),
    Handler("20 ms", "hold", 20, 160),
    Handler("100 ms", "hold", 100, 100),
    Handler("500 ms", "hold", 500, 40),
    Handler("100 ms, busy", "spike", 100, 60),
    Handler("100 ms", "hold", 100, 60, 512, (OFF, AUTO)),
    Handler("100 ms", "hold", 100, 60, 128, (OFF, AUTO)),
)


@dataclass(frozen=True)
class Cost:
    """One row. Times in ms, shares in percent of the billed time; `added` is beyond what `off` has."""

    handler: str
    memory_mib: int
    mode: str
    invocations: int
    post_p50: float
    """Post-runtime time: from the runtime's end to the invocation's, the platform's span `extensionOverhead`."""
    post_p99: float
    post_max: float
    post_share: float
    added: float
    """Mean of the post-runtime time, ms."""
    added_share: float
    added_share_error: float
    """Standard error of that, from block to block."""
    added_share_by_difference: float
    """The same from REPORT's duration less runtimeDone's: that has the thaw before the runtime's release in it."""
    held: float | None
    """Share of the invocations whose record has holdMs; None for what has no records."""
    cpu: float
    """CPU time of the extension, for one invocation."""
    cpu_added: float
    ended: str
    """What ended truemem's watching, if anything did."""
    promise_kept: bool | None


@dataclass
class _Run:
    """One mode's environment, and what was measured in it. Times in ms."""

    mode: Mode
    environment: Environment
    cpu: float = 0.0
    posts: list[float] = field(default_factory=list)
    differences: list[float] = field(default_factory=list)
    billed: float = 0.0
    """Mean."""
    held: float | None = None
    ended: str = ""

    def block(self, event: Mapping[str, float], do: str, count: int) -> None:
        """Invoke, and wait until all is frozen."""
        for _ in range(count):
            self.environment.invoke(do, **event)
        self.environment.local.settle()

    def read_cpu(self) -> float:
        """CPU time of the extension so far, ms: what the scheduler counted, to the ns (proc_schedstat)."""
        pid = self.environment.local.processes()[f"extension:{self.environment.name}"]
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6

    def collect(self) -> None:
        """Shut the environment down, and read what the platform and truemem said of each counted invocation."""
        counted = [invocation.request_id for invocation in self.environment.invocations[self.mode.warm_up :]]
        local = self.environment.local
        self.posts, billed = post_runtime(local, counted)
        self.billed = statistics.mean(billed)
        reports = {report.request_id: report for report in local.reports}
        records = [event["record"] for event in local.events if event["type"] == "platform.runtimeDone"]
        done = {record["requestId"]: record["metrics"]["durationMs"] for record in records}
        self.differences = [reports[made].duration_ms - done[made] for made in counted]
        if self.mode.hold:
            held = {record.requestId: record.holdMs is not None for record in self.environment.records()}
            self.held = 100 * statistics.mean(held[made] for made in counted)
            self.ended = endings(self.environment.log())


def post_runtime(local: LocalLambda, counted: Sequence[str]) -> tuple[list[float], list[int]]:
    """Of each of these invocations, by request id: post-runtime time and billed time, ms."""
    records = [event["record"] for event in local.events if event["type"] == "platform.report"]
    spans = {
        record["requestId"]: {span["name"]: float(span["durationMs"]) for span in record["spans"]} for record in records
    }
    billed = {report.request_id: report.billed_duration_ms for report in local.reports}
    return [spans[made]["extensionOverhead"] for made in counted], [billed[made] for made in counted]


def endings(log: str) -> str:
    """What truemem said about not watching, or not holding, any more."""
    return "; ".join(line for line in log.splitlines() if "any more" in line).replace("truemem WARN ", "")


def measure(handler: Handler, advance: Callable[[int], object]) -> list[Cost]:
    """The rows of one handler. `advance` is told of counted invocations that are done."""
    event = {"ms": handler.ms, "mib": 1.0}
    gc.disable()  # the local Lambda lives in this process: each full collection would stop it for 20 to 40 ms
    try:
        return _measure(handler, event, advance)
    finally:
        gc.enable()
        gc.collect()


def _measure(handler: Handler, event: Mapping[str, float], advance: Callable[[int], object]) -> list[Cost]:
    with ExitStack() as stack:
        runs = [_Run(mode, stack.enter_context(mode.environment(handler.memory_mib))) for mode in handler.modes]
        for run in runs:
            run.block(event, handler.do, run.mode.warm_up)
            run.cpu = -run.read_cpu()
        for turn in range(handler.count // BLOCK):
            first = turn % len(runs)  # so that none always comes after the same other
            for run in [*runs[first:], *runs[:first]]:
                run.block(event, handler.do, BLOCK)
                advance(BLOCK)
        for run in runs:
            run.cpu += run.read_cpu()
            run.collect()
    return [_row(handler, run, runs[0]) for run in runs]


def _row(handler: Handler, run: _Run, off: _Run) -> Cost:
    count = len(run.posts)
    added = statistics.mean(run.posts) - statistics.mean(off.posts)
    by_block = [
        statistics.mean(run.posts[at : at + BLOCK]) - statistics.mean(off.posts[at : at + BLOCK])
        for at in range(0, count, BLOCK)
    ]
    error = statistics.stdev(by_block) / len(by_block) ** 0.5 if len(by_block) > 1 else 0.0
    by_difference = statistics.mean(run.differences) - statistics.mean(off.differences)
    return Cost(
        handler=handler.name,
        memory_mib=handler.memory_mib,
        mode=run.mode.name,
        invocations=count,
        post_p50=percentile(run.posts, 50),
        post_p99=percentile(run.posts, 99),
        post_max=max(run.posts),
        post_share=100 * statistics.mean(run.posts) / run.billed,
        added=added,
        added_share=100 * added / run.billed,
        added_share_error=100 * error / run.billed,
        added_share_by_difference=100 * by_difference / run.billed,
        held=run.held,
        cpu=run.cpu / count,
        cpu_added=(run.cpu - off.cpu) / count,
        ended=run.ended,
        promise_kept=100 * added / run.billed <= BUDGET + NOISE if run.mode is AUTO else None,
    )
