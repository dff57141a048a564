"""Which clock growth follows: runs of environments whose growth is known."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from truemem_workbench.soak.arrivals import schedule
from truemem_workbench.soak.clocks import PAUSES_MS, GrowthClock, Step, clock_of

from testing.clock_cases import LEAKS, SEALED, TUNING, Served, compose, serve

BASE_KIB = 80_000.0
RATES_KIB = {"invocation": 20.0, "minute": 6_000.0, "pause": 500.0, "overlap": 100.0}
PAUSE_S = 2.0
SPAN_S = 300

Environment = list[Step]
Floats = NDArray[np.floating]


def served(times: Iterable[float]) -> Served:
    """Requests at these seconds, each of no length."""
    at = np.array(list(times), dtype=float)
    return Served(at, np.diff(at, prepend=at[0]), np.ones(len(at), dtype=np.intp))


def units(what: Served, clock: str) -> Floats:
    """What that clock showed at each invocation."""
    shown: Floats
    if clock == "minute":
        shown = (what.time_s - what.time_s[0]) / 60
        return shown
    each = {"invocation": what.overlap > 0, "pause": what.pause_s >= PAUSE_S, "overlap": what.overlap > 1}
    shown = np.cumsum(each[clock].astype(np.float64))
    return shown


def environment(what: Served, grown_kib: Floats, noise_kib: float = 60, seed: int = 0) -> Environment:
    """Its steps, with what it has grown by after each."""
    noise = np.random.default_rng(seed).normal(0, noise_kib, len(grown_kib))
    pauses = np.cumsum(what.pause_s[:, None] * 1000 >= np.array(PAUSES_MS), axis=0)
    overlapped = np.cumsum(what.overlap > 1)
    return [
        Step(
            float(what.time_s[at] * 1000),
            at + 1,
            tuple(pauses[at].tolist()),
            int(overlapped[at]),
            float(BASE_KIB + grown_kib[at] + noise[at]),
            begins=at == 0,
        )
        for at in range(len(grown_kib))
    ]


def mixed(environments: int = 3, places: int = 4) -> list[Served]:
    """Who serves the default traffic."""
    times = np.array(list(schedule("mixed", SPAN_S, seed=1)))
    return serve(np.random.default_rng(3), times, environments, places)


def leaking(clock: str, run: Sequence[Served], rate_kib: float | None = None) -> list[Environment]:
    rate = rate_kib or RATES_KIB[clock]
    return [environment(each, rate * units(each, clock), seed=at) for at, each in enumerate(run)]


def shifted(run: Sequence[Environment], by_ms: float) -> list[Environment]:
    return [[step._replace(time_ms=step.time_ms + by_ms) for step in steps] for steps in run]


# --- the right clock --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("environments", [1, 3])
@pytest.mark.parametrize("clock", LEAKS)
def test_five_minutes_of_default_traffic_tell_each_clock(clock: str, environments: int) -> None:
    found = clock_of(leaking(clock, mixed(environments)))

    assert (found.name, found.grows, found.candidates, found.traffic) == (clock, True, (), "")
    assert found.low_kib is not None and found.high_kib is not None
    assert found.low_kib <= RATES_KIB[clock] <= found.high_kib
    assert found.high_kib - found.low_kib < RATES_KIB[clock]
    assert found.evidence.startswith("Growth follows ")


def test_pauses_count_from_the_length_that_leaks() -> None:
    found = clock_of(leaking("pause", mixed()))

    assert found.pause_ms is not None
    assert 1_500 <= found.pause_ms <= 3_000
    assert f"idle pauses of {found.pause_ms / 1000:g} s or longer" in found.evidence


@pytest.mark.parametrize("age_s", [5, 8])
def test_what_is_made_anew_in_use_follows_minutes_in_use(age_s: int) -> None:
    """A connection that is too old is replaced when it is next used: once after a pause, however long that was."""
    (run,) = mixed(1, 1)
    made_s, count, counts = 0.0, 0, []
    for time_s in run.time_s:
        if time_s - made_s > age_s:
            made_s, count = time_s, count + 1
        counts.append(count)

    found = clock_of([environment(run, 400.0 * np.array(counts))])

    assert (found.name, found.in_use_ms) == ("minute", 3_000)
    assert "minutes in use (a pause counts for 3 s at most)" in found.evidence


def test_what_a_frozen_thread_makes_up_for_is_not_the_pauses() -> None:
    """The first invocations after a long pause end before it has."""
    run = mixed(8, 1)
    grown = leaking("minute", run, 4_000.0)
    places = [np.flatnonzero(each.pause_s[1:] >= 10) + 1 for each in run]
    for steps, after in zip(grown, places, strict=True):
        for at in after:
            steps[at : at + 2] = [each._replace(current_kib=steps[at - 1].current_kib) for each in steps[at : at + 2]]

    found = clock_of(grown)

    assert sum(map(len, places)) > 10
    assert found.name == "minute"
    assert found.rate_kib == pytest.approx(4_000, rel=0.05)


@pytest.mark.parametrize("clock", ["invocation", "minute"])
def test_environments_of_different_load_tell_clocks_apart(clock: str) -> None:
    run = [served(np.arange(0, 300, gap)) for gap in (0.05, 0.1, 0.19)]  # shorter than any pause that counts

    assert clock_of(leaking(clock, run)).name == clock


def test_lines_that_are_left_out_change_nothing_but_precision() -> None:
    run = leaking("pause", mixed())

    found = clock_of([steps[::4] for steps in run])

    assert found.name == "pause"
    assert found.rate_kib == pytest.approx(RATES_KIB["pause"], rel=0.2)


def test_each_life_begins_at_its_own_level() -> None:
    (what,) = mixed(1)
    half = len(what.time_s) // 2
    grown = RATES_KIB["minute"] * units(what, "minute")
    grown[half:] -= grown[half] + 40_000
    steps = environment(what, grown)
    steps[half] = steps[half]._replace(begins=True)

    found = clock_of([steps])

    assert found.name == "minute"
    assert found.rate_kib == pytest.approx(RATES_KIB["minute"], rel=0.1)


def test_readings_that_are_missing_or_doubtful_are_passed_over() -> None:
    run = leaking("invocation", mixed())
    for steps in run:
        for at in range(0, len(steps), 5):
            steps[at] = steps[at]._replace(current_kib=None)
        for at in range(1, len(steps), 5):
            steps[at] = steps[at]._replace(current_kib=900_000.0, certain=False)

    found = clock_of(run)

    assert found.name == "invocation"
    assert found.rate_kib == pytest.approx(RATES_KIB["invocation"], rel=0.1)


# --- not told apart ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["invocation", "minute"])
def test_a_constant_rate_in_one_environment_tells_nothing(clock: str) -> None:
    found = clock_of(leaking(clock, [served(np.arange(0, 300, 0.25))], RATES_KIB[clock]))

    assert (found.name, found.grows, found.rate_kib) == ("", True, None)
    assert {"invocation", "minute"} <= set(found.candidates)
    assert "busy and quiet minutes" in found.traffic
    assert found.traffic in found.evidence


@pytest.mark.parametrize(("first", "second"), [("invocation", "minute"), ("pause", "overlap"), ("minute", "pause")])
def test_two_leaks_of_different_clocks_have_no_one_clock(first: str, second: str) -> None:
    run = mixed()
    grown = [8_000 * (units(each, first) / units(run[0], first)[-1]) for each in run]
    more = [8_000 * (units(each, second) / units(run[0], second)[-1]) for each in run]

    found = clock_of([environment(each, one + other) for each, one, other in zip(run, grown, more, strict=True)])

    assert (found.name, found.grows) == ("", True)
    assert {first, second} & set(found.candidates)


def test_caches_that_fill_in_many_environments_are_no_leak() -> None:
    """One key for each of 30 seconds, as traffic comes: in the quieter environments it is not full after minutes."""
    run = mixed(10, 1)
    grown = []
    for at, each in enumerate(run):
        keys = [int(time_s) % 30 for time_s in each.time_s]
        held = np.array([150.0 * len(set(keys[: number + 1])) for number in range(len(keys))])
        grown.append(environment(each, held, noise_kib=2, seed=at))

    found = clock_of(grown)

    assert not found.name
    assert found.may_end or not found.grows


# --- no growth --------------------------------------------------------------------------------------------------------

STILL: dict[str, Callable[[Floats], Floats]] = {
    "level": lambda number: number * 0.0,
    "warms up": lambda number: 30_000 * (1 - np.exp(-number / 40)),
    "a cache that is full": lambda number: np.minimum(number, 250) * 80.0,
    "two loads": lambda number: 8_000.0 * ((number > 200).astype(float) + (number > 350)),
    "garbage": lambda number: 60.0 * (number % 90),
    "spikes": lambda number: 90_000.0 * (number % 37 == 0),
}


@pytest.mark.parametrize("what", STILL)
def test_what_does_not_go_on_growing_has_no_clock(what: str) -> None:
    run = [environment(each, STILL[what](np.arange(len(each.time_s), dtype=np.float64))) for each in mixed()]

    found = clock_of(run)

    assert (found.name, found.grows, found.candidates) == ("", False, ())


def test_memory_that_follows_the_load_is_no_growth() -> None:
    (what,) = mixed(1)
    lately = np.arange(len(what.time_s)) - np.searchsorted(what.time_s, what.time_s - 10)

    assert not clock_of([environment(what, lately * 100.0)]).grows


TIMELESS = [[step._replace(time_ms=0.0) for step in steps] for steps in leaking("invocation", mixed())]


@pytest.mark.parametrize(
    "run", [[], [[]], [[Step(0, 1, (), 0, None)]], leaking("minute", [served(range(10))]), TIMELESS]
)
def test_too_few_readings_say_so(run: list[Environment]) -> None:
    assert clock_of(run) == GrowthClock(
        name="", grows=False, evidence="There are too few readings to say which clock growth follows."
    )


# --- properties -------------------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(TUNING.start, TUNING.stop - 1),
    by_ms=st.sampled_from([-(2.0**41), 2.0**20, 2.0**30]),
    order=st.randoms(use_true_random=False),
)
def test_the_answer_is_the_same_at_another_time_in_any_order(seed: int, by_ms: float, order: Any) -> None:
    # milliseconds in whole numbers, so that a shift by a power of two loses nothing
    run = [
        [step._replace(time_ms=float(round(step.time_ms))) for step in steps] for steps in compose(seed).environments
    ]
    mixed_up = shifted(run, by_ms)
    order.shuffle(mixed_up)

    first, second = clock_of(run), clock_of(mixed_up)

    assert (second.name, second.grows, second.candidates) == (first.name, first.grows, first.candidates)
    assert second.rate_kib == (first.rate_kib and pytest.approx(first.rate_kib, rel=1e-3))


@pytest.mark.parametrize("clock", LEAKS)
@pytest.mark.parametrize("times", [4, 0.5])
def test_memory_in_another_unit_gives_the_rate_in_that_unit(clock: str, times: float) -> None:
    run = leaking(clock, mixed())
    scaled = [[step._replace(current_kib=times * (step.current_kib or 0)) for step in steps] for steps in run]

    first, second = clock_of(run), clock_of(scaled)

    assert second.name == first.name == clock
    assert first.rate_kib is not None
    assert second.rate_kib == pytest.approx(times * first.rate_kib, rel=1e-6)


ANY_STEP = st.builds(
    Step,
    time_ms=st.floats() | st.floats(0, 1e13),
    invocation=st.integers(-5, 2**40),
    pauses=st.just(()) | st.lists(st.integers(0, 9), min_size=len(PAUSES_MS), max_size=len(PAUSES_MS)).map(tuple),
    overlapped=st.integers(0, 100),
    current_kib=st.none() | st.floats() | st.floats(0, 1e7),
    certain=st.booleans(),
    begins=st.sampled_from([False, False, False, False, False, False, False, True]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(ANY_STEP, max_size=60), max_size=4))
def test_any_steps_have_an_answer(run: list[Environment]) -> None:
    found = clock_of(run)

    assert found.name in ("", *LEAKS)
    assert found.evidence
    assert found.grows or not (found.name or found.candidates or found.traffic)
    assert (found.rate_kib is None) == (not found.name)


# --- the cases that judge it ------------------------------------------------------------------------------------------


def test_no_seed_both_tunes_and_judges() -> None:
    assert not set(TUNING) & set(SEALED)


def test_a_case_repeats_and_says_what_it_truly_grows_by() -> None:
    case = compose(2003, "mixed", "invocation")

    assert compose(2003, "mixed", "invocation").environments == case.environments
    assert case.clocks == ("invocation",)
    assert case.rate_kib is not None
    most = max(steps[-1].invocation for steps in case.environments)
    assert case.grown_mib * 1024 == pytest.approx(case.rate_kib * most, rel=0.6)


@pytest.mark.parametrize("places", [1, 4])
def test_no_environment_serves_more_at_once_than_it_has_places(places: int) -> None:
    run = mixed(3, places)

    assert 1 <= len(run) <= 3
    assert max(int(each.overlap.max()) for each in run) <= places
    assert all(np.all(each.pause_s[each.overlap > 1] == 0) for each in run)
