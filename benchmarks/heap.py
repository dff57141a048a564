"""Measures what the in-process probe costs (layer/python/truemem_heap.py), and reading a JVM's counters. Writes
two tables of results/heap.md. Needs a JDK.

Exit codes: 0 measured, 1 not measured.
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
from pathlib import Path

import click

from benchmarks.publish import ROOT, machine, markdown, replace

PAGE = ROOT / "benchmarks" / "results" / "heap.md"
BY = "python -m benchmarks.heap"
PROBE = ROOT / "layer" / "python"
REQUEST = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
JVM = """
public class Waits {
    public static void main(String[] arguments) throws Exception {
        System.gc();
        System.out.println("ready");
        System.in.read();
    }
}
"""
FREE_BLOCKS = (0, 1_000, 10_000, 100_000)
OBJECTS = (1_000_000,)
"""Python's own blocks, each of 64 bytes."""

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


def once(*, free_blocks: int, objects: int, folder: str) -> dict[str, float]:
    """In a process of its own: µs of one note, right after another, and when its memory is out of the caches."""
    from layer.python.truemem_heap import CREDIT_NS, Page, Probe

    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    blocks = [library.malloc(2000) for _ in range(2 * free_blocks)]
    for block in blocks[::2]:  # every other one: neighbours that are free become one
        library.free(block)
    kept = [bytes(31) for _ in range(objects)]  # 64 bytes each
    probe = Probe(Page(folder))
    other = bytearray(64 << 20)

    def note() -> float:
        probe._credit_ns = CREDIT_NS
        began = time.perf_counter_ns()
        probe.note(REQUEST)
        return (time.perf_counter_ns() - began) / 1000

    def cold() -> float:
        for at in range(0, len(other), 64):
            other[at] ^= 1
        return note()

    note()
    assert len(kept) == objects
    return {"warm": middle(note, 200), "cold": middle(cold, 15)}


def middle(measure: Callable[[], float], times: int) -> float:
    return statistics.median(measure() for _ in range(times))


def sidecar(folder: Path) -> dict[str, float]:
    """µs of the sidecar's look for a page, if it is there and if not."""
    from truemem.heaps.page import HeapPages

    from layer.python.truemem_heap import Page

    pages = HeapPages({b"TMPDIR": bytes(folder)})
    names = ("children", "inUse", "held", "mapped", "blocks", "gc0", "gc1", "gc2", "threads")
    Page(str(folder)).put(REQUEST, dict.fromkeys(names, 1000))

    def look(pid: int) -> float:
        began = time.perf_counter_ns()
        pages.find(pages.read([pid]), REQUEST, 0)
        return (time.perf_counter_ns() - began) / 1000

    return {"there": middle(lambda: look(os.getpid()), 500), "absent": middle(lambda: look(1), 500)}


def jvm(folder: Path) -> list[list[str]]:
    """The rows about a JVM's counters: µs each."""
    from truemem.heaps.java import LOOKS, HsperfFiles
    from truemem.linux.process_table import FUNCTION, Process
    from truemem.linux.procfs import Procfs

    def micros(do: Callable[[], object]) -> float:
        def once() -> float:
            began = time.perf_counter_ns()
            do()
            return (time.perf_counter_ns() - began) / 1000

        once()
        return middle(once, 500)

    def looks(pid: int) -> tuple[float, float]:
        """Those of a sidecar that has just begun, and later ones."""
        process = Process(pid, 1, 1, FUNCTION, Procfs().process(pid))
        begun = iter([HsperfFiles() for _ in range(501)])
        first = micros(lambda: next(begun).heap([process]))
        files = HsperfFiles()
        for _ in range(LOOKS):
            files.heap([process])
        return first, micros(lambda: files.heap([process], files.take()))

    source = folder / "Waits.java"
    source.write_text(JVM)
    command = ["java", "-XX:+UseSerialGC", "-Xmx64m", str(source)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found, read = looks(child.pid)
        files = HsperfFiles()
        files.heap([Process(child.pid, 1, 1, FUNCTION, Procfs().process(child.pid))])
        taken = micros(files.take)
        child.communicate(b"\n")
    absent, known = looks(os.getpid())
    return [
        ["a JVM's counters are found", f"{found:.0f} µs"],
        ["they are read again, as the window closes", f"{taken:.1f} µs"],
        ["the same, and what they say", f"{read:.0f} µs"],
        [f"a function that is no JVM: each of the first {LOOKS} looks", f"{absent:.0f} µs"],
        ["later ones", f"{known:.1f} µs"],
    ]


def imported(how: str, folder: str) -> tuple[float, float]:
    """Median ms and KiB of the import, from source: a layer's folder cannot be written to."""
    shutil.copy(PROBE / "truemem_heap.py", folder)
    environment = {
        **os.environ,
        "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": folder,
    }
    command = [sys.executable, "-c", IMPORT, how]
    outputs = [
        json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
        for _ in range(15)
    ]
    return statistics.median(ms for ms, _ in outputs), statistics.median(kib for _, kib in outputs)


@click.command(help=__doc__)
@click.option("--child", type=(int, int), hidden=True)
@click.option("--folder", hidden=True)
def main(child: tuple[int, int] | None, folder: str) -> None:
    """See the module."""
    if child is not None:
        free_blocks, objects = child
        click.echo(json.dumps(once(free_blocks=free_blocks, objects=objects, folder=folder)))
        return
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        rows = []
        children = [((count, 0), f"{count:,} free blocks") for count in FREE_BLOCKS]
        children += [((0, count), f"{count:,} objects of Python") for count in OBJECTS]
        for (free_blocks, objects), words in children:
            child_options = ["--child", str(free_blocks), str(objects), "--folder", name]
            command = [sys.executable, "-m", "benchmarks.heap", *child_options]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            cost = json.loads(done.stdout)
            rows.append([f"a reading, {words}", f"{cost['warm']:.0f} µs", f"{cost['cold']:.0f} µs"])
        look = sidecar(Path(name))
        rows.append(["the sidecar's look for it", f"{look['there']:.0f} µs", ""])
        rows.append(["the same, where no process has the probe", f"{look['absent']:.0f} µs", ""])
        for how, words in (("with", "in a function that has ctypes already"), ("without", "in one that has not")):
            ms, kib = imported(how, name)
            rows.append([f"the import, {words}", f"{ms:.1f} ms, {kib:.0f} KiB", ""])
        java = markdown(["", "time"], jvm(Path(name)))
    table = markdown(["", "warm", "cold"], rows)
    version = subprocess.run(["java", "--version"], check=True, capture_output=True, text=True).stdout.split("\n")[0]
    replace(PAGE, "java-cost", f"{java}\n\nMedians, on {machine()}, {version}.", by=BY)
    replace(PAGE, "cost", f"{table}\n\nMedians, on {machine()}.", by=BY)
    click.echo(f"{table}\n\n{java}")


if __name__ == "__main__":
    main()
