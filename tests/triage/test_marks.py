"""What the marks of environments prove: growth that is there, and none that is not."""

import math
import random
from collections.abc import Callable
from itertools import accumulate, groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.judge.marks import Growth, Life, Run, growth, pattern

from tests.triage.logged import flat, noisy


def alive(peaks: list[float], began_ms: float = 0.0, **more: bool) -> Life:
    """The marks of an environment whose invocations have these peaks, MB."""
    marks = accumulate(map(math.ceil, peaks), max)
    return Life([Run(mark, len(list(same)), 10.0) for mark, same in groupby(marks)], began_ms, **more)


def judged(lives: list[Life]) -> Growth:
    made = growth(lives)
    assert made is not None
    return made


def fleet(peaks: Callable[[int], list[float]], environments: int = 12) -> Growth:
    return judged([alive(peaks(number)) for number in range(environments)])


def collector(seed: int, cycle: float, count: int = 2000) -> list[float]:
    """A heap that is collected after some invocations, seldom after the same number."""
    drawn, peaks = random.Random(seed), list[float]()
    while len(peaks) < count:
        peaks += [100.0 + held for held in range(1 + int(drawn.uniform(0.5, 1.5) * cycle))]
    return peaks[:count]


def test_a_mark_that_stands_still_bounds_growth() -> None:
    made = judged([alive(flat(2000))])
    assert made.likely_kib == pytest.approx(1024 / 950)  # 1 MB, over what lies between the windows
    assert made.proven_kib == pytest.approx(101 * 1024 / 1999)
    assert not made.rises_too_often


def test_growth_is_found_and_its_rate_is_near_the_truth() -> None:
    made = fleet(lambda number: noisy(2000, number, grows=64 / 1024))
    assert made.grows
    assert made.about_kib == pytest.approx(64, rel=0.15)
    assert made.likely_kib is not None
    assert made.likely_kib >= 64


@pytest.mark.parametrize(
    "peaks",
    [
        lambda number: noisy(2000, number),
        lambda number: [100 + random.Random(number * 7919 + i).paretovariate(1.5) * 3 for i in range(2000)],
        lambda number: [100 + 0.5 * ((i + number) % 60) for i in range(2000)],  # a collector
        lambda number: collector(number, 60),
        lambda number: [400.0 if i == 97 * number % 2000 else 100.0 for i in range(2000)],  # a spike each
        lambda number: [100 + 40 * min(1.0, i / 300) + x for i, x in enumerate(noisy(2000, number, 0))],  # a cache
    ],
    ids=["noise", "heavy tail", "collector", "collector at any height", "spikes", "cache that is full"],
)
def test_without_growth_marks_rise_no_more_than_by_chance(peaks: Callable[[int], list[float]]) -> None:
    assert not fleet(peaks).rises_too_often


def test_spikes_that_kill_are_no_growth() -> None:
    drawn = random.Random(5)
    lives = []
    for _ in range(200):
        until = 1 + int(drawn.expovariate(1 / 200))
        lives.append(alive([*noisy(until, drawn.randrange(10**6)), 512.0], killed=True))
    made = judged(lives)
    assert not made.rises_too_often  # each life ends with a rise, because it ends there
    assert made.likely_kib is None


def test_a_log_that_begins_late_bounds_nothing_but_the_average() -> None:
    """The spike before the log's first line may hide growth for as long as it lasts."""
    made = judged([alive(flat(2000), from_birth=False)])
    assert made.likely_kib is None
    assert made.proven_kib is not None


def test_load_that_rises_is_not_called_growth() -> None:
    lives = [alive(noisy(400, number, level=100 + 5 * number), began_ms=60_000.0 * number) for number in range(20)]
    assert "began later" in judged(lives).load


def test_a_leak_is_no_load_that_rises() -> None:
    lives = [alive(noisy(400, number, grows=1.0), began_ms=60_000.0 * number) for number in range(20)]
    assert judged(lives).load == ""


def test_invocations_that_get_slower_may_be_load() -> None:
    runs = [Run(100 + number, 50, 10.0 + number) for number in range(20)]
    assert "longer" in judged([Life(runs)]).load


def test_nothing_that_ended_is_nothing_to_judge() -> None:
    assert growth([alive([600.0], killed=True)]) is None


@pytest.mark.parametrize(
    ("ages", "name"),
    [
        ([1, 1, 2, 1, 1], "start"),
        ([490, 505, 512, 498, 501], "regular"),
        ([3, 900, 41, 288, 12, 130, 77, 520, 19], "irregular"),
        ([300, 280], "few"),
        ([], "few"),
    ],
)
def test_ages_at_kills_tell_a_leak_from_a_size(ages: list[int], name: str) -> None:
    assert pattern(ages) == name


@pytest.mark.parametrize("until", [10**9, 1000, 300], ids=["all are killed", "most", "few"])
@pytest.mark.parametrize("lives", [6, 30])
def test_kills_at_any_age_are_seldom_called_regular(lives: int, until: int) -> None:
    """Where environments end at an age, those that are killed are so before."""
    drawn = random.Random(3)
    called = 0
    for _ in range(500):
        lived = [3 + int(drawn.expovariate(1 / 500)) for _ in range(lives)]
        ages = [age for age in lived if age <= until]
        called += pattern(ages, [until] * (lives - len(ages))) == "regular"
    assert called <= 15  # 1 % are expected


@given(st.lists(st.integers(50, 400), min_size=2, max_size=300), st.integers(1, 400))
def test_a_mark_is_that_of_the_run_it_is_in(peaks: list[int], age: int) -> None:
    life = alive([float(peak) for peak in peaks])
    age = min(age, len(peaks))
    assert life.mark_at(age) == max(peaks[:age])
    part = len(peaks) // 8
    ends = [len(peaks) - part * left for left in range(4, -1, -1)]
    late = [max(peaks[:end]) > max(peaks[:begin]) for begin, end in pairwise(ends) if begin]
    assert life.late_rises() == sum(late)


@pytest.mark.parametrize("lives", [1, 8, 200, 201, 1000])
def test_the_law_of_rises_is_that_of_random_orders(lives: int) -> None:
    drawn = random.Random(9)
    made = judged([alive([drawn.random() * 9e5 for _ in range(40)]) for _ in range(lives)])
    assert made.parts == 4 * lives
    assert made.rises == pytest.approx(made.expected, abs=4 * math.sqrt(lives))
    assert 0.001 < made.chance <= 1
