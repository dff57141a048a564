"""Puts functions in Java and Node.js into five kinds of trouble: does the heap's witness name the right one?

Each run is a process of its own under the local Lambda, with sizes that are drawn at random. The kind and the cause of
the finding must be right in 95 % of the runs of each runtime. It writes results/heap_verdict.md.

Exit codes: 0 the promise was kept, 1 it was broken, 2 there is nothing to run it with.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from truemem_workbench.analysis.causes import find
from truemem_workbench.analysis.curves import curves_of
from truemem_workbench.analysis.drift import judge, points
from truemem_workbench.analysis.finding import Commands, Finding
from truemem_workbench.analysis.runtime_heap import readings
from truemem_workbench.lines.line import Line, parse_event
from truemem_workbench.local import Function
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.publish import ROOT, machine, markdown
from testing.environment import Environment

RESULTS = Path(__file__).with_name("results") / "heap_verdict.md"
FUNCTIONS = Path(__file__).with_name("functions") / "heap_verdict"
PRELOAD = ROOT / "layer" / "truemem" / "heap.cjs"
JVMS = "/usr/lib/jvm"
PROMISE = 0.95
SEED = 4
"""Thresholds were chosen with seeds 1 to 3."""
MEMORY_MIB = 512
LEAST, MOST, STEP = 240, 600, 60
"""Invocations of a run: until the collector has run often enough to tell, or MOST."""
MAJORS = 5
"""Major collections that a run on what is live waits for."""

KINDS = {
    "leak on the heap": (("leak",), ("leak",)),
    "lazy collector": (("lazy", "level"), ("collector", "none", "undecided")),
    "native memory": (("native", "external"), ("native", "leak")),
    "classes or code": (("classes",), ("leak",)),
    "cache that fills": (("filled",), ("cache", "none")),
}
"""What is planted: the kinds of a heap that name it, and the causes of a finding. Where RSS has not risen, there is
nothing to be lazy about; of a collector that never ran, nothing is known."""


@dataclass(frozen=True)
class Plan:
    """One run: what is planted in which runtime, with which sizes."""

    kind: str
    runtime: str
    options: Sequence[str]
    event: Mapping[str, int]

    @property
    def waits(self) -> bool:
        """True if only the collector's runs can show it."""
        return self.kind in ("leak on the heap", "cache that fills")


@dataclass(frozen=True)
class Told:
    plan: Plan
    heap: str
    """The kind of the heap, or `nothing`."""
    finding: Finding
    drift: str
    """The verdict on RSS alone."""
    lines: Sequence[str]

    @property
    def is_right(self) -> bool:
        kinds, causes = KINDS[self.plan.kind]
        return self.heap in kinds and self.finding.cause in causes


@dataclass
class Drawn:
    """Draws sizes."""

    source: random.Random = field(default_factory=random.Random)

    def size(self, low: float, high: float) -> int:
        """Small ones as often as large ones."""
        return round(float(low * (high / low) ** self.source.random()))


def plans(runtimes: Sequence[str], runs: int) -> list[Plan]:
    """So many runs of each kind for each group of runtimes."""
    made = []
    for number in range(runs):
        for kind in KINDS:
            drawn = Drawn(random.Random(f"{SEED} {number} {kind} {runtimes[0]}"))
            made.append(_plan(kind, runtimes[number % len(runtimes)], drawn))
    return made


def _plan(kind: str, runtime: str, drawn: Drawn) -> Plan:
    java = runtime.startswith("java")
    limit = 435  # 85 % of 512, as AWS's runtime
    event = {"workKiB": drawn.size(2_000, 24_000), "block": drawn.size(500, 4_000)}
    if kind == "leak on the heap":
        limit = drawn.size(128, 435)
        event["leakBytes"] = limit * drawn.size(1_200, 2_200)  # it fills the heap in 480 to 870 invocations
    elif kind == "cache that fills":
        mib = drawn.size(20, 100)
        limit = round(mib * drawn.size(20, 40) / 10) + 50
        event["keys"] = mib * 1024 * 1024 // event["block"]
        event["lookUps"] = event["keys"] // drawn.size(15, 40)
    elif kind == "native memory":
        limit, event["directBytes"] = 256, drawn.size(64_000, 400_000)
    elif kind == "classes or code":
        limit, event["classes"] = 256, drawn.size(10, 35) if java else drawn.size(60, 250)
    options = [f"-Xmx{limit}m"] if java else [f"--max-old-space-size={limit}"]
    if java and kind == "lazy collector" and drawn.source.random() < 0.3:
        options.append(f"-Xms{limit}m")
    return Plan(kind, runtime, options, event)


def run(plan: Plan, folder: Path) -> Told:
    with Environment(
        _function(plan, folder),
        user="current",  # HotSpot makes no counters for a user without a name
        memory_mib=MEMORY_MIB,
        exact=True,
        timeout_s=60,
        environment={} if plan.runtime.startswith("java") else {"NODE_OPTIONS": f"--require {PRELOAD}"},
    ) as running:
        killed = False
        while not killed and len(running.invocations) < MOST:
            for _ in range(STEP if running.invocations else LEAST):
                killed = killed or running.attempt("", **plan.event).function_error is not None
            if not plan.waits or _majors(_lines(running)) >= MAJORS:
                break
        running.local.stop()
        return told(plan, running.local.extension_stdout(running.name))


def told(plan: Plan, texts: Sequence[str]) -> Told:
    lines = [line for text in texts for line in parse_event(text)]
    curves = curves_of(lines)
    kind = curves.heap.kind if curves.heap is not None else "nothing"
    finding = find(curves, Commands(again="truemem check"))
    return Told(plan, kind, finding, judge(points(lines), MEMORY_MIB).name, texts)


def _lines(running: Environment) -> list[Line]:
    return [line for text in running.local.extension_stdout(running.name) for line in parse_event(text)]


def _majors(lines: Sequence[Line]) -> int:
    """Major collections in the later half."""
    counts = [found.collections for found in readings(lines) if found.collections is not None]
    return counts[-1] - counts[len(counts) // 2] if counts else 0


def _function(plan: Plan, folder: Path) -> Function:
    if not plan.runtime.startswith("java"):
        function = from_node_handler(f"{FUNCTIONS / 'trouble.mjs'}:handler", None, click.echo)
        *node, client, handler = function.command
        command = (*node, *plan.options, client, handler)
        return Function(command, function.task_root, function.handler, None, function.needs)
    # As AWS's runtime starts it; the first heap is 1/64 of the memory size.
    command = (
        jvms()[plan.runtime],
        *("-XX:+UseSerialGC", "-Xshare:auto", "-XX:TieredStopAtLevel=1", f"-Xms{MEMORY_MIB // 64}m"),
        *plan.options,
        *("-cp", str(folder), "Trouble"),
    )
    return Function(command, folder, "Trouble", None, (folder,))


def jvms() -> dict[str, str]:
    """The `java` of each version on this machine."""
    found = {}
    for place in sorted(Path(JVMS).glob("*/bin/java")):
        said = subprocess.run([place, "-version"], capture_output=True, text=True, check=False).stderr
        if version := re.search(r'version "(\d+)', said):
            found[f"java {version[1]}"] = str(place.resolve())
    return found


@click.command()
@click.option("--runs", default=20, show_default=True, help="Of each kind and runtime.")
def main(runs: int) -> None:
    """Run all of it: about two hours."""
    console, began = Console(stderr=True), time.monotonic()
    java = sorted(jvms()) if shutil.which("javac") else []
    node = ["nodejs"] if PRELOAD.is_file() and shutil.which("node") else []
    if not java and not node:
        console.print("there is neither a JDK, nor Node.js with the layer's preload")
        sys.exit(2)
    wanted = [plan for group in (java, node) if group for plan in plans(group, runs)]
    found: list[Told] = []
    with tempfile.TemporaryDirectory(prefix="truemem-heap-verdict-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if java:
            source = FUNCTIONS / "Trouble.java"
            subprocess.run(["javac", "--release", "17", "-d", name, source], check=True)
        for number, plan in enumerate(wanted, 1):
            found.append(last := run(plan, folder))
            mark = "right" if last.is_right else "WRONG"
            said = f"{last.heap}; {last.finding.title}"
            console.print(f"{number} of {len(wanted)}: {plan.runtime} {plan.kind}: {mark}: {said}", markup=False)
            if not last.is_right:
                console.print(f"   {plan} {len(last.lines)} lines, RSS: {last.drift}", markup=False)
    table, kept = summary(found)
    click.echo(table)
    RESULTS.write_text(_page(table, f"; {time.monotonic() - began:.0f} s"), encoding="utf-8")
    sys.exit(0 if kept else 1)


def summary(told: Sequence[Told]) -> tuple[str, bool]:
    """The table, and whether the promise was kept."""
    rows, kept = [], True
    for runtime in ("java", "nodejs"):
        whole = [each for each in told if each.plan.runtime.startswith(runtime)]
        for kind in (*KINDS, "all"):
            of = [each for each in whole if kind in (each.plan.kind, "all")]
            if not of:
                continue
            wrong = Counter(f"{each.heap}, {each.finding.cause}" for each in of if not each.is_right)
            growing = sum(each.drift in ("growing", "warming") for each in of)
            others = ", ".join(f"{count} ({name})" for name, count in wrong.most_common())
            rows.append((runtime, kind, f"{len(of)}", f"{len(of) - wrong.total()}", others, f"{growing}"))
        kept = kept and sum(each.is_right for each in whole) >= PROMISE * len(whole)
    headings = ("runtime", "planted", "runs", "right finding", "instead", "RSS alone: growing or warming")
    return markdown(headings, rows, 2), kept


def _page(table: str, lasted: str) -> str:
    versions = ", ".join(name.title() for name in sorted(jvms()))
    return f"""# Leak, or a lazy garbage collector?

`python -m benchmarks.heap_verdict`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}{lasted}.

{table}

Sizes are drawn by seed {SEED}; thresholds were chosen with others. Each run is one process under the local Lambda in
exact mode, with {MEMORY_MIB} MiB; Node.js under AWS's own client. Java: {versions} in turn, with the Serial
collector. The heap's limit is 435 MiB for the lazy collector (85 % of the memory size, as AWS's runtimes have it), 256
for native memory and classes, 1.5 to 4.5 times the cache, 128 to 435 MiB for the leak. In each invocation 2 to 24 MiB
of other objects are needed for its length. A run has {LEAST} invocations. What is live is known only after major
collections: a leak on the heap and a cache go on until the later half had {MAJORS} of them, or for {MOST} invocations.

Planted: a leak that fills the heap in 480 to 870 invocations; 64 to 400 KB of direct buffers in each invocation
(Node.js: Buffers); 10 to 35 proxies with a class loader each (Node.js: 60 to 250 compiled functions); a cache of 20 to
100 MiB with random keys. Where RSS of a lazy collector has not risen, it is right to say that the heap does not grow.
"""


if __name__ == "__main__":
    main()
