"""How often the finding names the true cause: of public reports, rebuilt, and of the recorded programs.

`python -m benchmarks.cases` runs the real gate with its default options on each of tests/cases and on each program of
testing.drift.recorded, and some cases ten times. Writes results/cases.md: half an hour. Exit
codes: 0 as promised, 1 not.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click
from truemem_workbench.analysis.finding import GROWS
from truemem_workbench.check.invocations import Plan
from truemem_workbench.check.limits import Limits
from truemem_workbench.check.local_run import measure
from truemem_workbench.check.target import Target
from truemem_workbench.support.terminal import counted

from benchmarks.publish import machine, markdown
from testing.cases import COUNTED, Case, cases, ready
from testing.drift import recorded
from testing.installs import Missing

RESULTS = Path(__file__).with_name("results") / "cases.md"
TRUEMEM = Path(sys.executable).with_name("truemem")
REPEATED = ("lru_cache_behind_load", "onnx_session", "extension_keeps_payloads", "children_left")
"""Told in each run: the hidden leak, the hoarder, the extension, the children."""
MOST_HIDDEN = 300
"""Invocations within which the hidden leak fails the gate."""
AIM = 0.95


@dataclass(frozen=True)
class Told:
    """One run of the gate."""

    name: str
    known: str
    cause: str
    right: bool
    invocations: int
    seconds: float
    ratio: float | None = None
    """What an invocation keeps: as it is told, to what is known. None where either is not a size."""
    more: str = ""

    def cells(self) -> list[str]:
        mark = "" if self.right else " **wrong**"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        figures = [f"{self.invocations:,}", f"{self.seconds:.0f}", ratio]
        return [self.name, self.known, f"{self.cause}{mark}", *figures, self.more]


def ratio_of(case: Case, kib: float | None) -> float | None:
    """What the finding says that an invocation keeps, as a multiple of what is known. None where it is not a size."""
    if kib is None or case.keeps is None or case.causes[0] in COUNTED:
        return None
    return kib / case.keeps


def told_of(case: Case, *options: str) -> Told:
    """Run the command on a case. Raises Missing where something that it needs is not here."""
    program = ready(case)
    events = () if "--events" in case.options else ("--event", case.event)
    command = [str(TRUEMEM), "check", *program.arguments, *events, *case.options, *options, "--no-explain", "--json"]
    begun = time.monotonic()
    done = subprocess.run(command, cwd=program.folder, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    finding, tried = document["finding"], document.get("tried")
    right = finding["cause"] in case.causes and (case.holder or "") in finding.get("holder", "")
    more = "" if tried is None else f"repair: {tried['before']:.1f} to {tried['after']:.1f} KiB"
    if tried is not None:
        right &= tried["helps"]
    return Told(
        name=case.name,
        known=" or ".join(case.causes),
        cause=finding["cause"],
        right=right,
        invocations=document["invocations"],
        seconds=time.monotonic() - begun,
        ratio=ratio_of(case, finding.get("perInvocationKiB")),
        more=more,
    )


def told_of_recorded(name: str) -> Told:
    """Run the gate on a recorded program: right if a leak grows by what it says, and all else does not."""
    begun = time.monotonic()
    function = recorded.function_of(name)
    target = Target(spec=name, name="recorded", function=function, environment={"BEHAVIOUR": name})
    events: list[object] = [{"n": number} for number in range(recorded.REAL_INVOCATIONS)]
    made = measure(target, events, Plan(), Limits(), exact=True, progress=lambda *_: None)
    leaks = recorded.REAL[name]
    return Told(
        name=name,
        known="grows" if leaks else "does not",
        cause=made.finding.cause,
        right=(made.finding.cause in GROWS and made.finding.grows) is leaks and made.finding.cause != "undecided",
        invocations=made.invocations,
        seconds=time.monotonic() - begun,
    )


def every() -> Iterator[Told]:
    """Each case and each program once."""
    for case in cases():
        try:
            yield told_of(case)
        except Missing as missing:
            click.echo(f"{case.name}: left out, {missing}", err=True)
    yield from map(told_of_recorded, recorded.REAL)


def again(runs: int) -> Iterator[Told]:
    """The cases that have to be told in each run."""
    for case in cases():
        if case.name in REPEATED:
            for _ in range(runs):
                yield told_of(case, *(["--try-repair"] if "hoarding" in case.causes else []))


def shown(found: Iterator[Told]) -> list[Told]:
    """All of them, each printed when it is there."""
    made = []
    for each in found:
        click.echo(" | ".join(each.cells()))
        made.append(each)
    return made


def page(once: Sequence[Told], repeated: Sequence[Told]) -> str:
    """The results."""
    right = sum(each.right for each in once)
    rows = [each.cells() for each in once]
    names = dict.fromkeys(each.name for each in repeated)
    counts = []
    for name in names:
        runs = [each for each in repeated if each.name == name]
        most = max(each.invocations for each in runs)
        more = "; ".join(dict.fromkeys(each.more for each in runs[:1] if each.more))
        counts.append([name, f"{sum(each.right for each in runs)} of {len(runs)}", f"{most:,}", more])
    heads = ["program", "known", "told", "invocations", "s", "told / true", ""]
    return "\n".join(
        [
            f"# Cases\n\n`python -m benchmarks.cases`, on {machine()}.\n",
            f"The true cause in {right} of {counted(len(once), 'program')} ({right / len(once):.0%}), with the gate's"
            " default options: public reports, rebuilt (tests/cases), then the recorded programs. At the median it"
            f" takes {median(each.invocations for each in once):.0f} invocations and"
            f" {median(each.seconds for each in once):.0f} s.\n",
            markdown(heads, rows, text_columns=3),
            "\n## Again and again\n",
            markdown(["case", "right", "most invocations", "with the repair"], counts),
            "",
        ]
    )


@click.command()
@click.option("--runs", default=10, show_default=True, help="Of each of the cases that are repeated.")
def main(runs: int) -> None:
    """Measure, and write the page."""
    repeated = shown(again(runs))
    once = shown(every())
    RESULTS.write_text(page(once, repeated), encoding="utf-8")
    hidden = [each for each in repeated if each.name == REPEATED[0]]
    kept = sum(each.right for each in once) >= AIM * len(once) and all(each.right for each in repeated)
    sys.exit(0 if kept and all(each.invocations <= MOST_HIDDEN for each in hidden) else 1)


if __name__ == "__main__":
    main()
