"""What breaks a limit, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from truemem_workbench.check.baseline import Baseline, Growth
from truemem_workbench.check.limits import LimitCheck, Limits, find, undecided
from truemem_workbench.check.measurement import Failure, Measurement
from truemem_workbench.check.result import Result

from tests.check.conftest import LEAK, LEVEL, ending_with, run_of, seen


def outcomes(measurement: Measurement, baseline: Baseline | None = None, **limits: Any) -> dict[str, str]:
    return {each.name: each.outcome for each in find(measurement, Limits(**limits), baseline)}


@pytest.mark.parametrize(
    ("currents", "limits", "expected"),
    [
        (LEVEL, {}, {"growth": "kept"}),
        (LEAK, {}, {"growth": "broken"}),
        (LEAK, {"drift_kib": 6}, {"max-drift": "broken"}),
        (LEAK, {"drift_kib": 8.5}, {"max-drift": "kept"}),  # tolerated, so that it may be `growing`
        (LEVEL, {"drift_kib": 0}, {"max-drift": "kept"}),
        (LEAK, {"drift_per_minute_kib": 3600}, {"max-drift-per-minute": "broken"}),  # one in 100 ms: 4,800
        (LEAK, {"drift_per_minute_kib": 5000}, {"max-drift-per-minute": "kept"}),
        (LEVEL, {"peak_mib": 54.9}, {"growth": "kept", "max-peak": "broken"}),
        (LEVEL, {"peak_mib": 55}, {"growth": "kept", "max-peak": "kept"}),
        (LEVEL, {"current_mib": 49.9}, {"growth": "kept", "max-current": "broken"}),
        (LEVEL, {"current_mib": 50}, {"growth": "kept", "max-current": "kept"}),
    ],
)
def test_a_limit_is_broken_by_what_is_above_it(
    currents: list[float], limits: dict[str, Any], expected: dict[str, str]
) -> None:
    assert outcomes(run_of(currents), **limits) == expected


def test_the_warm_up_counts_for_peaks_and_not_for_levels() -> None:
    warming = run_of([70.0] * 20 + LEVEL, warm_up=20)
    assert outcomes(warming, peak_mib=74, current_mib=51) == {
        "growth": "kept",
        "max-peak": "broken",
        "max-current": "kept",
    }


def test_the_init_phase_has_a_peak_too() -> None:
    run = run_of(LEVEL)
    first = seen(1, 50, 55, initPeakRSS=120)
    finding = find(replace(run, seen=[first, *run.seen[1:]]), Limits(peak_mib=100))[1]
    assert finding.outcome == "broken"
    assert finding.sentence == "The highest peak was 120.0 MiB, in the init phase, and 100 MiB are allowed."


def test_out_of_memory_breaks_whatever_the_limits_are() -> None:
    killed = seen(200, 50, 256, outOfMemory={"signals": ["kernel"]})
    found = find(ending_with(killed, run_of(LEVEL)), Limits())[0]
    assert (found.name, found.outcome) == ("out-of-memory", "broken")
    assert found.sentence == "Out of memory in invocation 200: over its memory size of 256 MiB."


def test_a_failure_leaves_it_unmeasured_unless_errors_are_allowed() -> None:
    failing = run_of(LEVEL, failures=[Failure(7, "KeyError: 'id'")])
    (finding, _) = find(failing, Limits())
    assert finding.outcome == "unknown"
    assert finding.sentence.startswith("1 of 200 invocations failed, the last of them number 7: KeyError: 'id'.")
    assert "try --allow-errors" in finding.sentence
    assert outcomes(failing, errors=True) == {"growth": "kept"}


@pytest.mark.parametrize(
    ("failures", "told"),
    [
        (
            [Failure(1, "first"), Failure(5, "\x1b[2Jgone\n\ud800")],
            "the first of them number 1, the last of them number 5: \\x1b[2Jgone \\ud800.",
        ),
        ([Failure(5, "x" * 10**6)], f"number 5: {'x' * 500}...."),
    ],
    ids=["in characters that a terminal shows", "cut where it is long"],
)
def test_a_failure_is_told(failures: list[Failure], told: str) -> None:
    assert told in find(run_of(LEVEL[:5], failures=failures), Limits())[0].sentence


def test_where_it_failed_it_is_no_news_that_there_is_too_little_to_judge() -> None:
    assert outcomes(run_of(LEVEL[:5], failures=[Failure(5, "KeyError")])) == {"errors": "unknown"}
    assert outcomes(run_of([], failures=[Failure(5, "KeyError")])) == {"errors": "unknown"}


def test_records_that_are_late_are_waited_for_but_not_for_ever() -> None:
    assert undecided(replace(run_of([]), invocations=10), Limits()) == "no record yet"
    assert undecided(replace(run_of([]), invocations=100), Limits()) == ""
    assert undecided(run_of([], failures=[Failure(5, "KeyError")]), Limits()) == ""


def test_without_a_record_nothing_is_known() -> None:
    (finding,) = find(run_of([], last_words="truemem ERROR register refused"), Limits(peak_mib=60))
    assert finding.outcome == "unknown"
    assert finding.sentence.endswith("The sidecar's last line: truemem ERROR register refused")


def test_only_the_environment_that_served_most_is_judged_for_drift() -> None:
    other = [seen(number, 90, 95, environmentId="two") for number in range(201, 231)]
    both = replace(run_of(LEVEL), seen=[*run_of(LEVEL).seen, *other])
    assert both.finding.cause == "none"
    assert both.highest_current == 50
    assert outcomes(both, peak_mib=94)["max-peak"] == "broken"
    assert "2 environments served: drift is that of the one that served most" in Result(both, []).notices()


@pytest.mark.parametrize(
    ("grown", "allowed", "expected"),
    [
        (1.0, Growth(), "kept"),
        (1.09, Growth(), "kept"),
        (1.11, Growth(), "broken"),
        (1.11, Growth(12), "kept"),
        (1.11, Growth(6.1, percent=False), "kept"),  # of 50 and 55 MiB
        (1.11, Growth(5, percent=False), "broken"),
        (0.5, Growth(0), "kept"),
    ],
)
def test_growth_is_over_the_baseline(grown: float, allowed: Growth, expected: str) -> None:
    was = Baseline.of(run_of(LEVEL))
    now = run_of([level * grown for level in LEVEL], spike=5 * grown)
    found = outcomes(now, was, growth=allowed)
    assert found == {"growth": "kept", "max-growth (peak)": expected, "max-growth (current)": expected}


@pytest.mark.parametrize(
    ("findings", "code"),
    [(["kept"], 0), (["kept", "broken"], 1), (["unknown", "kept"], 2), (["unknown", "broken"], 1)],
)
def test_the_exit_code_is_that_of_the_worst(findings: list[Any], code: int) -> None:
    made = [LimitCheck("max-peak", "", "", outcome, "") for outcome in findings]
    assert Result(run_of(LEVEL), made).exit_code == code
