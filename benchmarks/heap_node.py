"""Measures what the preload costs in Node.js (layer/truemem/heap.cjs). Writes a table of results/heap.md.

Exit codes: 0 measured, 1 not measured.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
from resource import RUSAGE_CHILDREN, getrusage

import click
from truemem.heaps.page import parse
from truemem.support import minijson

from benchmarks.publish import ROOT, machine, markdown, replace

PAGE = ROOT / "benchmarks" / "results" / "heap.md"
BY = "python -m benchmarks.heap_node"
PRELOAD = ROOT / "layer" / "truemem" / "heap.cjs"
REQUEST = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
API = "127.0.0.1:9"
STARTS = 41

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


def ran(node: str, program: str, folder: str, *, preload: bool) -> str:
    """What the program prints."""
    hidden = ("NODE_OPTIONS", "AWS_LAMBDA_RUNTIME_API")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    variables |= {"AWS_LAMBDA_RUNTIME_API": API, "TMPDIR": folder}
    if preload:
        variables["NODE_OPTIONS"] = f"--require {PRELOAD}"
    return subprocess.run([node, "-e", program], env=variables, check=True, capture_output=True, text=True).stdout


def compared(node: str, program: str, folder: str, times: int) -> tuple[float, float, float]:
    """Run by turns without and with the preload. Returns the medians' ratio of CPU time, the ms of CPU time with it,
    and the KiB that it adds."""
    cpu: dict[bool, list[float]] = {False: [], True: []}
    kib: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(times):
        for preload in (False, True):
            before = getrusage(RUSAGE_CHILDREN)
            said = ran(node, program, folder, preload=preload)
            after = getrusage(RUSAGE_CHILDREN)
            cpu[preload].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            kib[preload].append(float(said or 0))
    without, having = (statistics.median(cpu[preload]) for preload in (False, True))
    return having / without, having * 1000, statistics.median(kib[True]) - statistics.median(kib[False])


@click.command(help=__doc__)
def main() -> None:
    """See the module."""
    node = shutil.which("node")
    if node is None:
        raise click.ClickException("no node on the path")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        costs = [json.loads(ran(node, NOTES, folder, preload=True)) for _ in range(11)]
        start, start_ms, added = compared(node, START, folder, STARTS)
        collecting, _, _ = compared(node, GARBAGE, folder, 11)
    cost = {name: statistics.median(each[name] for each in costs) for name in ("first", "warm", "cold", "foreign")}
    heap = parse(costs[0]["page"].encode(), REQUEST, 0)
    assert heap is not None, "the page has no reading"
    line = len(minijson.dumps({"heap": heap.document()})) - 1
    rows = [
        ["a reading", f"{cost['warm']:.0f} µs"],
        ["the same, when its memory is out of the caches", f"{cost['cold']:.0f} µs"],
        ["the first one, with what is loaded for it", f"{cost['first'] / 1000:.1f} ms"],
        ["each other HTTP request of the function", f"{max(cost['foreign'], 0):.2f} µs"],
        ["CPU time of a start, with / without", f"{start:.2f} ({start_ms:.0f} ms)"],
        ["memory that it adds", f"{added:.0f} KiB"],
        ["CPU time of a function that does nothing but collect, with / without", f"{collecting:.2f}"],
        ["on the line", f"{line} bytes"],
    ]
    table = markdown(["", "Node.js"], rows)
    version = subprocess.run([node, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    replace(PAGE, "cost of Node.js", f"{table}\n\nMedians, Node.js {version}, on {machine()}.", by=BY)
    click.echo(table)


if __name__ == "__main__":
    main()
