"""Every hold ends; and what holds cost stays within what was earned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.conversation import BEGUN, BROKEN, RESPONDING, WAITING, WORKING
from truemem.hold import MS, Hold, Purse, patience_ns

PATIENCE = 300 * MS


@pytest.mark.parametrize(
    ("remaining_ms", "heard", "ends_ms"),
    [
        (30_000, True, 27_000),  # a tenth before the deadline
        (30_000, False, 1_000),  # silence
        (500, True, 400),  # never nearer than 100 ms
        (50, True, 0),  # too late to hold at all
        (-5, False, 0),
    ],
)
def test_when_always_lets_go(remaining_ms: int, heard: bool, ends_ms: int) -> None:
    hold = Hold("1", 0, remaining_ms)
    if heard:
        hold.hear()
    assert hold.ends_at() == ends_ms * MS


Seen = list[tuple[int, int, bool]]


@pytest.mark.parametrize(
    ("seen", "heard", "ends_ms", "why"),
    [
        # each look is (ms, state, has anything moved)
        ([], False, 20, "the event was not seen to arrive"),
        ([(3, BEGUN, False)], True, 20, "the event was not seen to arrive"),
        ([(3, WORKING, True)], False, 45, "no telemetry comes"),
        ([(3, WORKING, True)], True, 300, "it takes too long"),
        ([(3, WORKING, True), (60, RESPONDING, True)], True, 70, "nothing has moved since"),
        ([(3, WORKING, True), (60, RESPONDING, True), (65, RESPONDING, False)], True, 70, "nothing has moved since"),
        ([(3, WORKING, True), (60, RESPONDING, True), (65, RESPONDING, True)], True, 75, "nothing has moved since"),
        ([(3, WORKING, True), (60, WAITING, False)], True, 70, "nothing has moved since"),  # seen, but not closed
        ([(3, WORKING, True), (60, RESPONDING, True), (65, BROKEN, False)], True, 300, "it takes too long"),
        ([(3, RESPONDING, True)], False, 13, "nothing has moved since"),
    ],
)
def test_when_auto_lets_go(seen: Seen, heard: bool, ends_ms: int, why: str) -> None:
    hold = Hold("1", 0, 30_000, PATIENCE)
    if heard:
        hold.hear()
    for at_ms, state, moved in seen:
        hold.see(state, moved, at_ms * MS)
    assert hold.ends_at() == ends_ms * MS
    assert why in hold.why(ends_ms * MS)


def test_near_the_deadline_patience_is_shorter() -> None:
    hold = Hold("1", 0, 250, PATIENCE)
    hold.hear()
    hold.see(WORKING, True, MS)
    assert hold.ends_at() == 150 * MS


def test_before_any_of_its_ends_it_was_something_else() -> None:
    assert "not seen to come back" in Hold("1", 0, 30_000, PATIENCE).why(5 * MS)


def test_patience_is_a_multiple_of_what_invocations_took() -> None:
    assert patience_ns(0) == 100 * MS
    assert patience_ns(250) == 600 * MS


@given(
    now=st.integers(0, 10**12),
    remaining_ms=st.floats(-1e9, 1e9),
    patience=st.just(0) | st.integers(1, 10**12),
    heard=st.booleans(),
    seen=st.lists(st.tuples(st.integers(0, 10**6), st.integers(BEGUN, BROKEN), st.booleans()), max_size=5),
)
def test_never_within_100_ms_of_the_deadline(
    now: int, remaining_ms: float, patience: int, heard: bool, seen: Seen
) -> None:
    hold = Hold("1", now, remaining_ms, patience)
    if heard:
        hold.hear()
    for after_ms, state, moved in seen:
        hold.see(state, moved, now + after_ms * MS)
    assert now <= hold.ends_at() <= now + max(0.0, remaining_ms - 100) * MS + 1
    if patience:
        assert hold.ends_at() <= now + patience


# What holds cost


def test_nothing_is_spent_before_it_is_earned() -> None:
    purse = Purse(0.01)
    assert not purse.affords()
    purse.earn(100)
    assert not purse.affords()


def test_the_first_hold_waits_until_several_can_be_paid_for() -> None:
    purse = Purse(0.01)
    purse.earn(100 * (Purse.FIRST_COST_MS * Purse.RUN - 0.1))
    assert not purse.affords()
    purse.earn(20)
    assert purse.affords()


def test_once_begun_they_go_on_while_there_is_enough_for_one_more() -> None:
    purse = Purse(0.01)
    purse.earn(100 * Purse.FIRST_COST_MS * Purse.RUN)
    holds = 0
    while purse.affords():
        purse.spend(Purse.FIRST_COST_MS)
        holds += 1
    assert holds == Purse.RUN
    purse.earn(100 * Purse.FIRST_COST_MS)
    assert not purse.affords(), "the next run is saved up for"


def test_what_is_not_used_is_not_saved_up_for_ever() -> None:
    purse = Purse(0.01)
    purse.earn(1e9)
    purse.affords()
    spent = 0.0
    while purse.affords():
        purse.spend(1)
        spent += 1
    assert spent <= Purse.LIMIT_MS


def test_one_dear_hold_does_not_end_all() -> None:
    """It is remembered with a bounded weight, and paid back."""
    purse = Purse(0.01)
    purse.earn(1e9)
    purse.spend(3000)
    purse.earn(1e9)
    assert purse.affords()


def test_what_was_less_dear_than_it_seemed_is_given_back() -> None:
    purse = Purse(0.01)
    purse.earn(1e9)
    purse.spend(40)
    assert not purse.affords()
    purse.refund(39)
    assert purse.affords()


turns = st.lists(
    st.tuples(st.floats(0, 1000), st.sampled_from([0.0, 0.3, 1.5, 9.0, 45.0]), st.floats(0, 1)), max_size=200
)


@given(turns, st.sampled_from([0.0001, 0.01, 0.5]))
def test_no_more_is_spent_than_the_share_of_what_is_billed_and_one_hold(
    made: list[tuple[float, float, float]], share: float
) -> None:
    """Each turn is one invocation: what it is billed, what holding it costs if it is held, and how much of that
    turns out not to have been spent."""
    purse = Purse(share)
    billed = spent = dearest = 0.0
    for function_ms, held_ms, back in made:
        cost = 0.0
        if purse.affords():
            purse.spend(held_ms)
            purse.refund(held_ms * back)
            cost = held_ms * (1 - back)
            dearest = max(dearest, held_ms)
        purse.earn(function_ms + cost)
        spent += cost
        billed += function_ms + cost
        assert spent <= share * billed + dearest + 1e-6
