"""Says where the time goes that misses its aim: CPU time of an invocation by part of the kernel and of CPython (samples
of perf-record(1), as root) and by module of the sidecar, and the parts of a report. For results/speed.md."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from truemem_workbench.report.members import decode
from truemem_workbench.report.parts import in_order, merged, read_pieces
from truemem_workbench.report.reader import Job, Reader
from truemem_workbench.report.steps import judge_part, read_files

from benchmarks import cpu, report
from benchmarks.contenders import EXECUTABLE, EXTENSIONS, MACHINE, OURS, UNSAVED, Contender, wrapper_of
from benchmarks.exact import LARGE
from benchmarks.publish import markdown
from benchmarks.start_profile import BYTECODE, HERTZ, REST, SAMPLE, Symbols, recorded
from layer import cpython
from layer.__main__ import default_cache
from layer.toolchain import Toolchain

INVOCATIONS, LARGE_INVOCATIONS, SAMPLED_INVOCATIONS = 400, 100, 2000
ENVIRONMENTS = 100
"""Of the report,"""
PARTS = 8
"""and the parts in which it is judged."""
LEAST = 0.02
"""Least share of a module that has a row."""

OTHER = "the rest of the kernel"
KERNEL = {
    "kernel: splice, and the loopback below it": r"_sys_(splice|vmsplice|tee)\b",
    "kernel: /proc and cgroup": r"\b(proc_\w+|kernfs_\w+|seq_read\w*|do_filp_open)\b",
    "kernel: sockets": r"_sys_(recv\w+|send\w+|read|write|accept4?|connect|socket|close|shutdown|\w+sockopt)\b",
    "kernel: waiting (epoll, timers)": r"_sys_(epoll_\w+|p?poll|p?select\w*|clock_nanosleep|futex)\b",
}
"""By the first of these that is in a sample's chain of callers."""


def sections(compared: Sequence[Contender]) -> str:
    """The profiles, as Markdown. Raises OSError, subprocess.SubprocessError and RuntimeError where perf is missing or
    not permitted."""
    return "\n\n".join((_of_cpu(compared), _of_modules(), _of_report()))


def _of_cpu(compared: Sequence[Contender]) -> str:
    program = next(Path(each.command[0]) for each in compared if each.name == UNSAVED)
    archive = cpython.build(default_cache(), Toolchain(default_cache(), print), print).archive(MACHINE)
    symbols = Symbols(program, archive)  # the image's functions are at the same places
    large = json.dumps("x" * (LARGE - 2)).encode()
    columns = {
        cpu.DEFAULT: _samples(cpu.DEFAULT, symbols),
        cpu.EXACT: _samples(cpu.EXACT, symbols),
        f"{cpu.EXACT}, 6 MB each way": _samples(cpu.EXACT, symbols, large, LARGE_INVOCATIONS),
    }
    rows = [[part, *(f"{found[part]:.3f}" for found in columns.values())] for part in (*KERNEL, OTHER, BYTECODE, REST)]
    rows.append(["**together**", *(f"{found.total():.3f}" for found in columns.values())])
    text = f"ms of CPU time of an invocation, {HERTZ:,} samples a second, which slow all of it down."
    return f"## CPU of an invocation\n\n{markdown(('', *columns), rows)}\n\n{text}"


def _samples(mode: str, symbols: Symbols, event: bytes = b'{"key":"value"}', count: int = INVOCATIONS) -> Counter[str]:
    """ms of an invocation, by part."""
    with (
        cpu.side(Contender(OURS, (EXECUTABLE,)), mode, event) as side,
        recorded("-p", str(side.extension.pid)) as chains,
    ):
        side.turn(count)
    found: Counter[str] = Counter()
    for each in re.split(r"\n\s*\n", "".join(chains).strip("\n")):
        if (sample := SAMPLE.match(each)) is None:
            continue
        address = int(sample[4], 16)
        if address >> 63:
            found[next((part for part, called in KERNEL.items() if re.search(called, each)), OTHER)] += 1
        else:
            part = symbols.group(address, sample[5])
            found[part if part == BYTECODE else REST] += 1
    return Counter({part: samples * 1000 / HERTZ / count for part, samples in found.items()})


def _of_modules() -> str:
    """By the sidecar's modules: from source, as the executable's cannot be told apart."""
    shares: dict[str, Mapping[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        for mode in (cpu.DEFAULT, cpu.EXACT):
            file = Path(folder) / mode.replace(" ", "-")
            sampled = Contender(OURS, (sys.executable, EXTENSIONS / "sampled.py"), {"SAMPLED": str(file)})
            with cpu.side(sampled, mode, wrapper=wrapper_of(EXECUTABLE)) as side:
                side.turn(SAMPLED_INVOCATIONS)
            counts = json.loads(file.read_text())
            shares[mode] = {name: count / sum(counts.values()) for name, count in counts.items()}
    names = sorted({*chain(*shares.values())}, key=lambda name: -max(each.get(name, 0) for each in shares.values()))
    rows = [
        [f"`{name}`", *(f"{100 * each.get(name, 0):.0f} %" for each in shares.values())]
        for name in names
        if max(each.get(name, 0) for each in shares.values()) >= LEAST
    ]
    text = f"From source, {SAMPLED_INVOCATIONS:,} invocations. System calls count for the module that makes them."
    return f"## The same by module of the sidecar\n\n{markdown(('', *shares), rows)}\n\n{text}"


def _of_report() -> str:
    """CPU time by that of one process that only parses the lines."""
    with tempfile.TemporaryDirectory() as folder:
        files = report.write(Path(folder), ENVIRONMENTS)
        parse = _children_s([sys.executable, "-c", report.PARSES, *map(str, files)])
        bare = _children_s([sys.executable, "-c", "pass"])
        start = _children_s([sys.executable, "-c", "import truemem_workbench.report.collect"]) - bare
        texts = files[0].read_bytes().splitlines()
        decoding = _own_s(lambda: [None for text in texts if not decode(text)], 3)
        decoding *= ENVIRONMENTS * report.INVOCATIONS / len(texts)
        columns = _own_s(lambda: sum(len(part.rows) for part in Reader(Job()).read(files)), 3)
        place = Path(folder) / "read"
        place.mkdir()
        divided = _own_s(lambda: read_files(files, Job(), place / "0", PARTS))
        judging = _own_s(
            lambda: [judge_part(merged(chain.from_iterable(map(read_pieces, each))), None) for each in in_order(place)]
        )
    parts = {
        "decoding the lines (msgspec)": decoding,
        "reading, and making columns": columns - decoding,
        "dividing by environment, writing": divided - columns,
        "judging": judging,
        "start: imports, whatever the number of lines": start,
    }
    rows = [[name, f"{seconds / parse:.2f}"] for name, seconds in parts.items()]
    rows.append(["**together**", f"{sum(parts.values()) / parse:.2f}"])
    lines = f"{ENVIRONMENTS * report.INVOCATIONS:,} lines"
    text = f"CPU time by that of `json.loads` of each line, {lines}. All but the start is divided among the cores."
    return f"## `truemem report`\n\n{markdown(('', 'in parse times'), rows)}\n\n{text}"


def _own_s(work: Callable[[], object], times: int = 1) -> float:
    """CPU seconds, the least of so many times."""
    took = []
    for _ in range(times):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def _children_s(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
