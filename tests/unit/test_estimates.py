"""Our few functions of chance and slope, beside scipy's."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st
from truemem_workbench.support.estimates import binomial_quantile, ranks, t_above, t_quantile, theil_sen

FREE = st.integers(1, 100_000)
VALUES = st.integers(-20, 20).map(float) | st.floats(-1e6, 1e6)  # whole ones, so that some are equal
POINTS = st.lists(st.tuples(VALUES, st.integers(0, 200)), min_size=2, max_size=40, unique_by=lambda each: each[1])


@given(FREE, st.floats(-1e3, 1e3))
def test_the_chance_above_t_is_scipys(free: int, value: float) -> None:
    expected = float(scipy.stats.t.sf(value, free))
    assume(expected > 1e-290)
    assert t_above(value, free) == pytest.approx(expected, rel=1e-9, abs=0)


def test_what_is_too_far_for_a_number_has_no_chance() -> None:
    assert [t_above(value, 7) for value in (-math.inf, -1e200, 0.0, 1e200, math.inf)] == [1.0, 1.0, 0.5, 0.0, 0.0]


@given(st.sampled_from([0.6, 0.9, 0.975, 0.9995, 0.99999]), FREE)
def test_the_quantile_of_t_is_scipys(part: float, free: int) -> None:
    assert t_quantile(part, free) == pytest.approx(float(scipy.stats.t.ppf(part, free)), rel=1e-9)


COUNTS = st.integers(1, 3000) | st.integers(1, 10_000_000)


@given(st.sampled_from([0.025, 0.975]), COUNTS, st.sampled_from([50, 95, 99]))
def test_the_quantile_of_the_binomial_is_scipys(part: float, count: int, percent: int) -> None:
    assert binomial_quantile(part, count, percent / 100) == scipy.stats.binom.ppf(part, count, percent / 100)


@given(POINTS, st.sampled_from([0.8, 0.95]))
def test_the_median_slope_and_its_interval_are_scipys(points: list[tuple[float, int]], certain: float) -> None:
    levels, places = zip(*points, strict=True)
    slope, _, low, high = scipy.stats.theilslopes(levels, places, certain)
    assert theil_sen(levels, places, certain) == (slope, low, high)


def test_a_slope_at_one_place_is_unknown() -> None:
    assert all(map(math.isnan, theil_sen([1, 2, 3], [4, 4, 4])))


@given(st.lists(VALUES, max_size=40))
def test_ranks_are_scipys(values: list[float]) -> None:
    assert np.array_equal(ranks(values), scipy.stats.rankdata(values))
