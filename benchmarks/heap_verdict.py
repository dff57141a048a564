"""Puts functions in Java and Node.js into five kinds of trouble: does the heap's witness name the right one?

Each run is a process of its own under the local Lambda, with sizes that are drawn at random. The kind and the cause of
the finding must be right in 95 % of the runs of each runtime. Two hours.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from truemem_workbench.analysis.causes import find
from truemem_workbench.analysis.curves import curves_of
from truemem_workbench.analysis.drift import judge, points
from truemem_workbench.analysis.finding import Commands, Finding
from truemem_workbench.analysis.runtime_heap import readings
from truemem_workbench.lines.line import Line, parse_event
from truemem_workbench.local import Function
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.kit.bench import Bench
from benchmarks.kit.pages import ROOT, Result, Table
from testing.environment import Environment

TITLE = "Leak, or a lazy garbage collector?"
FUNCTIONS = ROOT / "benchmarks" / "functions" / "heap_verdict"
PRELOAD = ROOT / "layer" / "truemem" / "heap.cjs"
RUNS, PROMISE = 20, 0.95
"""Runs of each kind and runtime, and share that must be right."""
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


class Plan(NamedTuple):
    """One run: what is planted in which runtime, with which sizes."""

    kind: str
    runtime: str
    options: Sequence[str]
    event: Mapping[str, int]


class Told(NamedTuple):
    plan: Plan
    heap: str
    """The kind of the heap, or `nothing`."""
    finding: Finding
    drift: str
    """The verdict on RSS alone."""

    @property
    def is_right(self) -> bool:
        kinds, causes = KINDS[self.plan.kind]
        return self.heap in kinds and self.finding.cause in causes


def plan_of(kind: str, runtime: str, chance: random.Random) -> Plan:
    def size(low: float, high: float) -> int:
        """Small ones as often as large ones."""
        return round(float(low * (high / low) ** chance.random()))

    java = runtime.startswith("java")
    limit = 435  # 85 % of 512, as AWS's runtime
    event = {"workKiB": size(2_000, 24_000), "block": size(500, 4_000)}
    if kind == "leak on the heap":
        limit = size(128, 435)
        event["leakBytes"] = limit * size(1_200, 2_200)  # it fills the heap in 480 to 870 invocations
    elif kind == "cache that fills":
        mib = size(20, 100)
        limit = round(mib * size(20, 40) / 10) + 50
        event["keys"] = mib * 1024 * 1024 // event["block"]
        event["lookUps"] = event["keys"] // size(15, 40)
    elif kind == "native memory":
        limit, event["directBytes"] = 256, size(64_000, 400_000)
    elif kind == "classes or code":
        limit, event["classes"] = 256, size(10, 35) if java else size(60, 250)
    options = [f"-Xmx{limit}m"] if java else [f"--max-old-space-size={limit}"]
    if java and kind == "lazy collector" and chance.random() < 0.3:
        options.append(f"-Xms{limit}m")
    return Plan(kind, runtime, options, event)


def invoked(plan: Plan, folder: Path) -> Told:
    variables = {} if plan.runtime.startswith("java") else {"NODE_OPTIONS": f"--require {PRELOAD}"}
    waits = plan.kind in ("leak on the heap", "cache that fills")  # only the collector's runs can show it
    with Environment(
        function_of(plan, folder),
        user="current",  # HotSpot makes no counters for a user without a name
        memory_mib=MEMORY_MIB,
        exact=True,
        timeout_s=60,
        environment=variables,
    ) as running:
        killed = False
        while not killed and len(running.invocations) < MOST:
            for _ in range(STEP if running.invocations else LEAST):
                killed = killed or running.attempt("", **plan.event).function_error is not None
            if not waits or majors(lines_of(running)) >= MAJORS:
                break
        running.local.stop()
        lines = lines_of(running)
    curves = curves_of(lines)
    kind = curves.heap.kind if curves.heap is not None else "nothing"
    return Told(plan, kind, find(curves, Commands(again="truemem check")), judge(points(lines), MEMORY_MIB).name)


def lines_of(running: Environment) -> list[Line]:
    return [line for text in running.local.extension_stdout(running.name) for line in parse_event(text)]


def majors(lines: Sequence[Line]) -> int:
    """Major collections in the later half."""
    counts = [found.collections for found in readings(lines) if found.collections is not None]
    return counts[-1] - counts[len(counts) // 2] if counts else 0


def function_of(plan: Plan, folder: Path) -> Function:
    if not plan.runtime.startswith("java"):
        function = from_node_handler(f"{FUNCTIONS / 'trouble.mjs'}:handler", None, lambda _: None)
        *node, client, handler = function.command
        command = (*node, *plan.options, client, handler)
        return Function(command, function.task_root, function.handler, None, function.needs)
    # As AWS's runtime starts it; the first heap is 1/64 of the memory size.
    managed = ("-XX:+UseSerialGC", "-Xshare:auto", "-XX:TieredStopAtLevel=1", f"-Xms{MEMORY_MIB // 64}m")
    command = (jvms()[plan.runtime], *managed, *plan.options, "-cp", str(folder), "Trouble")
    return Function(command, folder, "Trouble", None, (folder,))


def jvms() -> dict[str, str]:
    """The `java` of each version on this machine."""
    found = {}
    for place in sorted(Path("/usr/lib/jvm").glob("*/bin/java")):
        said = subprocess.run([place, "-version"], capture_output=True, text=True, check=False).stderr
        if version := re.search(r'version "(\d+)', said):
            found[f"java {version[1]}"] = str(place.resolve())
    return found


def run(bench: Bench) -> Result:
    java = sorted(jvms()) if shutil.which("javac") else []
    node = ["nodejs"] if PRELOAD.is_file() and shutil.which("node") else []
    wanted = []
    for runtimes in filter(None, (java, node)):
        for number in range(bench.count(RUNS)):
            for kind in KINDS:
                chance = random.Random(f"{SEED} {number} {kind} {runtimes[0]}")
                wanted.append(plan_of(kind, runtimes[number % len(runtimes)], chance))
    names = bench.chosen(f"{plan.runtime} {plan.kind}" for plan in wanted)
    wanted = [plan for plan in wanted if f"{plan.runtime} {plan.kind}" in names]
    found: list[Told] = []
    with tempfile.TemporaryDirectory(prefix="truemem-heap-verdict-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if java:
            source = FUNCTIONS / "Trouble.java"
            subprocess.run(["javac", "--release", "17", "-d", name, source], check=True)
        for plan in bench.each("runs", wanted):
            found.append(last := invoked(plan, folder))
            words = "right" if last.is_right else f"WRONG {plan}, RSS: {last.drift}"
            bench.echo(f"{plan.runtime} {plan.kind}: {last.heap}; {last.finding.title}: {words}")
    rows, broken = summary(found)
    headings = ("runtime", "planted", "runs", "right finding", "instead", "RSS alone: growing or warming")
    note = NOTE.format(versions=", ".join(version.title() for version in java))
    return Result([Table("", headings, rows, note, 2)], broken)


def summary(told: Sequence[Told]) -> tuple[list[list[str]], list[str]]:
    """Rows, and the runtimes of which the promise was not kept."""
    rows, broken = [], []
    for runtime in ("java", "nodejs"):
        whole = [each for each in told if each.plan.runtime.startswith(runtime)]
        for kind in (*KINDS, "all"):
            of = [each for each in whole if kind in (each.plan.kind, "all")]
            wrong = Counter(f"{each.heap}, {each.finding.cause}" for each in of if not each.is_right)
            growing = sum(each.drift in ("growing", "warming") for each in of)
            others = ", ".join(f"{count} ({name})" for name, count in wrong.most_common())
            if of:
                rows.append([runtime, kind, f"{len(of)}", f"{len(of) - wrong.total()}", others, f"{growing}"])
        if sum(each.is_right for each in whole) < PROMISE * len(whole):
            broken.append(f"{runtime}: wrong too often")
    return rows, broken


NOTE = f"""\
Sizes are drawn by seed {SEED}; thresholds were chosen with others. Each run is one process under the local Lambda in
exact mode, with {MEMORY_MIB} MiB; Node.js under AWS's own client. Java: {{versions}} in turn, with the Serial
collector. The heap's limit is 435 MiB for the lazy collector (85 % of the memory size, as AWS's runtimes have it), 256
for native memory and classes, 1.5 to 4.5 times the cache, 128 to 435 MiB for the leak. In each invocation 2 to 24 MiB
of other objects are needed for its length. A run has {LEAST} invocations. What is live is known only after major
collections: a leak on the heap and a cache go on until the later half had {MAJORS} of them, or for {MOST} invocations.

Planted: a leak that fills the heap in 480 to 870 invocations; 64 to 400 KB of direct buffers in each invocation
(Node.js: Buffers); 10 to 35 proxies with a class loader each (Node.js: 60 to 250 compiled functions); a cache of 20 to
100 MiB with random keys. Where RSS of a lazy collector has not risen, "the heap does not grow" is right."""
