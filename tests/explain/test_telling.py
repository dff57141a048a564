"""A line that several call is told by the call that keeps."""

import pytest
from truemem_workbench.explain.telling import keeps_nothing, telling

PLACES = {"main": 1, "orders": 10, "carts": 20, "page": 30, "again": 40}


def way(names: str) -> tuple[tuple[str, int], ...]:
    return tuple(("app.go", PLACES[name]) for name in names.split())


@pytest.mark.parametrize(
    ("keeps", "others", "named"),
    [
        ("main orders page", [], "page"),  # whoever calls it keeps
        ("main orders page", ["main carts page"], "orders"),
        ("main orders again page", ["main carts again page"], "orders"),  # two helpers
        ("main orders page", ["main page"], "orders"),
        ("main page", ["main carts page"], "page"),  # no line of it is its own
        ("main orders again again page", ["main orders again page"], "page"),  # it calls itself
    ],
)
def test_the_innermost_line_that_only_what_stays_passed(keeps: str, others: list[str], named: str) -> None:
    found = way(keeps)
    assert found[telling(found, map(way, others))] == ("app.go", PLACES[named])


@pytest.mark.parametrize(
    ("levels", "nothing"),
    [
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0], True),
        ([3, 9, 9, 9, 9, 9, 9, 9, 9, 9], True),  # it was filled at the begin
        ([5, 7, 4, 6, 8, 6, 7, 4, 7, 7], True),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 1], True),  # chance: 1 of 100
        ([0, 0, 0, 0, 5, 5, 5, 5, 5, 5], False),  # seldom taken
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], False),
        ([1, 2, 4, 8, 16, 12, 16, 24, 20, 32], False),  # the old table is let go of later
    ],
)
def test_a_way_keeps_nothing_if_it_has_no_more_later(levels: list[float], nothing: bool) -> None:
    assert keeps_nothing(levels, gained=100) is nothing
