"""Curves that were once called what they are not: loads that go again, stairs, falls, small growth."""

from collections.abc import Callable

import numpy as np
import pytest
from truemem.verdict import GROWING, GROWING_FROM, LEAST_KIB, LeakVerdict
from truemem_workbench.judge.drift import Point, judge

from testing.drift.compositions import MIB, Floats
from testing.drift.judged import sidecar, workbench
from tests.drift.test_drift import interval

Verdict = Callable[[list[Point]], str]
BOTH = pytest.mark.parametrize("verdict", [workbench, sidecar])


def curve(held: Floats, seed: int = 0) -> list[Point]:
    """Above 80 MiB, with a little noise."""
    noisy = 80 * MIB + held + np.random.default_rng(seed).normal(0, 100, len(held))
    return [Point(n, n * 1000.0, kib, kib) for n, kib in enumerate(noisy.tolist(), 1)]


def leak(kib: float, count: int = 300) -> Floats:
    return np.arange(count) * kib


def swaps(count: int = 300) -> Floats:
    return np.arange(count) // 37 % 2 * 30 * MIB


def loads(*at: int, count: int = 300, mib: float = 20) -> Floats:
    made: Floats = np.sum([np.where(np.arange(count) > each, mib * MIB, 0.0) for each in at], axis=0)
    return made


# --- loads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kib", [64, 256])
@pytest.mark.parametrize("count", [300, 1000])
def test_a_model_that_goes_again_is_no_load(kib: float, count: int) -> None:
    for seed in range(5):
        verdict = judge(curve(leak(kib, count) + swaps(count), seed))
        assert verdict.name in ("warming", "growing")
        low, high = interval(verdict)
        assert low <= kib <= high


@BOTH
@pytest.mark.parametrize("kib", [0, 8, 16])
def test_three_loads_are_neither_called_a_leak_nor_settled(kib: float, verdict: Verdict) -> None:
    for seed in range(10):
        assert verdict(curve(leak(kib) + loads(60, 110, 190), seed)) == "warming"


def test_a_leak_has_a_narrow_interval_and_a_load_does_not_end_it() -> None:
    low, high = interval(judge(curve(leak(8))))
    assert 6.5 < low <= 8 <= high < 9.5
    long = judge(curve(leak(8, 2400) + loads(150, count=2400)))
    assert long.name == GROWING
    assert interval(long)[0] <= 8 <= interval(long)[1]


# --- growth -----------------------------------------------------------------------------------------------------------


@BOTH
def test_what_comes_by_a_quarter_of_the_first_rate_is_ending(verdict: Verdict) -> None:
    for later, bends in ((10, True), (36, False)):
        held = np.cumsum(np.where(np.arange(300) < 170, 40.0, later))
        assert (verdict(curve(held)) == GROWING) is not bends


@pytest.mark.parametrize("last", [6, 12])
def test_what_is_given_back_at_the_end_was_no_leak(last: int) -> None:
    """A collector that waited long."""
    rising = [80 * MIB + 600 * at for at in range(40 - last)]
    verdict = LeakVerdict()
    for levels, invocations, grows in ((rising, 280, True), ([*rising, *[80 * MIB] * last], 300, False)):
        verdict.look(levels, levels, invocations)
        assert (verdict.name == GROWING) is grows
    assert verdict.ended == "fell back"


@BOTH
def test_what_has_been_as_high_before_has_not_leaked_since(verdict: Verdict) -> None:
    """One fall at the beginning, and a rise that has not got above it."""
    for at in (20, 30, 40):
        teeth = (np.arange(250) + 250 - at) % 250 * 80.0
        assert verdict(curve(teeth)) != GROWING


# --- small growth -----------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(("kib", "count"), [(8, 64), (8, 32), (4, 32), (4, 64), (4, 96), (2, 200), (1, 300)])
def test_stable_has_no_interval_that_is_above_0(kib: float, count: int, verdict: Verdict) -> None:
    held = [Point(n, n * 1000.0, 50_000 + kib * n, None) for n in range(1, count + 1)]
    assert kib * count <= LEAST_KIB
    assert verdict(held) == "warming"
    assert verdict([Point(n, n * 1000.0, 50_000.0, None) for n in range(1, count + 1)]) == "stable"


def test_of_noise_alone_the_verdict_is_stable() -> None:
    for count in (GROWING_FROM, 300, 1000):
        calm = [judge(curve(np.zeros(count), seed)).name for seed in range(100)]
        assert calm.count("stable") >= 97
