"""The search itself: it ends at the first of a kind, with as few tries as halving needs, or says what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.bisect.packages import between, is_final, newest
from truemem_workbench.bisect.search import Ready, Version, away, search


class Line:
    """Versions 0 to `count`, in a line."""

    def __init__(self, count: int) -> None:
        self.order = [Version(str(each), str(each)) for each in range(count + 1)]

    def between(self, before: Sequence[str], after: str) -> Sequence[str]:
        return between([each.name for each in self.order], before, after)

    def ready(self, version: str) -> Ready:
        raise NotImplementedError

    def others(self, before: str, after: str) -> Sequence[str]:
        return ()


def searched(count: int, first: int, broken: set[int]) -> tuple[list[int], int]:
    """The candidates that are left, and how many tries that took."""
    tries = []

    def ask(name: str, of: int) -> bool | None:
        tries.append(name)
        return None if int(name) in broken else int(name) >= first

    found = search(Line(count), "0", str(count), ask)  # type: ignore[arg-type]
    assert len(set(tries)) == len(tries)
    return sorted(map(int, found.candidates)), len(tries)


@given(st.integers(1, 300), st.data())
def test_the_first_is_found_with_as_few_tries_as_halving(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))
    candidates, tries = searched(count, first, set())
    assert candidates == [first]
    assert tries <= math.ceil(math.log2(count)) + 1


@given(st.integers(2, 80), st.data())
def test_what_is_left_is_the_first_and_broken_ones_before(count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count))
    broken = data.draw(st.sets(st.integers(1, count - 1)))
    candidates, _ = searched(count, first, broken)
    last = min(each for each in range(first, count + 1) if each not in broken)
    begins = max(each for each in range(first) if each not in broken) + 1
    assert candidates == [*range(begins, last + 1)]


def test_a_broken_stretch_is_left_behind() -> None:
    """200 of 1,000 versions, around the middle, are broken: few of them are tried."""
    candidates, tries = searched(1000, 800, {*range(400, 600)})
    assert candidates == [800]
    assert tries <= 20


def test_the_best_comes_first_and_no_place_is_out_of_reach() -> None:
    assert away(100, 0) == 0
    assert all(0 <= away(count, skipped) < count for count in range(1, 50) for skipped in range(50))


RELEASED = ["1.24.0", "1.24.9", "1.24.10", "1.25.0rc1", "1.25.0", "1.25.1", "2.0.0b1"]


@pytest.mark.parametrize(("asked", "found"), [("1.24", "1.24.10"), ("1.24.9", "1.24.9"), ("1", "1.25.1")])
def test_a_series_stands_for_its_newest_version(asked: str, found: str) -> None:
    assert newest(RELEASED, asked, "thing") == found


@pytest.mark.parametrize("asked", ["1.23", "2", "1.2", ""])
def test_a_version_that_is_not_there_is_refused(asked: str) -> None:
    with pytest.raises(Exception, match=r"thing has no version .*There are"):
        newest(RELEASED, asked, "thing")


def test_what_is_announced_as_not_final_is_left_out() -> None:
    assert [each for each in RELEASED if not is_final(each)] == ["1.25.0rc1", "2.0.0b1"]
    assert all(map(is_final, ["2024.1", "1.0.post1", "11.5.3", "3.4.0"]))
    assert not any(map(is_final, ["1.0.dev3", "4.0.0-beta.1", "1.0a2"]))
