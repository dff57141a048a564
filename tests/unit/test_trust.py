"""When a signal is relied on: after it has agreed with the platform, and until it has contradicted it once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.conversation import BEGUN, BROKEN, RESPONDING, WAITING, WORKING
from truemem.trust import AGREEMENTS, CONFIRMED_NS, EARLY_NS, LATE_NS, Sight, Trust

MS = 1_000_000
DONE = 1_700_000_000_000 * MS
"""When the runtime was done, by the platform's word."""


def sight(*looks: tuple[float, int], completed: bool = False) -> Sight:
    """What was seen: (ms from the runtime's end, state) of each look."""
    made = Sight("1")
    for at_ms, state in looks:
        made.note(state, DONE + round(at_ms * MS))
    made.completed = completed
    return made


GOOD = ((-50, BEGUN), (-40, WORKING), (-1, RESPONDING), (0.3, WAITING))


def test_looks_that_fit_are_an_agreement() -> None:
    trust = Trust()
    trust.judge(sight(*GOOD), DONE)
    assert (trust.agreed, trust.ended) == (1, "")


def test_it_takes_some_agreements_before_it_is_used() -> None:
    trust = Trust()
    for _ in range(AGREEMENTS):
        assert not trust.usable
        trust.judge(sight(*GOOD), DONE)
    assert trust.usable


@pytest.mark.parametrize("waited_ms", [-EARLY_NS / MS, 0, 1, 500])
def test_waiting_seen_at_about_the_end_or_later_agrees(waited_ms: float) -> None:
    trust = Trust()
    trust.judge(sight((-40, WORKING), (waited_ms, WAITING)), DONE)
    assert (trust.agreed, trust.ended) == (1, "")


def test_waiting_seen_early_is_a_contradiction() -> None:
    trust = Trust()
    trust.judge(sight((-40, WORKING), (-30, WAITING)), DONE)
    assert trust.agreed == 0
    assert "waiting 30 ms before" in trust.ended


def test_waiting_that_was_followed_by_work_is_forgotten() -> None:
    trust = Trust()
    trust.judge(sight((-40, WORKING), (-20, WAITING), (-10, RESPONDING), (1, WAITING)), DONE)
    assert trust.ended == ""


@pytest.mark.parametrize(("worked_ms", "ended"), [(LATE_NS / MS, False), (LATE_NS / MS + 1, True)])
def test_work_seen_late_is_a_contradiction(worked_ms: float, ended: bool) -> None:
    trust = Trust()
    trust.judge(sight((-40, WORKING), (worked_ms, WORKING)), DONE)
    assert bool(trust.ended) is ended


def test_one_contradiction_is_final() -> None:
    trust = Trust()
    for _ in range(AGREEMENTS):
        trust.judge(sight(*GOOD), DONE)
    trust.judge(sight((-30, WAITING)), DONE)
    why = trust.ended
    assert not trust.usable
    for _ in range(10):
        trust.judge(sight(*GOOD), DONE)
    trust.contradict("something else")
    assert not trust.usable
    assert trust.ended == why


@pytest.mark.parametrize(
    "looks",
    [
        (),
        ((-50, BEGUN),),
        ((-50, BEGUN), (1, WAITING)),  # no look at the handler at work: it may have been waiting before
        ((-40, WORKING),),  # neither waiting, nor anything sent by the next event
        ((1, WORKING), (2, WAITING)),  # it was done already when it was seen at work
        ((-40, WORKING), (-1, RESPONDING), (2, BROKEN)),
    ],
)
def test_what_does_not_tell_both_ends_is_no_agreement(looks: tuple[tuple[float, int], ...]) -> None:
    trust = Trust()
    trust.judge(sight(*looks), DONE)
    assert (trust.agreed, trust.ended) == (0, "")


def test_an_end_that_only_the_next_event_shows_is_an_agreement() -> None:
    """Too short for a look at its end: but by then the response had been sent."""
    trust = Trust()
    trust.judge(sight((-40, WORKING), completed=True), DONE)
    assert trust.agreed == 1


# Rests: where the window was closed


@pytest.mark.parametrize(
    ("rested_ms", "confirmed"), [(-30, False), (-CONFIRMED_NS / MS, True), (0.5, True), (80, True)]
)
def test_a_rest_is_confirmed_by_its_time(rested_ms: float, confirmed: bool) -> None:
    trust, seen = Trust(), sight(*GOOD)
    seen.rested_ns = DONE + round(rested_ms * MS)
    assert trust.judge(seen, DONE) is confirmed
    assert bool(trust.ended) is not confirmed


def test_in_between_a_rest_is_neither_confirmed_nor_denied() -> None:
    trust, seen = Trust(), sight(*GOOD)
    seen.rested_ns = DONE - CONFIRMED_NS - MS
    assert not trust.judge(seen, DONE)
    assert not trust.ended


def test_where_there_was_no_rest_none_is_confirmed() -> None:
    assert Trust().judge(sight(*GOOD), DONE) is False


def test_a_rest_that_is_proven_contradicts_nothing_whatever_the_clock_says() -> None:
    """The next event came, and nothing was sent before it: then it is the platform's word that was late."""
    trust, seen = Trust(), sight(*GOOD)
    seen.rested_ns, seen.proven = DONE - 20 * MS, True
    trust.judge(seen, DONE)
    assert trust.ended == ""


states = st.sampled_from([BEGUN, WORKING, RESPONDING, WAITING])


@given(st.lists(st.lists(st.tuples(st.integers(-100, 100), states), max_size=6), max_size=12))
def test_no_sights_make_it_usable_again(invocations: list[list[tuple[int, int]]]) -> None:
    trust = Trust()
    ended = ""
    for looks in invocations:
        agreed = trust.agreed
        trust.judge(sight(*sorted(looks)), DONE)
        assert trust.ended == ended or not ended
        assert agreed <= trust.agreed <= agreed + 1
        assert trust.usable == (not trust.ended and trust.agreed >= AGREEMENTS)
        ended = trust.ended
