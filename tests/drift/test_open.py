"""The open corpus: each kind's truth is true in the long run."""

from __future__ import annotations

import numpy as np
import pytest
from truemem_workbench.testing.drift.corpus import BOUNDED, FILLING, LEAK, Floats, Series, make
from truemem_workbench.testing.drift.open_kinds import AWAKE_MS, KINDS, MEAN_AWAKE_MS

LONG = 16_384
SEEDS = range(3)


def _of(truth: str) -> list[str]:
    return [name for name, kind in KINDS.items() if kind.truth == truth]


STEADY = [name for name in _of(LEAK) if KINDS[name].steady]
UNSTEADY = [name for name in _of(LEAK) if not KINDS[name].steady]


def _slope(held: Floats) -> float:
    return float(np.polyfit(np.arange(len(held)), held, 1)[0])


def _thirds(series: Series) -> tuple[float, float]:
    """Growth in the first third and in the last, between medians at both ends of each; a life's start is short."""
    first, _, last = np.array_split(series.current, 3)
    grown = [float(np.median(third[-500:]) - np.median(third[:n])) for third, n in ((first, 10), (last, 500))]
    return grown[0], grown[1]


def test_so_many_of_each() -> None:
    beside = [name for name in _of(LEAK) if KINDS[name].beside]
    assert (len(_of(BOUNDED)), len(_of(FILLING)), len(_of(LEAK)), len(beside)) == (14, 8, 24, 12)


@pytest.mark.parametrize("name", _of(BOUNDED))
def test_bounded_has_no_trend(name: str) -> None:
    for seed in SEEDS:
        held = make(KINDS, name, seed, LONG).current[1000:]
        moved = np.ptp(np.quantile(held, [0.05, 0.95]))
        assert abs(_slope(held)) * len(held) < 0.5 * moved


@pytest.mark.parametrize("name", _of(FILLING))
def test_filling_ends(name: str) -> None:
    for seed in SEEDS:
        first, last = _thirds(make(KINDS, name, seed, LONG))
        assert first > 512
        assert last < 0.25 * first


@pytest.mark.parametrize("name", STEADY)
def test_steady_leak_goes_on_by_its_rate(name: str) -> None:
    for seed in SEEDS:
        series = make(KINDS, name, seed, LONG)
        assert series.rate
        assert _slope(series.current[4000:]) == pytest.approx(series.rate, rel=0.4)


@pytest.mark.parametrize("name", STEADY)
def test_steady_leak_has_a_mean_of_one(name: str) -> None:
    curve = KINDS[name].leak
    assert curve
    each = []
    for seed in range(6):
        at = make(KINDS, name, seed, 4096).time_ms
        leaked = curve(np.random.default_rng(seed), at)
        assert (np.diff(leaked) >= 0).all()
        each.append(leaked[-1] / len(at))
    assert np.mean(each) == pytest.approx(1, rel=0.12)


@pytest.mark.parametrize("name", UNSTEADY)
def test_unsteady_leak_goes_on(name: str) -> None:
    for seed in SEEDS:
        series = make(KINDS, name, seed, LONG)
        first, last = _thirds(series)
        assert series.rate is None
        assert last > 0.8 * first > 0


@pytest.mark.parametrize("name", KINDS)
def test_any_length_in_whole_pages_and_the_same_again(name: str) -> None:
    for count in (64, 500):
        series, again = make(KINDS, name, 1, count), make(KINDS, name, 1, count)
        for made, other in ((series.current, again.current), (series.peak, again.peak)):
            assert len(made) == count
            assert (made == other).all()
            assert (made % 4 == 0).all()
        assert (series.current > 0).all()
        assert (series.peak >= series.current).all()
        assert (series.current != make(KINDS, name, 2, count).current).any()


def test_the_clock_leak_knows_its_mean() -> None:
    gaps = np.concatenate([np.diff(make(KINDS, "leak", seed, LONG).time_ms) for seed in range(20)])
    assert np.minimum(gaps, AWAKE_MS).mean() == pytest.approx(MEAN_AWAKE_MS, rel=0.01)
