"""What docs/check.md says of how small a leak is found, on made curves: the gate's whole course, without a function."""

from __future__ import annotations

import random

import pytest
from truemem_workbench.check.invocations import Plan
from truemem_workbench.check.limits import Limits, find, undecided
from truemem_workbench.check.measurement import Measurement
from truemem_workbench.check.result import BROKEN, KEPT, Result

from tests.check.conftest import seen

FREE, LIMITED = Limits(), Limits(drift_kib=4)
SEEDS = range(8)


def gate(kib: float, noise_kib: int, seed: int, limits: Limits) -> tuple[int, int]:
    """Exit code, and how many invocations were judged, of a function that keeps so much per invocation."""
    plan, chance = Plan(), random.Random(seed)
    levels = [50 + (kib * number + chance.uniform(0, noise_kib)) / 1024 for number in range(plan.bound)]
    made = [seen(number, level, level + 5) for number, level in enumerate(levels, 1)]
    count = plan.invocations
    while True:
        measurement = Measurement("app.py:handler", made[:count], count, 0, 512, 1.0)
        if count == plan.bound or not undecided(measurement, limits):
            return Result(measurement, find(measurement, limits)).exit_code, count
        count = min(count + plan.step, plan.bound)


@pytest.mark.parametrize(
    ("kib", "noise_kib", "limits", "within"),
    [
        (8, 0, FREE, 1040),
        (1, 0, FREE, 1040),
        (4, 500, FREE, 1040),
        (8, 2048, FREE, 1040),
        (4, 2048, FREE, 1040),
        (8, 0, LIMITED, 200),
        (8, 500, LIMITED, 320),
        (8, 2048, LIMITED, 500),
    ],
)
def test_a_leak_is_found_within_so_many(kib: float, noise_kib: int, limits: Limits, within: int) -> None:
    found = [gate(kib, noise_kib, seed, limits) for seed in (SEEDS if noise_kib else [0])]
    assert {code for code, _ in found} == {BROKEN}
    assert max(count for _, count in found) <= within


@pytest.mark.parametrize("limits", [FREE, LIMITED])
@pytest.mark.parametrize("noise_kib", [0, 500, 2048])
def test_what_does_not_grow_passes(noise_kib: int, limits: Limits) -> None:
    assert {gate(0, noise_kib, seed, limits)[0] for seed in SEEDS} == {KEPT}
