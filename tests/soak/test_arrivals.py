"""When requests are due: the grammar of --rate, how exact a rate is, and the times of a log."""

import math
import statistics
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.commands.soak import Duration
from truemem_workbench.soak.arrivals import LEAST_PAUSE_S, MIXED_STRETCHES, like, schedule
from truemem_workbench.support.bad_input import BadInput


def due(text: str, for_s: float = 300.0, *, seed: int = 1) -> list[float]:
    return list(schedule(text, for_s, seed))


def between(moments: list[float], begin: float, end: float) -> int:
    return sum(begin <= moment < end for moment in moments)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("50", 15_000),
        ("50/s", 15_000),
        ("600/m", 3000),
        ("36/h", 3),
        ("0.5", 150),
        ("10..200/s", 31_500),
        ("200..0", 30_000),
        ("10..200,10s", 10 * 105 + 290 * 200),
        ("bursts:5..200", 5 * (50 * 5 + 10 * 200)),
        ("bursts:5..200/s,2s/10s", 30 * (8 * 5 + 2 * 200)),
        ("day:5..200", 30_750),
    ],
)
def test_the_rate_is_exact(text: str, count: int) -> None:
    moments = due(text)

    assert len(moments) == count
    assert moments == sorted(moments)
    assert moments[0] >= 0 and moments[-1] < 300


@given(
    rate=st.floats(0.1, 300), for_s=st.floats(10, 120), seed=st.integers(0, 99),
    shape=st.sampled_from(["{0}", "0..{0}", "{0}..1", "day:1..{0}", "bursts:1..{0},1s/7s"]),
)  # fmt: skip
def test_any_rate_is_exact_to_a_request(rate: float, for_s: float, seed: int, shape: str) -> None:
    text = shape.format(f"{rate:.3f}")
    try:
        moments = due(text, for_s, seed=seed)
    except BadInput:
        assert rate * for_s < 20
        return
    assert moments == sorted(moments) and moments[-1] <= for_s + 1e-6
    if shape == "{0}":
        assert abs(len(moments) - rate * for_s) <= 0.5 + 0.001 * for_s


@pytest.mark.parametrize("text", ["5..20/s", "day:5..20"])
def test_without_a_length_a_curve_takes_the_whole_time(text: str) -> None:
    typed = Duration().convert("2m", None, None)
    assert list(schedule(text, typed, 1)) == list(schedule(f"{text},120s", 120.0, 1))


@pytest.mark.parametrize(
    ("text", "for_s", "counts"),
    [
        ("0..100", 100, {(0, 10): 50, (50, 60): 550, (90, 100): 950}),
        ("bursts:2..100/s,5s/20s", 60, {(0, 15): 30, (15, 20): 500}),
        ("day:10..100", 240, {(0, 10): 100, (115, 125): 1000}),
    ],
    ids=["a ramp rises", "a burst ends each period", "a day is busy at noon"],
)
def test_a_curve_has_its_shape(text: str, for_s: float, counts: dict[tuple[float, float], int]) -> None:
    moments = due(text, for_s)

    assert [between(moments, *times) for times in counts] == pytest.approx([*counts.values()], abs=40)


def test_a_day_may_be_longer_than_the_soak() -> None:
    assert len(due("day:10..100,24h", 600)) == pytest.approx(600 * 10, rel=0.01)


def test_random_gaps_are_exponential() -> None:
    """Of independent callers: as many short gaps, and as long ones, as Poisson's process has."""
    gaps = [after - before for before, after in pairwise(due("100", 300))]

    assert statistics.fmean(gaps) == pytest.approx(0.01, rel=0.01)
    assert statistics.stdev(gaps) == pytest.approx(0.01, rel=0.05)
    for times in (0.5, 1, 3):
        assert sum(gap > 0.01 * times for gap in gaps) / len(gaps) == pytest.approx(math.exp(-times), rel=0.05)


def test_a_seed_repeats_the_moments() -> None:
    assert due("50", 10, seed=7) == due("50", 10, seed=7) != due("50", 10, seed=8)
    assert due("mixed", 100, seed=7) == due("mixed", 100, seed=7) != due("mixed", 100, seed=8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "--rate  is no rate. Try --rate 50/s ("),
        ("fast", "--rate fast is no rate. Try --rate 50/s ("),
        ("50/d", "--rate 50/d is no rate. Try --rate 50/s ("),
        ("-5", "--rate -5 is no rate."),
        ("1e9", "--rate 1e9 is no rate."),
        ("bursts:5", "--rate bursts:5 needs two rates, as in bursts:5..200/s."),
        ("5,10s", "--rate 5,10s needs two rates, as in 5..200/s."),
        ("bursts:5..200,60s", "--rate bursts:5..200,60s: 60s is no length. Try --rate bursts:5..200,10s/60s"),
        ("bursts:5..200,9s/9s", "--rate bursts:5..200,9s/9s: bursts that never end. Try --rate bursts:5..200,10s/60s"),
        ("10..20,0s", "--rate 10..20,0s: 0s is no length. Try --rate 10..20,10m"),
        ("0", "--rate 0: no request is due in 300 s. Try a longer --for, or a higher --rate"),
        ("1/h", "--rate 1/h: no request is due in 300 s."),
    ],
)
def test_a_rate_that_is_none(text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        schedule(text, 300, 1)

    assert str(refused.value).startswith(said)


# --- mixed ------------------------------------------------------------------------------------------------------------


def test_mixed_has_each_kind_of_traffic() -> None:
    moments = due("mixed", 300)
    gaps = [after - before for before, after in pairwise(moments)]

    for stretch in MIXED_STRETCHES:
        low, high = stretch.gap_s * (1 - stretch.varied), stretch.gap_s * (1 + stretch.varied)
        assert sum(low <= gap <= high for gap in gaps) >= 0.5 * 4 * stretch.length_s / high
    assert sum(gap == 0 for gap in gaps) >= 7 * 7 * 3  # bursts: 8 at the same moment, about 10 times in a cycle of 80 s
    assert moments == sorted(moments) and moments[-1] < 300


def test_any_stretch_of_mixed_may_be_the_first() -> None:
    """Else growth would follow the place in the cycle."""
    firsts = [due("mixed", 30, seed=seed)[:2] for seed in range(40)]

    gaps = [after - first for first, after in firsts]
    for stretch in MIXED_STRETCHES:
        low, high = stretch.gap_s * (1 - stretch.varied), stretch.gap_s * (1 + stretch.varied)
        assert any(low <= gap <= high or (stretch.together > 1 and gap == 0) for gap in gaps)


def test_mixed_is_not_periodic() -> None:
    moments = due("mixed", 3000)
    firsts = [sum(1 for each in moments if begin <= each < begin + 5) for begin in range(0, 3000, 75)]

    assert len(set(firsts)) > len(firsts) / 4


# --- like a log -------------------------------------------------------------------------------------------------------


def test_a_log_is_repeated_with_its_gaps() -> None:
    times = [100.0, 100.2, 100.2, 101.1]

    moments = list(islice(like(times), 8))

    assert moments[:4] == pytest.approx([0, 0.2, 0.2, 1.1])
    assert [b - a for a, b in pairwise(moments[4:])] == pytest.approx([0.2, 0.0, 0.9])


def test_speed_shortens_pauses_alone() -> None:
    times = [0.0, 0.5, 60.5, 60.5, 63.5]

    assert list(islice(like(times, 20), 5)) == pytest.approx([0, 0.5, 3.5, 3.5, 3.5 + LEAST_PAUSE_S])


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=50), st.floats(1, 1000))
def test_a_log_of_any_times_is_in_order(times: list[float], speed: float) -> None:
    moments = list(islice(like(times, speed), 3 * len(times)))

    assert moments == sorted(moments)
    assert moments[0] == 0
    assert moments[len(times)] > 0  # it goes on
