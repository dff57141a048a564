"""Composed curves: their labels are true, the verdict is right on those it may be tuned by, and agrees with itself."""

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.verdict import GATE_KIB, GROWING, OPEN_KIB, PLATEAU, SPIKY, STABLE, LeakVerdict
from truemem_workbench.judge.drift import Point, judge
from truemem_workbench.judge.thresholds import MATTERS_KIB, SURE

from testing.drift.compositions import (
    ALONE,
    BESIDE,
    BOUNDED,
    FILLING,
    GROUPS,
    LIFE,
    PAGE_KIB,
    SEALED,
    TUNING,
    compose,
)
from testing.drift.judged import drifts, points
from tests.drift.test_drift_shapes import curve

COUNT = 1024
SEEDS = TUNING[:400]
LEAST = {ALONE: 0.75, BESIDE: 0.30}
MOST = {BOUNDED: 0.05, FILLING: 0.12}
"""Bounds for 25 to 130 curves of each: benchmarks/results/drift.md has the figures."""
ENDED = (STABLE, PLATEAU, SPIKY)


# --- the curves -------------------------------------------------------------------------------------------------------


def test_no_seed_both_tunes_and_judges() -> None:
    assert not set(TUNING) & set(SEALED)


def test_a_seed_makes_the_same_curve_of_whole_pages() -> None:
    for seed in SEEDS[:20]:
        made, again, other = compose(seed), compose(seed), compose(seed + 1)
        assert np.array_equal(made.current, again.current)
        assert not np.array_equal(made.current, other.current)
        assert len(made.current) == len(made.peak) == len(made.time_ms) == LIFE
        assert np.all(made.peak >= made.current)
        assert not np.any(made.current % PAGE_KIB)
        assert np.all(np.diff(made.time_ms) > 0)


def test_each_group_has_enough_curves_and_its_label_is_true() -> None:
    sizes = dict.fromkeys(GROUPS, 0)
    for seed in SEEDS:
        made = compose(seed)
        group = made.group(COUNT)
        if group not in sizes:
            continue
        sizes[group] += 1
        late = made.current[COUNT : 4 * COUNT].reshape(3, COUNT)
        rise = float(np.median(late[2]) - np.median(late[0])) / (2 * COUNT)
        if group == ALONE:
            assert rise == pytest.approx(made.rate, rel=0.5, abs=3)  # by chance, and in steps of up to 4 MiB
        if group in (BOUNDED, FILLING):
            third = COUNT // 3
            last = float(made.filled[COUNT - 1] - made.filled[COUNT - 1 - third])
            assert (last / third < 0.5) is (group == BOUNDED)
            assert last <= max(0.5 * third, float(made.filled[third]))
    assert min(sizes.values()) >= 20, sizes


# --- the verdict on them ----------------------------------------------------------------------------------------------


@cache
def called() -> dict[str, float]:
    """Called growing at COUNT, of each group."""
    told: dict[str, list[bool]] = {group: [] for group in GROUPS}
    for seed in SEEDS:
        made = compose(seed)
        if (group := made.group(COUNT)) in told:
            told[group].append(judge(points(made, COUNT)).name == GROWING)
    return {group: sum(said) / len(said) for group, said in told.items()}


def test_leaks_are_found_and_little_else_is_accused() -> None:
    shares = called()
    assert all(shares[group] >= least for group, least in LEAST.items()), shares
    assert all(shares[group] <= most for group, most in MOST.items()), shares


def agrees(name: str, low: float, high: float) -> None:
    """No verdict contradicts its interval."""
    assert low <= high
    if name == GROWING:
        assert round(low, 2) > 0
    if name in ENDED:
        assert low <= GATE_KIB
        assert high <= OPEN_KIB


seeds = st.integers(TUNING.start, TUNING.stop - 1)


@settings(max_examples=max(10, settings().max_examples // 2))
@given(seeds, st.integers(32, LIFE))
def test_no_verdict_contradicts_its_interval(seed: int, count: int) -> None:
    verdict = judge(points(compose(seed), count))
    assert verdict.low_kib is not None
    assert verdict.high_kib is not None
    agrees(verdict.name, verdict.low_kib, verdict.high_kib)
    if verdict.settled and verdict.name != GROWING:
        assert verdict.high_kib < MATTERS_KIB
    if verdict.settled and verdict.name == GROWING:
        assert (verdict.confidence or 1) >= SURE


@settings(max_examples=10)
@given(seeds)
def test_no_line_of_the_sidecar_contradicts_its_interval(seed: int) -> None:
    for number, drift in enumerate(drifts(points(compose(seed), 2 * COUNT)), 1):
        if drift.due():
            _, low, high = drift.verdict.growth
            agrees(drift.verdict.name, low, high)
            document = drift.document(number, None)
            assert document["verdict"] != GROWING or float(str(document["low"])) > 0


@given(st.lists(st.integers(0, 2**30), min_size=8, max_size=40), st.integers(32, 100_000))
def test_no_levels_at_all_make_it_contradict_itself(levels: list[int], invocations: int) -> None:
    verdict = LeakVerdict()
    for end in range(8, len(levels) + 1):
        verdict.look(levels[:end], levels[:end], invocations)
        agrees(verdict.name, *verdict.growth[1:])


# --- what users found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_heap_that_grows_in_steps_passes_no_gate_early(seed: int) -> None:
    """V8's, of a leak of 26 KiB: steps of some MiB, of which two have come, above garbage."""
    random = np.random.default_rng(seed)
    at = np.cumsum(random.uniform(90, 130, 40))
    steps = np.searchsorted(at, np.arange(4000)) * 110 * 26.0
    garbage = np.arange(4000) % random.integers(7, 20) * random.uniform(100, 600)
    assert not judge(curve((steps + garbage)[:280], seed)).settled
    late = judge(curve(steps + garbage, seed))
    assert late.name == GROWING
    assert late.settled


def test_two_uneven_steps_and_a_rest_are_no_plateau() -> None:
    """As Node.js 26 took memory for a leak of 32 KiB, 60 invocations after its start."""
    rises = [0] * 5 + [31] * 15 + [72] * 39 + [1270] + [43] * 18 + [2294] + [0] * 61 + [614, 0, 0, 0]
    held = itertools.accumulate(rises, initial=56_433.0)
    found = judge([Point(n, n * 1000.0, kib, kib) for n, kib in enumerate(held, 1)])
    assert (found.name, found.settled) == ("warming", False)


@pytest.mark.parametrize("count", [200, 300, 600])
def test_growth_that_may_still_be_a_cache_does_not_settle_a_gate(count: int) -> None:
    """An engine of SQLAlchemy in each invocation: 9.6 KiB, until about the 1,000th."""
    held = np.minimum(np.arange(3000), 1000) * 9.6
    early = judge(curve(held[:count]))
    assert not early.settled
    flat = judge(curve(held))
    assert flat.name == PLATEAU
    assert flat.settled
