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


TAILS = {
    "counted back from the end": ([(10, 40), (20, 50), (30, 60)], 0, 32, [[22.0, 40.0], [12.0, 50.0], [2.0, 60.0]]),
    "nothing from before the invocation": ([(10, 40), (20, 50)], 15, 20, [[0.0, 50.0]]),
    "no look yet: the level at its beginning": ([(10, 40), (20, 50)], 21, 24, [[4.0, 50.0]]),
    "no sample at all": ([], 21, 24, []),
    "not read": ([(10, 0)], 0, 20, []),
    "the last one not read": ([(10, 40), (20, 0)], 0, 20, [[10.0, 40.0]]),
}


@pytest.mark.parametrize(("samples", "begin_ms", "end_ms", "tail"), TAILS.values(), ids=TAILS)
def test_a_tail(samples: list[tuple[float, float]], begin_ms: int, end_ms: int, tail: list[list[float]]) -> None:
    assert flight(*samples).tail(begin_ms * MS, end_ms * MS) == tail


def test_growth_is_that_of_the_last_100_ms_in_a_burst_and_of_the_last_second_by_steps() -> None:
    """Two looks between two steps must not read as no growth."""
    assert flight((0, 10)).growth_kib_per_s() is None
    assert flight((0, 10), (1000, 20)).growth_kib_per_s() == pytest.approx(10 * 1024)
    burst = flight((0, 10), (1000, 100), (1050, 150), (1100, 200))
    assert burst.growth_kib_per_s() == pytest.approx(1000 * 1024)
    stairs = flight(*((300 * step + ms, 10 * step) for step in range(10) for ms in (0, 150, 250)))
    assert stairs.growth_kib_per_s() == pytest.approx(30 * 1024, rel=0.2)
    longest = RATE_NS[-1] / MS
    assert flight((0, 0), (longest, 100), (2 * longest, 100)).growth_kib_per_s() == 0


@given(st.lists(st.tuples(st.integers(1, 400 * MS), st.integers(1, 10 << 20)), max_size=600), st.integers(0, 60_000))
def test_any_tail_is_short_ordered_and_ends_with_the_last(steps: list[tuple[int, int]], after_ms: int) -> None:
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


DRAWN = {
    "when it has moved": ([(0, 100), (0, 110), (0, 163), (0, 165), (0, 220), (0, 240)], False, [0, 3, 5]),
    "urgent: when it has moved a little": ([(0, 240), (0, 250), (0, 257), (0, 260)], True, [0, 2]),
    "each second: it may end with an old burst": (
        [(ms, 100) for ms in (0, 500, 999, 1000, 1500, 2001)],
        False,
        [0, 3, 5],
    ),
}


@pytest.mark.parametrize(("looks", "urgent", "due"), DRAWN.values(), ids=DRAWN)
def test_the_curve_is_drawn_at_first_and_then(looks: list[tuple[int, int]], urgent: bool, due: list[int]) -> None:
    drawn = CurveCheckpoint(limit_kib=1024 * 1024)
    drawn.begin()
    told = [drawn.due(mib * 1024, urgent=urgent, at_ns=ms * MS) for ms, mib in looks]
    assert [number for number, each in enumerate(told) if each] == due


def test_how_long_until_a_level_at_the_rate_of_the_last_two_samples() -> None:
    assert flight((0, 10), (10, 20)).ns_until(120 * 1024) == 100 * MS
    assert flight((0, 10), (10, 20)).ns_until(15 * 1024) == 0
    assert flight((0, 10), (10, 10)).ns_until(120 * 1024) is None
    assert flight((0, 10)).ns_until(120 * 1024) is None


def test_a_look_that_fails_is_not_tried_again_at_once() -> None:
    """It would keep the loop from waiting, at the function's expense."""

    def sample(late: bool, reset: bool) -> int:
        raise ValueError

    recorder = SimpleNamespace(levels=SimpleNamespace(sample=sample))
    clock = SimpleNamespace(monotonic_ns=lambda: 0)
    parts: Any = SimpleNamespace(config=Config({}), recorder=recorder, environment_memory=None, clock=clock)
    publisher: Any = None
    ticks = SamplerLoop(parts, publisher)
    with pytest.raises(ValueError):
        ticks.look(5 * MS, exact=False)
    assert ticks.next_ns > 100 * MS
