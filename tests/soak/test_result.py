"""What a soak says of its figures: limits, sentences, the document, and the picture."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.judge.finding import Commands
from truemem_workbench.soak import picture
from truemem_workbench.soak.clocks import GrowthClock
from truemem_workbench.soak.judging import JudgedSoak, judge
from truemem_workbench.soak.limits import SoakLimits, baseline_of, find
from truemem_workbench.soak.result import SoakResult, clock_time, latency_follows_memory
from truemem_workbench.soak.tally import Tally

from tests.soak.seen import arrival, begun, ended, initialised, line, reset, throttled

COMMANDS = Commands(again="truemem soak app.py:handler", profile="truemem soak app.py:handler --lines")


def soaked(
    levels: Sequence[float] = (40.0,) * 150, *, latency_ms: float = 10.0, failed: int = 0, refused: int = 0
) -> Tally:
    """A request a second, each of which leaves behind so many MiB."""
    tally = begun("a")
    tally.change(initialised())
    for number, level in enumerate(levels, 1):
        error = "ValueError: no" if number <= failed else ""
        tally.add(arrival(float(number), latency_ms, cold=number == 1, error=error))
        tally.line(line(number, CurrentRSS=level, PeakRSS=level + 1), "a")
    for number in range(refused):
        tally.add(throttled(number))
    tally.change(ended("stopped", at_s=len(levels) + 1.0))
    return tally


def result(tally: Tally, **limits: Any) -> SoakResult:
    wanted = SoakLimits(**limits)
    judged = judge(tally, COMMANDS, wanted.allowed)
    return SoakResult("app.py:handler", tally, judged, find(tally, judged, wanted))


def outcomes(made: SoakResult) -> dict[str, str]:
    return {each.name: each.outcome for each in made.limits}


def test_a_level_function_passes() -> None:
    made = result(soaked())
    assert (made.exit_code, outcomes(made)) == (0, {"growth": "kept", "max-errors": "kept"})
    assert made.headline == "app.py:handler passed: 150 invocations in 1 environment, 3 min"
    assert made.sentences()[0].startswith("No leak: memory does not grow")


@pytest.mark.parametrize(
    ("seen", "limits", "name", "outcome", "sentence"),
    [
        (
            {"failed": 3},
            {},
            "max-errors",
            "broken",
            "3 of 150 (2 %) invocations failed, and 0 % are allowed. 3 of them said: ValueError: no.",
        ),
        ({"failed": 1}, {"errors_percent": 0.7}, "max-errors", "kept", "1 of 150 (0.67 %) invocations failed"),
        ({}, {"p99_ms": 9.0}, "max-p99", "broken", "p99 is 10.0 ms (10.0 to 10"),
        ({}, {"p99_ms": 11.0}, "max-p99", "kept", "p99 is 10.0 ms (10.0 to 10"),
        ({}, {"peak_mib": 40.5}, "max-peak", "broken", "The highest peak was 41.0 MiB, and 40.5 MiB are allowed."),
        ({}, {"peak_mib": 41.0}, "max-peak", "kept", "The highest peak was 41.0 MiB"),
        ({"refused": 6}, {"throttles_percent": 3.8}, "max-throttles", "broken", "6 of 156 requests were throttled"),
        ({"refused": 6}, {"throttles_percent": 3.9}, "max-throttles", "kept", "6 of 156 requests were throttled"),
    ],
)
def test_a_limit_is_kept_or_broken(
    seen: dict[str, Any], limits: dict[str, float], name: str, outcome: str, sentence: str
) -> None:
    made = result(soaked(**seen), **limits)
    (check,) = (each for each in made.limits if each.name == name)
    assert (check.outcome, check.sentence[: len(sentence)]) == (outcome, sentence)
    assert made.exit_code == (1 if outcome == "broken" else 0)


def test_out_of_memory_breaks_the_soak() -> None:
    tally = soaked()
    tally.change(reset("out of memory"))
    made = result(tally)
    assert outcomes(made)["out-of-memory"] == "broken"
    assert made.exit_code == 1


def test_an_invocation_that_was_killed_had_all_memory() -> None:
    tally = soaked()
    tally.environments[0].limit_mib = 256.0
    tally.change(reset("out of memory"))
    made = result(tally, peak_mib=100.0)
    (peak,) = (each for each in made.limits if each.name == "max-peak")
    assert (peak.outcome, peak.measured) == ("broken", "256.0 MiB")


def test_nothing_served_decides_nothing() -> None:
    made = result(soaked(()))
    assert (made.exit_code, outcomes(made)) == (2, {"growth": "unknown", "max-errors": "unknown"})


def clocked(name: Any, rate: float, *, found: JudgedSoak, per_minute: float = 1.0) -> JudgedSoak:
    """Growth by this clock, so many units of which came in a minute."""
    clock = GrowthClock(
        name=name, grows=True, rate_kib=rate, low_kib=rate - 1, high_kib=rate + 1, per_minute=per_minute, evidence="So."
    )
    return replace(found, clock=clock)


@pytest.mark.parametrize(
    ("clock", "units", "unit", "rate"),
    [
        ("minute", 1.0, "minute", 90),
        ("minute", 1.0, "invocation", 1.5),
        ("minute", 0.5, "minute", 45),  # in use
        ("invocation", 58.0, "invocation", 90),
        ("invocation", 58.0, "minute", 5400),
        ("pause", 10.0, "minute", 900),
        ("pause", 10.0, "invocation", 15),
        ("overlap", 30.0, "minute", 2700),
    ],
)
def test_a_limit_is_on_growth_by_any_clock(clock: str, units: float, unit: Any, rate: float) -> None:
    found = judge(soaked(), COMMANDS)
    assert found.per_minute == pytest.approx(60 * 150 / 149)
    bare = replace(found, per_minute=60.0, finding=replace(found.finding, per_invocation_kib=None))
    seen = clocked(clock, 90.0, found=bare, per_minute=units).rate(unit)
    assert seen and seen.value == pytest.approx(rate)


@pytest.mark.parametrize(("limit", "outcome"), [(88.0, "broken"), (90.0, "unknown"), (92.0, "kept")])
def test_drift_by_the_minute_has_a_limit(limit: float, outcome: str) -> None:
    tally = soaked()
    judged = clocked("minute", 90.5, found=judge(tally, COMMANDS))
    (check, _) = find(tally, judged, SoakLimits(drift_per_minute_kib=limit))
    assert (check.name, check.outcome) == ("max-drift-per-minute", outcome)
    assert check.sentence.startswith("It grows by 90.5 KiB (89.5 to 91.5) a minute of this traffic, and ")


def test_growth_not_known_yet_has_the_answers_own_command() -> None:
    made = result(soaked((40.0,) * 20), drift_kib=4.0)
    (check,) = (each for each in made.limits if each.name == "max-drift")
    assert check.sentence == f"max-drift: growth is not known yet. Next: {made.judged.finding.next}"


def test_failures_that_are_the_answer_are_said_once() -> None:
    made = result(soaked(failed=100))
    assert (made.exit_code, outcomes(made)["max-errors"]) == (1, "broken")
    (said,) = made.sentences()
    assert said.startswith("Failing: 100 of 150 invocations failed.")


@pytest.mark.parametrize(
    ("levels", "outcome"),
    [((40.0,) * 150, "kept"), ([40.0 + n / 10 for n in range(300)], "broken"), ((40.0,) * 100, "unknown")],
)
def test_limits_on_drift_hold_for_what_does_not_grow(levels: Sequence[float], outcome: str) -> None:
    made = result(soaked(levels), drift_kib=20.0, drift_per_minute_kib=1200.0)
    assert {each.outcome for each in made.limits if each.name.startswith("max-drift")} == {outcome}


def test_limits_on_drift_hide_no_descriptors() -> None:
    tally = begun("a")
    for number in range(1, 301):
        tally.add(arrival(float(number)))
        resources = {"descriptors": {"open": 10 + number, "limit": 1024}}
        tally.line(line(number, CurrentRSS=40.0, PeakRSS=41.0, resources=resources), "a")
    made = result(tally, drift_kib=20.0)
    assert (outcomes(made)["growth"], outcomes(made)["max-drift"]) == ("broken", "kept")


def test_latency_that_follows_memory_is_said() -> None:
    tally = begun("a")
    for second in range(1, 121):
        tally.add(arrival(float(second), 10.0 + second))
        tally.line(line(second, CurrentRSS=40.0 + second), "a")
    said = "Latency follows memory: its p95 goes from 11 to 129 ms where memory goes from 41.0 to 160.0 MiB."
    assert latency_follows_memory(tally) == said
    assert latency_follows_memory(soaked([40.0 + n for n in range(120)])) == ""


def test_a_machine_too_slow_for_the_traffic_is_said() -> None:
    tally = soaked()
    for _ in range(10):
        tally.late_ms.add(1500.0)
    (said,) = result(tally).notices()
    assert said.endswith("latency counts from when they were due. This machine is too slow for them: try a lower rate")


def test_what_weakens_a_soak_is_noted() -> None:
    tally = soaked(refused=2)
    tally.interruptions.append((30.0, 7200.0))
    tally.dropped = 3
    made = replace(result(tally), is_cut=True, told=("no cgroup here",))
    assert made.notices() == [
        "no cgroup here",
        "3 requests were not sent: too many were under way",
        "2 requests were throttled (429): more ran at once than --environments or --reserved-concurrency permits",
        "interrupted after 30 s, for 2 h 0 min: then all environments were new",
        "ended before its time",
    ]


def test_the_document_has_the_figures_and_one_finding() -> None:
    document = result(soaked(failed=3)).document()
    assert (document["invocations"], document["throttles"], document["coldStarts"]) == (150, 0, 1)
    assert document["errors"] == {"count": 3, "byType": {"ValueError": 3}}
    assert set(document["latencyMs"]) == {"p50", "p95", "p99"}  # type: ignore[call-overload]
    assert document["finding"]["cause"] == "none"  # type: ignore[index]
    environments: Any = document["environments"]
    (environment,) = environments
    assert (environment["served"], environment["last"], environment["ended"]) == (150, 40.0, "stopped")
    assert sum(each["invocations"] for each in document["overTime"]) == 150  # type: ignore[attr-defined]


def test_a_baseline_shows_what_changed_since() -> None:
    was = baseline_of(soaked())
    tally = soaked((50.0,) * 150, latency_ms=30.0)
    judged = judge(tally, COMMANDS)
    made = SoakResult("app.py:handler", tally, judged, find(tally, judged, SoakLimits(), was), was=was)
    assert {name: outcome for name, outcome in outcomes(made).items() if name.startswith("max-growth")} == {
        "max-growth (peak)": "broken",
        "max-growth (current)": "broken",
    }
    assert [(each.name, each.outcome) for each in made.figures if each.before] == [
        ("p50", "slower"),
        ("p95", "slower"),
        ("p99", "slower"),
    ]


def test_a_failing_function_shows_its_log() -> None:
    made = replace(result(soaked(failed=3)), function_log=["Traceback", "ValueError: no"])
    assert made.log() == ["The function's log ends:", "  Traceback", "  ValueError: no"]
    assert replace(made, limits=()).log() == []


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "soak.png"
    picture.draw(result(soaked(failed=3, refused=2)), path)
    assert path.read_bytes().startswith(b"\x89PNG")


@given(st.floats(0, 1e6))
def test_a_time_is_short_and_has_a_unit(seconds: float) -> None:
    assert len(clock_time(seconds)) <= len("277 h 47 min")
    assert clock_time(seconds).endswith((" s", " min"))
