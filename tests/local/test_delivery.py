"""A batch of telemetry goes at whichever of its three limits is reached first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.local.lifecycle.delivery import Batch, Buffering

LIMITS = Buffering(max_items=3, max_bytes=100, timeout_ms=50)


def test_the_timer_starts_with_the_first_event() -> None:
    batch = Batch(LIMITS)
    assert batch.wait(now=1e9) is None  # an empty one never goes
    batch.add(b"a", now=10.0)
    batch.add(b"b", now=10.04)
    assert 0 < (batch.wait(now=10.04) or 0) < 0.0101
    assert (batch.wait(now=10.051) or 0) <= 0


@pytest.mark.parametrize("items", [[b"a"] * 3, [b"x" * 99, b"x"]], ids=["items", "bytes"])
def test_what_fills_a_batch_sends_it_at_once(items: list[bytes]) -> None:
    batch = Batch(LIMITS)
    for item in items[:-1]:
        batch.add(item, now=10.0)
    assert (batch.wait(now=10.0) or 0) > 0
    batch.add(items[-1], now=10.0)
    assert batch.wait(now=10.0) == 0


def test_what_is_left_starts_a_timer_of_its_own() -> None:
    batch = Batch(LIMITS)
    for item in (b"a", b"b", b"c", b"d"):
        batch.add(item, now=10.0)

    assert batch.take(now=11.0) == [b"a", b"b", b"c"]
    assert batch.due == 11.05
    assert batch.take(now=12.0) == [b"d"]
    assert batch.wait(now=1e9) is None


@given(sizes=st.lists(st.integers(1, 150)))
def test_nothing_is_lost_and_no_batch_is_much_too_large(sizes: list[int]) -> None:
    batch = Batch(LIMITS)
    items = [bytes(size) for size in sizes]
    for item in items:
        batch.add(item, now=0)
    sent = []
    while batch.wait(now=1e9) is not None:
        taken = batch.take(now=0)
        assert 0 < len(taken) <= LIMITS.max_items
        assert sum(map(len, taken[:-1])) < LIMITS.max_bytes
        sent += taken
    assert sent == items
    assert batch.size == 0
