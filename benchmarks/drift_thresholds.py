"""Chooses the thresholds of the verdict on drift (truemem.verdict) by cross-validation on the tuning seeds.

`python -m benchmarks.drift_thresholds`: of the grid, those that find most leaks beside other memory at 1,024
invocations, and accuse little. Each fold's choice is measured on the seeds that it did not see. Changes nothing.
"""

from __future__ import annotations

from itertools import product
from multiprocessing import Pool

import click
import numpy as np
from numpy.typing import NDArray
from truemem.verdict import CERTAIN_KIB, GATE_KIB, begun, levels_of, tail, trend
from truemem_workbench.analysis.drift import LAST_LEVELS

from benchmarks.publish import markdown
from testing.drift.compositions import ALONE, BESIDE, BOUNDED, FILLING, GROUPS, TUNING, compose

AT = 1024
FOLDS = 5
GRID = {
    "BEGUN": (0.0, 0.1, 0.2, 0.3, 0.4),
    "ENOUGH": tuple(round(0.08 + 0.01 * step, 2) for step in range(20)),
    "EVEN": (0.6, 0.7, 0.75, 0.8, 0.9, 2.0),
    "EVEN_TAIL": (0.22, 0.24, 0.26, 0.28, 0.3, 0.32),
}
"""EVEN = 2: no rise is even."""
MOST = {BOUNDED: 0.025, FILLING: 0.035}
"""Accused on the seeds that choose: a little less than promised, as other seeds will have more."""
LEAST_ALONE = 0.75


class Features:
    """Of some curves: the columns that the thresholds are about."""

    def __init__(self, rows: NDArray[np.float64], groups: NDArray[np.str_]) -> None:
        self.rate, self.low, self.tail, self.begun, self.even_tail = rows.T
        self.groups = groups

    def called(self, thresholds: tuple[float, ...]) -> NDArray[np.bool_]:
        """Which are called growing, as LeakVerdict does it at its last look."""
        begun_weight, enough, even, even_tail = thresholds
        goes_on = self.tail - begun_weight * self.begun > enough
        goes_on |= (self.low > even * self.rate) & (self.even_tail > even_tail)
        return np.asarray((self.low > CERTAIN_KIB) & (self.rate >= GATE_KIB) & goes_on)


def row(seed: int) -> tuple[list[float], str]:
    """Rate, low end, and what going_on is made of, for one seed."""
    made = compose(seed)
    _, floors = levels_of(made.current[:AT].tolist(), LAST_LEVELS)
    first, each = max(2, len(floors) // 6), AT / len(floors)
    judged = floors[first:]
    seen = trend(judged, len(judged) * each)
    features = [seen.slope / each, seen.low / each, tail(floors[1:]), begun(floors, first, seen.slope), tail(judged)]
    return features, made.group(AT) or ""


def shares(called: NDArray[np.bool_], groups: NDArray[np.str_]) -> dict[str, float]:
    """Called growing, by group."""
    return {group: float(called[groups == group].mean()) for group in GROUPS}


def best(features: Features, chosen: NDArray[np.bool_]) -> tuple[float, ...]:
    """The thresholds of the grid that find most on the seeds that choose."""
    found: tuple[float, tuple[float, ...]] = (-1.0, ())
    for thresholds in product(*GRID.values()):
        got = shares(features.called(thresholds)[chosen], features.groups[chosen])
        if got[ALONE] >= LEAST_ALONE and all(got[group] <= most for group, most in MOST.items()):
            found = max(found, (got[BESIDE], thresholds))
    return found[1]


def table(seeds: int) -> str:
    """Each fold's choice and what it does on that fold, and the choice on so many tuning seeds."""
    with Pool() as pool:
        told = pool.map(row, TUNING[:seeds], chunksize=50)
    features = Features(np.array([each for each, _ in told]), np.array([group for _, group in told]))
    fold = np.arange(seeds) % FOLDS
    rows = []
    for number in range(FOLDS):
        thresholds = best(features, fold != number)
        got = shares(features.called(thresholds)[fold == number], features.groups[fold == number])
        rows.append([f"{number}", *map(str, thresholds), *(f"{share:.1%}" for share in got.values())])
    thresholds = best(features, fold >= 0)
    got = shares(features.called(thresholds), features.groups)
    rows.append(["all", *map(str, thresholds), *(f"{share:.1%}" for share in got.values())])
    return markdown(["fold left out", *GRID, *GROUPS], rows)


@click.command(help=__doc__)
@click.option("--seeds", default=len(TUNING), show_default=True)
def main(seeds: int) -> None:
    """See the module."""
    click.echo(table(seeds))


if __name__ == "__main__":
    main()
