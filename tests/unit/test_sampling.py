"""When to look next, as tables; and the budget, whatever ticks cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.measure.sampling import (
    BURST_NS,
    EXACT_NS,
    MS,
    OVERDRAFT_NS,
    SPARSE_NS,
    URGENT_NS,
    CpuBudget,
    init_interval_ns,
    interval_ns,
    urgent_ns,
)

SECOND = 1000 * MS


@pytest.mark.parametrize(
    ("age_ms", "moved_kib", "affordable_ms", "interval_ms", "exact_ms"),
    [
        (1, 0, 0, 1, 10),  # young: dense, but not in exact mode, where the kernel keeps the peak
        (100, 0, 0, 5, 10),  # older: 1/20 of its age
        (1000, 0, 0, 50, 50),
        (100, 2048, 0, 1, 10),  # memory moves: dense again
        (60_000, 0, 0, 250, 250),  # minutes: as sparse as it gets
        (1, 0, 40, 40, 40),  # what cannot be afforded waits
    ],
)
def test_interval(age_ms: int, moved_kib: int, affordable_ms: int, interval_ms: int, exact_ms: int) -> None:
    for exact, expected_ms in (False, interval_ms), (True, exact_ms):
        assert interval_ns(age_ms * MS, moved_kib, affordable_ms * MS, exact=exact) == expected_ms * MS


@given(st.integers(0, 10**12), st.integers(0, 10**7), st.integers(0, SPARSE_NS))
def test_in_exact_mode_it_samples_no_more_often(age_ns: int, moved_kib: int, affordable_ns: int) -> None:
    exact = interval_ns(age_ns, moved_kib, affordable_ns, exact=True)
    assert exact >= interval_ns(age_ns, moved_kib, affordable_ns)
    assert EXACT_NS <= exact <= SPARSE_NS


@pytest.mark.parametrize(
    ("age_ms", "found", "interval_ms"), [(1, False, 2), (200, False, 10), (10_000, False, 250), (50, True, 250)]
)
def test_in_init_it_looks_for_the_runtime_and_then_rests(age_ms: int, found: bool, interval_ms: int) -> None:
    assert init_interval_ns(age_ms * MS, found) == interval_ms * MS


@given(st.integers(20_000, 300_000), st.sampled_from([128, 512, 1769, 10240]), st.lists(st.booleans(), max_size=400))
def test_no_second_costs_more_than_its_share(cost: int, memory_mib: int, for_children: list[bool]) -> None:
    """After a minute's rest, the most eager sampler there can be: of the function, and of children in between."""
    share = 0.01 * memory_mib / 1769
    budget = CpuBudget(0.01, memory_mib / 1769, 0)
    now_ns = 60 * SECOND
    spent: list[tuple[int, int]] = []
    for of_child in [*for_children, False, False]:
        if of_child and not budget.sparing(now_ns):
            continue
        now_ns += 1 * MS if of_child else max(1 * MS, budget.wait_ns(now_ns))
        budget.spend(cost, now_ns, saved=of_child)
        spent.append((now_ns, cost))
    for number, (began, _) in enumerate(spent):
        within = sum(each for at, each in spent[number:] if at < began + SECOND)
        assert within <= share * SECOND + cost  # what a tick costs is known afterwards


@given(
    st.lists(st.integers(1_000, 5 * MS), min_size=50, max_size=300),
    st.sampled_from([128, 512, 1769, 10240]),
    st.sampled_from([0.001, 0.01, 0.1]),
)
def test_sampling_never_costs_more_than_its_budget(costs: list[int], memory_mib: int, fraction: float) -> None:
    """The most eager sampler there can be: it ticks whenever the budget lets it."""
    share = memory_mib / 1769
    budget = CpuBudget(fraction, share, 0)
    now = spent = 0
    for cost in costs:
        now += budget.wait_ns(now)
        budget.spend(cost, now)
        spent += cost
    assert spent <= BURST_NS + now * fraction * share + 2 * max(costs)


def test_a_freeze_fills_the_budget_once_a_jump_back_does_not() -> None:
    budget = CpuBudget(0.01, 1.0, 10 * SECOND)
    budget.spend(BURST_NS, 10 * SECOND)
    assert min(budget.wait_ns(10 * SECOND), budget.wait_ns(5 * SECOND)) > 0
    assert budget.wait_ns(3600 * SECOND) == 0
    budget.spend(BURST_NS, 3600 * SECOND)
    assert budget.wait_ns(3600 * SECOND) > 0


def test_after_a_jump_back_sampling_goes_on() -> None:
    """After a restore from a snapshot, perhaps. What was spent before it does not keep what is spent later."""
    budget = CpuBudget(0.01, 1.0, 0)
    budget.spend(MS, 1000 * SECOND)
    now_ns = 5 * SECOND
    for _ in range(100):
        now_ns += budget.wait_ns(now_ns)
        budget.spend(MS, now_ns)
    assert now_ns < 25 * SECOND


def test_what_grows_into_the_limit_is_looked_at_ever_more_often() -> None:
    assert urgent_ns(None, MS) is None
    assert urgent_ns(URGENT_NS + 1, MS) is None
    assert urgent_ns(URGENT_NS + 1, URGENT_NS) == URGENT_NS // 4  # else it would be dead before the look after next
    left, looks = float(URGENT_NS), 0
    while left > MS:
        wait = urgent_ns(left, MS)
        assert wait is not None
        left, looks = left - wait, looks + 1
    assert looks < 25


def test_an_overdraft_is_earned_back() -> None:
    budget = CpuBudget(0.01, 1.0, 0)
    budget.spend(BURST_NS + OVERDRAFT_NS, 0)
    wait, overdrawn = budget.wait_ns(0), budget.wait_ns(0, OVERDRAFT_NS)
    assert overdrawn > 0
    assert wait - overdrawn == OVERDRAFT_NS * 100
    assert budget.wait_ns(overdrawn, OVERDRAFT_NS) == 0
    assert budget.wait_ns(overdrawn) == wait - overdrawn
