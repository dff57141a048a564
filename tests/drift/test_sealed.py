"""The sealed kinds, and those that were sealed before, are what they say they are. No verdict is run here."""

from __future__ import annotations

import numpy as np
import pytest
from truemem_workbench.testing.drift import sealed_kinds, second_kinds, third_kinds
from truemem_workbench.testing.drift.corpus import (
    BOUNDED,
    FILLING,
    LEAK,
    MIB,
    PAGE_KIB,
    Curve,
    Floats,
    Kind,
    Series,
    make,
)

CORPORA = {"second": second_kinds.KINDS, "third": third_kinds.KINDS, "sealed": sealed_kinds.KINDS}
KINDS = {f"{corpus}: {name}": kind for corpus, kinds in CORPORA.items() for name, kind in kinds.items()}
SEEDS = range(6)
LONG = 12_288


def named(truth: str) -> list[str]:
    return [name for name, kind in KINDS.items() if kind.truth == truth]


def alone(curve: Curve | None, name: str, seed: int, count: int) -> Floats:
    """The curve without the noise and the base that `make` adds."""
    assert curve is not None
    return curve(np.random.default_rng([seed, 7]), make(KINDS, name, seed, count).time_ms)


def level(values: Floats, where: float) -> float:
    """Median of a twelfth of the life, which ends at this share of it."""
    end = round(where * len(values))
    return float(np.median(values[max(0, end - len(values) // 12) : end]))


@pytest.mark.parametrize("kinds", CORPORA.values(), ids=CORPORA)
def test_there_are_48_kinds_in_four_groups(kinds: dict[str, Kind]) -> None:
    groups = [(kind.truth, kind.beside) for kind in kinds.values()]
    assert [groups.count(group) for group in [(BOUNDED, False), (FILLING, False), (LEAK, False), (LEAK, True)]] == [
        13,
        9,
        13,
        13,
    ]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("count", [64, 300, 16_384])
def test_a_series_is_the_same_again_in_whole_pages(name: str, count: int) -> None:
    first, again = make(KINDS, name, 3, count), make(KINDS, name, 3, count)
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))
    assert first.current.shape == first.peak.shape == (count,)
    for values in (first.current, first.peak):
        assert np.all(np.isfinite(values)) and np.all(values % PAGE_KIB == 0) and np.all(values > 0)
    assert np.all(first.peak >= first.current)
    assert not np.array_equal(first.current, make(KINDS, name, 4, count).current)


@pytest.mark.parametrize("name", named(BOUNDED))
def test_a_bounded_one_has_no_trend_after_its_begin(name: str) -> None:
    for seed in SEEDS:
        values = alone(KINDS[name].other, name, seed, LONG)
        assert values.min() >= 0 and values.max() < 250 * MIB
        settled = values[1000:]
        moves = float(np.ptp(np.percentile(settled, [2, 98])))
        assert moves > 256
        thirds = [float(part.mean()) for part in np.array_split(settled, 3)]
        assert max(thirds) - min(thirds) < 0.3 * moves
        assert abs(float(values[300:1300].mean()) - float(settled.mean())) < 0.6 * moves


@pytest.mark.parametrize("name", named(FILLING))
@pytest.mark.parametrize("count", [9000, 16_384])
def test_a_filling_one_grows_ever_less_and_ends(name: str, count: int) -> None:
    grown = []
    for seed in SEEDS:
        values = alone(KINDS[name].other, name, seed, count)
        assert values.min() >= 0 and values.max() < 250 * MIB
        third = count // 3
        grown.append([values[third] - values[0], values[2 * third] - values[third], values[-1] - values[2 * third]])
        assert level(values, 1) - level(values, 0.75) < 0.12 * level(values, 1)
    first, _, last = np.sum(grown, axis=0)
    assert first > 0
    assert last < 0.15 * first


@pytest.mark.parametrize("name", named(LEAK))
def test_a_leak_goes_on_by_its_rate(name: str) -> None:
    kind = KINDS[name]
    leaked = [alone(kind.leak, name, seed, LONG) for seed in range(12)]
    assert all(np.all(np.diff(one) >= 0) and one[0] >= 0 for one in leaked)
    assert np.mean([one[-1] for one in leaked]) == pytest.approx(LONG, rel=0.05)
    if kind.steady:
        halves = [one[LONG // 2] for one in leaked]
        assert np.mean(halves) == pytest.approx(LONG / 2, rel=0.08)
    assert np.mean([one[-1] - one[2 * LONG // 3] for one in leaked]) > 0.8 * LONG / 3


@pytest.mark.parametrize("name", [name for name in named(LEAK) if KINDS[name].steady])
def test_a_series_of_a_leak_grows_by_the_rate_it_states(name: str) -> None:
    ratios = []
    for seed in SEEDS:
        series: Series = make(KINDS, name, seed, LONG)
        assert series.rate is not None
        assert KINDS[name].kib[0] <= series.rate <= KINDS[name].kib[1]
        ratios.append((level(series.current, 1) - level(series.current, 0.5)) / (series.rate * LONG / 2))
    assert np.median(ratios) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.beside])
def test_what_moves_beside_a_leak_moves_by_more_than_it(name: str) -> None:
    kind: Kind = KINDS[name]
    moves = [float(np.ptp(alone(kind.other, name, seed, 2048))) for seed in range(12)]
    assert min(moves) > 2 * MIB
    assert np.median(moves) > 100 * np.sqrt(kind.kib[0] * kind.kib[1])


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.truth == LEAK and not kind.steady])
def test_a_leak_without_a_constant_rate_states_none_and_leaks_in_a_short_life_too(name: str) -> None:
    for seed in SEEDS:
        assert make(KINDS, name, seed, 64).rate is None
        leaked = alone(KINDS[name].leak, name, seed, 64)
        assert leaked[-1] - leaked[32] > 0.4 * 64
