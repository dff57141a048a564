"""How well the peak of a function with children is known, in exact and in default mode.

Children of 20 ms to 1 s and 20 to 300 MiB, spawned and forked; many short ones, in Python and in shell, where curl is
the runtime client; workers that fork; and what leaves no account in the parent. The truth is the kernel's own trace of
all changes of RSS (testing/rss_trace.py, as root).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from truemem.linux.kernel import watermark_slack_kib
from truemem_workbench.local import Function

from benchmarks.kit.bench import Bench, percentile
from benchmarks.kit.contenders import EXECUTABLE
from benchmarks.kit.truth import Judged
from testing.environment import Environment
from testing.pages import ROOT, Result, Table
from testing.rss_trace import TreeTrace, Truth, tracing

TITLE = "Functions with children"
SETTINGS = {"sidecar": "Another one than the layer's."}
FUNCTIONS = ROOT / "benchmarks" / "functions"
FAMILY = f"{FUNCTIONS / 'family.py'}:handler"
SHELL = str(FUNCTIONS / "shell" / "bootstrap")
MODES = ("exact", "default")
INVOCATIONS = 200
"""Invocations of each kind and mode."""
FIRST = 1
"""Invocations before those: the first one has the init phase beside it."""

MEMORY_MIB = (256, 512, 1769)
LIVES_MS = (20, 50, 100, 300, 1000)
TIMES = {20: 8, 50: 8, 100: 8, 300: 4, 1000: 2}
"""Invocations of each size, number and start, by the life of its children."""
SIZES_MIB = (20, 80, 300)
COUNTS = (1, 4)
HOW = ("spawn", "fork")
ROOM = 0.85
"""Share of the memory size that the function may take."""
OWN_MIB = {"spawn": 10, "fork": 30}
"""What a child holds besides,"""
RUNTIME_MIB = 45
"""and what the runtime does."""

SLACK_MIB = round(watermark_slack_kib() / 1024, 2)
"""The kernel's own error on this machine, which one of the kinds provokes."""
NEAR = 0.1
"""`PeakRSS` is within this part of the truth."""
WIDTH_P50, WIDTH_P90 = 25, 100
"""The promise, MiB, of all records with children in one mode. No bound is false, and none is above the memory size."""


@dataclass(frozen=True)
class Kind:
    """What one environment is invoked with."""

    name: str
    memory_mib: int
    event: Mapping[str, object]
    """With "count": [least, most], any number in between."""
    spec: str = FAMILY
    variables: Mapping[str, str] = field(default_factory=dict)
    has_children: bool = True

    def drawn(self, chance: random.Random) -> dict[str, object]:
        event = dict(self.event)
        if isinstance(span := event.get("count"), list):
            event["count"] = chance.randint(*span)
        return event


HOLDS = {"HOLD": "60000000"}
KINDS = (
    Kind("1 to 20 times /bin/true", 256, {"how": "true", "count": [1, 20]}),
    Kind("1 to 20 times python -c pass", 512, {"how": "python", "count": [1, 20]}),
    Kind("a pool of 4 workers", 1024, {"how": "pool", "count": 4, "mib": 20}),
    Kind("the same pool, kept", 1024, {"how": "pool", "count": 4, "mib": 20, "kept": True}),
    Kind("shell: curl alone", 256, {}, SHELL),
    Kind("shell: 1 to 20 times /bin/true", 256, {"how": "true", "count": [1, 20]}, SHELL),
    Kind("shell: seq, grep, sort, head", 512, {"how": "pipe"}, SHELL),
    Kind("shell that holds 60 MiB: /bin/true", 512, {"how": "true", "count": [1, 20]}, SHELL, HOLDS),
    Kind("beside a loop of /bin/true, 300 MiB held", 512, {"how": "loop", "mib": 300, "ms": 5}),
    Kind("held between vfork and exec, 100 MiB held", 512, {"how": "held", "mib": 100, "ms": 2}),
    Kind("SIGCHLD ignored for one child", 512, {"how": "ignored", "mib": 50}),
    Kind("SA_NOCLDWAIT for one child", 512, {"how": "nocldwait", "mib": 50}),
    Kind("huge pages of a child", 512, {"how": "huge", "mib": 48, "count": 1}),
    Kind("rings of io_uring of a child", 512, {"how": "rings", "count": 4, "ms": 0}),
    Kind("rings, the child lives 15 ms", 512, {"how": "rings", "count": 4, "ms": 15}),
    Kind("no child: huge pages", 512, {"how": "huge", "mib": 48, "count": 0}, has_children=False),
    Kind("no child: counters of each CPU", 512, {"how": "counters"}, has_children=False),
)


class Made(NamedTuple):
    """One invocation, and what its record says."""

    kind: Kind
    mode: str
    judged: Judged

    @property
    def near(self) -> bool:
        """What fork() hands on may count once or in each process."""
        least, most, peak = self.judged.least or 0, self.judged.most or 0, float(self.judged.record.PeakRSS)
        return (1 - NEAR) * least <= peak <= (1 + NEAR) * most

    @property
    def is_false(self) -> bool:
        return self.judged.is_false

    @property
    def impossible(self) -> bool:
        """A bound is above the memory size. (No function here holds so much.)"""
        return max(self.judged.bounds) > self.judged.memory_mib


def planned(memory_mib: int, share: float) -> list[dict[str, object]]:
    """Children that hold their memory together: all that fit into the memory size, in any order."""
    events: list[dict[str, object]] = []
    for how, count, mib, life in product(HOW, COUNTS, SIZES_MIB, LIVES_MS):
        if RUNTIME_MIB + count * (mib + OWN_MIB[how]) <= ROOM * memory_mib:
            events += [{"how": how, "count": count, "mib": mib, "ms": life}] * max(1, round(TIMES[life] * share))
    random.Random(4).shuffle(events)
    return events


def name_of(event: Mapping[str, object]) -> str:
    verb = {"spawn": "spawned", "fork": "forked"}[str(event["how"])]
    return f"{verb}, {event['count']} x {event['mib']} MiB"


def measure(kind: Kind, events: Sequence[dict[str, object]], mode: str, sidecar: Path, bench: Bench) -> list[Made]:
    """One environment. Raises AssertionError if the function failed, RuntimeError where nothing can be traced."""
    settings: dict[str, Any] = {"sidecar": sidecar, "memory_mib": kind.memory_mib, "environment": kind.variables}
    with tracing() as trace:
        if trace is None:
            raise RuntimeError("the kernel cannot be traced: run it as root")
        with Environment(Function.from_spec(kind.spec), exact=mode == "exact", **settings) as environment:
            title = f"{mode}, {kind.name or f'children at {kind.memory_mib} MiB'}"
            truths = [invoke(environment, event, trace) for event in bench.each(title, events)]
            records = environment.records()
    made = []
    for record, event, (inner, whole) in list(zip(records, events, truths, strict=True))[FIRST:]:
        name = kind.name or name_of(event)
        made.append(Made(kind, mode, Judged(name, record, inner.once, whole.rss, kind.memory_mib, SLACK_MIB)))
    return made


def invoke(environment: Environment, event: dict[str, object], trace: TreeTrace) -> tuple[Truth, Truth]:
    """The truth while the handler ran, and until the function was at rest again."""
    trace.forget()
    began = time.monotonic_ns()
    made = environment.local.invoke(event)
    answered = time.monotonic_ns()
    assert made.function_error is None, made.payload
    time.sleep(0.01)  # a shell asks for its next event by a process of its own: then it is frozen
    trace.read(environment.local.processes()["runtime"])
    span = made.payload.get("span") if isinstance(made.payload, dict) else None
    return trace.most(*(span or (began, answered))), trace.most(began, time.monotonic_ns())


def row(kind: str, mode: str, made: Sequence[Made]) -> list[str]:
    """Cells for records of one kind."""

    def part(said: Sequence[bool]) -> str:
        return f"{100 * sum(said) / len(said):.1f} %"

    widths = [each.judged.width for each in made]
    shares = (part([getattr(each, what) for each in made]) for what in ("near", "is_false", "impossible"))
    near, false, impossible = shares
    p50, p90 = (f"{percentile(widths, at):.1f}" for at in (50, 90))
    return [kind, mode, f"{len(made)}", near, p50, p90, false, impossible]


def broken(made: Sequence[Made]) -> list[str]:
    """Promises that were not kept."""
    found = []
    for mode in MODES:
        widths = [each.judged.width for each in made if each.mode == mode and each.kind.has_children]
        if widths and (percentile(widths, 50) > WIDTH_P50 or percentile(widths, 90) > WIDTH_P90):
            found.append(f"{mode}: width {percentile(widths, 50):.1f} at p50, {percentile(widths, 90):.1f} at p90")
    found += [f"false: {each}" for each in made if each.is_false]
    return [*found, *(f"above memory: {each.judged}, {each.mode}" for each in made if each.impossible)]


EXPLAINED = f"""\
One invocation after the other. The truth is what all processes of the function held together, as the kernel's own trace
has it. Within 10 %: `PeakRSS` is within 10 % of it. Width: of the interval `peakLower` to `peakUpper`, MiB; where there
is no upper bound, up to the memory size. False: a bound that the truth is beyond, {SLACK_MIB} MiB of the kernel's
bookkeeping allowed, or a figure that is wrong by more. What `fork()` hands on is in parent and child: an upper bound
may count it once. Above memory: a bound is above the memory size. Promised, of all records with children: at most
{WIDTH_P50} MiB at p50 and {WIDTH_P90} at p90, none false, none above the memory size."""


def run(bench: Bench) -> Result:
    count = bench.count(INVOCATIONS, 2) + FIRST
    chance = random.Random(2)
    work = {kind.name: (kind, [kind.drawn(chance) for _ in range(count)]) for kind in KINDS}
    work |= {f"children at {mib} MiB": (Kind("", mib, {}), planned(mib, bench.share)) for mib in MEMORY_MIB}
    chosen, sidecar = bench.chosen(work), Path(bench.settings.get("sidecar", EXECUTABLE))
    made = [each for mode in MODES for name in chosen for each in measure(*work[name], mode, sidecar, bench)]
    groups: dict[tuple[str, str], list[Made]] = {}
    for each in made:
        groups.setdefault((each.judged.work, each.mode), []).append(each)
    in_all = {mode: [each for each in made if each.mode == mode and each.kind.has_children] for mode in MODES}
    headings = ("", "mode", "records", "within 10 %", "width p50", "p90", "false", "above memory")
    totals = [row("all with children", mode, of) for mode, of in in_all.items() if of]
    by_kind = [row(*key, of) for key, of in groups.items()]
    tables = [Table("", headings, totals, EXPLAINED, 2), Table("By kind", headings, by_kind, text_columns=2)]
    return Result(tables, broken(made))
