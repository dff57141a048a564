"""How often the finding names the true cause, of public reports rebuilt and of recorded programs.

Runs the real gate with its default options on each of tests/cases and on each program of testing.drift.recorded, and
some cases ten times. Half an hour.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from truemem_workbench.answer.limits import Limits, LimitsDecision
from truemem_workbench.judge.finding import GROWS
from truemem_workbench.runs.here import measure
from truemem_workbench.runs.passes import Plan
from truemem_workbench.support.terminal import counted
from truemem_workbench.target.target import Target

from benchmarks.kit.bench import Bench
from testing.cases import COUNTED, Case, cases, ready
from testing.drift import recorded
from testing.installs import Missing
from testing.pages import Result, Table

TITLE = "Cases"
TRUEMEM = Path(sys.executable).with_name("truemem")
REPEATED = ("lru_cache_behind_load", "onnx_session", "extension_keeps_payloads", "children_left")
"""Told in each run: the hidden leak, the hoarder, the extension, the children."""
RUNS = 10
MOST_HIDDEN = 400
"""Invocations within which the hidden leak fails the gate."""
AIM = 0.95
LEAKS = {*GROWS} - {"collector"}
"""Garbage alone is nothing that a healthy program must not have."""


@dataclass(frozen=True)
class Told:
    """One run of the gate."""

    name: str
    known: str
    cause: str
    right: bool
    invocations: int
    seconds: float
    ratio: str = ""
    """What an invocation keeps: as it is told, to what is known. Empty where either is not a size."""
    more: str = ""

    def cells(self) -> list[str]:
        mark = "" if self.right else " **wrong**"
        figures = [f"{self.invocations:,}", f"{self.seconds:.0f}", self.ratio]
        return [self.name, self.known, f"{self.cause}{mark}", *figures, self.more]


def told_of(case: Case, *options: str) -> Told:
    """Run the command on a case. Raises Missing where something that it needs is not here."""
    program = ready(case)
    events = () if "--events" in case.options else ("--event", case.event)
    command = [str(TRUEMEM), "check", *program.arguments, *events, *case.options, *options, "--no-explain", "--json"]
    begun = time.monotonic()
    done = subprocess.run(command, cwd=program.folder, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    finding, tried = document["finding"], document.get("tried")
    kib = finding.get("perInvocationKiB")
    is_size = kib is not None and case.keeps is not None and case.causes[0] not in COUNTED
    return Told(
        name=case.name,
        known=" or ".join(case.causes),
        cause=finding["cause"],
        right=finding["cause"] in case.causes
        and (case.holder or "") in finding.get("holder", "")
        and (tried is None or tried["helps"]),
        invocations=document["invocations"],
        seconds=time.monotonic() - begun,
        ratio=f"{kib / case.keeps:.2f}" if is_size else "",
        more="" if tried is None else f"repair: {tried['before']:.1f} to {tried['after']:.1f} KiB",
    )


def told_of_recorded(name: str) -> Told:
    """Run the gate on a recorded program: right if a leak grows by what it says, and all else does not."""
    begun = time.monotonic()
    function = recorded.function_of(name)
    target = Target(spec=name, name="recorded", function=function, environment={"BEHAVIOUR": name})
    made = measure(target, [{}], Plan(), LimitsDecision(Limits()))
    leaks, cause = recorded.REAL[name], made.finding.cause
    right = (cause in GROWS and made.finding.grows) is leaks and cause != "undecided"
    known = "grows" if leaks else "does not"
    return Told(name, known, cause, right, made.invocations, time.monotonic() - begun)


def run(bench: Bench) -> Result:
    known = {case.name: case for case in cases()}
    once: list[Told] = []
    repeated: dict[str, list[Told]] = {}
    for name in bench.each("programs", bench.chosen([*known, *recorded.REAL])):
        try:
            once.append(told_of(known[name]) if name in known else told_of_recorded(name))
        except Missing as missing:
            bench.echo(f"{name}: left out, {missing}")
            continue
        bench.echo(" | ".join(once[-1].cells()))
        if name in REPEATED:
            options = ["--try-repair"] if "hoarding" in known[name].causes else []
            repeated[name] = [told_of(known[name], *options) for _ in range(bench.count(RUNS))]
    counts = []
    for name, runs in repeated.items():
        most, right = max(each.invocations for each in runs), sum(each.right for each in runs)
        counts.append([name, f"{right} of {len(runs)}", f"{most:,}", runs[0].more])
    right = sum(each.right for each in once)
    healthy = [each for each in once if not {*LEAKS, "grows"} & {*each.known.split(" or ")}]
    accused = [each.name for each in healthy if each.cause in LEAKS]
    note = (
        f"The true cause in {right} of {counted(len(once), 'program')} ({right / len(once):.0%}), with the gate's"
        " default options: public reports, rebuilt (tests/cases), then the recorded programs. At the median it takes"
        f" {median(each.invocations for each in once):.0f} invocations and"
        f" {median(each.seconds for each in once):.0f} s. Of {counted(len(healthy), 'program')} that keep nothing, or"
        f" within a bound, {len(accused)} {'is' if len(accused) == 1 else 'are'} told to leak."
    )
    hidden = repeated.get(REPEATED[0], [])
    promises = {
        f"right in {right} of {len(once)}": right >= AIM * len(once),
        f"told to leak: {', '.join(accused)}": not accused,
        "wrong in one of many runs": all(each.right for runs in repeated.values() for each in runs),
        "the hidden leak takes longer": all(each.invocations <= MOST_HIDDEN for each in hidden),
    }
    heads = ("program", "known", "told", "invocations", "s", "told / true", "")
    again = Table("Again and again", ("case", "right", "most invocations", "with the repair"), counts)
    broken = [words for words, is_kept in promises.items() if not is_kept]
    return Result([Table("", heads, [each.cells() for each in once], note, 3), again], broken)
