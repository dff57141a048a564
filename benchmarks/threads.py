"""Which peaks are figures, and which are intervals: on each runtime, and with threads.

The kernel's watermark can miss what threads touch while another one unmaps. So a record of a process with threads may
be an interval. Runtimes have threads of their own where the function has one: AWS's client for Python from 3.12 on asks
for each event from a second one. The kernel's own trace of each change of RSS (kmem:rss_stat, as root) has the truth.
Each runtime is measured idle and beside 16 busy processes, in exact and in default mode, in an environment that is
renewed every 200 invocations. Writes results/threads.md and the tables of docs/how-it-measures.md.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from truemem_workbench.local import BadInput, Function, LocalLambda
from truemem_workbench.local.configuration.function import with_project_python
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.kit.bench import Advance, Bench, nothing, two
from benchmarks.kit.contenders import EXECUTABLE
from benchmarks.kit.truth import Judged, widths
from testing import installs
from testing.environment import SLACK_MIB, SOURCE, Environment, Record
from testing.installs import Missing
from testing.load import busy
from testing.pages import ROOT, Result, Table, markdown
from testing.rss_trace import tracing

TITLE = "Figures and intervals"
SETTINGS = {
    "sidecar": "Another one than the layer's, or the source.",
    "python": "An interpreter, in place of the one found of its version.",
}
DOCS = "docs/how-it-measures.md"
SOURCES = ROOT / "benchmarks" / "functions" / "threaded"
PYTHON_WORK = f"{SOURCES / 'work.py'}:handler"
MEMORY_MIB, RECORDS, INVOCATIONS = 1769, 2000, 20
"""Records of each runtime in exact mode and with each load; invocations of each function with threads."""
WARM_UP = 3
"""Invocations of a function with threads that load modules and fill caches."""
LOADS = {"idle": 0, "load 16": 16}
"""Busy processes beside the function."""
MODES = ("exact", "default")
LIFE = 200
"""Invocations of an environment."""
OTHERS = 4
"""Default mode has one record for so many of exact mode."""
LIMIT_S = 300
"""Of init and of an invocation: none reaches it under load."""
AT_ONCE = 4
"""Environments that are measured at the same time beside busy processes: alone, each would wait for its turn."""
ORDINARY = ("plain_json", "hashing", "regex", "sqlite", "zipped", "rows", "decimals", "sorting", "caching", "spooled")
"""Kinds of work that the handlers of functions in Python have."""
IN_PYTHON = (*ORDINARY, "touch", "twice", "buffers", "answer")
PLAIN = ("small", "touch", "twice", "buffers", "sorting", "table", "caching", "answer")
"""Kinds in C, Rust and Go."""
IN_SHELL = ("small", "touch", "twice", "buffers", "table", "answer")
IN_NODE = ("small", "json", "buffers", "objects", "touch", "twice", "answer")
IN_JAVA = ("small", "blocks", "objects", "touch", "answer")
MANAGED_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx1024m")
"""As Lambda starts a JVM."""
THREADED = (
    *("pool", "numpy_small", "numpy_large", "onnx_run", "onnx_open", "pandas_group", "duckdb_query"),
    "pillow_pool",
)
NODE = ("small", "json", "buffers", "objects", "compress")
JAVA = ("small", "blocks", "objects")


class Runtime(NamedTuple):
    """How a runtime's function is made, and the kinds of work that its events name."""

    make: Callable[[Path], Function]
    """Gets an empty folder for what is compiled. Raises Missing, or BadInput."""
    kinds: Sequence[str]
    least: float = 0.97
    """The promise: least share of figures in exact mode. With a garbage collector in threads of its own it is less."""
    has_threads: bool = False
    """Then each kind is a function of its own, in exact mode, idle, and nothing is promised but true bounds."""


def runtimes(settings: Mapping[str, str]) -> dict[str, Runtime]:
    """All of them."""
    asked = settings.get("python")
    pythons = dict.fromkeys(("3.11", "3.12", "3.13", "3.14"), "")
    if asked is not None:
        pythons[installs.python_version(asked)] = asked
    found = {f"Python {each}": Runtime(partial(_python, each, path), IN_PYTHON) for each, path in pythons.items()}
    found["Go"] = Runtime(_go, PLAIN)
    found["C"] = Runtime(partial(_native, "cc", "-O2", "-D_GNU_SOURCE", SOURCES / "work.c"), PLAIN)
    found["Rust"] = Runtime(partial(_native, "rustc", "-O", "--edition", "2021", SOURCES / "work.rs"), PLAIN)
    found["shell without children"] = Runtime(_shell, IN_SHELL)
    found |= {f"Node.js {version}": Runtime(partial(_node, version), IN_NODE, 0.8) for version in ("22", "24")}
    found |= {f"Java {version}": Runtime(partial(_java, version), IN_JAVA, 0.8) for version in ("17", "21")}
    found["with threads: Python"] = Runtime(lambda _: Function.from_handler(PYTHON_WORK), THREADED, 0, True)
    found["with threads: Node.js"] = Runtime(partial(_node, ""), NODE, 0, True)
    found["with threads: Java"] = Runtime(partial(java, "java", options=("-Xmx512m",)), JAVA, 0, True)
    return found


def compiled(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a compiler. Raises Missing if it is not here, or refuses."""
    if shutil.which(command[0]) is None:
        raise Missing(f"there is no {command[0]} on the path")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"{command[0]} failed: {done.stderr.strip()}")


def _python(version: str, asked: str, _: Path) -> Function:
    return with_project_python(Function.from_handler(PYTHON_WORK), asked or str(installs.python(version)))[0]


def _go(folder: Path) -> Function:
    for source in (SOURCES / "go").glob("*.go"):
        shutil.copy(source, folder)
    (folder / "go.mod").write_text("module bootstrap\n\ngo 1.18\n")
    compiled("go", "build", "-mod=mod", "-o", folder / "bootstrap", ".", cwd=folder)
    return Function.from_bootstrap(folder / "bootstrap")


def _native(*command: str | Path) -> Function:
    *compiler, folder = command
    compiled(*compiler, "-o", Path(folder) / "bootstrap")
    return Function.from_bootstrap(Path(folder) / "bootstrap")


def _shell(folder: Path) -> Function:
    (folder / "bootstrap").write_text(f"#!{shutil.which('bash')}\n{(SOURCES / 'work.sh').read_text()}")
    (folder / "bootstrap").chmod(0o755)
    return Function.from_bootstrap(folder / "bootstrap")


def _node(version: str, _: Path) -> Function:
    path = f"{installs.node(version).parent if version else ''}{os.pathsep}{os.environ['PATH']}"
    with patch.dict(os.environ, PATH=path):
        return from_node_handler(f"{SOURCES / 'work.mjs'}:handler", None, lambda _: None)


def _java(version: str, folder: Path) -> Function:
    return java(installs.java(version, download=True), folder, MANAGED_JAVA)


def java(program: str | Path, folder: Path, options: Sequence[str]) -> Function:
    """The work in Java, compiled into `folder`. Raises Missing."""
    compiled("javac", "--release", "17", "-d", folder, SOURCES / "Work.java")
    command = (str(program), *options, "-cp", str(folder), "Work")
    return Function(command, folder, "Work", None, (folder,))


def truth(record: Record, levels: Sequence[float]) -> float:
    """The highest level (MiB) from the one on that the record's window began with: after a freeze, a collector may give
    memory back before the event is there. In default mode a record may not know with what it began."""
    if record.baselineRSS is None:
        return max(levels)
    begins = [number for number, level in enumerate(levels) if level <= record.baselineRSS + SLACK_MIB]
    return max(levels[begins[0] if begins else 0 :])


def measure(
    function: Function,
    events: Sequence[Mapping[str, object]],
    sidecar: Path,
    exact: bool,
    is_traced: bool,
    warm_up: int = 0,
    advance: Advance = nothing,
) -> list[Judged]:
    """All invocations of one environment but the first `warm_up`. Without a trace each event comes as soon as the
    response to the one before is there; with it, when all is frozen.

    In exact mode a window ends when the runtime asks for the next event, in default mode it has the freeze too.
    """
    asked: list[str] = []
    curves: list[list[float] | None] = []
    environment = Environment(
        function,
        sidecar=sidecar,
        memory_mib=MEMORY_MIB,
        exact=exact,
        user="current",
        environment={"MODEL_COUNT": "2"},
        timeout_s=LIMIT_S,
        init_timeout_s=LIMIT_S,
    )
    with tracing() if is_traced else nullcontext() as trace, environment:
        local = environment.local
        wait_for_init(local)
        with noted(local) as nexts:
            for event in events:
                if trace is not None:
                    trace.read(local.processes()["runtime"])
                    trace.forget()
                began = time.monotonic_ns()
                made = local.invoke(dict(event))
                assert made.function_error is None, made.payload
                asked.append(made.request_id)
                curves.append(None)
                if trace is not None:
                    local.settle(timeout=LIMIT_S)
                    trace.read(local.processes()["runtime"])
                    curves[-1] = trace.between(began, nexts[-1] if exact else time.monotonic_ns())
                advance()
        records = environment.records()
    told = [record.requestId for record in records]
    # beside busy processes the 2 s of SHUTDOWN may be too short for the last one
    assert told == asked[: max(len(told), len(asked) - 1)], f"{len(records)} records of {len(asked)} invocations"
    assert all(record.PeakRSS is not None for record in records), "a record has no peak"
    judged = []
    for event, record, of in zip(events, records, curves, strict=False):
        known = None if of is None else truth(record, of)
        judged.append(Judged(str(event["work"]), record, known, known, MEMORY_MIB))
    return judged[warm_up:]


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


def percent(judged: Sequence[Judged]) -> str:
    """Share of figures, never more than it is."""
    return f"{math.floor(1000 * sum(each.is_figure for each in judged) / len(judged)) / 10:.1f} %"


def errors(judged: Sequence[Judged]) -> tuple[float, int] | None:
    """Most by which the truth was above a figure, and truths outside of the bounds; None where nothing was traced."""
    traced = [each for each in judged if each.least is not None]
    if not traced:
        return None
    return max((each.missed for each in traced if each.is_figure), default=0.0), sum(each.is_false for each in traced)


def cell(judged: Sequence[Judged]) -> str:
    """All of it in one cell of a table."""
    found, false = widths(judged), errors(judged)
    text = f"{percent(judged)} / {'-' if found is None else f'{found[0]:.1f}'}"
    return text if false is None else f"{text} / {false[0]:.2f} / {false[1]}"


Key = tuple[str, str]
"""Mode and load."""
KEYS = [(mode, load) for mode in MODES for load in LOADS]
Measured = dict[Key, list[Judged]]


def measure_runtime(
    name: str, runtime: Runtime, function: Function, sidecar: Path, bench: Bench, load: str
) -> Iterator[tuple[Key, list[Judged]]]:
    """All environments with this load. Beside busy processes AT_ONCE of them run together."""
    records = bench.count(RECORDS, 40)
    plan = planned(runtime.kinds, {(mode, load): records if mode == "exact" else records // OTHERS for mode in MODES})
    if runtime.has_threads:
        times = WARM_UP + bench.count(INVOCATIONS, 2)
        works: list[list[dict[str, object]]] = [[{"work": kind}] * times for kind in runtime.kinds]
        plan = [(("exact", load), is_traced, list(events)) for events in works for is_traced in (False, True)]
    step, stopping = bench.step(f"{name}, {load}", sum(len(events) for _, _, events in plan)), threading.Event()

    def advance() -> None:
        if stopping.is_set():
            raise RuntimeError("another environment has failed")
        step()

    with busy(LOADS[load]), ThreadPoolExecutor(AT_ONCE if LOADS[load] else 1) as pool:
        warm_up = WARM_UP * runtime.has_threads
        running = {
            pool.submit(measure, function, events, sidecar, key[0] == "exact", is_traced, warm_up, advance): key
            for key, is_traced, events in plan
        }
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BaseException:  # Ctrl-C included
            stopping.set()
            pool.shutdown(cancel_futures=True)
            raise


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


def of_kinds(made: Mapping[str, Measured]) -> list[list[str]]:
    """The kinds of work that have given intervals in exact mode, and all functions with threads."""
    table = []
    for name, measured in made.items():
        for (mode, load), judged in measured.items():
            for work in dict.fromkeys(each.work for each in judged if mode == "exact"):
                of = [each for each in judged if each.work == work]
                if (found := widths(of)) or name.startswith("with threads"):
                    cells = "" if found is None else f"{found[0]:.1f} / {found[1]:.1f}", two((errors(of) or [None])[0])
                    table.append([name, load, work, f"{sum(each.is_figure for each in of)} of {len(of)}", *cells])
    return table


def broken(least: Mapping[str, float], made: Mapping[str, Measured]) -> list[str]:
    """Promises that were not kept."""
    problems = []
    for name, measured in made.items():
        for (mode, load), judged in measured.items():
            figures, found = sum(each.is_figure for each in judged), errors(judged)
            if mode == "exact" and figures < least[name] * len(judged):
                problems.append(f"{name}, {mode}, {load}: {percent(judged)} figures")
            if found and found[1]:
                problems.append(f"{name}, {mode}, {load}: {found[1]} false")
    return problems


def short(made: Mapping[str, Measured]) -> str:
    """For the docs: one thread, and with threads."""
    one, threaded = [], []
    for name, measured in made.items():
        exact = list(chain(*(judged for (mode, _), judged in measured.items() if mode == "exact")))
        error = two((errors(exact) or [None])[0])
        if name.startswith("with threads"):
            found = widths(exact)
            functions = len({each.work for each in exact})
            width = "" if found is None else f"{found[0]:.1f}"
            threaded.append([f"{name.partition(': ')[2]}: {functions} functions", percent(exact), width, error])
        else:
            one.append([name, *(percent(measured[key]) for key in KEYS), error])
    heads = ("with threads", "figures", "width of the others, median", "figures: max error")
    last = "exact: max error"
    return f"{markdown(('one thread: figures', *map(', '.join, KEYS), last), one)}\n\n{markdown(heads, threaded)}"


def run(bench: Bench) -> Result:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing stays behind
    sidecar = Path(bench.settings.get("sidecar", EXECUTABLE if EXECUTABLE.exists() else SOURCE)).absolute()
    known = runtimes(bench.settings)
    made: dict[str, Measured] = {}
    left_out, failed, records = [], [], bench.count(RECORDS, 40)
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        for number, name in enumerate(bench.chosen(known)):
            folder, runtime = Path(place) / str(number), known[name]
            folder.mkdir()
            measured: Measured = {}
            try:
                function = runtime.make(folder)
                for load in ("idle",) if runtime.has_threads else LOADS:
                    for key, judged in measure_runtime(name, runtime, function, sidecar, bench, load):
                        measured.setdefault(key, []).extend(judged)
            except (Missing, BadInput) as reason:
                left_out.append(f"{name}: {reason}")
            except (OSError, AssertionError, RuntimeError, LookupError) as error:  # the others are measured
                failed.append(f"{name} could not be measured: {error!r}")
            else:
                made[name] = measured
                bench.echo(f"{name}: {[cell(each) for each in measured.values()]}")
    one = [[name, *(cell(measured[key]) if key in measured else "" for key in KEYS)] for name, measured in made.items()]
    note = (
        f"{records:,} records in each cell of exact mode, {records // OTHERS:,} in the others, all kinds of work in"
        f" turn, half of them traced. Load 16: beside 16 busy processes, {AT_ONCE} environments at the same time."
        " Figures: records whose peak is one figure, `vmhwm`. A cell has: share of figures / width of the others at the"
        " median / most by which the truth was above a figure / truths outside of a record's bounds, figures included,"
        f" {SLACK_MIB} MiB of the kernel's bookkeeping allowed. MiB."
        + "".join(f"\n\nLeft out: {each}." for each in left_out)
    )
    heads = ("", "", "kind of work", "figures", "width p50 / max", "figures: max error")
    tables = [
        Table("One thread, and with threads", ("", *map(", ".join, KEYS)), one, note),
        Table("Kinds of work with intervals, exact mode", heads, of_kinds(made), "", 3),
    ]
    failed += broken({name: each.least for name, each in known.items()}, made)
    return Result(tables, failed, {(DOCS, "threads"): short(made)})
