"""How often environments together are judged rightly: false accusations, and leaks found, on fleets made from seeds.

No accusation without a leak, and each leak of PROMISED_KIB or more is found.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from truemem_workbench.analysis.drift import Point, judge
from truemem_workbench.analysis.fleet import RATE, Together, accuse, evidence, pool

from benchmarks.kit.bench import Bench
from testing.fleets import QUIET, leaking, quiet
from testing.pages import Result, Table

TITLE = "Environments together"
FLEETS, LEAKS, FIRST_SEED = 1300, 100, 10_000
LEAKS_KIB = (0.5, 1.0, 2.0, 4.0)
PROMISED_KIB = 1.0
"""Smallest leak that is promised to be found, in 100 environments of 200 invocations."""
ALONE = 5
"""Environments of each leaking fleet that are also judged alone."""


def together(fleet: Sequence[Sequence[Point]]) -> Together | None:
    """The judgement on one fleet, as on the only function of a report."""
    return accuse([pool([evidence(environment) for environment in fleet])])[0]


def tell_quiet(which: tuple[str, int]) -> tuple[str, Together | None]:
    """Of a fleet of that kind and seed."""
    return which[0], together(quiet(*which))


def tell_leak(which: tuple[float, int]) -> tuple[float, Together | None, int]:
    """Of a fleet with that leak and seed; with how many of ALONE environments are growing alone."""
    fleet = leaking(*which)
    return which[0], together(fleet), sum(judge(environment).name == "growing" for environment in fleet[:ALONE])


def run(bench: Bench) -> Result:
    count, of_each = bench.count(FLEETS, len(QUIET)), bench.count(LEAKS, 2)
    kinds, seeds = list(QUIET), range(FIRST_SEED, FIRST_SEED + of_each)
    calm = [(kinds[at % len(kinds)], FIRST_SEED + at) for at in range(count)]
    free = bench.spread("fleets without a leak", tell_quiet, calm)
    leaky = bench.spread("fleets with one", tell_leak, [(kib, seed) for kib in LEAKS_KIB for seed in seeds])
    rows, found = [], []
    for name in kinds:
        own = [each for kind, each in free if kind == name]
        known = [each for each in own if each is not None]
        figures = len(own), len(known), sum(each.grows for each in known)
        rows.append([name, *(f"{each:,}" for each in figures), f"{min((each.p for each in known), default=1.0):.1g}"])
    for kib in LEAKS_KIB:
        of = [(each, alone) for leak, each, alone in leaky if leak == kib]
        known = [each for each, _ in of if each is not None]
        width = statistics.median(each.high_kib - each.low_kib for each in known)
        cells = [f"{kib:g} KiB", f"{len(of):,}", f"{sum(each.grows for each in known):,}"]
        cells += [f"{max(each.p for each in known):.1g}", f"{width:.3f}"]
        inside, alone = sum(each.low_kib <= kib <= each.high_kib for each in known), sum(each for _, each in of)
        found.append([*cells, f"{inside:,}", f"{alone:,} of {len(of) * ALONE:,}"])
    accused = sum(each is not None and each.grows for _, each in free)
    missed = sum(kib >= PROMISED_KIB and not (each is not None and each.grows) for kib, each, _ in leaky)
    quiet_note = (
        "20 to 200 environments of 60 to 400 invocations; a fifth of the fleets has two kinds at once. Compared: enough"
        f" environments are long enough, and calm. A function is accused if p is at most {RATE:g}."
    )
    leak_note = (
        "100 environments of 200 invocations. Noise: log-normal jitter of 4 to 64 KiB, outliers, and in each"
        f" environment its own base and settling of 1 to 20 MiB. Growing alone: {ALONE} environments of each fleet, by"
        " their own verdict."
    )
    names = ("leak per invocation", "fleets", "found", "highest p", "width of interval, KiB", "leak within it")
    tables = [
        Table("", ("fleets without a leak", "fleets", "compared", "accused", "lowest p"), rows, quiet_note),
        Table("With a leak", (*names, "growing alone"), found, leak_note),
    ]
    promises = {f"{accused:,} accused without a leak": accused, f"{missed:,} leaks missed": missed}
    return Result(tables, [words for words, number in promises.items() if number])
