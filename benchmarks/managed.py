"""How right the peak of an environment is whose workers share pages, and what more of them need.

In each round all requests hold memory at the same moment, and a judge of its own looks then: it reads the frame number
of each page that a process of the environment has (/proc/PID/pagemap), and counts every frame once. It uses nothing of
truemem, and needs root. Beside it are what workers have by RSS, and the largest worker by their number, which is AWS's
rule for Python. Then `truemem size` reckons with few workers what eight need.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from truemem_workbench.judge.finding import Commands
from truemem_workbench.local import Function
from truemem_workbench.runs.here import Run
from truemem_workbench.size.managed_sweep import ManagedSweep
from truemem_workbench.target.target import Target

from benchmarks.kit.bench import Bench, percentile
from testing.environment import SLACK_MIB
from testing.pages import Result, Table, markdown

TITLE = "Managed Instances"
DOCS = "docs/how-it-measures.md"
HANDLER = Path(__file__).parent / "functions" / "held.py"
MEMORY_MIB, ROUNDS = 4096, 100
MODEL_MIB = 32
PRESENT, FRAME = 1 << 63, (1 << 55) - 1
"""Bits of an entry of pagemap (the kernel's Documentation/admin-guide/mm/pagemap.rst)."""
OF_KERNEL = ("[vvar]", "[vvar_vclock]", "[vdso]", "[vsyscall]")
"""Mappings that no process pays for."""
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_S = 0.001
MOST_OFF = 0.05
"""What is reckoned for more workers may be so far from the truth."""


@dataclass(frozen=True)
class Case:
    """One way of running the function."""

    workers: int
    event: Mapping[str, int]
    model: bool = False


CASES = {
    "2 workers, 1 to 40 MiB each": Case(2, {"most": 40}),
    "4 workers, 1 to 40 MiB each": Case(4, {"most": 40}),
    "8 workers, 1 to 40 MiB each": Case(8, {"most": 40}),
    "8 workers, 1 MiB each": Case(8, {"most": 1}),
    f"8 workers with one model of {MODEL_MIB} MiB": Case(8, {"most": 40}, model=True),
}
HEADINGS = ("", "records", "truth", "right", "error p50 (least to most)", "RSS p50", "largest p50")
RECKONED = ("", "tried", "reckoned for 8", "truth", "error")


# --- the judge: nothing of truemem ------------------------------------------------------------------------------------


def family(root: int) -> list[int]:
    """A process and all below it."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (entry / "stat").read_text()
            below.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += below.get(pid, [])
    return found


def frames(pid: int) -> Any:
    """The numbers of the page frames that a process has in memory."""
    found = [np.empty(0, np.uint64)]
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, _, rest = line.partition("-")
            first, last = int(begin, 16) // PAGE, int(rest.split()[0], 16) // PAGE
            if not line.endswith(OF_KERNEL):
                pagemap.seek(first * 8)
                entries = np.frombuffer(pagemap.read((last - first) * 8), dtype=np.uint64)
                found.append(entries[(entries & np.uint64(PRESENT)) != 0] & np.uint64(FRAME))
    return np.concatenate(found)


def once_mib(root: int) -> float:
    """MiB of all pages of a process and of those below it, each page counted once. Raises OSError without root."""
    seen = np.unique(np.concatenate([frames(pid) for pid in family(root)]))
    if len(seen) < 100:
        raise OSError("the kernel tells the numbers of page frames to root alone")
    return float(len(seen) * PAGE / 2**20)


def look_on(root: int, folder: str, of: int) -> None:
    """Look each time that so many requests hold what they have taken, then let them go. Until it is killed."""
    round_, place = 0, Path(folder)
    while True:
        meeting = place / str(round_)
        if meeting.is_dir() and len(list(meeting.iterdir())) >= of:
            truth = once_mib(root)
            (place / f"{round_}.json").write_text(json.dumps(truth))
            (meeting / "seen").touch()
            round_ += 1
        time.sleep(LOOK_S)


@contextmanager
def judged(root: int, folder: Path, of: int) -> Iterator[None]:
    """The judge looks on."""
    process = multiprocessing.get_context("spawn").Process(target=look_on, args=(root, str(folder), of), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


# --- what truemem says ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """One record beside the truth, MiB."""

    truth: float
    said: float
    upper: float
    """As `said`, unless something was not seen."""
    rss: float
    largest: float
    """RSS of the largest worker."""


def target_of(case: Case, folder: Path) -> Target:
    model = folder / "model"
    environment = {}
    if case.model:
        model.write_bytes(os.urandom(MODEL_MIB << 20))
        model.chmod(0o644)
        environment = {"MODEL": str(model)}
    function = Function.from_handler(f"{HANDLER}:handler")
    return Target(
        spec="held",
        name="held",
        function=function,
        memory_mib=MEMORY_MIB,
        managed_instances=case.workers,
        environment=environment,
    )


@contextmanager
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="managed-", dir="/var/tmp") as made:
        folder = Path(made)
        folder.chmod(0o777)
        yield folder


def measure(name: str, case: Case, bench: Bench, *, settles: bool = False) -> list[Round]:
    """The records of a case, each with its truth. `settles`: garbage is collected now and then, as `size` does it."""
    rounds = bench.count(ROUNDS, 10)
    advance = bench.step(name, rounds)
    with place() as folder, Run(target_of(case, folder)) as run:
        run.local.rest(case.workers, 30.0)
        with judged(run.local.processes()["runtime"], folder, case.workers):
            if settles:
                run.begin_passes(rounds // 2)
            for number in range(rounds):
                meeting = folder / str(number)
                meeting.mkdir()
                meeting.chmod(0o777)
                answer = run.invoke({**case.event, "meet": str(meeting)})
                assert not answer.error, answer.error
                advance()
        seen = run.measurement(0).seen
        assert run.rounds is not None
        found = []
        for each, made in zip(seen, run.rounds.made, strict=True):
            assert made.after is not None
            found.append(
                Round(
                    truth=json.loads((folder / f"{each.number - 1}.json").read_text()),
                    said=each.peak.lower,
                    upper=each.peak.upper,
                    rss=made.after.highest,
                    largest=max(made.after.peaks.values()),
                )
            )
    return found


def reckoned(tried: int, bench: Bench, model: bool) -> tuple[float, float]:
    """What `size` reckons for 8 at once from up to `tried`, and the truth, MiB: each request takes 40."""
    event = {"most": 40, "least": 40}
    with place() as folder:
        target = target_of(Case(tried, event, model), folder)
        result = ManagedSweep(target, [event], Commands(again=""), lambda *_: None, rounds=bench.count(20, 5)).run(None)
        assert result.needs is not None, result.sentences()
        told = replace(result.needs, others=0.0).of(8, MEMORY_MIB)
    return told, max(each.truth for each in measure("truth", Case(8, event, model), bench, settles=True))


def run(bench: Bench) -> Result:
    rows, short, broken = [], [], []
    kept = of = 0
    chosen = bench.chosen([*CASES, "reckoned"])
    for name in (name for name in chosen if name in CASES):
        seen, slack = measure(name, CASES[name], bench), SLACK_MIB * (CASES[name].workers + 1)
        errors = [each.said - each.truth for each in seen]
        right = sum(abs(error) <= slack and each.upper == each.said for each, error in zip(seen, errors, strict=True))
        rss = percentile([each.rss - each.truth for each in seen], 50)
        by_all = percentile([each.largest * CASES[name].workers - each.truth for each in seen], 50)
        error = f"{percentile(errors, 50):+.2f} ({min(errors):+.2f} to {max(errors):+.2f})"
        truth = f"{min(each.truth for each in seen):,.0f} to {max(each.truth for each in seen):,.0f}"
        rows.append([name, f"{len(seen):,}", truth, f"{right:,}", error, f"{rss:+.1f}", f"{by_all:+.1f}"])
        short.append([name, truth, error, f"{rss:+.0f}", f"{by_all:+.0f}"])
        kept, of = kept + right, of + len(seen)
        broken += [name] * (right < len(seen))
    note = (
        f"MiB above the truth. Right: within {SLACK_MIB} MiB for each process, the kernel's own error. RSS: the sum of"
        " all processes' peaks. Largest: the worker with the highest peak, by their number."
    )
    tables = [Table("", HEADINGS, rows, note)] if rows else []
    if "reckoned" in chosen:
        lines = []
        for name, tried, model in (
            ("40 MiB each", 2, False),
            ("40 MiB each", 4, False),
            (f"the same, and a model of {MODEL_MIB} MiB", 4, True),
        ):
            told, held = reckoned(tried, bench, model)
            lines.append([name, f"1 to {tried}", f"{told:,.1f}", f"{held:,.1f}", f"{told / held - 1:+.1%}"])
            broken += [f"reckoned by {tried}"] * (abs(told / held - 1) > MOST_OFF)
        tables.append(Table("What eight at once need", RECKONED, lines, "MiB of the function, without the sidecar."))
    docs = (
        f"{markdown(('', 'truth', 'error p50 (least to most)', 'RSS', 'largest'), short)}\n\nMiB. Columns:"
        " truemem's error; the error of adding up RSS; the error of the largest worker times their number. Right within"
        " the kernel's own error:"
        f" {kept:,} of {of:,} records."
    )
    return Result(tables, broken, {(DOCS, "managed"): docs} if rows else {})
