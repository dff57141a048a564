"""What the heap's figures cost: Python's probe, and Node.js's preload. Needs Node.js."""

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

from benchmarks.kit.bench import Bench, in_turn
from testing.pages import ROOT, Result, Table

TITLE = "What the heap's figures cost"
PRELOAD = ROOT / "layer" / "truemem" / "heap.cjs"
REQUEST, API = "8476a536-e9f4-11e8-9739-2dfe598c3fcd", "127.0.0.1:9"
HELD = {f"{count:,} free blocks": (count, 0) for count in (0, 1_000, 10_000, 100_000)}
HELD["1,000,000 objects of Python"] = (0, 1_000_000)
IMPORT = """
import json, logging, re, sys, time  # as AWS's runtime client does
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
send(PREFIX + "next");
"""
"""A client's requests, as Node.js tells of them."""
NOTES = """
const middle = (run, times) => {
  const took = Array.from({ length: times }, () => {
    const began = process.hrtime.bigint();
    run();
    return Number(process.hrtime.bigint() - began) / 1000;
  });
  return took.sort((a, b) => a - b)[times >> 1];
};
const note = () => send(PREFIX + REQUEST + "/response");
const first = middle(note, 1);
middle(note, 2000);
const foreign = middle(() => send("/v1/orders"), 2001) - middle(() => {}, 2001);
console.log(JSON.stringify([first, middle(note, 2001), foreign]));
"""


def micros(do: Callable[[], object], times: int) -> float:
    """Median of so many calls."""
    took = []
    for _ in range(times):
        began = time.perf_counter_ns()
        do()
        took.append((time.perf_counter_ns() - began) / 1000)
    return statistics.median(took)


def once(free_blocks: int, objects: int, folder: str) -> None:
    """In a process of its own: prints µs of one reading, right after another."""
    from layer.python.truemem_heap import CREDIT_NS, PageFile, Probe

    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    blocks = [library.malloc(2000) for _ in range(2 * free_blocks)]
    for block in blocks[::2]:  # every other one: neighbours that are free become one
        library.free(block)
    kept = [bytes(31) for _ in range(objects)]  # 64 bytes each
    probe = Probe(PageFile(folder))

    def note() -> float:
        probe._credit_ns = CREDIT_NS
        return micros(lambda: probe.note(REQUEST), 1)

    note()
    assert len(kept) == objects
    print(statistics.median(note() for _ in range(200)))


def printed(command: list[str], **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS", "TMPDIR")}
    return subprocess.run(command, env=environment | variables, check=True, capture_output=True, text=True).stdout


def of_python(folder: Path, bench: Bench) -> list[list[str]]:
    """Readings, and the import, from source: a layer's folder cannot be written to."""
    rows = []
    for words, (blocks, objects) in HELD.items():
        program = f"from benchmarks.heap import once; once({blocks}, {objects}, {str(folder)!r})"
        rows.append([f"Python: a reading, {words}", f"{float(printed([sys.executable, '-c', program])):.0f} µs"])
    shutil.copy(ROOT / "layer" / "python" / "truemem_heap.py", folder)
    variables = {"AWS_LAMBDA_RUNTIME_API": API, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    made = [json.loads(printed([sys.executable, "-c", IMPORT], **variables)) for _ in range(bench.count(15, 3))]
    ms, kib = (statistics.median(each[at] for each in made) for at in (0, 1))
    return [*rows, ["Python: the import", f"{ms:.1f} ms, {kib:.0f} KiB"]]


def of_node(folder: Path, bench: Bench) -> list[list[str]]:
    variables = {"AWS_LAMBDA_RUNTIME_API": API, "TMPDIR": str(folder)}
    preload = {"NODE_OPTIONS": f"--require {PRELOAD}"}

    def start(more: dict[str, str]) -> tuple[float, float]:
        """CPU time, ms, and the KiB that it held."""
        before = getrusage(RUSAGE_CHILDREN)
        said = printed(["node", "-e", CLIENT + "console.log(process.resourceUsage().maxRSS)"], **variables, **more)
        after = getrusage(RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), float(said)

    command = ["node", "-e", CLIENT + NOTES]
    costs = [json.loads(printed(command, **variables, **preload)) for _ in range(bench.count(11, 3))]
    first, warm, foreign = (statistics.median(each[at] for each in costs) for at in range(3))
    made = in_turn({"without": partial(start, {}), "with": partial(start, preload)}, bench.count(41, 3))
    (cpu, kib), (cpu_with, kib_with) = (
        [statistics.median(each[at] for each in made[side]) for at in (0, 1)] for side in made
    )
    return [
        ["Node.js: a reading", f"{warm:.0f} µs"],
        ["Node.js: the first one, with what is loaded for it", f"{first / 1000:.1f} ms"],
        ["Node.js: each other HTTP request of the function", f"{max(foreign, 0):.2f} µs"],
        ["Node.js: CPU time of a start, with / without", f"{cpu_with / cpu:.2f} ({cpu_with:.0f} ms)"],
        ["Node.js: memory that it adds", f"{kib_with - kib:.0f} KiB"],
    ]


def run(bench: Bench) -> Result:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        rows = [*of_python(Path(name), bench), *of_node(Path(name), bench)]
    return Result([Table("", ("", "median"), rows, f"Node.js {printed(['node', '--version']).strip()}.")])
