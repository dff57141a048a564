"""The layer: cold start, memory, time and CPU of an invocation, beside other extensions.

Runs the layer of `make layer`. Writes results/layer.json as well, and the tables of docs/overhead.md.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from truemem.config import VCPU_MIB
from truemem_workbench.local import Function, LocalLambda, Settings

from benchmarks import start
from benchmarks.cost import SIZES_MIB, cost, metrics_by_emf
from benchmarks.kit import namespace
from benchmarks.kit.bench import Advance, Bench, in_turn, nothing, percentile
from benchmarks.kit.contenders import (
    EXECUTABLE,
    FLOOR,
    GO,
    GO_HELP,
    OURS,
    PLAIN,
    SOURCED,
    UNSAVED,
    Contender,
    contenders,
)
from benchmarks.kit.local import Side
from benchmarks.kit.running import HARDLY_SAMPLING, attached, invoke
from layer.pins import ARCHITECTURES
from testing.bare import confined
from testing.environment import FUNCTIONS
from testing.pages import ROOT, Result, Table

TITLE = "The layer"
NAMESPACE = True
SETTINGS = {"go": GO_HELP}
DOCS = "docs/overhead.md"

FIRST, MORE, SAMPLING_S, BLOCK, WARM_UP = 1000, 20_000, 20.0, 20, 10
SCALE: dict[str, dict[str, int]] = {
    "1 process, 1 thread, 1 MiB": {},
    "10 processes": {"processes": 10},
    "50 processes": {"processes": 50},
    "200 processes": {"processes": 200},
    "200 threads": {"threads": 200},
    "1 GiB": {"mib": 1024},
    "8 GiB": {"mib": 8192},
}
"""How the cost of an invocation grows with the function."""
HANDLERS = {"sleeps 5 ms with 8 MiB": "hold", "computes for 5 ms with 8 MiB": "spike"}
GO_AIMS, FLOOR_AIMS = (1.0, 1.3), (8.0, 12.0)
"""Times that of AWS's sample in Go, or without it of static C that does nothing: register, and the first `next`."""


class Answer(NamedTuple):
    """Many invocations of one function: from INVOKE sent to `next` received, ms; CPU of the extension for one, ms."""

    p50: float
    p99: float
    cpu_ms: float


class Growth(NamedTuple):
    """Its own memory after FIRST invocations, MiB, and what is more after all of them."""

    invocations: int
    pss: float
    private_dirty: float
    growth_kib: float


class Sampling(NamedTuple):
    """CPU time in the worst second of a long invocation, beyond what any invocation costs, in percent of what the
    memory size buys; and was it confined to that, by a cpu cgroup?"""

    worst: float
    is_confined: bool


class Added(NamedTuple):
    """What the function sees, ms: without the sidecar, with the floor, with the sidecar."""

    after: Mapping[str, float]
    """From the runtime's end to the invocation's, p50."""
    difference: float
    """The difference between the means of durations, from block to block."""
    error: float
    """The standard error of `difference`."""
    line_bytes: float
    """The mean length of the sidecar's line."""


def answers(contender: Contender, count: int, **function: int) -> Answer:
    with attached(contender, HARDLY_SAMPLING, **function) as extension:
        for number in range(20):
            invoke(extension, number)
        before, took = extension.cpu_ns(), []
        for number in range(20, 20 + count):
            time.sleep(0.002)  # as if frozen in between: it is to be woken, as it is there
            took.append(invoke(extension, number) / 1000)
        return Answer(percentile(took, 50), percentile(took, 99), (extension.cpu_ns() - before) / count / 1e6)


def growth(contender: Contender, count: int, advance: Advance = nothing) -> Growth:
    with attached(contender) as extension:
        seen = []
        for numbers in (range(FIRST), range(FIRST, FIRST + count)):
            for number in numbers:
                invoke(extension, number)
                advance()
            time.sleep(0.5)
            seen.append(extension.memory_kib())
    before, after = seen
    pss, dirty = before["Pss"] / 1024, before["Private_Dirty"] / 1024
    return Growth(count, pss, dirty, after["Rss"] - before["Rss"])


def sampling(contender: Contender, memory_mib: int, seconds: int) -> Sampling:
    """The function's memory rests."""
    ((_, outside), (_, after)), _ = _long_invocation(contender, memory_mib, 1, HARDLY_SAMPLING)
    spent, is_confined = _long_invocation(contender, memory_mib, seconds, {})
    spent[0] = spent[0][0], spent[0][1] + after - outside
    each = [
        100 * (cpu - cpu_before) / (at - before) / (memory_mib / VCPU_MIB)
        for (before, cpu_before), (at, cpu) in itertools.pairwise(spent)
    ]
    return Sampling(max(each), is_confined)


def _long_invocation(
    contender: Contender, memory_mib: int, seconds: int, variables: dict[str, str]
) -> tuple[list[tuple[int, int]], bool]:
    """(Monotonic ns, CPU ns so far) at its beginning and after each second of it; and if it was in a cpu cgroup."""
    size = {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mib)}
    with (
        attached(contender, {**size, **variables}) as extension,
        confined([extension.pid], memory_mib / VCPU_MIB) as is_confined,
    ):
        extension.api.invoke("warm")
        extension.api.wait_for_next()
        time.sleep(0.5)
        spent = [(time.monotonic_ns(), extension.cpu_ns())]
        extension.api.invoke("long")
        for number in range(1, seconds + 1):
            time.sleep(max(0, number - (time.monotonic_ns() - spent[0][0]) / 1e9))
            spent.append((time.monotonic_ns(), extension.cpu_ns()))
    return spent, is_confined


def added(floor: Path, do: str, blocks: int, advance: Advance) -> Added:
    """Under the local Lambda, by turns."""
    extensions = {"without": [], "floor": [floor], "with": [EXECUTABLE]}
    event = {"do": do, "mib": 8, "ms": 5.0}
    with ExitStack() as stack:
        sides = {}
        for name, extension in extensions.items():
            settings = Settings(memory_mib=VCPU_MIB, extensions=extension)
            local = LocalLambda(Function.from_handler(f"{FUNCTIONS / 'touch.py'}:handler"), settings)
            sides[name] = Side(stack.enter_context(local))
            sides[name].run(event, WARM_UP)
        in_turn({name: partial(side.turn, event, BLOCK) for name, side in sides.items()}, blocks, advance)
        for side in sides.values():
            side.local.stop()
        seen = {name: side.blocks() for name, side in sides.items()}
        lines = [len(line.encode()) + 1 for line in sides["with"].local.extension_stdout(EXECUTABLE.name)]
    means = [[statistics.fmean(sum(one[:2]) for one in block) for block in seen[name]] for name in ("with", "without")]
    apart = [one - other for one, other in zip(*means, strict=True)]
    return Added(
        {name: percentile([one[2] for block in of for one in block], 50) for name, of in seen.items()},
        statistics.fmean(apart),
        statistics.stdev(apart) / len(apart) ** 0.5,
        statistics.fmean(lines),
    )


def megabytes() -> dict[str, tuple[float, float]]:
    """Zip and unpacked layer of each architecture, MB, as `make layer` has made them. Raises OSError."""
    found = {}
    for architecture in ARCHITECTURES:
        path = ROOT / "dist" / f"truemem-layer-{architecture}.zip"
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        found[architecture] = path.stat().st_size / 1e6, unpacked / 1e6
    return found


def ratios(starts: dict[str, start.Start], grown: Growth) -> dict[str, float]:
    """What `make gate` compares: nothing that depends on the machine's speed alone."""
    ours, plain, made = starts[OURS], starts[PLAIN], {}
    for other in (UNSAVED, SOURCED, PLAIN, FLOOR):
        for kind in ("register", "next"):
            made[f"exec to {kind}, minimum, against {other}"] = ours.least(kind) / starts[other].least(kind)
    made[f"CPU to next against {UNSAVED}"] = ours.median("cpu") / starts[UNSAVED].median("cpu")
    made[f"PSS against {PLAIN}"] = grown.pss / plain.median("Pss")
    made[f"private dirty against {PLAIN}"] = grown.private_dirty / plain.median("Private_Dirty")
    for architecture, (zipped, unpacked) in megabytes().items():
        made[f"zip, {architecture}, MB"], made[f"unpacked, {architecture}, MB"] = zipped, unpacked
    return {name: round(value, 4) for name, value in made.items()}


def run(bench: Bench) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # an extension runs as an ordinary user
        compared = contenders(Path(folder), bench.settings.get("go"))
        ours, floor = compared[0], Path(compared[-1].command[0])
        rounds = bench.count(start.ROUNDS, 2)
        starts = start.measure(compared, rounds, bench.step("cold starts", rounds + 1))
        room_mib = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
        sizes = [name for name, function in SCALE.items() if function.get("mib", 0) * 1.2 < room_mib]
        count = bench.count(500, 10)
        scale = {name: answers(ours, count, **SCALE[name]) for name in bench.each("functions of all sizes", sizes)}
        more = bench.count(MORE, 100)
        grown = growth(ours, more, bench.step("own memory", FIRST + more))
        seconds = bench.count(SAMPLING_S, 2)
        samples = {mib: sampling(ours, mib, seconds) for mib in bench.each("sampling", (128, VCPU_MIB))}
        blocks = bench.count(25, 2)
        seen = {name: added(floor, do, blocks, bench.step(name, blocks)) for name, do in HANDLERS.items()}
    reached = aims(starts, grown, next(iter(scale.values())), samples, seen)
    head, few = start.table(starts), (0, 1, 2, 4, 8)
    short = [[row[at] for at in few] for row in (head.headings, *head.rows) if row[0] not in (UNSAVED, SOURCED)]
    meaning = f"Medians (minima) of {rounds}, ms and MiB. Cold: the file is not in the page cache."
    costs = of_cost(next(iter(seen.values())).line_bytes, next(iter(scale.values())), starts, grown)
    tables = [
        reached,
        head,
        of_scale(scale, count),
        of_growth(grown),
        of_sampling(samples, seconds),
        of_added(seen, blocks),
    ]
    zips = [[name, f"{zipped:.2f}", f"{unpacked:.2f}"] for name, (zipped, unpacked) in megabytes().items()]
    tables += [Table("Size", ("architecture", "zip, MB", "unpacked, MB"), zips, "The whole layer."), costs]
    docs = {
        (DOCS, "aims"): reached.markdown(),
        (DOCS, "start"): Table("", short[0], short[1:], meaning).markdown(),
        (DOCS, "cost"): costs.markdown(),
    }
    return Result(tables, docs=docs, ratios=ratios(starts, grown), note=namespace.described())


def of_scale(scale: dict[str, Answer], count: int) -> Table:
    return Table(
        "An invocation, and how it grows with the function",
        ("function", "INVOKE to `next`, ms p50", "p99", "CPU of an invocation, ms"),
        [[name, *(f"{figure:.2f}" for figure in answer)] for name, answer in scale.items()],
        f"{count} invocations each. CPU time is the sidecar's, telemetry and the line included, hardly sampling"
        " (TRUEMEM_CPU_BUDGET=0.01).",
    )


def of_growth(grown: Growth) -> Table:
    cells = f"{grown.pss:.1f}", f"{grown.private_dirty:.1f}", f"{grown.growth_kib:.0f}"
    return Table(
        "Its own memory",
        ("", "PSS, MiB", "private dirty, MiB", "RSS grows by, KiB"),
        [[OURS, *cells]],
        f"PSS and private dirty after {FIRST:,} invocations; growth over {grown.invocations:,} more.",
    )


def of_sampling(samples: dict[int, Sampling], seconds: int) -> Table:
    return Table(
        "Sampling",
        ("memory size", "in the worst second", "in a cpu cgroup"),
        [
            [f"{mib} MiB", f"{each.worst:.2f} %", "yes" if each.is_confined else "not permitted"]
            for mib, each in samples.items()
        ],
        f"CPU time of the sidecar in one invocation of {seconds} s beyond that of one without sampling, in percent of"
        " the CPU that the memory size buys. The default budget is 1 %.",
    )


def of_added(seen: dict[str, Added], blocks: int) -> Table:
    rows = []
    for name, each in seen.items():
        after = " / ".join(f"{ms:.2f}" for ms in each.after.values())
        rows.append([name, f"{each.difference:+.3f} ± {each.error:.3f}", after])
    return Table(
        "Added to the function",
        ("handler", "difference of the mean durations, ms", "after the runtime's end, p50"),
        rows,
        f"Without / with the sidecar, {blocks * BLOCK} invocations each, by turns in blocks of {BLOCK}; the difference"
        " ± one standard error from block to block. After the runtime's end, until the invocation's: without / with the"
        " floor, which never keeps anything waiting / with the sidecar.",
    )


def of_cost(line_bytes: float, answer: Answer, starts: dict[str, start.Start], grown: Growth) -> Table:
    rows = []
    for mib in SIZES_MIB:
        each = cost(mib, line_bytes, answer.cpu_ms, starts[OURS].median("register"), grown.pss)
        of_memory, delay = f"{each.memory_percent:.1f} %", f"{each.delay_at_most_ms:.1f} ms"
        billed = f"${each.duration_at_most:.3f}", f"${each.logs:.2f}", f"${each.cold_starts:.3f}"
        rows.append([f"{mib:,} MiB", of_memory, delay, *billed])
    return Table(
        "What it costs",
        ("function", "of its memory", "delay at most", "billed time at most", "log lines", "cold starts"),
        rows,
        "Per million invocations; cold starts per million of those, each longer by exec to register. At most: if all of"
        f" the sidecar's CPU time is taken from a function that computes all the time. Lines of {line_bytes:.0f} bytes."
        f" Besides: four metrics for each function, ${metrics_by_emf(1):.2f} a month.",
    )


def aims(
    starts: dict[str, start.Start], grown: Growth, answer: Answer, samples: dict[int, Sampling], seen: dict[str, Added]
) -> Table:
    """The figures that we have set ourselves: aim, reached, met or not."""
    ours, plain = starts[OURS], starts[PLAIN]
    beside = GO if GO in starts else FLOOR
    other, (register, following) = starts[beside], GO_AIMS if beside == GO else FLOOR_AIMS
    rows: list[tuple[str, str, str, bool]] = [
        (f"{name}, beside {beside}", f"{aim:g}", f"{mine / its:.2f} ({mine:.1f} ms, {its:.1f} ms)", mine <= aim * its)
        for name, aim, mine, its in (
            ("exec to register", register, ours.median("register"), other.median("register")),
            ("the same, cold", register, ours.of_cold("register"), other.of_cold("register")),
            ("exec to first `next`", following, ours.median("next"), other.median("next")),
        )
    ]
    times = plain.median("register") / ours.median("register")
    worst = max(abs(each.difference) / each.error if each.error else 0.0 for each in seen.values())
    waits = max(each.after["with"] - each.after["floor"] for each in seen.values())

    def most(name: str, value: float, aim: float, unit: str, digits: int = 2) -> tuple[str, str, str, bool]:
        return name, f"{aim:g} {unit}", f"{value:.{digits}f} {unit}", value <= aim

    rows += [
        ("exec to register beside a usual extension", "1/15", f"1/{times:.0f}", times >= 15),
        most("CPU to the first `next`", ours.median("cpu"), 10, "ms", 1),
        most("PSS after 1,000 invocations", grown.pss, 5.0, "MiB"),
        most("private dirty", grown.private_dirty, 2.5, "MiB", 1),
        most(f"own growth over {grown.invocations:,} invocations", grown.growth_kib, 64, "KiB", 0),
        most("INVOKE to `next`, p50", answer.p50, 0.5, "ms"),
        most("INVOKE to `next`, p99", answer.p99, 2, "ms"),
        most("CPU of an invocation, outside sampling", answer.cpu_ms, 0.6, "ms"),
        *(most(f"sampling at {mib} MiB, in any second", each.worst, 1, "%") for mib, each in samples.items()),
        ("added to the function's duration", "none", f"at most {worst:.1f} standard errors", worst <= 2),
        ("added after the runtime is done, beside the floor", "0", f"{waits:+.2f} ms", waits <= 0.1),
    ]
    for name, (zipped, unpacked) in megabytes().items():
        reached, is_met = f"{zipped:.2f} / {unpacked:.2f} MB", zipped <= 1.6 and unpacked <= 6
        rows.append((f"zip / unpacked, {name}", "1.6 / 6.0 MB", reached, is_met))
    cells = [[name, aim, reached, "yes" if is_met else "**no**"] for name, aim, reached, is_met in rows]
    return Table("Aims", ("figure", "aim", "reached", "met"), cells)
