"""The arithmetic of one window: the truth lies between the bounds, whatever was lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from truemem.procfs import Status
from truemem.window import KERNEL_SLACK_KIB, VMHWM, Peak, Window, current, extended, peak

MiB = 1024


def status(hwm: int, rss: int) -> Status:
    return Status(hwm * MiB, rss * MiB, rss * MiB, 0, 0, 1)


def window(closing: list[Status], baseline: int = 50, before: int = 50, resets: bool = True) -> Window:
    made = Window(baseline * MiB, before * MiB, resets)
    made.closing = closing
    made.several = len(closing) > 1
    return made


def known(made: Window) -> Peak:
    result = peak(made)
    assert result is not None
    return result


def test_one_process_is_exact() -> None:
    result = known(window([status(hwm=250, rss=60)]))
    assert (result.estimate, result.lower, result.upper) == (250 * MiB, 250 * MiB, 250 * MiB)
    assert (result.method, result.raced) == ("vmhwm", False)


def test_several_processes_are_bounded_by_their_sum_and_by_the_highest_sample() -> None:
    made = window([status(100, 60), status(80, 20)])
    made.sampled = 150 * MiB
    result = known(made)
    assert (result.lower, result.upper, result.estimate) == (150 * MiB, 180 * MiB, 180 * MiB)
    assert result.method == "vmhwm-sum"


def test_what_a_lost_race_hides_is_below_the_watermark_that_closed_the_window_before() -> None:
    made = window([status(60, 55)], before=300)
    made.started_raced = True
    result = known(made)
    assert (result.lower, result.upper, result.raced) == (60 * MiB, 300 * MiB, True)


def test_a_race_at_the_end_leaves_what_was_sampled_as_the_lower_bound() -> None:
    made = window([status(300, 280)])
    made.stopped_raced = True
    made.sampled = 90 * MiB
    result = known(made)
    assert (result.lower, result.upper, result.raced) == (90 * MiB, 300 * MiB, True)


def test_a_race_that_changed_nothing_is_not_worth_a_word() -> None:
    made = window([status(90, 60)])
    made.stopped_raced = True
    made.sampled = 90 * MiB - KERNEL_SLACK_KIB
    assert not known(made).raced


def test_nor_is_one_at_the_beginning() -> None:
    """What it can have hidden was not higher than what was seen."""
    made = window([status(90, 60)], before=90)
    made.started_raced = True
    assert (known(made).estimate, known(made).raced) == (90 * MiB, False)


def test_children_that_ended_widen_the_upper_bound_only() -> None:
    made = window([status(60, 55)])
    made.several, made.ended, made.unseen = True, 40 * MiB, 5 * MiB
    result = known(made)
    assert (result.lower, result.estimate, result.upper) == (60 * MiB, 100 * MiB, 105 * MiB)


def test_without_resets_the_peak_is_sampled_and_says_so() -> None:
    made = window([status(400, 60)], before=400, resets=False)
    made.sampled = 120 * MiB
    result = known(made)
    assert (result.method, result.estimate) == ("sampled", 120 * MiB)
    assert (result.lower, result.upper) == (120 * MiB, 400 * MiB)


def test_without_resets_a_risen_watermark_still_tells_the_peak() -> None:
    made = window([status(450, 60)], before=400, resets=False)
    made.sampled = 120 * MiB
    result = known(made)
    assert (result.lower, result.upper, result.method) == (450 * MiB, 450 * MiB, "sampled")


def test_a_function_that_is_gone_leaves_its_samples_and_no_upper_bound() -> None:
    made = window([])
    made.sampled = 120 * MiB
    result = known(made)
    assert (result.lower, result.upper, result.method) == (120 * MiB, 0, "sampled")


def test_a_function_never_seen_has_no_peak() -> None:
    assert peak(Window(0, 0, resets=True)) is None


def test_what_was_left_behind_is_read_at_the_close() -> None:
    assert current(window([status(90, 60), status(20, 5)])) == 65 * MiB


def test_a_function_that_is_gone_held_what_was_last_seen() -> None:
    made = window([])
    made.last = 40 * MiB
    assert current(made) == 40 * MiB


# A window that was closed at a rest which may have been none


def known_peak(lower: int, upper: int, raced: bool = False) -> Peak:
    return Peak(upper * MiB, lower * MiB, upper * MiB, VMHWM, raced)


def test_what_came_after_an_early_close_may_have_been_its_own() -> None:
    result = extended(known_peak(100, 100), known_peak(300, 300))
    assert (result.lower, result.estimate, result.upper) == (100 * MiB, 100 * MiB, 300 * MiB)
    assert (result.method, result.raced) == (VMHWM, True)


def test_what_was_less_makes_no_difference() -> None:
    result = extended(known_peak(100, 100), known_peak(80, 80))
    assert (result.lower, result.estimate, result.upper, result.raced) == (100 * MiB, 100 * MiB, 100 * MiB, False)


def test_nor_does_what_the_kernel_rounds() -> None:
    rest = Peak(0, 0, 100 * MiB + KERNEL_SLACK_KIB, VMHWM, False)
    assert not extended(known_peak(100, 100), rest).raced


def test_a_race_stays_one() -> None:
    assert extended(known_peak(90, 100, raced=True), known_peak(80, 80)).raced


def test_without_a_bound_on_what_came_after_there_is_none() -> None:
    unbounded = Peak(80 * MiB, 80 * MiB, 0, "sampled", False)
    for made in (extended(known_peak(100, 100), unbounded), extended(known_peak(100, 100), None)):
        assert (made.lower, made.upper, made.raced) == (100 * MiB, 0, True)


def test_and_none_where_the_window_itself_had_none() -> None:
    closed = Peak(80 * MiB, 80 * MiB, 0, "sampled", False)
    assert extended(closed, known_peak(300, 300)).upper == 0


levels = st.integers(0, 10_000)


@given(
    st.lists(st.tuples(levels, levels), max_size=5),
    levels,
    levels,
    levels,
    levels,
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_the_estimate_lies_between_the_bounds(
    closing: list[tuple[int, int]],
    baseline: int,
    before: int,
    sampled: int,
    ended: int,
    started_raced: bool,
    stopped_raced: bool,
    resets: bool,
) -> None:
    made = window([status(hwm + rss, rss) for hwm, rss in closing], baseline, before, resets)
    made.sampled, made.ended = sampled * MiB, ended * MiB
    made.started_raced, made.stopped_raced = started_raced, stopped_raced
    result = peak(made)
    if result is not None:
        assert result.lower <= result.estimate
        assert result.estimate <= result.upper or result.upper == 0


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20), st.integers(0, 20), st.booleans())
def test_the_truth_of_one_process_is_never_outside(curve: list[int], lost: int, raced: bool) -> None:
    """A process follows `curve`; a lost race puts its first `lost` points before the reset."""
    lost = min(lost, len(curve)) if raced else 0
    before = max([0, *curve[:lost]])
    seen = curve[lost:] or curve[-1:]
    made = Window(seen[0], before, resets=True)
    made.started_raced = raced
    made.closing = [Status(max(seen), seen[-1], seen[-1], 0, 0, 1)]
    result = known(made)
    assert result.lower <= max(curve) <= result.upper


@given(st.lists(levels, min_size=1), st.lists(levels, min_size=1), st.integers(0, 20))
def test_wherever_it_was_closed_the_truth_is_inside(before: list[int], after: list[int], own: int) -> None:
    """A window is closed after `before`; of what came `after`, the first `own` points were the invocation's."""
    closed, rest = (known_peak(max(curve), max(curve)) for curve in (before, after))
    truth = max(before + after[:own]) * MiB
    result = extended(closed, rest)
    if result.upper:
        assert result.lower <= truth <= result.upper
        assert result.raced or truth - result.estimate <= KERNEL_SLACK_KIB
    else:
        assert result.raced
