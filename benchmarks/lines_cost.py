"""What `--lines` costs, by language: while nothing is profiled, and while the function is.

A function with the heap's probe runs under the local Lambda and the layer of `make layer`, with `TRUEMEM_LINES` off and
on, by turns. It keeps nothing, and no profile is asked for; or it keeps 40 KiB of each invocation, and is profiled.
Requests come at once after each other, so that the caller waits for what is done after an answer.

Two processes of one kind differ by some percent, so what differs by 0.5 % does not show between them. So the CPU time
of a function that is not profiled is timed where it is spent: the function sends eight answers with the preload's look
and eight without, by turns, and in the sidecar a clock is around what the lines do.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from truemem.config import VCPU_MIB
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import in_exact_mode, with_probe
from truemem_workbench.local.configuration.node_function import from_node_handler

from benchmarks.kit.bench import Bench, in_turn, middle, percentile
from benchmarks.kit.contenders import EXECUTABLE, EXTENSIONS
from benchmarks.kit.local import pss_mib
from benchmarks.kit.pages import ROOT, Result, Table
from benchmarks.kit.running import confined
from testing.bare import cpu_ns

TITLE = "What the lines cost"
DOCS = "docs/heap.md"
FUNCTIONS = ROOT / "benchmarks" / "functions" / "lines"
OFF, ON = "off", "on"
PYTHON, NODE, JAVA = LANGUAGES = ("Python", "Node.js", "Java")
HANDLERS = ("works", "allocates")
JVM = ("-XX:+UseSerialGC", "-Xmx64m", "-Xshare:auto", "-XX:TieredStopAtLevel=1")
"""As AWS's own runtimes start it, with a smaller heap."""
ROUNDS, SMALL_MIB = 4, 128
BLOCK, WARM_UP, IDLE_BLOCKS = 5, 15, 15
"""So many in a row, then it is the other's turn; blocks of an environment that keeps nothing."""
MOST, LATER = 240, 10
"""Blocks until a profile has ended, at most, and until it is printed."""
EACH, TIMED_WARM_UP, TIMED_MOST = 8, 6, 60
"""Answers of a turn in functions/lines/timed.*, from one look of the preload to the next; turns."""
CPU_PERCENT, MEMORY_KIB = 1.0, 1024
"""The promise, of a function that is not profiled."""


class Case(NamedTuple):
    language: str
    handler: str
    classes: Path
    """Folder of Java's."""
    memory_mib: int = VCPU_MIB

    def environment(
        self, lines: str, extension: Path = EXECUTABLE, more: Mapping[str, str] | None = None, file: str = "app"
    ) -> LocalLambda:
        """With the heap's probe, in exact mode."""
        setting = "on,java" if lines == ON and self.language == JAVA else lines
        if self.language == JAVA:
            command = (str(shutil.which("java")), *JVM, "-cp", str(self.classes), "App", self.handler)
            function = Function(command, self.classes, "App", None, (self.classes,))
        elif self.language == NODE:
            function = from_node_handler(f"{FUNCTIONS}/{file}.mjs:{self.handler}", None, lambda _: None)
        else:
            function = Function.from_handler(f"{FUNCTIONS}/{file}.py:{self.handler}")
        made = in_exact_mode(function, {"TRUEMEM_LINES": setting, **(more or {})}, EXECUTABLE)
        assert made is not None, "the program of exact mode is not there: run `make layer`"
        function, variables = made
        settings = Settings(
            memory_mib=self.memory_mib,
            timeout_s=300,
            extensions=[extension],
            environment=variables,
            user="current",  # HotSpot has no counters of a user without a name
        )
        return LocalLambda(with_probe(function, variables), settings)


class Side:
    """One environment, after its first invocation."""

    def __init__(self, local: LocalLambda) -> None:
        self.local = local
        local.invoke({"keep": False})
        self.pids = local.processes()
        self.sidecar = self.pids[f"extension:{EXECUTABLE.name}"]
        self.took_ms: list[float] = []
        """Of each response, as the caller sees it."""
        self.cpu_ms: list[tuple[float, float]] = []
        """Of function and sidecar for an invocation, in the mean of each block."""

    def turn(self, event: dict[str, object]) -> None:
        """A block of invocations, until all is at rest."""
        pids = self.pids["runtime"], self.sidecar
        before = [cpu_ns(pid) for pid in pids]
        for _ in range(BLOCK):
            began = time.perf_counter()
            answer = self.local.invoke(event)
            self.took_ms.append((time.perf_counter() - began) * 1000)
            assert answer.function_error is None, answer
        self.local.settle()
        function, sidecar = ((cpu_ns(pid) - was) / BLOCK / 1e6 for pid, was in zip(pids, before, strict=True))
        self.cpu_ms.append((function, sidecar))

    def forget(self) -> None:
        """What was measured so far does not count."""
        self.took_ms.clear()
        self.cpu_ms.clear()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.local.extension_stdout(EXECUTABLE.name)]

    def profile(self) -> dict[str, object]:
        """Empty until it is printed."""
        return next((line["growthProfile"] for line in self.lines() if "growthProfile" in line), {})


@contextmanager
def both(case: Case) -> Iterator[dict[str, Side]]:
    with ExitStack() as stack:
        yield {name: Side(stack.enter_context(case.environment(name))) for name in (OFF, ON)}


def is_profiled(local: LocalLambda) -> bool | None:
    """None before the sidecar has asked for it."""
    marks = list((local.environment_dir / "tmp").glob(".truemem-asked-*"))
    return marks[0].read_text() != "0\n" if marks else None


class Calm(NamedTuple):
    """Of a function that is not profiled, by environments or turns."""

    function_us: Sequence[float]
    """CPU of an invocation: with the look less without it, of each two turns."""
    sidecar_us: Sequence[float]
    invocation_us: float
    """CPU of function and sidecar for an invocation, lines off."""
    more_kib: Sequence[float]
    """Memory of function and sidecar, on against off."""

    def percent(self) -> tuple[float, float]:
        """More CPU, and its standard error."""
        function, error = middle(self.function_us)
        spread = statistics.variance(self.sidecar_us) / len(self.sidecar_us) if len(self.sidecar_us) > 1 else 0.0
        added = function + statistics.fmean(self.sidecar_us)
        return 100 * added / self.invocation_us, 100 * (error**2 + spread) ** 0.5 / self.invocation_us


def calm(case: Case, rounds: int) -> Calm:
    looks, sidecars, cpu, kib = [], [], [], []
    for _ in range(rounds):
        with both(case) as sides:
            for number in range(WARM_UP + IDLE_BLOCKS):
                if number == WARM_UP:
                    for side in sides.values():
                        side.forget()
                if is_profiled(sides[ON].local) is None:  # V8's heap grows at first
                    in_turn({name: partial(side.turn, {"keep": False}) for name, side in sides.items()}, 1)
            held = {name: pss_mib(side.sidecar) for name, side in sides.items()}  # they share pages
            cpu += sides[OFF].cpu_ms
            for name, side in sides.items():
                side.local.stop()
                held[name] += max(float(line["PeakRSS"]) for line in side.lines())
        kib.append(1024 * (held[ON] - held[OFF]))
        function, sidecar = timed(case)
        looks += function
        sidecars.append(sidecar)
    return Calm(looks, sidecars, 1000 * statistics.fmean(map(sum, cpu)), kib)


def timed(case: Case) -> tuple[list[float], float]:
    """One environment until it is profiled, µs: the look in the function, of each two turns; and the sidecar's."""
    with tempfile.TemporaryDirectory(prefix="truemem-look-", dir="/tmp") as name:
        extension, file = Path(name) / "truemem", Path(name) / "timed.json"
        extension.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {EXTENSIONS / "timed_lines.py"} "$0"\n')
        extension.chmod(0o755)
        looks: list[float] = []
        with case.environment(ON, extension, {"TIMED": str(file)}, "timed") as local:
            turns = 0
            while turns < TIMED_WARM_UP + TIMED_MOST and is_profiled(local) is None:
                for _ in range(EACH):
                    answer = local.invoke({"keep": False})
                    assert answer.function_error is None, answer
                turns += 1
            turns -= is_profiled(local) is not None
            assert turns > TIMED_WARM_UP + 1, "it is profiled at once"
            if case.language != JAVA:
                spent: Any = local.invoke({"keep": False, "spent": True}).payload
                pairs = zip(spent[TIMED_WARM_UP:turns:2], spent[TIMED_WARM_UP + 1 : turns : 2], strict=False)
                looks = [(looked - past) / EACH for looked, past in pairs]
        return looks, statistics.fmean(json.loads(file.read_text())[EACH * TIMED_WARM_UP : EACH * turns])


def profiled(case: Case) -> dict[str, Side]:
    """It leaks until a profile has ended. Each side has what was measured while there was one."""
    with both(case) as sides, ExitStack() as stack:
        share, was = case.memory_mib / VCPU_MIB, None
        for _ in range(MOST):
            state = is_profiled(sides[ON].local)
            if state is False:
                break
            if state and not was:
                for name, side in sides.items():
                    side.forget()
                    if share < 1:
                        is_confined = stack.enter_context(confined(list(side.pids.values()), share, name))
                        assert is_confined, "a cpu cgroup is not permitted"
            was = state
            # Only a major collection says how much of a JVM's heap is live.
            event: dict[str, object] = {"keep": True, "collect": not state and case.language == JAVA}
            in_turn({name: partial(side.turn, event) for name, side in sides.items()}, 1)
        for _ in range(LATER * BLOCK):
            if not sides[ON].profile():
                sides[ON].local.invoke({"keep": False})
                sides[ON].local.settle()
        profile = sides[ON].profile()
        assert profile and not profile.get("gaveUp"), f"{case.language}, {case.handler}: no profile: {profile}"
    return sides


def of_profiles(made: Sequence[dict[str, Side]]) -> tuple[float, str]:
    """More CPU of the function in all invocations of a profile, ms; and the responses' p99, off and on."""
    more = [
        sum(BLOCK * cpu for cpu, _ in each[ON].cpu_ms) - sum(BLOCK * cpu for cpu, _ in each[OFF].cpu_ms)
        for each in made
    ]
    p99 = (percentile(list(chain(*(each[name].took_ms for each in made))), 99) for name in (OFF, ON))
    return statistics.fmean(more), " / ".join(f"{ms:.0f}" for ms in p99)


def run(bench: Bench) -> Result:
    rounds = bench.count(ROUNDS)
    calms, profiles, broken = [], [], []
    with tempfile.TemporaryDirectory(prefix="truemem-lines-", dir="/tmp") as name:
        classes = Path(name)
        classes.chmod(0o755)
        for language in bench.each("languages", bench.chosen(LANGUAGES)):
            if language == JAVA:
                subprocess.run(["javac", "-d", name, FUNCTIONS / "App.java"], check=True)
            found = {handler: calm(Case(language, handler, classes), rounds) for handler in HANDLERS}
            most = max(found.values(), key=lambda each: each.percent())
            kib = middle(found["works"].more_kib)  # where it allocates, V8's heap differs by more
            for (value, error), limit, unit in ((most.percent(), CPU_PERCENT, "%"), (kib, MEMORY_KIB, "KiB")):
                if value + 2 * error > limit:
                    broken.append(f"{language}: {value:.1f} ± {error:.1f} {unit}")
            function = f"{middle(most.function_us)[0]:.1f} µs" if most.function_us else "nothing"
            percent = "{:+.1f} ± {:.1f} %".format(*most.percent())
            sidecar = f"{statistics.fmean(most.sidecar_us):.1f} µs"
            calms.append([language, function, sidecar, percent, f"{kib[0]:.0f} KiB"])
            case = Case(language, "works", classes)
            (in_all, p99), (_, small) = (
                of_profiles([profiled(each) for _ in range(rounds)])
                for each in (case, case._replace(memory_mib=SMALL_MIB))
            )
            profiles.append([language, *(f"{each} ms" for each in (f"{in_all:.0f}", p99, small))])
    calm_table = Table("While nothing is profiled", ("", "function", "sidecar", "more CPU", "more memory"), calms, CALM)
    headings = ("", "CPU in all", "p99", f"p99, {SMALL_MIB} MB")
    tables = [calm_table, Table("While it is profiled", headings, profiles, PROFILED)]
    docs = {
        (DOCS, mark): table._replace(note="").markdown()
        for mark, table in zip(("lines-calm", "lines"), tables, strict=True)
    }
    return Result(tables, broken, docs)


CALM = f"""\
CPU time of an invocation: in the function, of its look whether a profile is asked for, against answers without it, by
turns in one process; in the sidecar, by a clock around what the lines do there. More CPU: both, of the CPU that
function and sidecar take for the invocation. Of two handlers (one works, one allocates all the time) the one that costs
more. More memory: of both, where the function works. The promise is {CPU_PERCENT:g} % at most, and {MEMORY_KIB} KiB:
each with two standard errors."""
PROFILED = """\
Of two figures the first is with `TRUEMEM_LINES` off, the second with it on, by turns, with the heap's probe and the
same sidecar. In all: more CPU of the function, of a whole profile. p99: of the response, as a caller sees it who waits
for what is done after the last one."""
