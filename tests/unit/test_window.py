"""One window: the truth lies between the bounds, whatever was lost, and by any lead of the runtime over the sidecar.
What is not called raced is exact.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem.linux.procfs import FALLEN_KIB, FAULT_KIB
from truemem.measure.recorder import Recorder
from truemem.measure.window import (
    KERNEL_SLACK_KIB,
    LAST_SAMPLES,
    MOST_KEPT_SAMPLES,
    MOST_TAIL_SAMPLES,
    NEVER_NS,
    RATE_NS,
    SAMPLES_KEPT,
    VMHWM,
    VMHWM_THREADS,
    Boundary,
    MemoryCurve,
    Peak,
    Sample,
    Window,
    current,
    keep,
    peak,
)

from tests.records import MIB, MS, around, curve, window
from tests.unit.stand_ins import PROC, START_KIB, OneProcess

Levels = list[tuple[int, int]]
"""Watermark and RSS of each process, MiB."""


def known(made: Window) -> Peak:
    result = peak(made)
    assert result is not None
    return result


def mib(made: Window) -> tuple[int, int, int]:
    """Lower bound, estimate, upper bound."""
    result = known(made)
    return result.lower // MIB, result.estimate // MIB, result.upper // MIB


def end(proven: int, *levels: tuple[int, int]) -> Boundary:
    """An event that did not come before `proven`, and the levels (ns, KiB) that were reached before it."""
    made = Boundary()
    made.levels = list(levels)
    made.prove(proven)
    return made


KEPT_MARK: dict[str, Any] = {"before": 400 * MIB, "resets": False}
ENDED_CHILDREN: dict[str, Any] = {"multi_process": True, "lived": 40 * MIB, "unseen": 5 * MIB}
TWO: dict[str, Any] = {"multi_process": True, "unread": 500 * MIB, "births": 1, "deaths": 1, "child_most": 40 * MIB}
BOUNDS = {
    "one process": ([(250, 60)], {}, 0, (250, 250, 250, "vmhwm")),
    "several processes": ([(100, 60), (80, 20)], {}, 150, (150, 180, 180, "vmhwm-sum")),
    "no resets": ([(400, 60)], KEPT_MARK, 120, (120, 120, 400, "sampled")),
    "no resets, and a risen watermark": ([(450, 60)], KEPT_MARK, 120, (450, 450, 450, "sampled")),
    "children that have ended": ([(60, 55)], ENDED_CHILDREN, 0, (60, 100, 105, "vmhwm-sum")),
    "two children, each as large as any at most": ([(60, 55)], TWO, 0, (60, 60, 140, "vmhwm-sum")),
    "the function is gone": ([], {}, 120, (120, 120, 0, "sampled")),
}


@pytest.mark.parametrize(("closing", "more", "sampled", "expected"), BOUNDS.values(), ids=BOUNDS)
def test_bounds_and_method(closing: Levels, more: Any, sampled: int, expected: tuple[int, int, int, str]) -> None:
    made = window(*closing, baseline=50, sampled=sampled * MIB, **more)
    assert mib(made) == expected[:3]
    assert (known(made).method, known(made).raced) == (expected[3], False)


BUSY_AT_REST: dict[str, dict[str, int]] = {
    "a thread touches memory between reading and reset": {"unobserved_kib": 300 * MIB},
    "a child begins while the others are read": {"found_late_kib": 300 * MIB},
}


@pytest.mark.parametrize("waits", [True, False], ids=["exact mode", "default mode"])
@pytest.mark.parametrize("name", BUSY_AT_REST)
def test_what_runs_while_the_runtime_waits_is_no_race(name: str, waits: bool) -> None:
    opening = Boundary(NEVER_NS if waits else 0)
    for member, kib in BUSY_AT_REST[name].items():
        setattr(opening, member, kib)
    found = known(window((60, 60), baseline=50, opening=opening))
    assert (found.lower, found.upper) == (60 * MIB, 300 * MIB)
    assert (found.raced, found.method) == ((False, VMHWM_THREADS) if waits else (True, VMHWM))
    gone = known(window(baseline=50, sampled=60 * MIB, opening=opening))
    assert not (waits and gone.raced)


@given(st.lists(st.integers(0, 10**6), min_size=6, max_size=6), st.booleans(), st.booleans(), st.booleans())
def test_exact_mode_is_never_raced(kib: list[int], resets: bool, is_lost: bool, is_multi: bool) -> None:
    opening = Boundary(NEVER_NS)
    opening.unobserved_kib, opening.found_late_kib, *sizes = kib
    more = dict(zip(("sampled", "lived", "unseen", "unread"), sizes, strict=True))
    for closing in ((), ((60, 50),)):
        found = peak(
            window(*closing, baseline=5, opening=opening, resets=resets, lost=is_lost, multi_process=is_multi, **more)
        )
        assert found is None or not found.raced


@pytest.mark.parametrize(("hwm", "seen_mib", "upper", "raced"), [(60, 300, 300, True), (90, 90, 90, False)])
def test_what_ran_before_the_reset_is_bounded_by_the_mark_before(
    hwm: int, seen_mib: int, upper: int, raced: bool
) -> None:
    """That of the reading that closed the window before. Where it makes no difference it is not raced."""
    made = window((hwm, 55), baseline=50, opening=around(seen_mib))
    assert (mib(made)[0], mib(made)[2], known(made).raced) == (hwm, upper, raced)


def test_at_an_unproven_end_the_lower_bound_is_what_was_proven() -> None:
    """Or the level at the opening; where that makes no difference it is not raced."""
    for levels, lower in [([(5, 90 * MIB), (8, 250 * MIB)], 90), ([], 50)]:
        made = window((300, 280), baseline=50, end=end(7, *levels))
        assert (mib(made)[0], mib(made)[2], known(made).raced) == (lower, 300, True)
    assert not known(window((90, 60), baseline=50, end=end(7, (5, 90 * MIB - KERNEL_SLACK_KIB)))).raced


def test_a_function_never_seen_has_no_peak() -> None:
    assert peak(Window()) is None


@pytest.mark.parametrize(("closing", "held"), [([(90, 60), (20, 5)], 65), ([], 40)], ids=["read", "gone: last seen"])
def test_what_was_left_behind_is_read_at_the_close(closing: Levels, held: int) -> None:
    assert current(window(*closing, last=40 * MIB)) == held * MIB


levels = st.integers(0, 10_000)


@given(st.lists(st.tuples(levels, levels), max_size=5), levels, levels, levels, st.booleans(), st.booleans())
def test_estimates_lie_within_the_bounds(
    closing: Levels, baseline: int, sampled: int, ended: int, exact: bool, resets: bool
) -> None:
    seen = {"before": baseline * MIB, "resets": resets, "sampled": sampled * MIB, "lived": ended * MIB}
    ends = {} if exact else {"opening": around(sampled), "end": Boundary()}
    result = peak(window(*((hwm + rss, rss) for hwm, rss in closing), baseline=baseline, **seen, **ends))
    if result is not None:
        assert result.lower <= result.estimate
        assert result.estimate <= result.upper or result.upper == 0


# The race with the runtime: a simulated process acts between any two system calls of the recorder


def recorder_of(process: OneProcess) -> Recorder:
    recorder = Recorder(process.table(), PROC, clock=lambda: process.now_ns)
    recorder.close(recorder.read_and_reset(), NEVER_NS)
    return recorder


def check(made: Window, truth: int, level_before: int) -> None:
    """The promises."""
    found = known(made)
    assert found.lower - FALLEN_KIB <= truth <= found.upper + FALLEN_KIB, (found.lower, truth, found.upper)
    assert found.lower <= found.estimate <= found.upper
    assert found.method == VMHWM
    if not found.raced:
        assert abs(found.estimate - truth) <= KERNEL_SLACK_KIB
    if made.opening.settled():
        assert abs(made.baseline - level_before) <= KERNEL_SLACK_KIB


changes = st.lists(st.sampled_from([30_000, 5_000, 700, 64, -64, -700, -5_000, -30_000]), max_size=6)
Plan = list[int]
REPORTED = ["nothing", "done", "started", "both"]
"""What the platform says of the time between the two invocations."""


@settings(max_examples=3 * settings().max_examples)
@given(st.data(), changes, changes, st.sampled_from(REPORTED), st.booleans())
def test_in_any_order_and_by_any_lead_the_bounds_hold(
    data: st.DataObject, first: Plan, second: Plan, reported: str, sidecar_first: bool
) -> None:
    process = OneProcess(data.draw)
    recorder = recorder_of(process)

    def looks() -> None:
        for _ in range(data.draw(st.integers(0, 3))):
            recorder.levels.sample(late=data.draw(st.booleans()))

    process.begin(first)
    looks()
    first_truth = process.finish()
    done_ns, between = process.now_ns, process.rss
    looks()
    if not sidecar_first:
        started_ns = process.now_ns
        process.begin(second)
        looks()
    closed = recorder.close(recorder.read_and_reset())
    if sidecar_first:
        looks()
        started_ns = process.now_ns
        process.begin(second)
    # Telemetry tells times in whole ms, cut off.
    if reported in ("done", "both"):
        closed.end.prove(done_ns // MS * MS)
    if reported in ("started", "both"):
        closed.end.prove(started_ns // MS * MS)
    check(closed, first_truth, START_KIB)

    looks()
    second_truth = process.finish()
    check(recorder.close(recorder.read_and_reset(), NEVER_NS), second_truth, between)


@settings(max_examples=2 * settings().max_examples)
@given(st.data(), changes, changes)
def test_measured_while_the_runtime_waits_all_is_exact(data: st.DataObject, first: Plan, second: Plan) -> None:
    """In exact mode: nothing runs between a request for the next event and that event."""
    process = OneProcess(data.draw)
    recorder = recorder_of(process)
    for plan in first, second:
        before = process.rss
        process.begin(plan)
        for _ in range(data.draw(st.integers(0, 3))):
            recorder.levels.sample(late=data.draw(st.booleans()), reset=False)
        truth = process.finish()
        closed = recorder.close(recorder.read_and_reset(), NEVER_NS)
        found = known(closed)
        assert not found.raced
        assert max(abs(found.estimate - truth), abs(closed.baseline - before)) <= FALLEN_KIB
        recorder.close(recorder.read_and_reset(), NEVER_NS)  # the next event passes


def look(end_ms: int, hwm: int, faults: int = 0, rss: int = START_KIB) -> Sample:
    return Sample(end_ms * MS, hwm, hwm, faults, rss)


def boundary(*looks: Sample) -> Boundary:
    made = Boundary()
    made.samples, made.fault_kib = [list(looks)], FAULT_KIB
    return made


def test_a_look_that_may_follow_the_event_counts_for_the_next() -> None:
    """What is proven is never taken back."""
    made = boundary(look(5, 70_000), look(8, 90_000), look(9, 50_000))
    for proven_ms, not_before_ms, hidden in [(7, 7, 90_000), (3, 7, 90_000), (None, 7, 90_000), (8, 8, 50_000)]:
        made.prove(None if proven_ms is None else proven_ms * MS)
        assert (made.not_before_ns, made.hidden()) == (not_before_ms * MS, hidden)


@pytest.mark.parametrize(
    ("faults", "hwm", "proven_ms", "settled"),
    [(10, START_KIB, 6, True), (15, START_KIB, 6, False), (10, 70_000, 6, False), (10, START_KIB, None, False)],
    ids=["quiet", "busy", "fallen", "no look is proven"],
)
def test_the_level_is_settled_if_no_page_was_touched_since(
    faults: int, hwm: int, proven_ms: int | None, settled: bool
) -> None:
    """Since a look that is proven to be from before the event."""
    made = boundary(look(5, 70_000, faults=10), look(9, hwm, faults=faults))
    made.prove(None if proven_ms is None else proven_ms * MS)
    assert made.settled() is settled


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200))
def test_of_many_looks_the_older_are_merged_and_none_is_lost(looks: list[int]) -> None:
    history: list[Sample] = []
    for number, level in enumerate(looks):
        keep(history, look(number, level), Sample.merged)
    assert len(history) <= MOST_KEPT_SAMPLES
    assert max(each.hwm for each in history) == max(looks)
    assert [each.end_ns for each in history] == sorted(each.end_ns for each in history)
    assert history[-1].end_ns == (len(looks) - 1) * MS


# The curve: bounded, and the last moments in full

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
    assert curve(*samples).tail(begin_ms * MS, end_ms * MS) == tail


def test_growth_is_that_of_a_burst_or_of_steps() -> None:
    """Of the last 100 ms or of the last second: two looks between two steps must not read as no growth."""
    assert curve((0, 10)).growth_kib_per_s() is None
    assert curve((0, 10), (1000, 20)).growth_kib_per_s() == pytest.approx(10 * 1024)
    burst = curve((0, 10), (1000, 100), (1050, 150), (1100, 200))
    assert burst.growth_kib_per_s() == pytest.approx(1000 * 1024)
    stairs = curve(*((300 * step + ms, 10 * step) for step in range(10) for ms in (0, 150, 250)))
    assert stairs.growth_kib_per_s() == pytest.approx(30 * 1024, rel=0.2)
    longest = RATE_NS[-1] / MS
    assert curve((0, 0), (longest, 100), (2 * longest, 100)).growth_kib_per_s() == 0


@given(st.lists(st.tuples(st.integers(1, 400 * MS), st.integers(1, 10 << 20)), max_size=600), st.integers(0, 60_000))
def test_any_tail_is_short_ordered_and_ends_with_the_last(steps: list[tuple[int, int]], after_ms: int) -> None:
    made = MemoryCurve()
    now = 0
    for step, level in steps:
        now += step
        made.see(now, level)
        assert len(made.samples) <= 2 * SAMPLES_KEPT
    tail = made.tail(0, now + after_ms * MS)
    assert len(tail) == min(len(tail), MOST_TAIL_SAMPLES)
    assert len(json.dumps(tail)) < 1200
    agos = [ago for ago, _ in tail]
    assert agos == sorted(agos, reverse=True)
    if steps:
        assert tail[-1] == [float(after_ms), round(steps[-1][1] / 1024, 2)]
    if len(steps) >= 2:
        assert tail[-2][1] == round(steps[-2][1] / 1024, 2)


@pytest.mark.parametrize("count", [LAST_SAMPLES, MOST_TAIL_SAMPLES, MOST_TAIL_SAMPLES + 1, 2 * SAMPLES_KEPT])
def test_the_whole_climb_is_shown_even_if_the_end_came_later(count: int) -> None:
    """What comes between the last look and the end makes it no shorter."""
    tail = curve(*((ms * 3, ms + 1) for ms in range(count))).tail(0, (count * 3 + 900) * MS)
    assert tail[-LAST_SAMPLES:] == [
        [(count - ms) * 3 + 900.0, float(ms + 1)] for ms in range(count - LAST_SAMPLES, count)
    ]
    assert tail[0][1] <= count / 8 + 1
    assert len(tail) > min(count, MOST_TAIL_SAMPLES) / 2


def test_a_long_invocation_is_shown_from_far_back_to_the_end() -> None:
    tail = curve(*((second * 250, second / 1024) for second in range(900 * 4))).tail(0, 900 * 1000 * MS)
    assert tail[-1][0] == 250.0
    assert tail[0][0] > 5_000


def test_how_long_until_a_level_by_the_last_two_samples() -> None:
    assert curve((0, 10), (10, 20)).ns_until(120 * 1024) == 100 * MS
    assert curve((0, 10), (10, 20)).ns_until(15 * 1024) == 0
    assert curve((0, 10), (10, 10)).ns_until(120 * 1024) is None
    assert curve((0, 10)).ns_until(120 * 1024) is None


def test_a_copy_of_a_window_has_all_its_members() -> None:
    made = Window()
    for number, name in enumerate(vars(made)):
        setattr(made, name, number)
    assert vars(made._replace(lost=-1)) == {**vars(made), "lost": -1}
