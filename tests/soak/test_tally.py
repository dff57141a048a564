"""What is counted of a soak, and that it stays small."""

import itertools
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from truemem_workbench.soak import tally as tallies
from truemem_workbench.soak.clocks import PAUSES_MS
from truemem_workbench.soak.tally import (
    MOST_BUCKETS,
    MOST_ENDED,
    MOST_KEPT_LINES,
    MOST_KEPT_LINES_ENDED,
    MOST_PINNED,
    MOST_TYPES,
    OTHERS,
    Histogram,
    Tally,
)

from tests.soak.seen import BEGUN_MS, arrival, begun, dropped, ended, initialised, line, reset, started, throttled


@pytest.fixture
def tally() -> Tally:
    """A soak with one environment, `a`."""
    return begun("a")


# --- latency ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(0.01, 1e7), min_size=1, max_size=200),
    st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0]),
)
def test_a_percentile_is_wrong_by_half_a_percent(times: list[float], share: float) -> None:
    histogram = Histogram()
    for each in times:
        histogram.add(each)

    exact = float(np.percentile(times, 100 * share, method="inverted_cdf"))
    assert histogram.percentile(share) == pytest.approx(exact, rel=0.006)


@given(st.lists(st.floats(0, 1e9)), st.lists(st.floats(0, 1e9)))
def test_joined_histograms_are_one_of_all(first: list[float], second: list[float]) -> None:
    one, other, both = Histogram(), Histogram(), Histogram()
    for histogram, times in ((one, first), (other, second), (both, first + second)):
        for each in times:
            histogram.add(each)

    one.join(other)

    assert one == both
    assert one.count == len(first) + len(second)


def test_without_times_there_is_no_percentile() -> None:
    assert Histogram().percentile(0.5) is None


@given(st.lists(st.floats(allow_nan=False), max_size=3000))
def test_a_histogram_has_an_end(times: list[float]) -> None:
    histogram = Histogram()
    for each in times:
        histogram.add(each)

    assert all(0 <= number <= 2302 for number in histogram.counts)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_each_request_is_counted_once(tally: Tally) -> None:
    tally.add(arrival(0.5, 100, cold=True))
    tally.add(arrival(1.5, 20))
    tally.add(arrival(1.6, 30, error="KeyError: 'id'"))
    tally.add(throttled(1.7))
    tally.add(dropped(1.8))

    assert (tally.asked, tally.made, tally.dropped) == (5, 4, 1)
    assert (tally.invocations, tally.throttled, tally.cold) == (3, 1, 1)
    assert tally.errors == {"KeyError": 1}
    assert tally.examples == {"KeyError": "KeyError: 'id'"}
    assert tally.latency.count == 3
    assert tally.latency.percentile(0.5) == pytest.approx(30, rel=0.01)
    (environment,) = tally.environments
    assert (environment.served, environment.failed) == (3, 1)
    first, second = tally.buckets
    assert (first.begin_s, first.width_s, first.count, first.cold) == (0, 1, 1, 1)
    assert (second.count, second.errors, second.throttled, second.dropped) == (2, 1, 1, 1)
    assert second.latency.percentile(1.0) == pytest.approx(30, rel=0.01)


def test_lateness_is_the_tool_s_own(tally: Tally) -> None:
    for number in range(100):
        tally.add(arrival(number / 100, 50, late_s=0.041 if number >= 98 else 0))

    assert tally.late_ms.percentile(0.5) == pytest.approx(0, abs=0.02)
    assert tally.late_ms.percentile(0.99) == pytest.approx(40, rel=0.01)


def test_buckets_are_joined_in_pairs(tally: Tally) -> None:
    for second in range(1000):
        tally.add(arrival(second + 0.5, latency_ms=1 + second, error="E" if second == 3 else ""))
        if second == 10:
            tally.change(started("b", 10.7))
        if second == 20:
            tally.change(ended("idle", "b", 20.7))

    assert len(tally.buckets) <= MOST_BUCKETS
    assert {each.width_s for each in tally.buckets} == {8}
    assert [each.begin_s for each in tally.buckets] == [8.0 * number for number in range(125)]
    assert [each.count for each in tally.buckets] == [8] * 125
    assert [each.errors for each in tally.buckets][:2] == [1, 0]
    assert [each.environments for each in tally.buckets][:4] == [1, 2, 2, 1]
    assert tally.buckets[-1].latency.percentile(1.0) == pytest.approx(1000, rel=0.01)


def test_many_types_of_errors_are_counted_as_others(tally: Tally) -> None:
    for number in range(2 * MOST_TYPES):
        tally.add(arrival(0, error=f"Error{number}: {'x' * 10_000}"))
    tally.add(arrival(0, error="Error0: again"))

    assert len(tally.errors) == len(tally.examples) == MOST_TYPES + 1
    assert (tally.errors["Error0"], tally.errors[OTHERS]) == (2, MOST_TYPES)
    assert max(map(len, tally.examples.values())) <= 200


# --- memory -----------------------------------------------------------------------------------------------------------


def test_an_environment_s_memory(tally: Tally) -> None:
    tally.change(initialised(init_ms=123.4))
    tally.line(line(1, raced=True, CurrentRSS=70, PeakRSS=75), "a")
    tally.line(line(2, CurrentRSS=60, PeakRSS=90), "a")
    tally.line(line(3, CurrentRSS=66, PeakRSS=80), "a")
    tally.change(ended("age", at_s=99.5))

    (each,) = tally.environments
    assert (each.id, each.init_ms, each.ended, each.ended_s) == ("a", 123.4, "age", 99.5)
    assert (each.first_mib, each.last_mib, each.peak_mib, each.limit_mib) == (60, 66, 90, 1024)
    assert [seen.invocation for seen in each.lines] == [1, 2, 3]


def test_memory_beside_latency(tally: Tally) -> None:
    for number in range(1, 7):
        tally.add(arrival(number, 10))
        tally.line(line(number, CurrentRSS=100.0 + number), "a")

    assert [each.current_mib for each in tally.buckets if each.count] == [101, 102, 103, 104, 105, 106]


def test_a_line_of_another_century_is_of_now(tally: Tally) -> None:
    """A function can print what looks like a line."""
    tally.add(arrival(5))
    for at_s in (1e9, -1e9):
        tally.line(line(1, at_s), "a")

    assert tally.width_s == 1
    assert [each.readings for each in tally.buckets] == [1, 1]


def test_kills_and_resets_are_told(tally: Tally) -> None:
    tally.line(line(1), "a")
    tally.change(reset("out of memory"))
    tally.line(line(2, outOfMemory={"signals": []}), "a")
    tally.line(line(3, suppressedInit=True, environmentKills=2), "a")
    tally.change(reset("timeout"))

    (each,) = tally.environments
    assert each.killed == 1
    assert each.resets == 1
    assert tally.killed == 1


def test_a_repeated_line_does_not_count(tally: Tally) -> None:
    tally.line(line(1), "a")
    tally.line(line(2), "a")
    tally.line(line(2, mayRepeat=True, recovered=True, outOfMemory={"signals": []}), "a")
    tally.line(line(3, mayRepeat=True, recovered=True), "a")

    assert [each.invocation for each in tally.environments[0].lines] == [1, 2, 3]


def test_lines_of_an_unknown_environment_are_left_out(tally: Tally) -> None:
    tally.line(line(1, environment="z"), "z")

    assert [each.id for each in tally.environments] == ["a"]


def test_kept_lines_are_thinned_evenly(tally: Tally) -> None:
    for number in range(1, 5001):
        tally.line(line(number, at_s=number / 10, CurrentRSS=100 + number), "a")

    (each,) = tally.environments
    kept = [seen.invocation for seen in each.lines]
    assert kept == [*range(1, 5001, 8), 5000]
    assert len(kept) <= MOST_KEPT_LINES + 1
    assert [seen.current_rss for seen in each.lines] == [100 + number for number in kept if number]


def test_the_first_line_and_kills_are_not_thinned_out(tally: Tally) -> None:
    special = {2, 1234, 4321}
    for number in range(1, 5001):
        members: dict[str, Any] = {"outOfMemory": {"signals": []}} if number in special else {}
        tally.line(line(number, at_s=number / 10, **members), "a")

    kept = [seen.invocation for seen in tally.environments[0].lines]
    assert special | {1} < set(kept)
    assert kept == sorted(kept, key=lambda number: number or 0)


def test_an_environment_that_is_always_killed_stays_small(tally: Tally) -> None:
    for number in range(1, 5001):
        tally.line(line(number, suppressedInit=True, outOfMemory={"signals": []}), "a")

    (each,) = tally.environments
    assert each.killed == tally.killed == 5000
    assert len(each.lines) <= MOST_KEPT_LINES + 1
    assert [seen.invocation for seen in each.lines][:MOST_PINNED] == [*range(1, MOST_PINNED + 1)]
    assert all(step.begins for step in each.steps())


def test_a_kept_line_is_the_line_that_came(tally: Tally) -> None:
    came = line(1, heap={"runtime": "nodejs", "used": 10.5}, drift={"verdict": "stable"}, sharedBy=2, cpuMs=1.5)
    tally.line(came, "a")

    (kept,) = tally.environments[0].lines
    assert replace(kept, members={}) == replace(came, members={})
    assert {**kept.members, "_aws": None} == {**came.members, "_aws": None}


# --- steps ------------------------------------------------------------------------------------------------------------


def test_pauses_and_overlaps_are_counted_of_all_invocations(tally: Tally) -> None:
    begin, pauses, overlapped, expected = 0.0, [0.13, 0.37, 1.37, 0.05, 77.7], 0, []
    counts = [0] * len(PAUSES_MS)
    for number in range(1, 3001):
        pause = pauses[number % 5]
        begin += pause + 0.0995
        shared = 3 if number % 7 == 0 else 1
        overlapped += shared > 1
        tally.line(line(number, at_s=begin, sharedBy=shared), "a")
        if number > 1:
            counts = [count + (1000 * pause >= least) for count, least in zip(counts, PAUSES_MS, strict=True)]
        expected.append((number, tuple(counts), overlapped))

    steps = tally.environments[0].steps()

    assert len(steps) < MOST_KEPT_LINES + 2
    assert [(each.invocation, each.pauses, each.overlapped) for each in steps] == [
        expected[each.invocation - 1] for each in steps
    ]
    assert steps[-1].current_kib == 90 * 1024
    assert (steps[0].begins, steps[0].certain) == (False, True)


def test_requests_that_overlap_have_no_pause(tally: Tally) -> None:
    tally.line(line(1, at_s=0, durationMs=5000), "a")
    tally.line(line(2, at_s=1, durationMs=100), "a")
    tally.line(line(3, at_s=4, durationMs=100), "a")
    tally.line(line(4, at_s=6, durationMs=100), "a")

    assert [each.pauses[:3] for each in tally.environments[0].steps()] == [(0, 0, 0)] * 3 + [(1, 1, 1)]


def test_new_processes_are_told_by_the_next_kept_step(tally: Tally, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MOST_PINNED", 1)
    for number in range(1, MOST_KEPT_LINES + 2):
        tally.line(line(number), "a")  # from now on every second one is kept
    assert tally.environments[0].kept_lines.stride == 2
    number = MOST_KEPT_LINES + 2
    tally.line(line(number, suppressedInit=True), "a")
    tally.line(line(number + 1), "a")
    tally.line(line(number + 2), "a")

    assert [(each.invocation, each.begins) for each in tally.environments[0].steps()][-2:] == [
        (number + 1, True),
        (number + 2, False),
    ]


# --- environments -----------------------------------------------------------------------------------------------------


def test_of_many_environments_those_that_served_most_stay(tally: Tally) -> None:
    for number in range(100):
        name = f"e{number}"
        tally.change(started(name, number))
        for _ in range(number % 10):
            tally.add(arrival(number, environment=name))
        tally.change(ended("age" if number % 2 else "idle", name, number + 0.5))

    kept = tally.environments
    assert [each.id for each in kept[:1]] == ["a"]
    assert len(kept) == MOST_ENDED + 1
    assert tally.left_out == 100 - MOST_ENDED
    assert min(each.served for each in kept if each.ended) >= 3


@pytest.mark.parametrize(("reason", "most"), [("idle", MOST_KEPT_LINES_ENDED + 1), ("stopped", 1000)])
def test_an_environment_that_ends_early_keeps_fewer_lines(tally: Tally, reason: str, most: int) -> None:
    for number in range(1, 1001):
        tally.line(line(number), "a")
    tally.change(ended(reason))

    (each,) = tally.environments
    assert most / 2 < len(each.lines) <= most
    assert each.lines[-1].invocation == 1000


def test_an_end_without_a_reason_has_words(tally: Tally) -> None:
    tally.change(ended(""))

    assert tally.environments[0].ended == "by itself"


def test_one_that_could_not_start_is_told(tally: Tally) -> None:
    tally.change(ended("no memory for it", "b", 3.0))

    assert [(each.id, each.ended) for each in tally.environments] == [("a", ""), ("b", "no memory for it")]


# --- interruptions ----------------------------------------------------------------------------------------------------


def test_it_goes_on_after_an_interruption(tally: Tally) -> None:
    tally.add(arrival(99.9, 100))
    tally.tick(130.0)

    tally.begin(loop_s=5000.0, epoch_ms=BEGUN_MS + 730_000)

    assert tally.interruptions == [(130.0, 600.0)]
    assert [(each.ended, each.ended_s) for each in tally.environments] == [("interrupted", 130.0)]
    assert 5000.0 - tally.zero_s == 130
    tally.begin(loop_s=0.0, epoch_ms=BEGUN_MS + 740_000)
    assert tally.interruptions == [(130.0, 600.0), (130.0, 10.0)]


def test_lines_after_an_interruption_have_their_second(tally: Tally) -> None:
    tally.tick(100.0)
    tally.begin(loop_s=0.0, epoch_ms=BEGUN_MS + 160_000)
    tally.tick(200.0)
    tally.begin(loop_s=0.0, epoch_ms=BEGUN_MS + 560_000)

    seconds = [tally.at_s(BEGUN_MS + 1000 * second) for second in (50, 100, 130, 170, 600)]

    assert seconds == pytest.approx([50, 100, 100, 110, 300 + 40])


def test_another_thread_may_read(tally: Tally) -> None:
    """As the live view does. What is read may be a moment old, and is never torn."""
    stopped = threading.Event()

    def count() -> None:
        for number in itertools.count(1):
            tally.add(arrival(number, number % 500, error=f"E{number % 70}" if number % 3 == 0 else ""))
            tally.line(line(number), "a")
            tally.change(started(f"e{number}", number))
            tally.change(ended("age", f"e{number}", number))
            if stopped.is_set():
                return

    counting = threading.Thread(target=count)
    counting.start()
    try:
        while tally.invocations < 1500:
            (environment,) = [each for each in tally.environments if each.id == "a"]
            numbers = [step.invocation for step in environment.steps()]
            assert numbers == sorted(set(numbers))
            begins = [each.begin_s for each in tally.buckets]
            assert begins == sorted(set(begins))
            for each in tally.buckets:
                each.latency.percentile(0.99)
            len(environment.lines)
    finally:
        stopped.set()
        counting.join()
