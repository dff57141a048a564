"""When to look next: from how long invocations took, as tables, and for any history."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.outlook import KEPT, SHORTEST_MS, Outlook


def outlook(*durations_ms: float) -> Outlook:
    made = Outlook()
    for duration in durations_ms:
        made.add(duration)
    return made


@pytest.mark.parametrize(
    ("durations", "age_ms", "interval_ms"),
    [
        ([100], 0, 75),  # three quarters of the way to the earliest end there was
        ([100], 80, 15),
        ([300, 100, 200], 0, 75),
        ([300, 100, 200], 120, 60),  # the first is out of the race
        ([100, 200], 100.4, 74.7),
        ([100], 99.9, SHORTEST_MS),
        ([], 0, SHORTEST_MS),
        ([], 20, SHORTEST_MS),
        ([], 1000, 10),  # nothing is known: a hundredth of its age
        ([100, 50], 400, 4),  # longer than any before
    ],
)
def test_where_looks_cost_nothing(durations: list[float], age_ms: float, interval_ms: float) -> None:
    assert outlook(*durations).interval_ms(age_ms, 0) == pytest.approx(interval_ms)


@pytest.mark.parametrize(
    ("durations", "rate"),
    [
        ([100], 1 / 2),  # an end within the next 2 ms
        ([100, 110, 120, 130], 1 / 4 / 2),  # one of four within the next 2 ms
        ([100, 102, *[200] * 6], 2 / 8 / 4),  # two of eight within the next 4 ms
    ],
)
def test_where_an_end_is_near_what_looks_cost_is_weighed_with_the_time_they_save(
    durations: list[float], rate: float
) -> None:
    look_ms = 2
    assert outlook(*durations).interval_ms(98, look_ms) == pytest.approx(math.sqrt(2 * look_ms / rate))


def test_only_the_last_invocations_count() -> None:
    made = outlook(10_000, *[20] * (KEPT - 1))
    assert made.longest_ms == 10_000
    made.add(20)
    assert made.longest_ms == 20


def test_nothing_is_the_longest_of_none() -> None:
    assert Outlook().longest_ms == 0


durations = st.lists(st.floats(0, 1e6), max_size=2 * KEPT)


@given(durations, st.floats(0, 1e6), st.floats(0, 50))
def test_an_interval_is_never_shorter_than_the_shortest(made: list[float], age_ms: float, look_ms: float) -> None:
    interval = outlook(*made).interval_ms(age_ms, look_ms)
    assert SHORTEST_MS <= interval < math.inf


@given(durations, st.floats(0, 1e6))
def test_no_look_is_put_off_beyond_an_end_that_was_seen_before(made: list[float], age_ms: float) -> None:
    """Where looks cost nothing."""
    ahead = [duration for duration in made[-KEPT:] if duration > age_ms]
    if ahead:
        assert outlook(*made).interval_ms(age_ms, 0) <= max(SHORTEST_MS, min(ahead) - age_ms)


@given(durations, st.floats(0, 1e6), st.floats(0, 10), st.floats(0, 10))
def test_dearer_looks_are_not_made_more_often(made: list[float], age_ms: float, cheap: float, more: float) -> None:
    seen = outlook(*made)
    assert seen.interval_ms(age_ms, cheap) <= seen.interval_ms(age_ms, cheap + more)
