"""Nothing passes without a verdict, and nothing fails on a doubt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from truemem_workbench.analysis.finding import Finding
from truemem_workbench.check.limits import Decision, Limits, find, undecided
from truemem_workbench.check.measurement import Failure, Measurement
from truemem_workbench.check.result import Result, Tried

from tests.check.conftest import FILLING, LEAK, LEVEL, NOISY, run_of, seen


def told(measurement: Measurement, **limits: Any) -> tuple[str, str]:
    """The outcome of the only limit, and why it is worth to go on."""
    (check,) = find(measurement, Limits(**limits))
    return check.outcome, undecided(measurement, Limits(**limits))


def found(cause: Any, value: float = 0, low: float = 0, high: float = 0, **members: Any) -> Measurement:
    """A run with this finding."""
    measurement = run_of(LEVEL)
    grows = cause in ("leak", "hoarding", "extension")
    interval = {"per_invocation_kib": value, "low_kib": low, "high_kib": high} if grows else {}
    vars(measurement)["finding"] = Finding(cause=cause, title="", grows=grows, **{**interval, **members})
    vars(measurement)["verdict"] = replace(measurement.verdict, per_invocation_kib=value, low_kib=low, high_kib=high)
    return measurement


@pytest.mark.parametrize(
    ("currents", "expected"),
    [
        (LEVEL[:127], ("unknown", "too few to judge")),
        (LEVEL[:128], ("kept", "")),
        (LEAK[:127], ("unknown", "too few to judge")),
        (LEAK[:128], ("broken", "a leak, or a cache that fills")),
        (FILLING[:200], ("unknown", "undecided")),
    ],
)
def test_without_a_limit_nothing_may_grow(currents: Sequence[float], expected: tuple[str, str]) -> None:
    assert told(run_of(currents)) == expected


@pytest.mark.parametrize("limit", ["drift_kib", "drift_per_minute_kib"])
def test_a_limit_needs_as_many_invocations(limit: str) -> None:
    assert told(run_of(LEAK[:100]), **{limit: 4}) == ("unknown", "too few to judge")
    assert told(run_of(LEAK[:128]), **{limit: 4}) == ("broken", "")


@pytest.mark.parametrize(
    ("cause", "allowed", "outcome"),
    [
        ("leak", (), "broken"),
        ("leak", ("leak",), "kept"),
        ("hoarding", (), "broken"),
        ("extension", ("leak",), "broken"),
        ("none", (), "kept"),
        ("collector", (), "kept"),
        ("failing", (), "unknown"),
    ],
)
def test_what_grows_breaks_the_gate_unless_allowed(cause: str, allowed: tuple[str, ...], outcome: str) -> None:
    assert told(found(cause, 8, 7, 9), allowed=allowed)[0] == outcome


@pytest.mark.parametrize(
    ("cause", "interval", "expected"),
    [
        ("leak", (8, 4.1, 9), ("broken", "")),
        ("undecided", (8, 4.1, 9), ("broken", "undecided")),  # where there are no more
        ("undecided", (3, 2, 4), ("kept", "")),
        ("leak", (3, 2, 4), ("kept", "")),
        ("leak", (4.1, 3, 5), ("unknown", "near the limit")),
        ("leak", (3.9, 3, 5), ("kept", "near the limit")),
        ("none", (0.1, -3, 5), ("kept", "")),
        ("none", (8, -1, 17), ("unknown", "near the limit")),
    ],
)
def test_a_limit_is_held_against_the_interval(cause: str, interval: Any, expected: tuple[str, str]) -> None:
    measurement = found(cause, *interval)
    assert told(measurement, drift_kib=4) == expected
    assert told(measurement, drift_per_minute_kib=4 * 600) == expected  # ten a second


def test_one_that_is_not_settled_goes_on_and_passes_in_the_end() -> None:
    assert told(found("none", settled=False)) == ("kept", "the interval is wide")


def test_two_looks_must_find_the_same() -> None:
    decision = Decision(Limits())
    leak, level = with_heap(RISING), run_of(LEVEL)
    once = "looking once more"
    assert [decision.why(each) for each in (leak, level, leak, leak)] == [once, once, once, ""]


def test_what_has_the_limit_in_its_interval_says_so() -> None:
    result = Result(noisy := run_of(NOISY), find(noisy, Limits(drift_kib=8.5)))
    assert result.exit_code == 0
    assert "max-drift: after 200 invocations the interval still has the limit in it" in result.notices()
    (above,) = find(noisy, Limits(drift_kib=7.5))
    assert above.outcome == "unknown"
    assert above.sentence.endswith("Try more --invocations.")


def test_the_answer_is_one_paragraph_with_a_command() -> None:
    for run in (LEAK, FILLING[:200], LEVEL):
        result = Result(measured := run_of(run), find(measured, Limits()))
        (paragraph,) = result.sentences()
        assert paragraph == measured.finding.paragraph() == result.document()["finding"]["sentence"]  # type: ignore[index]
        assert paragraph.endswith("Next: truemem check")


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


# --- garbage ----------------------------------------------------------------------------------------------------------


def with_heap(in_use: Sequence[float], *, collected: int = 0) -> Measurement:
    """Level RSS, and this in use, MiB. Garbage was collected after the invocation `collected`."""
    made = [
        seen(number, 90, 95, heap={"inUse": used, "held": 60 - used, "mapped": 0.0, "blocks": int(used * 1e4)})
        for number, used in enumerate(in_use, 1)
    ]
    return replace(run_of([90.0] * len(made)), seen=made, collected=collected)


RISING = [10 + number / 40 for number in range(200)]
"""25 KiB with each invocation."""


def test_a_leak_in_use_fails_though_rss_is_level() -> None:
    leak = with_heap(RISING)
    assert (leak.finding.cause, leak.finding.hidden, leak.finding.holder) == ("leak", True, "Python objects")
    assert told(leak) == ("broken", "")


def test_garbage_that_a_collection_frees_is_no_leak() -> None:
    freed = with_heap([*RISING, *[10.0] * 20], collected=200)
    assert freed.freed == pytest.approx(1, abs=0.05)
    assert not freed.is_confirmed
    assert told(freed) == ("unknown", "undecided")
    later = with_heap([*RISING, *[10.0] * 140], collected=200)
    assert (later.finding.cause, told(later)) == ("collector", ("kept", ""))


def test_what_a_collection_leaves_is_a_leak() -> None:
    kept = with_heap([*RISING, *[15 + number / 40 for number in range(20)]], collected=200)
    assert kept.freed == pytest.approx(0, abs=0.05)
    assert kept.is_confirmed
    assert told(kept) == ("broken", "")


def test_a_curve_ends_before_the_processes_do() -> None:
    ending = seen(201, 1, 2, closedBy="shutdown")
    result = Result(replace(run_of(LEVEL), seen=[*run_of(LEVEL).seen, ending]), [])
    assert all(line.endswith(end) for line, end in zip(result.curves(), ("50.0 MiB", "55.0 MiB"), strict=True))
    document = result.document()
    assert document["currents"] == LEVEL
    assert document["peaks"] == [level + 5 for level in LEVEL]


# --- the repair -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("after", "helps"), [(LEVEL, True), (LEAK, False)])
def test_a_repair_helps_if_nothing_grows_with_it(after: Sequence[float], helps: bool) -> None:
    tried = Tried(setting={"MALLOC_MMAP_THRESHOLD_": "32768"}, before=run_of(LEAK), after=run_of(after))
    assert (tried.helps, tried.document()["helps"]) == (helps, helps)
    said = (
        "The repair helps: with MALLOC_MMAP_THRESHOLD_=32768 RSS grows by 0.0 KiB in each invocation, without it by 8.0"
    )
    assert tried.sentence().startswith(said) is helps
