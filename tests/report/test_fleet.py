"""Many environments together: a small leak is found, what fills or moves is not accused, and the report says so."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truemem_workbench.judge.drift import Point
from truemem_workbench.report.fleet import LEAST, RATE, Evidence, Together, accuse, evidence, pool

from testing.fleets import QUIET, leaking, quiet
from tests.report.conftest import Command, Report, Told
from tests.report.written import line


def evidences(fleet: Sequence[Sequence[Point]]) -> list[Evidence]:
    return [evidence(environment) for environment in fleet]


def judged(fleet: Sequence[Sequence[Point]]) -> Together:
    (found,) = accuse([pool(evidences(fleet))])
    assert found is not None
    return found


LEAK = evidences(leaking(2, 1, environments=30))


@pytest.mark.parametrize("seed", range(5))
def test_1_kib_is_found_in_100_environments_of_200_invocations(seed: int) -> None:
    found = judged(leaking(1, seed))
    assert found.grows
    assert found.environments > 90
    assert 0.8 < found.low_kib < found.per_invocation_kib < found.high_kib < 1.2


@pytest.mark.parametrize("kind", QUIET)
def test_a_fleet_without_a_leak_is_not_accused(kind: str) -> None:
    for seed in range(3):
        (found,) = accuse([pool(evidences(quiet(kind, seed)))])
        assert found is None or not found.grows


@settings(deadline=None)
@given(st.permutations(LEAK))
def test_the_order_of_environments_does_not_matter(shuffled: list[Evidence]) -> None:
    one, other = pool(LEAK), pool(shuffled)
    assert one is not None
    assert other is not None
    assert dataclasses.astuple(other) == pytest.approx(dataclasses.astuple(one))


def test_too_few_environments_or_invocations_are_not_judged() -> None:
    assert pool(LEAK[: LEAST - 1]) is None
    assert pool(evidences(leaking(4, 1, count=120))) is None
    assert pool([]) is None
    assert evidence([]) == {}


def test_leak_beside_a_few_collectors_is_left_open() -> None:
    fleet = leaking(4, 1)
    for environment in fleet[:10]:
        environment[100:] = [point._replace(current_kib=point.current_kib - 2048) for point in environment[100:]]
    assert pool(evidences(fleet)) is None


def test_false_alarms_are_controlled_over_a_report() -> None:
    some = pool(LEAK)
    assert some is not None
    alone = dataclasses.replace(some, p=RATE * 0.9)
    others = [dataclasses.replace(some, p=0.5)] * 9
    assert [each is not None and each.grows for each in accuse([alone])] == [True]
    assert not any(each is not None and each.grows for each in accuse([alone, *others, None]))
    assert all(each is not None and each.grows for each in accuse([alone] * 10))


def lines(kib: float) -> list[str]:
    """Of 40 environments."""
    return [
        line(f"e{number}", point.invocation, CurrentRSS=round(point.current_kib / 1024, 2), PeakRSS=400.0)
        for number, environment in enumerate(leaking(kib, 3, 40))
        for point in environment
    ]


def test_the_report_finds_a_leak_that_no_environment_shows_alone(
    truemem: Command, report: Report, told: Told, tmp_path: Path
) -> None:
    (function,) = report(lines(2))["functions"]
    assert "leak" not in function["causes"]
    assert (function["finding"]["cause"], function["finding"]["holder"]) == ("leak", "function")
    assert function["together"]["grows"]
    assert function["together"]["per_invocation_kib"] == pytest.approx(2, abs=0.2)
    assert function["sizing"]["suggested"] is None
    assert truemem("report", tmp_path / "log.txt", "--fail-on", "leak").code == 1
    text = told(lines(2))
    assert text.count("that no environment shows alone") == 1
    assert "at most 0.1% are expected to be false alarms" in text
    assert "1 function, 8,000 invocations: 1 growing" in text
    told(lines(0))
    assert truemem("report", tmp_path / "log.txt", "--fail-on", "leak").code == 0
