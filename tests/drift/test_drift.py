"""Leak or not: no alarm over memory that does not leak, and none missing over memory that does."""

import json
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.drift import Drift
from truemem.verdict import (
    GROWING,
    GROWING_FROM,
    INSUFFICIENT,
    LEVEL_INVOCATIONS,
    MINIMUM,
    MOST_LEVELS_KEPT,
    look_schedule,
)
from truemem_workbench.judge.drift import Name, Point, Verdict, judge
from truemem_workbench.judge.drift import points as curve_of

from testing.drift import recorded
from testing.drift.judged import on_the_way, sidecar, workbench

NAMES = get_args(Name)


def line(slope_kib: float, count: int, *, base_kib: float = 50_000, first: int = 1, ms: float = 1000) -> list[Point]:
    """A straight one."""
    levels = [base_kib + slope_kib * at for at in range(count)]
    return [Point(first + at, (first + at) * ms, level, level + 100) for at, level in enumerate(levels)]


def printed(points: list[Point]) -> dict[str, Any]:
    """What the sidecar's line has of its verdict at the end."""
    drift = Drift()
    for point in points:
        drift.see(round(point.current_kib), round(point.peak_kib or 0))
        drift.add(round(point.current_kib), round(point.time_ms))
    return drift.document(points[-1].invocation, None)


def interval(verdict: Verdict) -> tuple[float, float]:
    assert verdict.low_kib is not None
    assert verdict.high_kib is not None
    return verdict.low_kib, verdict.high_kib


# --- recorded curves --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [workbench, sidecar])
@pytest.mark.parametrize(("every", "expected"), [(1, "stable"), (2, "spiky"), (20, "spiky")])
def test_a_function_that_peaks_alike_each_time_has_no_spikes(
    every: int, expected: str, verdict: Callable[[list[Point]], str]
) -> None:
    curve = [Point(n, 1000.0 * n, 90 * 1024, (250 if n % every == 0 else 95) * 1024) for n in range(1, 161)]
    assert verdict(curve) == expected


@pytest.mark.parametrize("name", recorded.LABELS)
def test_a_recorded_curve_is_told_for_what_it_is(name: str) -> None:
    curve = recorded.stored(name)
    assert len(curve) == 300
    assert judge(curve).name in recorded.LABELS[name]
    assert sidecar(curve) in recorded.LABELS[name]
    assert GROWING in recorded.LABELS[name] or GROWING not in on_the_way(curve)


def test_the_rates_of_recorded_leaks_are_those_of_their_code() -> None:
    for name, kib in (("python list", 8), ("C level", 4)):
        verdict = judge(recorded.stored(name))
        assert verdict.per_invocation_kib == pytest.approx(kib, rel=0.15)
        low, high = interval(verdict)
        assert 0 < low <= (verdict.per_invocation_kib or 0) <= high < 2 * kib


@pytest.mark.smoke
def test_a_function_that_leaks_is_told_as_it_runs() -> None:
    lines = recorded.run("python list", 162)
    assert judge(curve_of(lines)).name == GROWING
    told = {line.invocation or 0: line.members for line in lines if "drift" in line.members}
    *_, at_the_end = told
    # the last one tells if it is known to be
    assert [number for number in told if number < 162] == list(range(32, 162, 16))
    last = told[at_the_end]
    assert last["drift"]["verdict"] == GROWING
    assert last["MemoryDrift"] == last["drift"]["perInvocationKiB"] == pytest.approx(8, rel=0.25)
    assert "MemoryGrowing" in last
    assert {"Name": "MemoryDrift", "Unit": "Kilobytes"} in last["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    assert "MemoryDrift" not in lines[0].members


# --- what a verdict says ----------------------------------------------------------------------------------------------


def test_growth_has_its_rate_by_invocation() -> None:
    verdict = judge(line(8, 300))
    assert verdict.name == "growing"
    assert verdict.per_invocation_kib == pytest.approx(8)


@pytest.mark.parametrize("count", [0, 1, MINIMUM - 1])
def test_a_few_invocations_say_nothing(count: int) -> None:
    verdict = judge(line(1024, count))
    assert (verdict.name, verdict.per_invocation_kib) == ("insufficient", None)


def test_early_growth_is_warming() -> None:
    curve = line(64, GROWING_FROM)
    assert judge(curve[:-1]).name == "warming"
    assert judge(curve).name == "growing"


def test_growing_is_taken_back_by_a_level_or_a_fall() -> None:
    leak, top = line(64, 1200), 50_000 + 64 * 1200
    assert printed([*leak, *line(24, 300, base_kib=top, first=1201)])["verdict"] == "growing"
    for name, base in (("levelled off", top), ("fell back", 50_000)):
        levelled = [*leak, *line(0, 2400, base_kib=base, first=1201)]
        assert judge(levelled).name in ("stable", "plateau")
        assert printed(levelled)["ended"] == name


def test_growing_says_since_when_and_by_how_much_in_all() -> None:
    said = printed(line(64, 2000))
    assert said["since"] == GROWING_FROM
    assert said["grownKiB"] == pytest.approx(64 * 2000, rel=0.2)
    assert 0.5 < said["confidence"] < 1


# --- what is less trusted ---------------------------------------------------------------------------------------------


def test_uncertain_points_are_left_out_if_others_suffice() -> None:
    flat = line(0, 100)
    wild = [point._replace(current_kib=point.current_kib * 3, peak_kib=None, certain=False) for point in flat]
    mixed = [wild[at] if at % 2 else flat[at] for at in range(100)]
    assert judge(mixed).name == "stable"
    assert judge(wild).name == "stable"  # better than nothing


def test_a_leak_that_is_killed_again_and_again_is_a_leak() -> None:
    lives: list[Point] = []
    for life in range(3):
        first, *rest = line(1024, 150, first=1 + 150 * life)
        lives += [first._replace(begins=True), *rest]
    assert judge(lives).name == "growing"
    assert judge([*lives, *line(0, 10, first=451)]).name == "growing"


# --- the sidecar's ----------------------------------------------------------------------------------------------------


def see(drift: Drift, point: Point) -> None:
    drift.see(round(point.current_kib), round(point.peak_kib or 0))
    drift.add(round(point.current_kib), round(point.time_ms))


def fed(curve: list[Point]) -> Drift:
    drift = Drift()
    for point in curve:
        see(drift, point)
    return drift


def test_its_state_stays_small_however_long_it_lives() -> None:
    drift = Drift()
    for number in range(1, 20_001):
        see(drift, Point(number, number * 1000, 50_000 + number % 7 * 4, 50_000))
        kept = list(vars(drift).values())
        assert (
            sum(len(value) for value in kept if isinstance(value, list)) < 2 * MOST_LEVELS_KEPT + LEVEL_INVOCATIONS
        ), number
    assert drift.verdict.name == "stable"


@pytest.mark.parametrize("count", [300, 1000, 5000])
def test_its_rate_is_right_however_long_it_lives(count: int) -> None:
    document = fed(line(8, count)).document(count, room_kib=8 * 1000)
    assert document["verdict"] == "growing"
    assert document["perInvocationKiB"] == pytest.approx(8, abs=0.01)
    assert document["perMinuteKiB"] == pytest.approx(480, abs=1)
    assert document["invocationsLeft"] == 1000
    assert json.loads(json.dumps(document)) == document
    assert "invocationsLeft" not in fed(line(8, count)).document(count, room_kib=None)  # the limit is not known


@pytest.mark.parametrize(("kib", "verdict"), [(0.009, "growing"), (0.005, "growing"), (0.0, "stable")])
def test_a_leak_of_a_few_bytes_is_one_in_14_days(kib: float, verdict: str) -> None:
    """Of a hundred million requests, each of which the sidecar has seen as one of 40 levels; 2 GiB."""
    drift, random = Drift(), np.random.default_rng(1)
    room_kib = 0.0
    for stride, count in look_schedule():
        invocations = stride * count
        if invocations > 100_000_000:
            break
        levels = 300_000 + kib * stride * np.arange(count) + random.normal(0, 200, count)
        room_kib = 2 * 1024 * 1024 - levels[-1]
        drift.verdict.look(levels.tolist(), (levels - 100).tolist(), invocations)
    document: dict[str, Any] = drift.document(1, round(room_kib))
    assert document["verdict"] == verdict
    if verdict == "growing":
        assert document["perInvocationKiB"] == pytest.approx(kib, rel=0.05)
        assert document["low"] <= kib <= document["high"]


def test_full_cache_is_no_leak_and_early_is_silent() -> None:
    assert fed(line(0, 31)).document(31, 1) == {}
    told = list(on_the_way(recorded.stored("arenas")))
    assert told[-1] == "plateau"
    assert GROWING not in told
    assert set(told[:31]) == {INSUFFICIENT}


@settings(max_examples=max(5, settings().max_examples // 2))
@given(st.lists(st.integers(0, 2**40), min_size=32, max_size=320), st.integers(-(2**40), 2**40))
def test_whatever_comes_it_has_a_verdict(held: list[int], room: int) -> None:
    curve = [Point(number, number, kib, kib) for number, kib in enumerate(held)]
    document = fed(curve).document(len(curve), room)
    assert document["verdict"] in NAMES
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert judge([point._replace(peak_kib=None) for point in curve]).name in NAMES
