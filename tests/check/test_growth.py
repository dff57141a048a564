"""Nothing passes without a verdict, and nothing fails on a doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from truemem_workbench.analysis import heap
from truemem_workbench.analysis.drift import Verdict
from truemem_workbench.check.limits import Limits, find, undecided
from truemem_workbench.check.measurement import Failure, Measurement
from truemem_workbench.check.result import Result

from tests.check.conftest import FILLING, LEAK, LEVEL, NOISY, run_of, seen


def told(measurement: Measurement, **limits: Any) -> tuple[str, str]:
    """The outcome of the only limit, and why it is worth to go on."""
    (finding,) = find(measurement, Limits(**limits))
    return finding.outcome, undecided(measurement, Limits(**limits))


def judged(name: Any, value: float, low: float, high: float) -> Measurement:
    """A run with this verdict."""
    measurement = run_of(LEVEL)
    verdict = Verdict(name, value, low, high, 600 * value, None, "steady")  # ten a second
    vars(measurement)["verdict"] = verdict  # where cached_property keeps it
    return measurement


@pytest.mark.parametrize(
    ("currents", "expected"),
    [
        (LEVEL[:127], ("unknown", "too few to judge")),
        (LEVEL[:128], ("kept", "")),
        (LEAK[:10], ("unknown", "too few to judge")),
        (LEAK[:127], ("unknown", "too few to judge")),
        (LEAK[:128], ("broken", "")),
        (FILLING, ("unknown", "still warming")),
    ],
)
def test_without_a_limit_it_must_surely_not_grow(currents: Sequence[float], expected: tuple[str, str]) -> None:
    assert told(run_of(currents)) == expected


@pytest.mark.parametrize("limit", ["drift_kib", "drift_per_minute_kib"])
def test_a_limit_needs_as_many_invocations(limit: str) -> None:
    assert told(run_of(LEAK[:100]), **{limit: 4}) == ("unknown", "too few to judge")
    assert told(run_of(LEAK[:128]), **{limit: 4}) == ("broken", "")


@pytest.mark.parametrize("others", [{"peak_mib": 60}, {"current_mib": 60}])
def test_growth_is_judged_beside_any_other_limit(others: dict[str, Any]) -> None:
    findings = find(run_of(LEAK[:100]), Limits(**others))
    assert [each.outcome for each in findings] == ["unknown", "kept"]


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (("warming", 0.5, 0.2, 0.99), ("kept", "")),
        (("warming", 0.5, 0.2, 1.01), ("unknown", "still warming")),
        (("growing", 0.5, 0.2, 0.99), ("broken", "")),
        (("plateau", 9, 8, 10), ("kept", "")),
        (("spiky", 0, -1, 1), ("kept", "")),
    ],
)
def test_what_is_below_1_kib_need_not_have_ended(verdict: Any, expected: tuple[str, str]) -> None:
    assert told(judged(*verdict)) == expected


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (("growing", 8, 4.1, 9), ("broken", "")),
        (("stable", 8, 4.1, 9), ("broken", "")),
        (("warming", 8, 4.1, 9), ("broken", "still warming")),  # where there are no more
        (("warming", 3, 2, 4), ("kept", "")),
        (("growing", 3, 2, 4), ("kept", "")),
        (("growing", 4.1, 3, 5), ("unknown", "near the limit")),
        (("growing", 3.9, 3, 5), ("kept", "near the limit")),
        (("stable", 0.1, -3, 5), ("kept", "")),
        (("stable", 8, -1, 17), ("unknown", "near the limit")),
    ],
)
def test_a_limit_is_held_against_the_interval(verdict: Any, expected: tuple[str, str]) -> None:
    measurement = judged(*verdict)
    assert told(measurement, drift_kib=4) == expected
    assert told(measurement, drift_per_minute_kib=4 * 600) == expected


def test_what_has_the_limit_in_its_interval_says_so() -> None:
    result = Result(noisy := run_of(NOISY), find(noisy, Limits(drift_kib=9)))
    assert result.exit_code == 0
    assert "max-drift: after 200 invocations the interval still has the limit in it" in result.notices()
    (above,) = find(noisy, Limits(drift_kib=7))
    assert above.outcome == "unknown"
    assert above.sentence.endswith("Try more --invocations.")


def test_still_undecided_it_says_what_to_do() -> None:
    result = Result(filling := run_of(FILLING), find(filling, Limits()))
    assert result.exit_code == 2
    (sentence,) = (said for said in result.sentences() if "undecided" in said)
    assert "400 invocations" in sentence
    assert "--invocations" in sentence
    assert "--max-drift" in sentence


def test_both_limits_must_be_decided() -> None:
    both = Limits(drift_kib=4, drift_per_minute_kib=8 * 600)
    assert undecided(judged("growing", 4.1, 3, 5), both) == "near the limit"
    assert undecided(judged("growing", 8, 7, 9), both) == ""


FAILING = run_of(LEAK[:20], failures=[Failure(3, "KeyError")])


@pytest.mark.parametrize(
    ("measurement", "limits", "expected"),
    [
        (replace(run_of([]), invocations=100), {}, ""),
        (FAILING, {}, ""),
        (FAILING, {"errors": True}, "too few to judge"),  # allowed errors do not end it
        (run_of(LEAK[:20]), {"peak_mib": 1}, ""),
    ],
    ids=["no records", "failing", "failing as it may", "broken already"],
)
def test_more_invocations_are_not_asked_for_where_they_would_not_help(
    measurement: Measurement, limits: dict[str, Any], expected: str
) -> None:
    assert undecided(measurement, Limits(**limits)) == expected


def test_invocations_count_within_the_life_of_their_processes_and_if_certain() -> None:
    lines = run_of(LEVEL).seen
    again = replace(run_of(LEVEL), seen=[*lines[:100], seen(101, 50, 55, coldStart=True), *lines[101:]])
    assert again.in_a_row == 100
    assert told(again) == ("unknown", "too few to judge")
    raced = [seen(number, 50, 55, raced=True) for number in range(1, 101)]
    assert replace(run_of(LEVEL), seen=[*raced, *lines[100:]]).in_a_row == 100


def test_more_than_were_asked_for_are_told() -> None:
    more = run_of(LEVEL, warm_up=40, asked=100)
    assert "100 invocations did not decide it: 60 more were made" in Result(more, []).notices()
    assert Result(run_of(LEVEL, warm_up=40, asked=160), []).notices() == []


# --- the heap ---------------------------------------------------------------------------------------------------------


def with_heap(currents: Sequence[float], held: float) -> Measurement:
    made = [
        seen(number, current, current + 5, heap={"inUse": current - held, "held": held, "mapped": 0.0}, processes=1)
        for number, current in enumerate(currents, 1)
    ]
    return replace(run_of(currents), seen=made)


def test_what_the_probe_says_stands_beside_the_verdict() -> None:
    result = Result(hoards := with_heap(LEVEL, held=30), find(hoards, Limits()))
    lines = [each.line for each in hoards.seen]
    assert heap.readings(lines)
    assert heap.explain(lines) in result.sentences()
    assert result.document()["heap"] == heap.explain(lines)
    assert "30 MiB are freed but held by the allocator" in result.text()


def test_what_the_heap_of_a_runtime_tells_stands_beside_the_verdict() -> None:
    """The verdict on RSS and the exit code stay."""
    grows = [50 + number / 8 for number in range(200)]
    told_heap = {"runtime": "java", "committed": 100.0, "limit": 200.0, "collections": 0}
    made = [
        seen(number, current, current + 5, heap={**told_heap, "used": current - 40}, processes=1)
        for number, current in enumerate(grows, 1)
    ]
    result = Result(measured := replace(run_of(grows), seen=made), find(measured, Limits()))
    plain = Result(run_of(grows), find(run_of(grows), Limits()))
    assert measured.runtime_heap is not None
    assert measured.runtime_heap.kind == "lazy"
    assert "has not needed to run" in str(measured.heap)
    assert measured.heap in result.sentences()
    assert "What to do about it: docs/patterns.md#a-collector-that-has-not-run" in result.sentences()
    assert (result.exit_code, measured.verdict) == (plain.exit_code, plain.measurement.verdict)
    assert heap.UNKNOWN not in result.sentences()


@pytest.mark.parametrize(("currents", "missed"), [(LEAK, True), (FILLING, True), (LEVEL, False)])
def test_without_the_probe_it_says_what_it_cannot_know_where_that_matters(
    currents: Sequence[float], missed: bool
) -> None:
    result = Result(measurement := run_of(currents), find(measurement, Limits()))
    assert (heap.UNKNOWN in result.sentences()) is missed
    assert (result.document().get("heap") == heap.UNKNOWN) is missed


def test_a_curve_ends_before_the_processes_do() -> None:
    ending = seen(201, 1, 2, closedBy="shutdown")
    result = Result(replace(run_of(LEVEL), seen=[*run_of(LEVEL).seen, ending]), [])
    assert all(line.endswith(end) for line, end in zip(result.curves(), ("50.0 MiB", "55.0 MiB"), strict=True))
    document = result.document()
    assert document["currents"] == LEVEL
    assert document["peaks"] == [level + 5 for level in LEVEL]
