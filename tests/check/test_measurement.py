"""A peak that is an interval against a limit: green only where all of it is below."""

import math
from dataclasses import replace
from typing import Any

import pytest
from truemem_workbench.answer.baseline import AllowedGrowth, Baseline
from truemem_workbench.answer.limits import Limits, find
from truemem_workbench.answer.result import Result
from truemem_workbench.runs.measurement import Peak, against_limit, undecided_peak, worst_peak

from tests.check.conftest import LEVEL, ending_with, recorded, run_of


@pytest.mark.parametrize(
    ("lower", "upper", "outcome"),
    [
        (50, 50, "kept"),
        (99.9, 100, "kept"),
        (100, 100, "kept"),
        (60, 100.1, "unknown"),
        (100, 140, "unknown"),
        (0, math.inf, "unknown"),
        (100.1, 140, "broken"),
        (100.1, math.inf, "broken"),
    ],
)
def test_one_peak_against_100_mib(lower: float, upper: float, outcome: str) -> None:
    assert against_limit(Peak("invocation 1", lower, upper), 100) == outcome


@pytest.mark.parametrize(
    ("peaks", "outcome", "decides"),
    [
        ([(50, 50), (60, 60)], "kept", 1),
        ([(60, 60), (50, 90)], "kept", 1),
        ([(60, 110), (50, 120), (99, 99)], "unknown", 1),
        ([(60, 400), (101, 101), (120, 130)], "broken", 2),
    ],
)
def test_of_several_the_one_that_decides_is_named(peaks: list[tuple[float, float]], outcome: str, decides: int) -> None:
    made = [Peak(f"invocation {number}", lower, upper) for number, (lower, upper) in enumerate(peaks)]
    assert worst_peak(made, 100) == (outcome, made[decides])


@pytest.mark.parametrize(
    ("members", "limit", "outcome"),
    [
        ({"peakLower": 60, "peakUpper": 90, "raced": True}, 59, "broken"),
        ({"peakLower": 60, "peakUpper": 90, "raced": True}, 61, "unknown"),
        ({"peakLower": 60, "peakUpper": 90, "raced": True}, 90, "kept"),
        ({"peakLower": 60, "peakUpper": None, "raced": True}, 255, "unknown"),
        ({"peakLower": 60, "peakUpper": None, "raced": True}, 256, "kept"),  # more than its memory size it cannot have
        ({"peakLower": 60, "peakUpper": None, "memoryLimit": None}, 4096, "unknown"),
        ({"peakLower": None, "peakUpper": 90}, 75, "broken"),  # of 80: without a lower bound the estimate counts
        ({"peakLower": None, "peakUpper": None, "PeakRSS": None}, 255, "unknown"),
    ],
)
def test_the_gate_is_never_green_on_a_doubtful_peak(members: dict[str, Any], limit: float, outcome: str) -> None:
    run = ending_with(recorded(201, 50, 80, **members), run_of([*LEVEL, 50], spike=0))
    result = Result(run, find(run, Limits(peak_mib=limit)))
    assert result.limits[-1].outcome == outcome
    assert result.exit_code == {"kept": 0, "broken": 1, "unknown": 2}[outcome]


EXACT_MODE = "exact mode (AWS_LAMBDA_EXEC_WRAPPER=/opt/truemem/exact in Lambda; here it is on, unless with --no-exact)"
HEAP_PROBE = (
    "the heap probe (truemem attach NAME --heap; here it is on, unless with --no-probe), which in Python knows how"
    " large child processes were"
)


@pytest.mark.parametrize(
    ("members", "way"),
    [
        ({"raced": True}, EXACT_MODE),
        ({"mode": "exact"}, HEAP_PROBE),
        ({"mode": "exact", "method": "vmhwm-sum"}, HEAP_PROBE),
        ({"method": "vmhwm-sum"}, HEAP_PROBE),
    ],
)
def test_an_undecided_peak_says_what_to_do(members: dict[str, Any], way: str) -> None:
    last = recorded(201, 50, 80, peakLower=60, peakUpper=90.5, **members)
    run = ending_with(last, run_of([*LEVEL, 50]))
    finding = find(run, Limits(peak_mib=61))[-1]
    assert finding.measured == "60.0 to 90.5 MiB"
    which = "Undecided: the peak of invocation 201 is 60.0 to 90.5 MiB, which may be above 61 MiB"
    assert finding.sentence == f"{which}: try {way}, or a limit of 91 MiB."
    told = "1 of 201 peaks are intervals: a limit within one is undecided"
    assert told in Result(run, [finding]).notices()
    assert told not in Result(run, []).notices()  # no limit can be within one


def test_without_any_bound_there_is_no_limit_to_try() -> None:
    said = "Undecided: the peak of invocation 7 is 60.0 MiB or more, which may be above 61 MiB."
    assert undecided_peak(Peak("invocation 7", 60, math.inf), 61) == said


def test_an_invocation_without_a_record_may_have_any_peak() -> None:
    run = run_of([*LEVEL, 50])
    run = replace(run, seen=run.seen[:-1])
    below, at = (find(run, Limits(peak_mib=limit))[-1] for limit in (255, 256))
    assert (below.outcome, at.outcome) == ("unknown", "kept")
    assert below.sentence.startswith("Undecided: the peak of invocation 201, which has no record, is 0.0 to 256.0 MiB")


@pytest.mark.parametrize(
    ("upper", "allowed", "outcome"),
    [(55, 0, "kept"), (60, 5, "kept"), (60.1, 5, "unknown"), (None, 5, "unknown"), (None, 201, "kept")],
)
def test_a_baseline_is_kept_if_all_of_the_interval_is_below(upper: float | None, allowed: float, outcome: str) -> None:
    was = Baseline.of(run_of(LEVEL))
    now = ending_with(recorded(200, 50, 55, peakUpper=upper, raced=True), run_of(LEVEL))
    findings = find(now, Limits(growth=AllowedGrowth(allowed, percent=False)), was)
    assert {each.name: each.outcome for each in findings}["max-growth (peak)"] == outcome


def test_a_baseline_is_the_highest_lower_bound() -> None:
    """Else what comes later would be let through."""
    was = Baseline.of(ending_with(recorded(200, 50, 80, peakLower=60, peakUpper=90, raced=True), run_of(LEVEL)))
    assert was is not None
    assert was.peak == 60
