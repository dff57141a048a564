"""The flight recorder: bounded, and the last moments in full."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.lifecycle.sampler_loop import SamplerLoop
from truemem.measure.memory_curve import KEPT, LAST, RATE_NS, SHOWN, CurveCheckpoint, MemoryCurve

MS = 1_000_000


def flight(*samples: tuple[float, float]) -> MemoryCurve:
    """Samples of (ms, MiB)."""
    made = MemoryCurve()
    for ms, mib in samples:
        made.see(round(ms * MS), round(mib * 1024))
    return made


def test_a_tail_counts_back_from_the_end() -> None:
    assert flight((10, 40), (20, 50), (30, 60)).tail(0, 32 * MS) == [[22.0, 40.0], [12.0, 50.0], [2.0, 60.0]]


def test_nothing_from_before_the_invocation() -> None:
    assert flight((10, 40), (20, 50)).tail(15 * MS, 20 * MS) == [[0.0, 50.0]]


def test_of_one_that_died_before_its_first_look_the_level_at_its_beginning_is_shown() -> None:
    assert flight((10, 40), (20, 50)).tail(21 * MS, 24 * MS) == [[4.0, 50.0]]
    assert flight().tail(21 * MS, 24 * MS) == []


def test_what_was_not_read_is_no_sample() -> None:
    assert flight((10, 0)).tail(0, 20 * MS) == []
    assert flight((10, 40), (20, 0)).tail(0, 20 * MS) == [[10.0, 40.0]]


def test_growth_of_a_burst_is_that_of_the_last_100_ms() -> None:
    grown = flight((0, 10), (1000, 100), (1050, 150), (1100, 200))
    assert grown.growth_kib_per_s() == pytest.approx(1000 * 1024)
    assert flight((0, 10), (1000, 20)).growth_kib_per_s() == pytest.approx(10 * 1024)
    assert flight((0, 10)).growth_kib_per_s() is None


@given(st.lists(st.tuples(st.integers(1, 400 * MS), st.integers(1, 10 << 20)), max_size=600), st.integers(0, 60_000))
def test_whatever_is_seen_the_tail_is_short_ordered_and_ends_with_the_last(
    steps: list[tuple[int, int]], after_ms: int
) -> None:
    made = MemoryCurve()
    now = 0
    for step, level in steps:
        now += step
        made.see(now, level)
        assert len(made.samples) <= 2 * KEPT
    tail = made.tail(0, now + after_ms * MS)
    assert len(tail) == min(len(tail), SHOWN)
    assert len(json.dumps(tail)) < 1200
    agos = [ago for ago, _ in tail]
    assert agos == sorted(agos, reverse=True)
    if steps:
        assert tail[-1] == [float(after_ms), round(steps[-1][1] / 1024, 2)]
    if len(steps) >= 2:
        assert tail[-2][1] == round(steps[-2][1] / 1024, 2)


@pytest.mark.parametrize("count", [LAST, SHOWN, SHOWN + 1, 2 * KEPT])
def test_the_whole_climb_is_shown_even_if_the_end_came_later(count: int) -> None:
    """What comes between the last look and the end makes it no shorter."""
    climb = [(ms * 3, ms + 1) for ms in range(count)]
    tail = flight(*climb).tail(0, (count * 3 + 900) * MS)
    assert tail[-LAST:] == [[(count - ms) * 3 + 900.0, float(ms + 1)] for ms in range(count - LAST, count)]
    assert tail[0][1] <= count / 8 + 1
    assert len(tail) > min(count, SHOWN) / 2


def test_a_long_invocation_is_shown_from_far_back_to_the_end() -> None:
    made = MemoryCurve()
    for second in range(900 * 4):
        made.see(second * 250 * MS, second)
    tail = made.tail(0, 900 * 1000 * MS)
    assert tail[-1][0] == 250.0
    assert tail[0][0] > 5_000


def test_growth_by_steps_is_that_of_the_last_second() -> None:
    """Two looks between two steps must not read as no growth."""
    stairs = [(300 * step + ms, 10 * step) for step in range(10) for ms in (0, 150, 250)]
    assert flight(*stairs).growth_kib_per_s() == pytest.approx(30 * 1024, rel=0.2)


def test_growth_looks_no_further_back_than_it_says() -> None:
    longest = RATE_NS[-1] / MS
    made = flight((0, 0), (longest, 100), (2 * longest, 100))
    assert made.growth_kib_per_s() == 0


def test_the_curve_is_drawn_at_the_first_sample_and_then_when_it_has_moved() -> None:
    drawn = CurveCheckpoint(limit_kib=1024 * 1024)
    drawn.begin()
    assert [drawn.due(level * 1024, urgent=False) for level in (100, 110, 163, 165, 220, 240)] == [
        *(True, False, False, True, False, True),
    ]
    assert [drawn.due(level * 1024, urgent=True) for level in (250, 257, 260)] == [False, True, False]


def test_the_curve_is_drawn_each_second_if_it_does_not_move() -> None:
    """Else it would end with the last burst, however long ago that was."""
    drawn = CurveCheckpoint(limit_kib=1024 * 1024)
    drawn.begin()
    assert [drawn.due(102_400, urgent=False, at_ns=ms * MS) for ms in (0, 500, 999, 1000, 1500, 2001)] == [
        *(True, False, False, True, False, True),
    ]


def test_how_long_until_a_level_at_the_rate_of_the_last_two_samples() -> None:
    assert flight((0, 10), (10, 20)).ns_until(120 * 1024) == 100 * MS
    assert flight((0, 10), (10, 20)).ns_until(15 * 1024) == 0
    assert flight((0, 10), (10, 10)).ns_until(120 * 1024) is None
    assert flight((0, 10)).ns_until(120 * 1024) is None


def test_a_look_that_fails_is_not_tried_again_at_once() -> None:
    """It would keep the loop from waiting, at the function's expense."""

    class Sampler:
        def sample(self, late: bool, reset: bool) -> int:
            raise ValueError

    parts: Any = SimpleNamespace(
        config=Config({}),
        recorder=SimpleNamespace(levels=Sampler()),
        environment_memory=None,
        clock=SimpleNamespace(monotonic_ns=lambda: 0),
    )
    publisher: Any = None
    ticks = SamplerLoop(parts, publisher)
    with pytest.raises(ValueError):
        ticks.look(5 * MS, exact=False)
    assert ticks.next_ns > 100 * MS
