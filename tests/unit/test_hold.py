"""Every hold ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.hold import MS, Hold


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
def test_when_it_lets_go(remaining_ms: int, heard: bool, ends_ms: int) -> None:
    hold = Hold("1", 0, remaining_ms)
    if heard:
        hold.hear()
    assert hold.ends_at() == ends_ms * MS


@given(st.integers(0, 10**12), st.floats(-1e9, 1e9), st.booleans())
def test_never_within_100_ms_of_the_deadline(now: int, remaining_ms: float, heard: bool) -> None:
    hold = Hold("1", now, remaining_ms)
    if heard:
        hold.hear()
    assert now <= hold.ends_at() <= now + max(0.0, remaining_ms - 100) * MS + 1
