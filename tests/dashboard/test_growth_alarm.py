"""The growth alarm with its defaults, on made-up and on recorded curves: what sets it off, and what does not."""

from __future__ import annotations

import pytest
from truemem_workbench.dashboard.alarms import alarms
from truemem_workbench.dashboard.template import PARAMETERS
from truemem_workbench.dashboard.watched import Watched
from truemem_workbench.testing.drift import recorded
from truemem_workbench.testing.drift.synthetic import LEAKS

from tests.dashboard.growing import goes_off, replaced, told

PROPERTIES = next(each["Properties"] for name, each in alarms(Watched("a", 512, "/a")).items() if "Growing" in name)
ALARM = {**PROPERTIES, "DatapointsToAlarm": PARAMETERS[PROPERTIES["DatapointsToAlarm"]["Ref"]]["Default"]}
COUNT = 900
"""Invocations of each environment."""
PER_MINUTE = 7
THREE = range(3)
LIVES = pytest.mark.parametrize("life", [COUNT, 300], ids=["they stay", "replaced"])
"""Invocations until an environment is replaced."""


@LIVES
@pytest.mark.parametrize("kind", LEAKS)
def test_a_leak_of_4_kib_or_more_sets_it_off(kind: str, life: int) -> None:
    for seed in THREE:
        fleet = [replaced(kind, 3 * seed + number, life, COUNT) for number in THREE]
        assert goes_off(ALARM, fleet, PER_MINUTE)


@pytest.mark.parametrize("per_minute", [0.5, PER_MINUTE, 30])
def test_one_environment_that_leaks_is_enough_at_30_invocations_an_hour(per_minute: float) -> None:
    fleet = [replaced(kind, 0, COUNT, COUNT) for kind in ("steady", "4 KiB", "settling")]
    assert goes_off(ALARM, fleet, per_minute)


@LIVES
@pytest.mark.parametrize(
    "kind", ["steady", "settling", "sawtooth", "model swap", "one step", "cache, full", "arenas", "one spike", "spikes"]
)
def test_memory_that_is_steady_or_has_settled_does_not(kind: str, life: int) -> None:
    for seed in THREE:
        fleet = [replaced(kind, 3 * seed + number, life, COUNT) for number in THREE]
        assert not goes_off(ALARM, fleet, PER_MINUTE)


@pytest.mark.parametrize("name", recorded.LABELS)
def test_on_recorded_functions_it_is_right(name: str) -> None:
    leaks = recorded.LABELS[name] == ("growing",)
    assert goes_off(ALARM, [told(recorded.stored(name))], PER_MINUTE) is leaks


def test_a_cache_that_goes_on_filling_sets_it_off_as_the_page_says() -> None:
    assert goes_off(ALARM, [replaced("cache, filling", number, COUNT, COUNT) for number in THREE], PER_MINUTE)
