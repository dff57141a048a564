"""Environments that are killed before there is enough to judge: what several short lives tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.random import Generator
from truemem.records.drift import GROWING_FROM
from truemem_workbench.analysis.drift import MINIMUM, SHORT, Point, judge
from truemem_workbench.testing.drift.synthetic import MIB, Floats

BASE_KIB = 40 * MIB
LIMIT_KIB = 128 * MIB


def lives(curves: Sequence[Floats], *, died: bool = True, seed: int = 0) -> list[Point]:
    """Each is killed in its last invocation, at the limit."""
    random = np.random.default_rng(seed)
    made: list[Point] = []
    for curve in curves:
        held = BASE_KIB + curve + random.normal(0, 100, len(curve))
        for at, kib in enumerate(held.tolist()):
            last = at == len(curve) - 1
            made.append(
                Point(
                    invocation=len(made) + 1,
                    time_ms=len(made) * 1000.0,
                    current_kib=kib,
                    peak_kib=LIMIT_KIB if last else kib + 200,
                    begins=at == 0,
                    died=died and last,
                )
            )
    return made


def leak(kib: float, count: int) -> Floats:
    return np.arange(count) * kib


def test_a_saw_of_kills_is_a_leak_with_its_rate() -> None:
    curve = lives([leak(6 * MIB, 15)] * 4)
    assert len(curve) == 60
    verdict = judge(curve, 128)
    assert verdict.name == "growing"
    assert verdict.per_invocation_kib == pytest.approx(6 * MIB, rel=0.02)
    assert verdict.low_kib is not None
    assert verdict.high_kib is not None
    assert verdict.low_kib <= 6 * MIB <= verdict.high_kib
    assert verdict.per_minute_kib == pytest.approx(6 * MIB * 60, rel=0.02)
    assert verdict.invocations_left is None


def test_one_short_life_is_enough_and_what_runs_now_does_not_hide_it() -> None:
    curve = lives([leak(6 * MIB, 15), leak(6 * MIB, 5)])
    assert judge(curve[:15]).name == "growing"
    assert judge([*curve[:-1], curve[-1]._replace(died=False)]).name == "growing"


@pytest.mark.parametrize("count", [SHORT, MINIMUM - 1, MINIMUM, GROWING_FROM - 1])
def test_any_life_that_is_too_short_for_its_shape(count: int) -> None:
    killed = lives([leak(80 * MIB / count, count)])
    assert judge(killed).name == "growing"
    assert judge(killed[1:]).name == ("growing" if count > SHORT else "insufficient")
    not_killed = lives([leak(80 * MIB / count, count)], died=False)
    assert judge(not_killed).name == ("warming" if count >= MINIMUM else "insufficient")


def _spike(random: Generator, count: int) -> Floats:
    return np.zeros(count)


def _load(random: Generator, count: int) -> Floats:
    return np.where(np.arange(count) < random.integers(1, count), 0.0, 60 * MIB)


def _cache(random: Generator, count: int) -> Floats:
    return 60 * MIB * -np.expm1(-np.arange(count) / (count * random.uniform(0.1, 0.25)))


def _noise(random: Generator, count: int) -> Floats:
    return random.lognormal(0, 1, count) * 4 * MIB


@pytest.mark.parametrize("curve", [_spike, _load, _cache, _noise])
@pytest.mark.parametrize("several", [1, 5])
def test_a_spike_that_kills_is_no_leak(several: int, curve: Callable[[Generator, int], Floats]) -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        counts = random.integers(SHORT, MINIMUM, several).tolist()
        assert judge(lives([curve(random, count) for count in counts], seed=seed)).name == "insufficient", seed


def test_a_spike_that_is_seen_itself_is_no_leak() -> None:
    """The last reading, on the way up, does not count as growth."""
    curve = np.zeros(12)
    curve[-1] = 80 * MIB
    assert judge(lives([curve] * 3)).name == "insufficient"


def test_one_life_that_grew_among_many_that_did_not_tells_nothing() -> None:
    assert judge(lives([leak(6 * MIB, 15), *[np.zeros(15)] * 2])).name == "insufficient"


def test_a_leak_by_the_size_of_requests_takes_several_lives() -> None:
    random = np.random.default_rng(1)
    steps = [random.lognormal(0, 1.2, 20) for _ in range(6)]
    curves = [np.cumsum(each) / each.sum() * 80 * MIB for each in steps]
    assert judge(lives(curves)).name == "growing"
    assert [judge(lives([curve])).name for curve in curves].count("growing") < 6


def test_several_lives_that_grew_unevenly_are_too_few_among_more_that_did_not() -> None:
    random = np.random.default_rng(1)
    steps = [random.lognormal(0, 1.2, 20) for _ in range(6)]
    grown = [np.cumsum(each) / each.sum() * 80 * MIB for each in steps]
    assert judge(lives([*grown, *[np.zeros(20)] * 7])).name == "insufficient"


def test_a_cache_that_fills_and_is_killed_before_it_is_full_is_no_growth() -> None:
    """Faster at first than later, in each of several lives."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        counts = random.integers(10, 60, 8).tolist()
        curves = [80 * MIB * -np.expm1(-np.arange(n) / n / random.uniform(0.25, 0.6)) for n in counts]
        assert judge(lives(curves, seed=seed)).name not in ("growing", "stable"), seed


def test_a_few_loads_in_each_life_are_no_growth() -> None:
    for seed in range(10):
        random = np.random.default_rng(seed)
        curves = []
        for count in random.integers(10, 60, 10).tolist():
            loads = np.zeros(count)
            np.add.at(loads, random.integers(1, count, 3), random.uniform(18, 28, 3) * MIB)
            curves.append(np.cumsum(loads))
        assert judge(lives(curves, seed=seed)).name != "growing", seed


def test_loads_at_other_times_in_each_life_do_not_add_up_to_growth() -> None:
    creep = leak(400, 12)
    curves = [creep + np.where(np.arange(12) > at, 50 * MIB, 0.0) for at in (4, 5, 6, 5)]
    assert judge(lives(curves)).name == "insufficient"


def test_a_small_leak_and_a_spike_that_kills() -> None:
    assert judge(lives([leak(200, 15)] * 4)).name == "insufficient"


def test_what_the_last_invocation_took_at_once_is_no_growth_and_does_not_hide_it() -> None:
    curve = leak(4 * MIB, 14)
    curve[-1] += 30 * MIB
    assert judge(lives([curve])).name == "growing"
