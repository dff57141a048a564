"""The growth alarm with its defaults, on made-up and on recorded curves: what sets it off, and what does not."""

from collections.abc import Iterator

import pytest
from truemem_workbench.dashboard.template import PARAMETERS, Watched, alarms

from testing.drift import recorded
from tests.dashboard.growing import LEAKS, goes_off, replaced, told

PROPERTIES = next(each["Properties"] for name, each in alarms(Watched("a", 512, "/a")).items() if "Growing" in name)
ALARM = {**PROPERTIES, "DatapointsToAlarm": PARAMETERS[PROPERTIES["DatapointsToAlarm"]["Ref"]]["Default"]}
COUNT = 2500
"""Invocations of each environment, or of those that replace it."""
REPLACED = 300
PER_MINUTE = 7
THREE = range(3)
SETTLED = ["steady", "settling", "sawtooth", "model swap", "one step"]


def fleets(kind: str, life: int) -> Iterator[list[list[int]]]:
    """Fleets of three environments, each replaced after `life` invocations."""
    for seed in THREE:
        yield [replaced(kind, 3 * seed + number, life, COUNT) for number in THREE]


@pytest.mark.parametrize("kind", LEAKS)
def test_leak_of_4_kib_sets_it_off_where_environments_stay(kind: str) -> None:
    assert all(goes_off(ALARM, fleet, PER_MINUTE) for fleet in fleets(kind, COUNT))


@pytest.mark.parametrize("kind", ["8 KiB", "64 KiB", "1024 KiB"])
def test_leak_of_8_kib_sets_it_off_where_they_are_replaced(kind: str) -> None:
    assert all(goes_off(ALARM, fleet, PER_MINUTE) for fleet in fleets(kind, REPLACED))


@pytest.mark.parametrize("per_minute", [0.5, PER_MINUTE, 30])
def test_one_leaking_environment_is_enough(per_minute: float) -> None:
    fleet = [replaced(kind, 0, COUNT, COUNT) for kind in ("steady", "4 KiB", "settling")]
    assert goes_off(ALARM, fleet, per_minute)


@pytest.mark.parametrize(
    ("kind", "life"),
    [
        *((kind, life) for kind in SETTLED for life in (COUNT, REPLACED)),
        *(("full cache", life) for life in (900, REPLACED)),
    ],
)
def test_memory_that_is_steady_or_has_settled_does_not(kind: str, life: int) -> None:
    assert not any(goes_off(ALARM, fleet, PER_MINUTE) for fleet in fleets(kind, life))


@pytest.mark.parametrize("name", recorded.LABELS)
def test_recorded_functions_are_judged_right(name: str) -> None:
    leaks = recorded.LABELS[name] == ("growing",)
    assert goes_off(ALARM, [told(recorded.stored(name))], PER_MINUTE) is leaks


def test_cache_that_keeps_filling_sets_it_off() -> None:
    assert goes_off(ALARM, [replaced("filling cache", number, COUNT, COUNT) for number in THREE], PER_MINUTE)
