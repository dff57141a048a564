"""The growth alarm with its defaults, on made-up curves: what sets it off, and what does not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import pytest
from truemem.records.drift import Drift
from truemem_workbench.dashboard.alarms import alarms
from truemem_workbench.dashboard.template import PARAMETERS
from truemem_workbench.dashboard.watched import Watched
from truemem_workbench.testing.drift.judged import points
from truemem_workbench.testing.drift.synthetic import make

INVOCATIONS = 100
"""Of one environment in one period."""
ENVIRONMENTS = 3
GROWING = next(each["Properties"] for name, each in alarms(Watched("a", 512, "/a")).items() if name.endswith("Growing"))


def written(kind: str, seed: int, periods: int) -> Iterable[tuple[int, float]]:
    """The values of MemoryDrift that an environment writes, each with its period."""
    drift = Drift()
    for point in points(make(kind, seed, periods * INVOCATIONS)):
        drift.see(round(point.current_kib), round(point.peak_kib or 0))
        drift.add(round(point.current_kib), round(point.time_ms))
        if drift.due():
            growth = drift.document(0)["perInvocationKiB"]
            assert isinstance(growth, float)
            yield (point.invocation - 1) // INVOCATIONS, growth


def goes_off(kind: str, seed: int, periods: int = 8) -> bool:
    """As CloudWatch evaluates the alarm: so many periods one after the other, by its statistic."""
    assert (GROWING["Statistic"], GROWING["ComparisonOperator"]) == ("Minimum", "GreaterThanOrEqualToThreshold")
    threshold, wanted = (PARAMETERS[name]["Default"] for name in ("GrowthKiB", "GrowthPeriods"))
    values = sorted(
        value for number in range(ENVIRONMENTS) for value in written(kind, ENVIRONMENTS * seed + number, periods)
    )
    lowest = {period: min(growth for _, growth in own) for period, own in groupby(values, key=lambda value: value[0])}
    breaching = [lowest.get(period, 0) >= threshold for period in range(periods)]
    return any(all(breaching[begin : begin + wanted]) for begin in range(periods - wanted + 1))


@pytest.mark.parametrize("kind", ["4 KiB", "4 KiB, sawtooth", "4 KiB, one step", "40 KiB in 1 of 10", "1 MiB"])
def test_a_leak_of_4_kib_or_more_in_every_environment_sets_it_off(kind: str) -> None:
    assert all(goes_off(kind, seed) for seed in range(3))


@pytest.mark.parametrize("kind", ["steady", "settling", "sawtooth", "wave", "model swap", "cache, full", "arenas"])
def test_memory_that_is_steady_or_has_settled_does_not(kind: str) -> None:
    assert not any(goes_off(kind, seed) for seed in range(3))


def test_a_cache_that_fills_for_longer_than_all_periods_does_as_the_page_says() -> None:
    assert goes_off("cache, filling", 0)
