"""The gate against getting slower or larger, and the arithmetic of what it costs."""

import pytest

from benchmarks.cost import cost
from benchmarks.gate import TOLERANCE, compare


def test_a_fifth_worse_is_worse() -> None:
    rows = compare({"a": TOLERANCE * 2 + 0.01, "b": TOLERANCE * 3, "c": 0.1}, {"a": 2, "b": 3, "c": 5})
    assert [(name, worse) for name, _, _, worse in rows] == [("a", True), ("b", False), ("c", False)]


def test_a_figure_that_is_not_measured_any_more_is_no_pass() -> None:
    with pytest.raises(KeyError):
        compare({}, {"a": 2})


def test_the_sidecars_cpu_time_may_delay_a_small_function() -> None:
    small, large = (cost(mib, line_bytes=1000, cpu_ms=0.5, register_ms=5, pss_mib=5) for mib in (128, 10_240))
    assert small.delay_at_most_ms == pytest.approx(0.5 * 1769 / 128)
    assert small.duration_at_most == pytest.approx(1e6 * 0.5e-3 * (1769 / 1024) * 0.0000166667)
    assert (large.delay_at_most_ms, large.duration_at_most) == (0, 0)
    assert small.logs == large.logs == pytest.approx(0.5)
    assert large.cold_starts == pytest.approx(80 * small.cold_starts)
    assert small.memory_percent == pytest.approx(100 * 5 / 128)
