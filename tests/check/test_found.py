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
SEEDS = range(15)


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
        (8, 0, FREE, 200),
        (4, 0, FREE, 200),
        (2, 0, FREE, 400),
        (1.5, 0, FREE, 500),
        (1, 0, FREE, 640),
        (8, 500, FREE, 200),
        (4, 500, FREE, 300),
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


@pytest.mark.parametrize(("kib", "noise_kib", "tenths"), [(8, 2048, 7), (4, 2048, 1), (2, 500, 0)])
def test_of_leaks_within_much_noise_only_so_many_are_found(kib: float, noise_kib: int, tenths: int) -> None:
    found = sum(gate(kib, noise_kib, seed, FREE)[0] == BROKEN for seed in range(40))
    assert round(found / 4) == tenths
