"""Measures which peaks are figures, and which are intervals: functions of one thread on each runtime, and with threads.

The kernel's watermark can miss what threads touch while another one unmaps. So a record of a process with threads may
be an interval. Runtimes have threads of their own where the function has one: AWS's client for Python from 3.12 on asks
for each event from a second one. The kernel's own trace of each change of RSS (kmem:rss_stat, as root) has the truth.
Each runtime is measured idle and beside 16 busy processes, in exact and in default mode, in an environment that is
renewed every 200 invocations. Writes results/threads.md and the tables of docs/how-it-measures.md.

Exit codes: 0 every promise was kept, 1 one was broken, 2 it could not be measured.
"""

from __future__ import annotations

import math
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from rich.console import Console
from truemem_workbench.local import BadInput, Function, LocalLambda
from truemem_workbench.local.configuration.function import with_project_python
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.accuracy import percentile
from benchmarks.contenders import EXECUTABLE
from benchmarks.load import busy
from benchmarks.publish import ROOT, exit_if_broken, machine, markdown, measuring, replace, shown
from benchmarks.runtimes import ORDINARY, PYTHON_WORK, SOURCES, Row, Runtime, java, rows
from testing.environment import SLACK_MIB, SOURCE, Environment, Record
from testing.installs import Missing

RESULTS = Path(__file__).with_name("results") / "threads.md"
SAMPLE = ROOT / "sample_function" / "app.py"
MEMORY_MIB = 1769
WARM_UP = 3
"""Invocations of a function with threads that load modules and fill caches."""
LOADS = {"idle": 0, "load 16": 16}
"""Busy processes beside the function."""
MODES = ("exact", "default")
LIFE = 200
"""Invocations of an environment."""
OTHERS = 4
"""Default mode, and the sidecar of before, have one record for so many of exact mode."""
LIMIT_S = 300
"""Of init and of an invocation: none reaches it under load."""
AT_ONCE = 4
"""Environments that are measured at the same time beside busy processes: alone, each would wait for its turn."""
BEFORE, NOW = "before", "now"
WITH_THREADS = "with threads"
"""Name of the table of functions with threads."""

THREADED = (
    *("pool", "numpy_small", "numpy_large", "onnx_run", "onnx_open", "pandas_group", "duckdb_query"),
    *("pillow_pool", "torch_convolution"),
)
NODE = ("small", "json", "buffers", "objects", "compress")
JAVA = ("small", "blocks", "objects")

MEMBERS = {"FILE": "RssFile", "ANON": "RssAnon", "SHMEM": "RssShmem"}
CHANGE = re.compile(r" (\d+)\.(\d{6}): rss_stat: mm_id=(\d+) curr=\d type=MM_(FILE|ANON|SHMEM)PAGES size=(-?\d+)B")


class Trace:
    """The kernel's trace of RSS, of one process and all its threads."""

    def __init__(self, folder: Path) -> None:
        """`folder`: an instance in tracefs, with a buffer of its own."""
        self._folder = folder
        self._pid: int | None = None
        self._write("buffer_size_kb", "16384")
        self._write("options/event-fork", "1")
        self._write("trace_clock", "mono")
        self._pipe = os.open(folder / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)

    def close(self) -> None:
        os.close(self._pipe)
        self._write("events/kmem/rss_stat/enable", "0")

    def curve(self, pid: int, run: Callable[[], int]) -> list[float]:
        """RSS of the process, MiB: each level from before `run` until the moment that it returns, in ns."""
        if self._pid != pid:  # each change of what is traced takes the kernel some 30 ms
            self._write("set_event_pid", " ".join(os.listdir(f"/proc/{pid}/task")))  # noqa: PTH208
            self._write("events/kmem/rss_stat/enable", "1")
            self._pid = pid
        self._read()
        level = status(pid)
        end_us = run() // 1000
        changes: dict[str, list[tuple[str, int]]] = {}
        for s, us, space, member, size in CHANGE.findall(self._read()):
            if int(s) * 1_000_000 + int(us) <= end_us:
                changes.setdefault(space, []).append((MEMBERS[member], int(size) // 1024))
        levels = [sum(level.values()) / 1024]
        for member, kib in max(changes.values(), key=len, default=[]):  # its own, not a child's
            level[member] = kib
            levels.append(sum(level.values()) / 1024)
        return levels

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text)

    def _read(self) -> str:
        """What the kernel has told since the last call. Raises AssertionError if the buffer was too small."""
        parts = []
        with suppress(BlockingIOError):
            while True:
                parts.append(os.read(self._pipe, 1 << 20))
        told = b"".join(parts).decode(errors="replace")
        assert "LOST" not in told, "the kernel's trace has lost events"
        return told


def status(pid: int) -> dict[str, int]:
    """RSS of a process by its parts, KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    parts = {name: re.search(rf"{name}:\s+(\d+)", text) for name in MEMBERS.values()}
    return {name: int(found[1]) if found else 0 for name, found in parts.items()}


@contextmanager
def mounted() -> Iterator[Path | None]:
    """The folder of tracefs; None where the kernel cannot be traced."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() or subprocess.run(["mount", "-t", "tracefs", "nodev", folder], check=False).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=False)


@contextmanager
def tracing(tracefs: Path | None) -> Iterator[Trace | None]:
    """A trace that other traces do not disturb; None without tracefs."""
    if tracefs is None:
        yield None
        return
    folder = tracefs / "instances" / f"truemem-{os.getpid()}-{threading.get_ident()}"
    folder.mkdir()
    try:
        trace = Trace(folder)
        try:
            yield trace
        finally:
            trace.close()
    finally:
        folder.rmdir()


def truth(record: Record, levels: Sequence[float]) -> float:
    """The highest level (MiB) from the one on that the record's window began with: after a freeze, a collector may give
    memory back before the event is there. In default mode a record may not know with what it began."""
    if record.baselineRSS is None:
        return max(levels)
    begins = [number for number, level in enumerate(levels) if level <= record.baselineRSS + SLACK_MIB]
    return max(levels[begins[0] if begins else 0 :])


@dataclass(frozen=True)
class Judged:
    """One invocation: its record, and the truth where it was traced. Sizes in MiB."""

    work: str
    record: Record
    truth: float | None

    @property
    def is_figure(self) -> bool:
        return self.record.method == "vmhwm" and not self.record.raced

    @property
    def bounds(self) -> tuple[float, float]:
        """The truth is said to be between them. Without an upper bound it is the memory size."""
        if self.is_figure:
            return self.record.PeakRSS, self.record.PeakRSS
        return self.record.peakLower, self.record.peakUpper or MEMORY_MIB

    @property
    def text(self) -> str:
        upper = "no bound" if self.record.peakUpper is None else self.record.peakUpper
        return f"{self.record.PeakRSS} ({self.record.peakLower} to {upper})"

    @property
    def width(self) -> float:
        return self.bounds[1] - self.bounds[0]

    @property
    def missed(self) -> float:
        """The truth over `PeakRSS`; 0 if it is not known."""
        return 0.0 if self.truth is None else max(0.0, self.truth - float(self.record.PeakRSS))

    @property
    def is_false(self) -> bool:
        lower, upper = self.bounds
        return self.truth is not None and not lower - SLACK_MIB <= self.truth <= upper + SLACK_MIB


def measure(
    function: Function,
    events: Sequence[Mapping[str, object]],
    tracefs: Path | None,
    *,
    sidecar: Path,
    exact: bool,
    variables: Mapping[str, str] | None = None,
    untraced: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> list[Judged]:
    """All invocations of one environment. The first `untraced` are never traced. Without a trace each event comes as
    soon as the response to the one before is there; with it, when all is frozen.

    In exact mode a window ends when the runtime asks for the next event, in default mode it has the freeze too.
    """
    asked: list[str] = []
    curves: list[list[float] | None] = []
    with (
        tracing(tracefs) as trace,
        Environment(
            function,
            sidecar=sidecar,
            memory_mib=MEMORY_MIB,
            exact=exact,
            user="current",
            environment=variables,
            timeout_s=LIMIT_S,
            init_timeout_s=LIMIT_S,
        ) as environment,
    ):
        local = environment.local
        wait_for_init(local)

        def invoke(event: Mapping[str, object]) -> int:
            made = local.invoke(dict(event))
            assert made.function_error is None, made.payload
            asked.append(made.request_id)
            if trace is not None:
                local.settle(timeout=LIMIT_S)
            return nexts[-1] if exact else time.monotonic_ns()

        with noted(local) as nexts:
            for number, event in enumerate(events):
                if trace is None or number < untraced:
                    invoke(event)
                    curves.append(None)
                else:
                    curves.append(trace.curve(local.processes()["runtime"], lambda event=event: invoke(event)))  # type: ignore[misc]
                advance()
        records = environment.records()
    told = [record.requestId for record in records]
    # beside busy processes the 2 s of SHUTDOWN may be too short for the last one
    assert told == asked[: max(len(told), len(asked) - 1)], f"{len(records)} records of {len(asked)} invocations"
    assert all(record.PeakRSS is not None for record in records), "a record has no peak"
    return [
        Judged(str(event.get("work", "")), record, None if levels is None else truth(record, levels))
        for event, record, levels in zip(events, records, curves, strict=False)
    ]


@contextmanager
def noted(local: LocalLambda) -> Iterator[list[int]]:
    """When the runtime has asked for each event (CLOCK_MONOTONIC, ns), from now on."""
    moments = [time.monotonic_ns()]
    pass_by = local.hold.pass_by

    async def note(call: Any, *request: Any) -> None:
        if call == "next":
            moments.append(time.monotonic_ns())
        await pass_by(call, *request)

    with patch.object(local.hold, "pass_by", note):
        yield moments


def wait_for_init(local: LocalLambda) -> None:
    """A trace that began earlier would have the peak of init."""
    end = time.monotonic() + LIMIT_S
    while not any(event["type"] == "platform.initReport" for event in local.events):
        assert time.monotonic() < end, "init does not end"
        time.sleep(0.01)


@dataclass(frozen=True)
class Cell:
    """What many invocations of one function came to. Sizes in MiB."""

    records: int
    figures: int
    width_p50: float | None
    """Median width of the intervals; None if there are none."""
    width_max: float | None
    """None if there are none."""
    error: float | None
    """Most by which the truth was above a figure,"""
    missed: float | None
    """and above `PeakRSS` of any record; None where nothing was traced."""
    outside: int | None
    """Truths outside of the bounds, figures included."""
    peak: float

    @property
    def share(self) -> float:
        return self.figures / self.records

    @property
    def percent(self) -> str:
        """Never more than it is."""
        return f"{math.floor(1000 * self.share) / 10:.1f} %"

    @property
    def text(self) -> str:
        """All of it in one cell of a table."""
        width = "-" if self.width_p50 is None else f"{self.width_p50:.1f}"
        if self.outside is None:
            return f"{self.percent} / {width}"
        return f"{self.percent} / {width} / {two(self.error)} / {self.outside}"


def cell(judged: Sequence[Judged]) -> Cell:
    widths = [each.width for each in judged if not each.is_figure]
    traced = [each for each in judged if each.truth is not None]
    return Cell(
        len(judged),
        sum(each.is_figure for each in judged),
        percentile(widths, 50) if widths else None,
        max(widths, default=None),
        max((each.missed for each in traced if each.is_figure), default=0.0) if traced else None,
        max(each.missed for each in traced) if traced else None,
        sum(each.is_false for each in traced) if traced else None,
        percentile([each.record.PeakRSS for each in judged], 50),
    )


def two(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


# --- one thread, each runtime -----------------------------------------------------------------------------------------

Key = tuple[str, str, str]
"""Sidecar (before or now), mode and load."""
Measured = dict[Key, list[Judged]]


def measure_runtime(
    runtime: Runtime,
    sidecars: Mapping[str, Path],
    modes: Sequence[str],
    records: int,
    tracefs: Path | None,
    bar: Callable[[str, int], Callable[[], None]],
) -> Measured:
    """So many records of the sidecar of now in exact mode, a part of them of the others, all in turn. Beside busy
    processes AT_ONCE environments run together."""
    made: Measured = {}
    for load, processes in LOADS.items():
        keys = [(side, mode, load) for side in sidecars for mode in modes]
        plan = planned(runtime.kinds, {key: of_key(records, key) for key in keys})
        moved = bar(f"{runtime.name}, {load}", sum(len(events) for _, _, events in plan))
        stopping = threading.Event()

        def advance(moved: Callable[[], None] = moved, stopping: threading.Event = stopping) -> None:
            if stopping.is_set():
                raise RuntimeError("another environment has failed")
            moved()

        with busy(processes), ThreadPoolExecutor(AT_ONCE if processes else 1) as pool:
            running = {
                pool.submit(
                    measure,
                    runtime.function,
                    events,
                    tracefs if is_traced else None,
                    sidecar=sidecars[key[0]],
                    exact=key[1] == "exact",
                    advance=advance,
                ): key
                for key, is_traced, events in plan
            }
            try:
                for done in as_completed(running):
                    made.setdefault(running[done], []).extend(done.result())
            except BaseException:  # Ctrl-C included
                stopping.set()
                pool.shutdown(cancel_futures=True)
                raise
    return made


def of_key(records: int, key: Key) -> int:
    """How many records of it."""
    return records if key[:2] == (NOW, "exact") else math.ceil(records / OTHERS)


def planned(kinds: Sequence[str], records: Mapping[Key, int]) -> list[tuple[Key, bool, list[dict[str, object]]]]:
    """What each environment is of, whether it is traced, and its events. Every second one is; all keys take turns."""
    placed = []
    for key, count in records.items():
        all_lives = list(lives(kinds, count))
        placed += [(number / len(all_lives), key, bool(number % 2), life) for number, life in enumerate(all_lives)]
    return [(key, is_traced, events) for _, key, is_traced, events in sorted(placed, key=lambda each: each[0])]


def lives(kinds: Sequence[str], records: int) -> Iterator[list[dict[str, object]]]:
    """The events of each environment, an even number of them: every kind equally often, in any order."""
    environments = 2 * math.ceil(records / LIFE / 2)
    works = [kinds[number % len(kinds)] for number in range(records)]
    random.Random(records).shuffle(works)
    for number in range(environments):
        yield [{"work": work} for work in works[number::environments]]


ONE_HEADINGS = ("", "", *(f"{mode}, {load}" for mode in MODES for load in LOADS))


def one_table(made: Mapping[str, Measured]) -> list[list[str]]:
    table = []
    for name, measured in made.items():
        for side in dict.fromkeys(side for side, _, _ in measured):
            found = [measured.get((side, mode, load)) for mode in MODES for load in LOADS]
            table.append([name, side, *(cell(each).text if each else "" for each in found)])
    return table


KIND_HEADINGS = ("", "", "", "kind of work", "figures", "width p50 / max", "one of the median width")


def kind_table(made: Mapping[str, Measured], mode: str = "exact") -> list[list[str]]:
    """The kinds of work that have given intervals."""
    table = []
    for name, measured in made.items():
        for (side, its_mode, load), judged in measured.items():
            for work in dict.fromkeys(each.work for each in judged):
                of = cell([each for each in judged if each.work == work])
                intervals = sorted(
                    (each for each in judged if each.work == work and not each.is_figure), key=lambda each: each.width
                )
                if its_mode == mode and intervals:
                    counts = f"{of.figures} of {of.records}"
                    example = intervals[len(intervals) // 2].text
                    table.append([name, side, load, work, counts, f"{of.width_p50:.1f} / {of.width_max:.1f}", example])
    return sorted(table, key=lambda row: row[1:3])


def broken(runtimes: Sequence[Runtime], made: Mapping[str, Measured]) -> list[str]:
    """Promises that the sidecar of now has not kept."""
    problems = []
    for runtime in runtimes:
        for (side, mode, load), judged in made[runtime.name].items():
            found, name = cell(judged), f"{runtime.name}, {mode}, {load}"
            if side == NOW and mode == "exact" and found.share < runtime.least:
                problems.append(f"{name}: {found.percent} figures")
            if side == NOW and found.outside:
                problems.append(f"{name}: {found.outside} false")
    return problems


# --- functions with threads -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Threaded:
    """One function. How often it has figures is measured without a trace, whether they are true with one."""

    name: str
    group: str
    untraced: Cell
    traced: Cell | None

    @property
    def cells(self) -> list[str]:
        counts, judged = self.untraced, self.traced
        width = "" if counts.width_p50 is None else f"{counts.width_p50:.1f} / {counts.width_max:.1f}"
        return [
            *(self.group, self.name, f"{counts.figures} of {counts.records}", width, f"{counts.peak:.0f}"),
            *((two(judged.error), two(judged.missed), str(judged.outside)) if judged else ("", "", "")),
        ]


def functions(folder: Path, torch: str | None) -> Iterator[tuple[str, str, Function, list[dict[str, object]]]]:
    """Name, group, function, and the event of each kind of work; what is not installed here is left out."""
    own = Function.from_handler(PYTHON_WORK)
    for name in (*ORDINARY, *THREADED):
        group = "Python, one thread" if name in ORDINARY else "Python, with threads"
        if name != "torch_convolution":
            yield name, group, own, [{"work": name}]
        elif torch is not None:
            yield name, group, with_project_python(own, torch)[0], [{"work": name}]
    sample = Function.from_handler(f"{SAMPLE}:handler")
    yield "the sample", "Python, with threads", sample, [{"model": 0, "batch": batch} for batch in (1, 64, 512)]
    if shutil.which("node"):
        node = from_node_handler(f"{SOURCES / 'work.mjs'}:handler", None, click.echo)
        for name in NODE:
            yield name, "Node.js", node, [{"work": name}]
    if shutil.which("javac"):
        jvm = java("java", folder, "-Xmx512m")
        for name in JAVA:
            yield name, "Java", jvm, [{"work": name}]


def measure_threaded(
    folder: Path,
    torch: str | None,
    sidecar: Path,
    invocations: int,
    tracefs: Path | None,
    bar: Callable[[str, int], Callable[[], None]],
) -> list[Threaded]:
    """All of them, in exact mode."""
    made = []
    known = list(functions(folder, torch))
    advance = bar("functions with threads", len(known))
    for name, group, function, kinds in known:
        events = [kinds[number % len(kinds)] for number in range(WARM_UP + invocations)]
        cells = [
            cell(
                measure(
                    function,
                    events,
                    traced,
                    sidecar=sidecar,
                    exact=True,
                    variables={"MODEL_COUNT": "2"},
                    untraced=WARM_UP,
                )[WARM_UP:]
            )
            for traced in ([None, tracefs] if tracefs else [None])
        ]
        made.append(Threaded(name, group, cells[0], cells[1] if tracefs else None))
        advance()
    return made


THREADED_HEADINGS = (
    "",
    "",
    "figures",
    "width p50 / max",
    "of a peak of",
    "figures: max error",
    "missed",
    "outside",
)


# --- results ----------------------------------------------------------------------------------------------------------


def publish(made: Mapping[str, Measured], threaded: Sequence[Threaded], records: int, left_out: Sequence[str]) -> None:
    """The results page, and the tables of the docs."""
    without = "".join(f"\n\nLeft out: {each}." for each in left_out)
    explained = (
        f"{records:,} records in each cell of exact mode, {math.ceil(records / OTHERS):,} in the others, all kinds of "
        "work in turn, half of them traced. "
        f"Load 16: beside 16 busy processes, {AT_ONCE} environments at the same time. "
        "Figures: records whose peak is one figure, `vmhwm`. A cell has: share of figures / width of the others at the "
        "median / most by which the truth was above a figure / truths outside of a record's bounds, figures included, "
        f"{SLACK_MIB} MiB of the kernel's bookkeeping allowed. MiB."
    )
    RESULTS.write_text(
        f"# Figures and intervals\n\n`make bench`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}.\n\n"
        f"{(__doc__ or '').partition(' Writes results')[0].rstrip()}\n\n## One thread\n\n{explained}\n\n"
        f"{markdown(ONE_HEADINGS, one_table(made), text_columns=2)}{without}\n\n"
        f"Kinds of work with intervals, exact mode:\n\n{markdown(KIND_HEADINGS, kind_table(made), text_columns=4)}\n\n"
        "## With threads\n\nExact mode, idle. Missed: most by which the truth was above `PeakRSS` of any record.\n\n"
        f"{markdown(THREADED_HEADINGS, [each.cells for each in threaded], text_columns=2)}\n"
    )
    tables = f"{short_one(made)}\n\n{short_threaded(threaded)}"
    replace(ROOT / "docs" / "how-it-measures.md", "threads", tables)


def short_one(made: Mapping[str, Measured]) -> str:
    """The sidecar of now, for the docs."""
    table = []
    for name, measured in made.items():
        now = {key: cell(judged) for key, judged in measured.items() if key[0] == NOW}
        shares = [now[NOW, mode, load].percent for mode in MODES for load in LOADS]
        exact = [each for key, judged in measured.items() if key[:2] == (NOW, "exact") for each in judged]
        table.append([name, *shares, two(cell(exact).error)])
    heads = ("one thread: figures", *(f"{mode}, {load}" for mode in MODES for load in LOADS), "exact: max error")
    return markdown(heads, table)


def short_threaded(threaded: Sequence[Threaded]) -> str:
    table = []
    for group in dict.fromkeys(each.group for each in threaded):
        of = [each for each in threaded if each.group == group]
        total = sum(each.untraced.records for each in of)
        widths = [each.untraced.width_p50 for each in of if each.untraced.width_p50 is not None]
        table.append(
            [
                f"{group}: {len(of)} functions",
                f"{100 * sum(each.untraced.figures for each in of) / total:.0f} %",
                f"{percentile(widths, 50):.1f}" if widths else "",
                two(max((each.traced.error or 0 for each in of if each.traced), default=None)),
            ]
        )
    return markdown(("", "figures", "width of the others, median", "figures: max error"), table)


def chosen(found: Sequence[Row], only: Sequence[str]) -> list[Row]:
    """The rows that are asked for. Raises click.BadParameter for a name that none has."""
    names = [*(row.name for row in found), WITH_THREADS]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise click.BadParameter(f"no {', '.join(unknown)}. There are: {', '.join(names)}", param_hint="--only")
    return [row for row in found if not only or row.name in only]


@click.command(help=__doc__)
@click.option(
    "--records", default=2000, show_default=True, help=f"Of each runtime, exact mode, each load. Else 1/{OTHERS}."
)
@click.option("--invocations", default=20, show_default=True, help="Of each function with threads.")
@click.option("--only", multiple=True, help=f"A runtime, such as Go, or `{WITH_THREADS}`. Nothing is published.")
@click.option("--mode", "modes", multiple=True, type=click.Choice(MODES), default=MODES, help="Default: both.")
@click.option("--sidecar", type=click.Path(exists=True, path_type=Path), help="Default: the layer's, else the source.")
@click.option("--before", type=click.Path(exists=True, path_type=Path), help="Another sidecar, measured in turn.")
@click.option("--python", "pythons", multiple=True, help="An interpreter, in place of the one found of its version.")
@click.option("--aws-go", type=click.Path(exists=True, path_type=Path), help="A checkout of aws/aws-lambda-go.")
@click.option("--torch", help="An interpreter that has PyTorch.")
def main(
    records: int,
    invocations: int,
    only: tuple[str, ...],
    modes: tuple[str, ...],
    sidecar: Path | None,
    before: Path | None,
    pythons: tuple[str, ...],
    aws_go: Path | None,
    torch: str | None,
) -> None:
    """See the module."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing stays behind
    now = sidecar or (EXECUTABLE if EXECUTABLE.exists() else SOURCE)
    sidecars = {**({BEFORE: before.absolute()} if before else {}), NOW: now.absolute()}
    console, made, left_out = Console(width=170), {}, []
    runtimes: list[Runtime] = []
    threaded: list[Threaded] = []
    failed: list[str] = []
    with measuring() as bar, tempfile.TemporaryDirectory(dir="/tmp") as name, mounted() as tracefs:
        folder = Path(name)
        folder.chmod(0o755)
        for number, row in enumerate(chosen(list(rows(pythons, aws_go)), only)):
            try:
                runtime = row.runtime(folder / str(number))
            except Missing as reason:
                left_out.append(f"{row.name}: {reason}")
                continue
            try:
                made[row.name] = measure_runtime(runtime, sidecars, modes, records, tracefs, bar)
            except (OSError, AssertionError, RuntimeError, LookupError, BadInput) as error:  # the others are measured
                failed.append(f"{row.name} could not be measured: {error!r}")
                continue
            runtimes.append(runtime)
            for line in one_table({row.name: made[row.name]}):  # a long run may be broken off
                click.echo("  ".join(line))
        if not only or WITH_THREADS in only:
            (folder / "java").mkdir()
            threaded = measure_threaded(folder / "java", torch, now, invocations, tracefs, bar)
    console.print(shown("One thread: figures / width / max error / outside, MiB", ONE_HEADINGS, one_table(made)))
    for mode in modes:
        console.print(shown(f"Kinds of work with intervals, {mode} mode, MiB", KIND_HEADINGS, kind_table(made, mode)))
    console.print(shown("With threads, MiB", THREADED_HEADINGS, [each.cells for each in threaded]))
    for each in left_out:
        click.echo(f"left out: {each}")
    if not only and set(modes) == set(MODES):
        publish(made, threaded, records, left_out)
    failed += [f"{each.name}: false" for each in threaded if each.traced and each.traced.outside]
    exit_if_broken([*failed, *broken(runtimes, made)])


if __name__ == "__main__":
    main()
