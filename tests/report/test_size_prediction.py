"""Durations and costs at other memory sizes, from CPU time; and the prices."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from truemem_workbench.judge.prices import GB_SECOND, computing, cost, dollars
from truemem_workbench.judge.size_prediction import Invocations, Prediction, predict

X86 = GB_SECOND["x86_64"]


def predicted(seen: int, to: int, duration_ms: float, cpu_ms: float) -> Prediction:
    found = predict(Invocations.of(seen, [(duration_ms, cpu_ms)] * 100), to, X86)
    assert found is not None
    return found


def test_prices_of_the_swept_handler() -> None:
    swept = {128: (3540, 7.38), 256: (1720, 7.17), 512: (920, 7.67), 1024: (421, 7.02), 1769: (360, 10.37)}
    for size, (duration, price) in swept.items():
        assert 1e6 * computing(size, duration, X86) == pytest.approx(price, abs=0.01)
    assert 1e6 * computing(1024, 100, GB_SECOND["arm64"]) == pytest.approx(1.333, abs=0.001)


def test_whole_milliseconds_are_billed() -> None:
    assert predicted(1024, 1024, 99.2, 5).cost_now == pytest.approx(1e6 * computing(1024, 100, X86))


def test_cost_is_by_what_is_paid_for() -> None:
    made = cost(invocations=1000, gb_s=110.0, init_gb_s=10.0, line_bytes=900_000, gb_second=X86, a_month=2e6)
    parts = [made.computing, made.init, made.requests, made.log_lines]
    assert parts == pytest.approx([1.66667, 0.166667, 0.2, 0.45])
    assert made.per_million == pytest.approx(sum(parts))
    assert made.per_month == pytest.approx(2 * made.per_million)


@pytest.mark.parametrize(
    ("usd", "text"), [(0, "$0.00"), (0.00123, "$0.0012"), (7.375, "$7.38"), (12345.6, "$12,345.60")]
)
def test_dollars(usd: float, text: str) -> None:
    assert dollars(usd) == text


def test_interval_by_hand() -> None:
    # 95 ms of waiting, and 5 ms of computing: at once in a long period, or 10 % more at 128 / 1,769 of the speed
    assert predicted(1024, 128, 100, 5).p50.low == 100
    assert predicted(1024, 128, 100, 5).p50.high == pytest.approx(95 + 1.1 * 5 * 1769 / 128)
    # the quota was used up: nothing says how many threads there are
    assert predicted(1769, 5307, 300, 300).p50.low == 100
    assert predicted(1769, 5307, 300, 300).p50.high == 300


def test_percentiles_are_of_each_invocation_not_of_sums() -> None:
    """Those that wait are the slow ones now; at a quarter of a vCPU those that compute are."""
    seen = Invocations.of(1769, [(100.0, 0.0)] * 60 + [(90.0, 90.0)] * 40)
    found = predict(seen, 442, X86)
    assert found is not None
    assert (found.p99_now, found.p50.high) == (100, 100)
    assert found.p99.high == pytest.approx(45 + 1.1 * 90 * 1769 / 442)  # if it was two threads, for half of the time


@pytest.mark.parametrize(("duration", "unknown", "predicts"), [(100.0, 2, True), (100.0, 3, False), (300.0, 1, False)])
def test_those_without_cpu_time_are_few(duration: float, unknown: int, predicts: bool) -> None:
    """Of the count and of the billed time."""
    seen = Invocations.of(1024, [(100.0, 5.0)] * 110 + [(duration, math.nan)] * unknown)
    assert (predict(seen, 512, X86) is not None) == predicts == (not seen.missing)


@pytest.mark.parametrize("to", [512, 3008])
def test_what_has_no_cpu_time_may_be_anything(to: int) -> None:
    """From all waiting to all computing, and the interval has both."""
    every, one = [(100.0, 5.0)] * 100, (100.0, 0.5 * 100 * 1024 / 1769)
    pairs = [(100.0, math.nan), (100.0, 0.0), (100.0, 100.0 * 1024 / 1769), one]
    unknown, *others = (predict(Invocations.of(1024, [*every, each]), to, X86) for each in pairs)
    assert unknown is not None
    for found in others:
        assert found is not None
        assert unknown.cost.low <= found.cost.low <= found.cost.high <= unknown.cost.high


SIZES = st.integers(128, 10_240)
DURATIONS = st.floats(0.3, 900_000)
SHARES = st.floats(0, 1.05)
"""Of the quota: a little more than 1, where it was begun with a slice that was left."""


@given(SIZES, DURATIONS, SHARES)
def test_its_own_size_is_its_own_duration(size: int, duration: float, share: float) -> None:
    found = predicted(size, size, duration, share * duration * size / 1769)
    assert {found.p50.low, found.p50.high, found.p99.high, found.p99.low} == {duration}
    assert found.cost.low == found.cost.high == found.cost_now
    assert found.is_cheaper


@given(SIZES, SIZES, SIZES, DURATIONS, SHARES)
def test_more_memory_is_never_slower(seen: int, small: int, large: int, duration: float, share: float) -> None:
    assume(small < large)
    slow, fast = (predicted(seen, to, duration, share * duration * seen / 1769) for to in (small, large))
    for found in (slow, fast):
        assert found.p50.low <= found.p50.high * (1 + 1e-9)
    for name in ("low", "high"):
        assert getattr(fast.p50, name) <= getattr(slow.p50, name) * (1 + 1e-9)


@given(SIZES, SIZES, DURATIONS, SHARES)
def test_computing_alone_is_never_called_cheaper(seen: int, to: int, duration: float, share: float) -> None:
    """Below a vCPU the same CPU time costs the same at every size: what is saved is the waiting."""
    assume(to < seen <= 1769)
    found = predicted(seen, to, duration, duration * seen / 1769)
    assert found.cost.high * math.ceil(duration) / duration >= found.cost_now * (1 - 1e-9)
