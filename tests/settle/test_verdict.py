"""What settled readings say: a rate that is right, and no leak where nothing is kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import Curves
from truemem_workbench.judge.finding import Commands, commands_local
from truemem_workbench.judge.settled import Cache, Reading, filled, filling, garbage_kib, last_life, verdict
from truemem_workbench.support.typed_command import Command

PASS = 25


def readings(levels: Iterable[float], cache: Iterable[tuple[int, int]] = ()) -> list[Reading]:
    """One after each pass of 25 invocations, KiB; with the entries and the bound of a cache."""
    caches = [{"1": Cache("app.page", *each)} for each in cache]
    return [
        Reading(PASS * at, {"inUse": level}, caches[at - 1] if caches else {}) for at, level in enumerate(levels, 1)
    ]


@given(rate=st.floats(1.01, 500), start=st.floats(0, 1e6), warm=st.floats(0, 1e4), passes=st.integers(5, 40))
def test_a_steady_leak_has_its_rate(rate: float, start: float, warm: float, passes: int) -> None:
    """Whatever the first pass has added to it."""
    found = verdict(readings([start, *(start + warm + PASS * rate * at for at in range(1, passes))]), "inUse")
    assert found.name == "growing"
    assert found.per_invocation_kib == pytest.approx(rate, rel=0.01)
    assert found.low_kib is not None and found.low_kib > 0


@given(st.lists(st.floats(0, 1e6), min_size=5, max_size=40))
def test_what_ends_where_it_was_is_no_leak(levels: list[float]) -> None:
    late = levels[(len(levels) - 1) // 3 :]
    assume(late[-1] <= late[0])
    assert verdict(readings(levels), "inUse").name != "growing"


@given(st.lists(st.floats(0, 1e6), min_size=5, max_size=40))
def test_growth_is_above_zero(levels: list[float]) -> None:
    found = verdict(readings(levels), "inUse")
    if found.name == "growing":
        assert (found.low_kib or 0) > 0


@pytest.mark.parametrize("every", [3, 4, 5, 7])
def test_what_is_emptied_again_and_again_is_no_leak(every: int) -> None:
    levels = [1000.0 + 200 * (at % every) for at in range(60)]
    assert all(verdict(readings(levels[:count]), "inUse").name != "growing" for count in range(2 * every, 60))


@given(st.integers(0, 3))
def test_few_readings_say_nothing(count: int) -> None:
    assert verdict(readings([100.0 * at for at in range(count)]), "inUse").name == "insufficient"
    assert verdict(readings([1.0] * 9), "rss").name == "insufficient"


@pytest.mark.parametrize("passes", [8, 16, 32])
def test_a_table_that_doubles_grows_by_what_it_takes(passes: int) -> None:
    """11 KiB are needed for each invocation, and taken as soon as the last doubling is full: up to twice as much."""
    levels = []
    for at in range(1, passes + 1):
        size = 1.0
        while size < 11 * PASS * at:
            size *= 2
        levels.append(size)
    found = verdict(readings(levels), "inUse")
    assert found.name in ("growing", "warming")
    if found.name == "growing":
        assert 11 <= (found.per_invocation_kib or 0) <= 22


@pytest.mark.parametrize("passes", [12, 16, 24, 32, 64])
def test_a_map_that_keeps_its_old_table_for_a_while(passes: int) -> None:
    """As in Go: it doubles, and the old table goes a quarter of its size later."""
    levels = []
    for at in range(1, passes + 1):
        table = 64.0
        while table < PASS * at:
            table *= 2
        levels.append(100 + 4 * PASS * at + 4 * (table + (table / 2 if PASS * at < 0.625 * table else 0)))
    found = verdict(readings(levels), "inUse")
    assert found.name in ("growing", "warming")
    if found.name == "growing":
        assert 8 <= (found.per_invocation_kib or 0) <= 16


def test_memory_that_stops_is_level_once_the_passes_tell() -> None:
    rising = [1000.0 * min(at, 6) for at in range(1, 30)]
    assert verdict(readings(rising[:6]), "inUse").name == "growing"
    assert verdict(readings(rising[:9]), "inUse").name == "warming"
    assert verdict(readings(rising), "inUse").name == "stable"


@given(rate=st.floats(1.01, 500), rising=st.integers(4, 40), rests=st.integers(1, 40))
def test_memory_that_has_stopped_is_no_leak(rate: float, rising: int, rests: int) -> None:
    """A ring of slots: it rose evenly until all are taken, for the longer part of the run, and not in the last pass."""
    levels = [PASS * rate * min(at, rising) for at in range(1, rising + rests + 1)]
    assert verdict(readings(levels), "inUse").name != "growing"


@pytest.mark.parametrize("every", [2, 3, 4])
def test_a_leak_that_rests_between_its_steps_is_one(every: int) -> None:
    """A buffer that is handed over when it is full: each few passes."""
    levels = [1000.0 * (at // every) for at in range(1, 41)]
    found = [verdict(readings(levels[:count]), "inUse") for count in range(16, 41)]
    assert all(each.name in ("growing", "warming") for each in found)
    assert any(a.name == b.name == "growing" for a, b in pairwise(found))  # the two looks that a run needs


@pytest.mark.parametrize("rested", [3, 8, 19])
def test_a_table_is_a_leak_while_it_rests_twice_as_long(rested: int) -> None:
    """It doubles after 256 invocations, and after 512 (21 passes)."""
    levels = [8 * 2.0 ** math.ceil(math.log2(PASS * at)) for at in range(1, 21 + rested + 1)]
    assert levels[-1] == levels[-1 - rested]
    assert verdict(readings(levels), "inUse").name == "growing"


def test_a_cache_with_a_bound_fills_and_then_counts_no_more() -> None:
    """Nothing is judged by what it took to fill it."""
    levels = [1000.0 * min(at, 6) for at in range(1, 12)]
    cache = [(min(PASS * at, 150), 150) for at in range(1, 12)]
    found = filling(readings(levels[:5], cache[:5]))
    assert found is not None
    assert (found.cache.entries, found.invocations_left) == (125, 25)
    assert filling(readings(levels[:8], cache[:8])) is None  # it is full: too few passes since then
    assert verdict(readings(levels[:8], cache[:8]), "inUse").name == "warming"
    assert filling(readings(levels, cache)) is None
    assert verdict(readings(levels, cache), "inUse").name == "stable"


def test_a_full_cache_has_a_size() -> None:
    """By what its entries took, from the first reading that had it on."""
    cache = [(min(PASS * at, 150), 150) for at in range(1, 12)]
    found = filled(readings([1000.0 + 500 * min(at, 6) for at in range(1, 12)], cache))
    assert found is not None
    assert found.kib("inUse") == 3000
    assert filled(readings([1000.0] * 11, [(150, 150)] * 11)) is None  # it was full before


def test_a_full_cache_hides_no_leak() -> None:
    levels = [1000.0 * min(at, 3) + PASS * 8 * at for at in range(1, 14)]
    cache = [(min(PASS * at, 75), 75) for at in range(1, 14)]
    found = verdict(readings(levels, cache), "inUse")
    assert found.name == "growing"
    assert found.per_invocation_kib == pytest.approx(8, rel=0.01)


def test_garbage_is_what_settling_frees_at_the_median() -> None:
    made = [Reading(at, {"garbage": freed}) for at, freed in enumerate((0.0, 5000.0, 11_000.0, 90_000.0, 95_500.0))]
    assert garbage_kib(made) == 5750
    assert garbage_kib([]) == 0


@given(st.lists(st.integers(1, 9), min_size=1))
def test_a_number_that_comes_twice_counts_once(numbers: list[int]) -> None:
    kept = [each.invocation for each in last_life([Reading(number, {"inUse": 1.0}) for number in numbers])]
    assert kept == sorted({*kept})


def test_what_another_process_kept_is_gone() -> None:
    """It was killed, or its environment was reset."""
    before, after = readings([5000.0, 4000, 3000, 2000, 1000]), readings([200.0 * at for at in range(1, 7)])
    lives = [replace(each, process=1) for each in before] + [replace(each, process=2) for each in after]
    found = verdict(last_life(lives), "inUse")
    assert found.name == "growing"
    assert found.per_invocation_kib == pytest.approx(8)
    assert verdict(last_life(lives[:7]), "inUse").name == "insufficient"
    assert last_life([]) == []


def test_a_cache_that_was_emptied_once_is_followed_on() -> None:
    made = readings([1000.0 * at for at in range(1, 9)], [(75, 75)] * 8)
    emptied = [*made[:3], replace(made[3], caches={}), *made[4:]]
    assert verdict(emptied, "inUse").name == "growing"


def test_a_live_heap_grows_whatever_a_runtime_gives_back() -> None:
    """.NET ends the compiler's background work once, and gives 6 MiB of malloc back."""
    made = [
        Reading(PASS * at, {"heap": 400.0 * at, "malloc": 10_700.0 if at < 9 else 4_300.0, "ownHeap": 1.0})
        for at in range(1, 16)
    ]
    kept = [replace(each, kept={**each.kept, "inUse": each.kept["heap"] + each.kept["malloc"]}) for each in made]
    found = find(Curves(settled=kept, invocations=375), Commands(again="truemem check"))
    assert (found.cause, found.holder) == ("leak", "live objects")
    assert found.per_invocation_kib == pytest.approx(16)


def test_goroutines_that_stay_are_to_end_and_explain_is_next() -> None:
    kept = [Reading(PASS * at, {"inUse": 400.0 * at, "goroutines": 3.0 + PASS * at}) for at in range(1, 20)]
    found = find(Curves(settled=kept, invocations=475), commands_local(Command("check", ("cmd/api/bootstrap",))))
    assert found.paragraph().endswith("or have a timeout. Next: truemem explain cmd/api/bootstrap"), found.paragraph()
