"""Is anything slower or larger than in layer.json and speed.json? What `make gate` runs.

It compares only ratios and sizes: each figure of our executable is set against another in the same run. Worse by a
fifth fails. Not compared (code 2) on another class of machine, unless asked for with --anywhere yes.
"""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path

from benchmarks import layer, speed, start
from benchmarks.kit.bench import Bench
from benchmarks.kit.contenders import contenders
from testing import pages
from testing.pages import RESULTS, Result, Table

NAMESPACE = True
SETTINGS = {"anywhere": "yes: compare on another class of machine, too."}
TOLERANCE = 1.2


def compare(now: dict[str, float], committed: dict[str, float]) -> list[tuple[str, float, float, bool]]:
    """Name, committed, now, and whether it is worse. A figure that is missing on one side is a KeyError."""
    return [(name, was, now[name], now[name] > was * TOLERANCE) for name, was in committed.items()]


def same_class(machine: str) -> bool:
    """The same processors, as many, and the same kernel's version: of what `pages.machine` says."""
    here = pages.machine()
    return machine.partition(", Linux")[0] == here.partition(", Linux")[0] and platform.release() in machine


def run(bench: Bench) -> Result:
    committed: dict[str, float] = {}
    for name in ("layer", "speed"):
        each = json.loads((RESULTS / f"{name}.json").read_text())
        if "anywhere" not in bench.settings and not same_class(each["machine"]):
            raise RuntimeError(f"not compared: {name}.json is from {each['machine']}; --anywhere yes does")
        committed |= each["ratios"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        compared, rounds = contenders(Path(folder)), bench.count(25, 2)
        starts = start.measure(compared, rounds, bench.step("cold starts", rounds + 1))
        now = {**layer.ratios(starts, layer.growth(compared[0], 100)), **speed.ratios(compared)}
    rows = compare(now, committed)
    cells = [[name, f"{was:.3f}", f"{new:.3f}", "worse" if worse else ""] for name, was, new, worse in rows]
    broken = [f"worse by more than a fifth: {name}" for name, _, _, worse in rows if worse]
    return Result([Table("Ours beside others", ("figure", "committed", "now", ""), cells)], broken)
