"""How far Max Memory Used alone can be believed: leaks found, accusations, bounds that hold.

Curves of `testing.drift.second_hand`, of which only the mark in whole MB is seen, one environment each; and fleets of
functions whose growth is known. A minute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from truemem_workbench.judge.marks import Growth, Life, Run, growth

from benchmarks.kit.bench import Bench, percent, share
from testing.drift.second_hand import composed
from testing.pages import Result, Table

TITLE = "Marks"
CURVES = 1500
TRIALS = 60
FLEETS = ((1, 500), (8, 500), (8, 2000), (40, 2000))
"""Environments, and invocations of each."""
MOST_ACCUSED, LEAST_BOUNDED = 0.05, 0.95
Floats = NDArray[np.float64]
Peaks = Callable[[np.random.Generator, int], Floats]


def alive(peaks: Floats) -> Life:
    """What REPORT lines say of an environment with these peaks, MB."""
    marks = np.maximum.accumulate(np.ceil(peaks)).astype(int).tolist()
    return Life([Run(mark, len(list(same))) for mark, same in groupby(marks)])


class Told(NamedTuple):
    leaks: bool
    kib: float
    """True growth, KiB in each invocation, from the first one on."""
    grown: Growth

    @property
    def is_bounded_rightly(self) -> bool | None:
        return None if self.grown.likely_kib is None else self.grown.likely_kib >= self.kib


def of_curve(seed: int) -> Told:
    levels, truth = composed(seed)
    made = growth([alive(levels / 1024)])
    assert made is not None
    return Told(truth.leaks, 0.0 if truth.starts_at else truth.kib_per_invocation * truth.leaks, made)


def noise(rng: np.random.Generator, count: int) -> Floats:
    return rng.uniform(60, 300) + rng.lognormal(1, 1, count)


def leak(kib: float) -> Peaks:
    return lambda rng, count: noise(rng, count) + np.arange(count) * kib / 1024


FUNCTIONS: dict[str, tuple[float, Peaks]] = {
    "the same each time": (0, lambda rng, count: np.full(count, rng.uniform(60, 300))),
    "noise with a long tail": (0, noise),
    "heavy tail": (0, lambda rng, count: 100 + 3 * (1 + rng.pareto(1.5, count))),
    "spikes": (0, lambda rng, count: noise(rng, count) + 150 * (rng.random(count) < 0.002)),
    "a collector": (0, lambda rng, count: noise(rng, count) + np.arange(count) % 60 / 2),
    "a cache, full at a quarter": (
        0,
        lambda rng, count: noise(rng, count) + 40 * np.minimum(1, np.arange(count) / rng.uniform(20, count / 4)),
    ),
    "load of the day": (
        0,
        lambda rng, count: (
            noise(rng, count) + 8 * np.sin(rng.random() * math.tau + np.arange(count) / count * math.tau)
        ),
    ),
    **{f"leak of {kib} KiB": (float(kib), leak(kib)) for kib in (2, 8, 32, 128)},
}


def of_fleet(case: tuple[str, int, int, int]) -> Told:
    name, environments, count, seed = case
    rng = np.random.default_rng((seed, environments, count))
    kib, peaks = FUNCTIONS[name]
    made = growth([alive(peaks(rng, count)) for _ in range(environments)])
    assert made is not None
    return Told(kib > 0, kib, made)


def run(bench: Bench) -> Result:
    curves = bench.spread("curves", of_curve, range(bench.count(CURVES)))
    leaks, still = ([each for each in curves if each.leaks is leaks] for leaks in (True, False))
    held = share(each.is_bounded_rightly for each in leaks)
    accused = share(each.grown.rises_too_often for each in still)
    rows = [
        ["leaks: growth is found", percent(share(each.grown.rises_too_often for each in leaks)), f"{len(leaks):,}"],
        ["bounded: called growing", percent(accused), f"{len(still):,}"],
        ["leaks: the bound (95 %) is true", percent(held), f"{sum(e.grown.likely_kib is not None for e in leaks):,}"],
    ]
    trials = range(bench.count(TRIALS))
    cases = [(name, *fleet, seed) for name in FUNCTIONS for fleet in FLEETS for seed in trials]
    made = dict(zip(cases, bench.spread("fleets", of_fleet, cases), strict=True))

    def cell(name: str, fleet: tuple[int, int]) -> str:
        of: Sequence[Told] = [made[(name, *fleet, seed)] for seed in trials]
        bounds = [each.grown.likely_kib for each in of if each.grown.likely_kib is not None]
        found = percent(share(each.grown.rises_too_often for each in of))
        return f"{found}; {median(bounds):,.0f} KiB" if bounds else found

    fleets = [[name, *(cell(name, fleet) for fleet in FLEETS)] for name in FUNCTIONS]
    right = share(each.is_bounded_rightly for each in made.values())
    false = share(each.grown.rises_too_often for each in made.values() if not each.leaks)
    headings = ("function", *(f"{number} x {count:,}" for number, count in FLEETS))
    note = f"Bounds are true in {percent(right)}; of functions that do not grow {percent(false)} are said to."
    tables = [
        Table("One environment each", ("", "share", "of"), rows, "Curves of a second hand, 128 to 4,096 invocations."),
        Table("Fleets: growth is found; the median bound, KiB in each invocation", headings, fleets, note),
    ]
    problems = [
        *(["accused too often"] if max(accused or 0, false or 0) > MOST_ACCUSED else []),
        *(["bounds that are not true"] if min(held or 0, right or 0) < LEAST_BOUNDED else []),
    ]
    return Result(tables, problems)
