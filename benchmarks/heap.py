"""What the heap's figures cost: the in-process probe of Python, the preload of Node.js, reading a JVM's counters.

Needs Node.js and a JDK.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from truemem.heaps.java import LOOKS, HsperfFiles
from truemem.heaps.page import HeapPages, parse
from truemem.linux.process_table import FUNCTION, Process
from truemem.linux.procfs import Procfs
from truemem.support import minijson

from benchmarks.kit.bench import Bench, in_turn
from benchmarks.kit.pages import ROOT, Result, Table

TITLE = "What the heap's figures cost"
PRELOAD = ROOT / "layer" / "truemem" / "heap.cjs"
REQUEST, API = "8476a536-e9f4-11e8-9739-2dfe598c3fcd", "127.0.0.1:9"
JVM = """
public class Waits {
    public static void main(String[] arguments) throws Exception {
        System.gc();
        System.out.println("ready");
        System.in.read();
    }
}
"""
HELD = {f"{count:,} free blocks": (count, 0) for count in (0, 1_000, 10_000, 100_000)}
HELD["1,000,000 objects of Python"] = (0, 1_000_000)

IMPORT = """
import json, sys, time
import logging, re  # as AWS's runtime client does
if sys.argv[1] == "with":
    import ctypes
def rss():  # the sum of VmRSS is behind by a batch of pages
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Rss:"))
rss()
before, began = rss(), time.perf_counter()
import truemem_heap
took = time.perf_counter() - began
print(json.dumps([took * 1000, rss() - before]))
"""


CLIENT = f"""
require("http"); // as AWS's client does
const {{ channel }} = require("diagnostics_channel");
const getHeader = () => "{API}";
const told = channel("http.client.request.start");
const send = (path) => told.publish({{ request: {{ path, getHeader }} }});
const PREFIX = "/2018-06-01/runtime/invocation/", REQUEST = "{REQUEST}";
"""
"""A client's requests, as Node.js tells of them."""

NOTES = (
    CLIENT
    + """
const middle = (run, times) => {
  const took = Array.from({ length: times }, () => {
    const began = process.hrtime.bigint();
    run();
    return Number(process.hrtime.bigint() - began) / 1000;
  });
  return took.sort((a, b) => a - b)[times >> 1];
};
const note = () => send(PREFIX + REQUEST + "/response");
const other = Buffer.alloc(64 << 20);
const cold = () => {
  for (let at = 0; at < other.length; at += 64) other[at] ^= 1;
  const began = process.hrtime.bigint();
  note();
  return Number(process.hrtime.bigint() - began) / 1000;
};
const first = middle(() => { send(PREFIX + "next"); note(); }, 1);
middle(note, 2000);
const colds = Array.from({ length: 31 }, cold).sort((a, b) => a - b);
const warm = middle(note, 2001);
const foreign = middle(() => send("/v1/orders"), 2001) - middle(() => {}, 2001);
const page = require("fs").readFileSync(`${process.env.TMPDIR}/.truemem-heap-${process.pid}`, "latin1");
console.log(JSON.stringify({ first, warm, cold: colds[15], foreign, page }));
"""
)

START = CLIENT + 'send(PREFIX + "next"); console.log(process.resourceUsage().maxRSS);'

GARBAGE = (
    CLIENT
    + """
send(PREFIX + "next");
let kept = [], turns = 0;
(function turn() {
  for (let n = 0; n < 20000; n += 1) kept.push({ n, name: `object ${n}` });
  if (kept.length > 100000) kept = [];
  if ((turns += 1) < 1000) setImmediate(turn);
})();
"""
)
"""Some 300 collections, half a second. Each is told to the preload in the next turn."""


def micros(do: Callable[[], object], times: int) -> float:
    """Median of so many calls."""
    took = []
    for _ in range(times):
        began = time.perf_counter_ns()
        do()
        took.append((time.perf_counter_ns() - began) / 1000)
    return statistics.median(took)


def once(free_blocks: int, objects: int, folder: str) -> None:
    """In a process of its own: prints µs of one note, right after another, and when its memory is out of the caches."""
    from layer.python.truemem_heap import CREDIT_NS, Page, Probe

    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    blocks = [library.malloc(2000) for _ in range(2 * free_blocks)]
    for block in blocks[::2]:  # every other one: neighbours that are free become one
        library.free(block)
    kept = [bytes(31) for _ in range(objects)]  # 64 bytes each
    probe, other = Probe(Page(folder)), bytearray(64 << 20)

    def note() -> float:
        probe._credit_ns = CREDIT_NS
        return micros(lambda: probe.note(REQUEST), 1)

    def cold() -> float:
        for at in range(0, len(other), 64):
            other[at] ^= 1
        return note()

    note()
    assert len(kept) == objects
    print(json.dumps([statistics.median(way() for _ in range(times)) for way, times in ((note, 200), (cold, 15))]))


def printed(command: list[str], **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS", "TMPDIR")}
    return subprocess.run(command, env=environment | variables, check=True, capture_output=True, text=True).stdout


def of_python(folder: Path, bench: Bench) -> list[list[str]]:
    """Readings, the sidecar's look for them, and the import, from source: a layer's folder cannot be written to."""
    from layer.python.truemem_heap import Page

    rows = []
    for words, held in HELD.items():
        program = f"from benchmarks.heap import once; once({held[0]}, {held[1]}, {str(folder)!r})"
        warm, cold = json.loads(printed([sys.executable, "-c", program]))
        rows.append([f"a reading, {words}", f"{warm:.0f} µs", f"{cold:.0f} µs"])
    pages = HeapPages({b"TMPDIR": bytes(folder)})
    names = ("children", "inUse", "held", "mapped", "blocks", "gc0", "gc1", "gc2", "threads")
    Page(str(folder)).put(REQUEST, dict.fromkeys(names, 1000))
    for words, pid in (("the sidecar's look for it", os.getpid()), ("the same, where no process has the probe", 1)):
        took = micros(lambda pid=pid: pages.find(pages.read([pid]), REQUEST, 0), 500)  # type: ignore[misc]
        rows.append([words, f"{took:.0f} µs", ""])
    shutil.copy(ROOT / "layer" / "python" / "truemem_heap.py", folder)
    variables = {"AWS_LAMBDA_RUNTIME_API": API, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    for how, words in (("with", "in a function that has ctypes already"), ("without", "in one that has not")):
        command = [sys.executable, "-c", IMPORT, how]
        made = [json.loads(printed(command, **variables)) for _ in range(bench.count(15, 3))]
        ms, kib = (statistics.median(each[at] for each in made) for at in (0, 1))
        rows.append([f"the import, {words}", f"{ms:.1f} ms, {kib:.0f} KiB", ""])
    return rows


def of_node(folder: Path, bench: Bench) -> list[list[str]]:
    variables = {"AWS_LAMBDA_RUNTIME_API": API, "TMPDIR": str(folder)}
    preload = {"NODE_OPTIONS": f"--require {PRELOAD}"}

    def spent(program: str, more: dict[str, str]) -> tuple[float, float]:
        """CPU time, ms, and the KiB that it printed."""
        before = getrusage(RUSAGE_CHILDREN)
        said = printed(["node", "-e", program], **variables, **more)
        after = getrusage(RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), float(said or 0)

    def compared(program: str, times: int) -> tuple[float, float, float]:
        """By turns: ratio of the CPU time, ms with the preload, and KiB more."""
        sides = {"without": partial(spent, program, {}), "with": partial(spent, program, preload)}
        made = in_turn(sides, times)
        (cpu, kib), (cpu_with, kib_with) = (
            [statistics.median(each[at] for each in made[side]) for at in (0, 1)] for side in sides
        )
        return cpu_with / cpu, cpu_with, kib_with - kib

    command = ["node", "-e", NOTES]
    costs = [json.loads(printed(command, **variables, **preload)) for _ in range(bench.count(11, 3))]
    cost = {name: statistics.median(each[name] for each in costs) for name in ("first", "warm", "cold", "foreign")}
    start, start_ms, added = compared(START, bench.count(41, 3))
    collecting, _, _ = compared(GARBAGE, bench.count(11, 3))
    heap = parse(costs[0]["page"].encode(), REQUEST, 0)
    assert heap is not None, "the page has no reading"
    return [
        ["a reading", f"{cost['warm']:.0f} µs"],
        ["the same, when its memory is out of the caches", f"{cost['cold']:.0f} µs"],
        ["the first one, with what is loaded for it", f"{cost['first'] / 1000:.1f} ms"],
        ["each other HTTP request of the function", f"{max(cost['foreign'], 0):.2f} µs"],
        ["CPU time of a start, with / without", f"{start:.2f} ({start_ms:.0f} ms)"],
        ["memory that it adds", f"{added:.0f} KiB"],
        ["CPU time of a function that does nothing but collect, with / without", f"{collecting:.2f}"],
        ["on the line", f"{len(minijson.dumps({'heap': heap.document()})) - 1} bytes"],
    ]


def of_java(folder: Path) -> list[list[str]]:
    def process(pid: int) -> Process:
        return Process(pid, 1, 1, FUNCTION, Procfs().process(pid))

    def looks(pid: int) -> tuple[float, float]:
        """Those of a sidecar that has just begun, and later ones."""
        of, begun, files = process(pid), iter([HsperfFiles() for _ in range(500)]), HsperfFiles()
        first = micros(lambda: next(begun).heap([of]), 500)
        for _ in range(LOOKS):
            files.heap([of])
        return first, micros(lambda: files.heap([of], files.take()), 500)

    source = folder / "Waits.java"
    source.write_text(JVM)
    command = ["java", "-XX:+UseSerialGC", "-Xmx64m", str(source)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found, read = looks(child.pid)
        files = HsperfFiles()
        files.heap([process(child.pid)])
        taken = micros(files.take, 500)
        child.communicate(b"\n")
    absent, known = looks(os.getpid())
    return [
        ["a JVM's counters are found", f"{found:.0f} µs"],
        ["they are read again, as the window closes", f"{taken:.1f} µs"],
        ["the same, and what they say", f"{read:.0f} µs"],
        [f"a function that is no JVM: each of the first {LOOKS} looks", f"{absent:.0f} µs"],
        ["later ones", f"{known:.1f} µs"],
    ]


def run(bench: Bench) -> Result:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        python = Table("Python", ("", "warm", "cold"), of_python(Path(name), bench), "Cold: after 64 MiB were touched.")
        node = Table("Node.js", ("", "Node.js"), of_node(Path(name), bench))
        java = Table("Java", ("", "time"), of_java(Path(name)))
    versions = [printed([program, "--version"]).partition("\n")[0] for program in ("node", "java")]
    return Result([python, node, java], note=f"Medians. Node.js {', '.join(versions)}.")
