"""Measures which peaks of functions with threads are figures, and which are intervals, in exact mode.

The kernel's watermark can miss what threads touch while another one unmaps. So a record of a process with threads may
be an interval. Real libraries and runtimes show how often it is, how wide, and how far the watermark was from the
truth: the kernel's own trace of each change of RSS (kmem:rss_stat), as root. Writes results/threads.md and the table of
docs/how-it-measures.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as replace_in
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from truemem_workbench.local import Function
from truemem_workbench.local.configuration.function import with_project_python
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.accuracy import percentile
from benchmarks.contenders import EXECUTABLE
from benchmarks.publish import ROOT, exit_if_broken, machine, markdown, measuring, replace, shown
from testing.environment import SLACK_MIB, Environment, Record

RESULTS = Path(__file__).with_name("results") / "threads.md"
FUNCTIONS = Path(__file__).with_name("functions") / "threaded"
SAMPLE = ROOT / "sample_function" / "app.py"
MEMORY_MIB = 1769
WARM_UP = 3
"""Invocations that load modules and fill caches."""
MEMBERS = {"MM_FILEPAGES": "RssFile", "MM_ANONPAGES": "RssAnon", "MM_SHMEMPAGES": "RssShmem"}
CHANGE = re.compile(r"mm_id=(\d+) curr=\d type=(\w+) size=(-?\d+)B")

ORDINARY = ["plain_json", "hashing", "regex", "sqlite", "zipped", "rows", "decimals", "sorting", "caching", "spooled"]
THREADED = [
    "pool",
    "numpy_small",
    "numpy_large",
    "onnx_run",
    "onnx_open",
    "pandas_group",
    "duckdb_query",
    "pillow_pool",
]
NODE = ["small", "json", "buffers", "objects", "compress"]
JAVA = ["small", "blocks", "objects"]


@dataclass(frozen=True)
class Row:
    """One function. Sizes in MiB."""

    name: str
    group: str
    invocations: int
    exact: int
    width_p50: float | None
    """Of the intervals,"""
    width_max: float | None
    rss: float
    """and the function's peak beside them, at the median."""
    error: float | None
    """Most by which the truth was above an exact figure,"""
    missed: float | None
    """or above the watermark, in any record; None where it could not be traced."""
    outside: int | None
    """Truths above the upper bound."""


class Trace:
    """The kernel's trace of RSS, of one process and all its threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def curve(self, pid: int, run: Callable[[], object]) -> list[float]:
        """RSS of the process, MiB, from before `run` until it is over: each level."""
        level = status(pid)
        self.write("set_event_pid", " ".join(os.listdir(f"/proc/{pid}/task")))  # noqa: PTH208
        self.write("trace", "")
        self.write("events/kmem/rss_stat/enable", "1")
        try:
            run()
        finally:
            self.write("events/kmem/rss_stat/enable", "0")
        changes: dict[str, list[tuple[str, int]]] = {}
        for line in (self._folder / "trace").read_text(errors="replace").splitlines():
            if (found := CHANGE.search(line)) and found[2] in MEMBERS:
                changes.setdefault(found[1], []).append((MEMBERS[found[2]], int(found[3]) // 1024))
        levels = [sum(level.values()) / 1024]
        for member, kib in max(changes.values(), key=len, default=[]):  # its own, not a child's
            level[member] = kib
            levels.append(sum(level.values()) / 1024)
        return [*levels, sum(status(pid).values()) / 1024]


def status(pid: int) -> dict[str, int]:
    """RSS of a process by its parts, KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    parts = {name: re.search(rf"{name}:\s+(\d+)", text) for name in MEMBERS.values()}
    return {name: int(found[1]) if found else 0 for name, found in parts.items()}


@contextmanager
def tracing() -> Iterator[Trace | None]:
    """None where the kernel cannot be traced."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() or subprocess.run(["mount", "-t", "tracefs", "nodev", folder], check=False).returncode:
            yield None
            return
        try:
            trace = Trace(Path(folder))
            trace.write("buffer_size_kb", "65536")
            trace.write("options/event-fork", "1")
            yield trace
            trace.write("set_event_pid", "")
        finally:
            subprocess.run(["umount", folder], check=False)


def truth(record: Record, levels: Sequence[float]) -> float:
    """The highest level (MiB) from the one on that the record's window began with: after a freeze, a collector may give
    memory back before the event is there."""
    begins = [number for number, level in enumerate(levels) if level <= record.baselineRSS + SLACK_MIB]
    return max(levels[begins[0] if begins else 0 :])


def claims(record: Record) -> bool:
    """Is its peak a figure?"""
    return record.method == "vmhwm" and not record.raced


def records(
    function: Function,
    events: Sequence[Mapping[str, object]],
    variables: Mapping[str, str],
    trace: Trace | None,
) -> tuple[list[Record], list[float]]:
    """Of all invocations but the first ones, with the truths (MiB) where they can be traced."""
    curves = []
    with Environment(
        function, sidecar=EXECUTABLE, memory_mib=MEMORY_MIB, exact=True, user="current", environment=variables
    ) as environment:
        runtime = environment.local.processes

        def invoke(event: Mapping[str, object]) -> None:
            made = environment.local.invoke(dict(event))
            assert made.function_error is None, made.payload

        for number, event in enumerate(events):
            if trace is None or number < WARM_UP:
                invoke(event)
            else:
                curves.append(trace.curve(runtime()["runtime"], lambda event=event: invoke(event)))  # type: ignore[misc]
        made = environment.records()[WARM_UP:]
    return made, [truth(record, levels) for record, levels in zip(made, curves, strict=False)]


def row(name: str, group: str, lines: Sequence[Record], truths: Sequence[float]) -> Row:
    exact = [claims(line) for line in lines]
    widths = [
        (MEMORY_MIB if line.peakUpper is None else line.peakUpper) - line.peakLower
        for line, known in zip(lines, exact, strict=True)
        if not known
    ]
    pairs = list(zip(lines, truths, exact, strict=True)) if truths else []
    error = max((truth - line.PeakRSS for line, truth, known in pairs if known), default=0.0)
    missed = max((truth - line.PeakRSS for line, truth, _ in pairs), default=0.0)
    return Row(
        name,
        group,
        len(lines),
        sum(exact),
        round(percentile(widths, 50), 1) if widths else None,
        round(max(widths), 1) if widths else None,
        round(percentile([line.PeakRSS for line in lines], 50), 1),
        round(max(error, 0), 2) if truths else None,
        round(max(missed, 0), 2) if truths else None,
        sum(truth > (line.peakUpper or MEMORY_MIB) + SLACK_MIB for line, truth, _ in pairs) if truths else None,
    )


def functions(folder: Path, python: str | None) -> Iterator[tuple[str, str, Function, list[dict[str, object]]]]:
    """Name, group, function, and the event of each kind of work; what is not installed here is left out."""
    own = Function.from_handler(f"{FUNCTIONS / 'work.py'}:handler")
    for name in (*ORDINARY, *THREADED):
        yield name, "Python, one thread" if name in ORDINARY else "Python, with threads", own, [{"work": name}]
    if python is not None:
        yield (
            "torch_convolution",
            "Python, with threads",
            with_project_python(own, python)[0],
            [{"work": "torch_convolution"}],
        )
    sample = Function.from_handler(f"{SAMPLE}:handler")
    yield "the sample", "Python, with threads", sample, [{"model": 0, "batch": batch} for batch in (1, 64, 512)]
    if shutil.which("node"):
        node = from_node_handler(f"{FUNCTIONS / 'work.mjs'}:handler", None, click.echo)
        for name in NODE:
            yield name, "Node.js", node, [{"work": name}]
    if shutil.which("javac"):
        subprocess.run(["javac", "-d", str(folder), str(FUNCTIONS / "Work.java")], check=True)
        command = ("java", "-Xmx512m", "-cp", str(folder), "Work")
        for name in JAVA:
            yield name, "Java", Function(command, folder, "Work", None, (folder,)), [{"work": name}]


HEADINGS = (
    "",
    "",
    "figures",
    "width p50 / max",
    "of a peak of",
    "exact: max error",
    "missed",
    "outside",
)


def cells(row: Row) -> list[str]:
    def two(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    width = "" if row.width_p50 is None else f"{row.width_p50} / {row.width_max}"
    outside = "" if row.outside is None else f"{row.outside}"
    return [
        *(row.group, row.name, f"{row.exact} of {row.invocations}", width, f"{row.rss:.0f}"),
        *(two(row.error), two(row.missed), outside),
    ]


def publish(rows: Sequence[Row]) -> None:
    table = markdown(HEADINGS, [cells(each) for each in rows], text_columns=2)
    RESULTS.write_text(
        f"# Peaks of functions with threads\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n"
        f"{__doc__ or ''}".partition("Writes results")[0].rstrip()
        + "\n\nExact mode. Figures: records whose peak is one figure, `vmhwm`; the others are intervals, so wide. "
        "MiB. Error: most by which the truth was above a figure; missed: above `PeakRSS` of any record; outside: "
        f"truths above `peakUpper`, {SLACK_MIB} MiB of the kernel's bookkeeping allowed.\n\n{table}\n"
    )
    groups = dict.fromkeys(each.group for each in rows)
    short = []
    for group in groups:
        of = [each for each in rows if each.group == group]
        total = sum(each.invocations for each in of)
        widths = [each.width_p50 for each in of if each.width_p50 is not None]
        short.append(
            [
                f"{group}: {len(of)} functions",
                f"{100 * sum(each.exact for each in of) / total:.0f} %",
                f"{percentile(widths, 50):.1f}" if widths else "",
                f"{max(each.error or 0 for each in of):.2f}",
            ]
        )
    heads = ("", "figures", "width of the others, median", "figures: max error")
    replace(ROOT / "docs" / "how-it-measures.md", "threads", markdown(heads, short))


@click.command(help=__doc__)
@click.option("--invocations", default=20, show_default=True, help="Of each function.")
@click.option("--python", help="An interpreter that has PyTorch.")
def main(invocations: int, python: str | None) -> None:
    """See the module."""
    rows: list[Row] = []
    variables = {"MODEL_COUNT": "2"}
    with measuring() as bar, tempfile.TemporaryDirectory(dir="/tmp") as name, tracing() as trace:
        Path(name).chmod(0o755)
        known = list(functions(Path(name), python))
        advance = bar("functions", len(known))
        for title, group, function, kind in known:
            events = [kind[number % len(kind)] for number in range(WARM_UP + invocations)]
            lines, _ = records(function, events, variables, None)
            traced, truths = records(function, events, variables, trace) if trace else (lines, [])
            judged = row(title, group, traced, truths)
            made = row(title, group, lines, [])
            rows.append(replace_in(made, error=judged.error, missed=judged.missed, outside=judged.outside))
            advance()
    Console(width=170).print(shown("Functions with threads, MiB", HEADINGS, [cells(each) for each in rows]))
    publish(rows)
    exit_if_broken([each.name for each in rows if each.outside or (each.error or 0) > SLACK_MIB])


if __name__ == "__main__":
    main()
