"""What breaks a limit and what does not: nothing passes without a verdict, and nothing fails on a doubt."""

import json
import random
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.answer.baseline import AllowedGrowth, Baseline
from truemem_workbench.answer.limits import LimitCheck, Limits, LimitsDecision, find, undecided
from truemem_workbench.answer.result import BROKEN, KEPT, Result, Tried
from truemem_workbench.judge.finding import Finding, commands_local
from truemem_workbench.judge.settled import Reading
from truemem_workbench.runs.here import Run
from truemem_workbench.runs.measurement import FailedInvocation, Measurement
from truemem_workbench.runs.passes import Plan, full_by
from truemem_workbench.support.exit_codes import Ended
from truemem_workbench.support.typed_command import Command

from tests.check.conftest import FILLING, LEAK, LEVEL, NOISY, STEADY, Check, ending_with, recorded, run_of

FREE, LIMITED = Limits(), Limits(drift_kib=4)


def outcomes(measurement: Measurement, baseline: Baseline | None = None, **limits: Any) -> dict[str, str]:
    return {each.name: each.outcome for each in find(measurement, Limits(**limits), baseline)}


def only(measurement: Measurement, **limits: Any) -> tuple[str, str]:
    """The outcome of the only limit, and why it is worth to go on."""
    (check,) = find(measurement, Limits(**limits))
    return check.outcome, undecided(measurement, Limits(**limits))


def found(cause: Any, value: float = 0, low: float = 0, high: float = 0, **members: Any) -> Measurement:
    """A run with this finding."""
    measurement = run_of(LEVEL)
    grows = cause in ("leak", "hoarding", "extension")
    interval = {"per_invocation_kib": value, "low_kib": low, "high_kib": high} if grows else {}
    vars(measurement)["finding"] = Finding(cause=cause, title="", grows=grows, **{**interval, **members})
    vars(measurement)["kept"] = replace(measurement.verdict, per_invocation_kib=value, low_kib=low, high_kib=high)
    return measurement


# --- growth -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("currents", "limits", "expected"),
    [
        (LEVEL[:127], {}, ("unknown", "too few to judge")),
        (LEVEL[:128], {}, ("kept", "")),
        (LEAK[:127], {}, ("unknown", "too few to judge")),
        (LEAK[:128], {}, ("broken", "a leak, or a cache that fills")),
        (FILLING[:200], {}, ("unknown", "undecided")),
        (LEAK[:100], {"drift_kib": 4}, ("unknown", "too few to judge")),
        (LEAK[:128], {"drift_kib": 4}, ("broken", "")),
        (LEAK[:128], {"drift_per_minute_kib": 4}, ("broken", "")),
    ],
)
def test_growth_needs_enough_invocations(currents: Sequence[float], limits: Any, expected: tuple[str, str]) -> None:
    assert only(run_of(currents), **limits) == expected


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
    assert only(found(cause, 8, 7, 9), allowed=allowed)[0] == outcome


@pytest.mark.parametrize(
    ("cause", "interval", "expected"),
    [
        ("leak", (8, 4.1, 9), ("broken", "")),
        ("undecided", (8, 4.1, 9), ("broken", "undecided")),  # where there are no more
        ("undecided", (0.2, -267, 267), ("unknown", "undecided")),
        ("undecided", (0.2, -3, 4), ("kept", "")),
        ("leak", (3, 2, 4), ("kept", "")),
        ("leak", (4.1, 3, 5), ("unknown", "near the limit")),
        ("leak", (3.9, 3, 5), ("kept", "near the limit")),
        ("none", (0.1, -3, 5), ("kept", "")),
        ("none", (8, -1, 17), ("unknown", "near the limit")),
    ],
)
def test_a_limit_is_held_against_the_interval(cause: str, interval: Any, expected: tuple[str, str]) -> None:
    measurement = found(cause, *interval)
    assert only(measurement, drift_kib=4) == expected
    assert only(measurement, drift_per_minute_kib=4 * 600) == expected  # ten a second


def test_a_run_goes_on_until_two_looks_agree() -> None:
    assert only(found("none", settled=False)) == ("kept", "the interval is wide")
    decision, once = LimitsDecision(Limits()), "looking once more"
    leak, level = with_heap(RISING), run_of(LEVEL)
    assert [decision.why(each) for each in (leak, level, leak, leak)] == [once, once, once, ""]


def test_what_grows_may_end_within_a_few_hundred() -> None:
    decision, leak = LimitsDecision(Limits()), with_heap(RISING)
    decision.full_by = full_by(200)
    later = replace(leak, invocations=380)
    assert [decision.why(each) for each in (leak, leak, later)] == ["it may end", "it may end", ""]


def test_a_limit_within_the_interval_is_a_notice() -> None:
    result = Result(noisy := run_of(NOISY), find(noisy, Limits(drift_kib=8.5)))
    assert result.exit_code == 0
    assert "max-drift: after 200 invocations the limit is still within the interval" in result.notices()
    (above,) = find(noisy, Limits(drift_kib=7.5))
    assert above.outcome == "unknown"
    assert above.sentence.endswith("Try more --invocations.")


@pytest.mark.parametrize(
    ("kib", "noise_kib", "limits", "within"),
    [
        (8, 0, FREE, 1040),
        (1, 0, FREE, 1040),
        (4, 500, FREE, 1040),
        (4, 2048, FREE, 1040),
        (8, 0, LIMITED, 200),
        (8, 500, LIMITED, 320),
        (8, 2048, LIMITED, 500),
        (0, 0, FREE, 2000),
        (0, 500, LIMITED, 2000),
        (0, 2048, FREE, 2000),
    ],
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))])
def test_a_leak_is_found_within_so_many(kib: float, noise_kib: int, limits: Limits, within: int, seed: int) -> None:
    """What docs/check.md says, on made curves: the gate's whole course, without a function."""
    plan, chance = Plan(), random.Random(seed)
    levels = [50 + (kib * number + chance.uniform(0, noise_kib)) / 1024 for number in range(plan.bound)]
    made = [recorded(number, level, level + 5) for number, level in enumerate(levels, 1)]
    count = plan.invocations
    while undecided(measured := Measurement("app.py:handler", made[:count], count, 0, 512, 1.0), limits):
        if count == plan.bound:
            break
        count = min(count + plan.step, plan.bound)
    assert Result(measured, find(measured, limits)).exit_code == (BROKEN if kib else KEPT)
    assert count <= within


def test_the_answer_is_one_paragraph_with_a_command() -> None:
    for run, begin in ((LEAK, "Next, after the repair: "), (FILLING[:200], "Next: "), (LEVEL, "Next: ")):
        result = Result(measured := run_of(run), find(measured, Limits()))
        (paragraph,) = result.sentences()
        assert paragraph == measured.finding.paragraph() == result.document()["finding"]["sentence"]  # type: ignore[index]
        assert paragraph.endswith(f" {begin}truemem check")
        assert ("nextWhen" in measured.finding.document()) == (run is LEAK)
        assert measured.finding.said_after("truemem check").next_when == (
            "after the repair" if run is LEAK else "after more invocations"
        )


def test_what_an_allocator_does_not_say_keeps_no_limit() -> None:
    assert only(found("undecided", 7, -2, 16, holder="mimalloc"), drift_kib=20) == ("unknown", "undecided")


def test_an_undecided_limit_adds_no_second_sentence() -> None:
    measured = found("undecided", 0.2, -267, 267)
    (limit,) = find(measured, Limits(drift_kib=4))
    assert Result(measured, [limit]).sentences() == [measured.finding.paragraph()]


FAILING = run_of(LEAK[:20], failures=[FailedInvocation(3, "KeyError")])


@pytest.mark.parametrize(
    ("measurement", "limits", "expected"),
    [
        (replace(run_of([]), invocations=10), {}, "no record yet"),
        (replace(run_of([]), invocations=100), {}, ""),
        (run_of([], failures=[FailedInvocation(5, "KeyError")]), {}, ""),
        (FAILING, {}, ""),
        (FAILING, {"errors_percent": 100}, "too few to judge"),  # allowed errors do not end it
        (run_of(LEAK[:20]), {"peak_mib": 1}, ""),
    ],
    ids=["late records", "no records", "all fail", "failing", "failing as it may", "broken already"],
)
def test_no_more_invocations_where_they_would_not_help(measurement: Measurement, limits: Any, expected: str) -> None:
    assert undecided(measurement, Limits(**limits)) == expected


def test_invocations_count_within_a_life_and_if_certain() -> None:
    lines = run_of(LEVEL).seen
    again = replace(run_of(LEVEL), seen=[*lines[:100], recorded(101, 50, 55, coldStart=True), *lines[101:]])
    assert again.in_a_row == 100
    assert only(again) == ("unknown", "too few to judge")
    raced = [recorded(number, 50, 55, raced=True) for number in range(1, 101)]
    assert replace(run_of(LEVEL), seen=[*raced, *lines[100:]]).in_a_row == 100


def test_more_than_were_asked_for_is_a_notice() -> None:
    more = run_of(LEVEL, warm_up=40, asked=100)
    assert "100 invocations did not decide it: 60 more were made" in Result(more, []).notices()
    assert Result(run_of(LEVEL, warm_up=40, asked=160), []).notices() == []


# --- garbage ----------------------------------------------------------------------------------------------------------


def with_heap(in_use: Sequence[float], *, settled: Sequence[float] = ()) -> Measurement:
    """Level RSS, and this in use, MiB; `settled`: after each 25th invocation, the process settled."""
    made = [
        recorded(number, 90, 95, heap={"inUse": used, "held": 60 - used, "mapped": 0.0, "blocks": int(used * 1e4)})
        for number, used in enumerate(in_use, 1)
    ]
    kept = [{"inUse": 1024 * used, "blocks": used * 1e4, "rss": 90 * 1024.0} for used in settled]
    readings = [Reading(25 * at, each) for at, each in enumerate(kept, 1)]
    return replace(run_of([90.0] * len(made)), seen=made, settled=readings)


RISING = [10 + number / 40 for number in range(200)]
"""25 KiB with each invocation."""


def test_a_leak_in_use_fails_though_rss_is_level() -> None:
    leak = with_heap(RISING)
    assert (leak.finding.cause, leak.finding.hidden, leak.finding.holder) == ("leak", True, "Python objects")
    assert only(leak) == ("broken", "")


def test_what_is_held_with_the_setting_is_no_news() -> None:
    holds = with_heap([10.0] * 200)
    assert holds.finding.setting == {"MALLOC_MMAP_THRESHOLD_": "32768"}
    assert replace(holds, variables=holds.finding.setting).finding.cause == "none"


def test_what_is_kept_decides_and_no_curve() -> None:
    garbage = with_heap(RISING, settled=[10.0] * 8)
    assert (garbage.finding.cause, only(garbage)) == ("hoarding", ("kept", ""))  # of 60 MiB 10 are in use
    kept = with_heap([10.0] * 200, settled=[10 + 0.2 * at for at in range(8)])
    assert (kept.finding.cause, only(kept)) == ("leak", ("broken", ""))
    assert kept.finding.per_invocation_kib == pytest.approx(0.2 * 1024 / 25)
    few = with_heap(RISING, settled=[10.0] * 3)
    assert few.finding.cause == "leak"  # a curve is all there is


def test_an_interval_with_zero_in_it_is_no_leak() -> None:
    noisy = with_heap(RISING, settled=[10.0, 10.5, 10.1, 10.9, 10.2, 10.6, 10.1, 10.4])
    assert only(noisy) == ("unknown", "undecided")


def test_what_may_be_a_large_cache_is_watched_until_it_is_larger() -> None:
    growing = with_heap([10.0] * 200, settled=[10.0 + at for at in range(8)])
    assert only(growing) == ("broken", "a leak, or a cache that fills")
    larger = with_heap([10.0] * 200, settled=[10.0 + 5 * at for at in range(8)])
    assert only(larger) == ("broken", "")


@pytest.mark.parametrize(("after", "helps"), [(LEVEL, True), (LEAK, False)])
def test_a_repair_helps_if_nothing_grows_with_it(after: Sequence[float], helps: bool) -> None:
    tried = Tried(setting={"MALLOC_MMAP_THRESHOLD_": "32768"}, before=run_of(LEAK), after=run_of(after))
    assert (tried.helps, tried.document()["helps"]) == (helps, helps)
    said, begin = (
        tried.sentence(),
        "The repair helps: with MALLOC_MMAP_THRESHOLD_=32768 an invocation leaves 50 MiB behind",
    )
    assert said.startswith(f"{begin}, without it 51; memory grows by 0.0 KiB in each invocation, without it") is helps
    assert "Its price in time: p50 99.5 ms, without it 99.5 (within noise); p99 " in said
    useless = Result(tried.before, [], tried=tried).finding
    assert (useless.repair == "MALLOC_MMAP_THRESHOLD_=32768 was tried, and does not help.") is not helps


def test_hoarding_is_proven_by_what_it_saves() -> None:
    holds = with_heap([10.0] * 200)
    tried = Tried(setting=holds.finding.setting, before=holds, after=run_of([30.0] * 200))
    assert holds.finding.cause == "hoarding"
    assert "an invocation leaves 30 MiB behind, without it 90." in tried.sentence()
    assert "grows" not in tried.sentence()


# --- the other limits -------------------------------------------------------------------------------------------------


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
def test_a_limit_is_broken_by_what_is_above_it(currents: list[float], limits: Any, expected: dict[str, str]) -> None:
    assert outcomes(run_of(currents), **limits) == expected


def test_the_warm_up_counts_for_peaks_and_not_for_levels() -> None:
    warming = run_of([70.0] * 20 + LEVEL, warm_up=20)
    expected = {"growth": "kept", "max-peak": "broken", "max-current": "kept"}
    assert outcomes(warming, peak_mib=74, current_mib=51) == expected
    first = recorded(1, 50, 55, initPeakRSS=120)
    finding = find(replace(warming, seen=[first, *warming.seen[1:]]), Limits(peak_mib=100))[1]
    assert finding.outcome == "broken"
    assert finding.sentence == "The highest peak was 120.0 MiB, in the init phase, and 100 MiB are allowed."


def test_out_of_memory_breaks_whatever_the_limits_are() -> None:
    killed = recorded(200, 50, 256, outOfMemory={"signals": ["kernel"]})
    first = find(ending_with(killed, run_of(LEVEL)), Limits())[0]
    assert (first.name, first.outcome) == ("out-of-memory", "broken")
    assert first.sentence == "Invocation 200 ran out of the memory size of 256 MiB."
    running = {"file": "orders.py", "line": 31, "function": "load", "level": 250.0, "stack": ["orders.py:31 load"]}
    killed = recorded(200, 50, 256, outOfMemory={"signals": ["kernel"], "running": running})
    leaking = ending_with(killed, run_of(LEVEL))
    assert find(leaking, Limits())[0].sentence.endswith("the memory size of 256 MiB. orders.py:31 in load ran then.")
    assert Result(leaking, find(leaking, Limits())).grows
    large = replace(leaking, places=[1] * 199 + [2])
    limits = find(large, Limits())
    told = "Invocation 200 ran out of the memory size of 256 MiB: all with event 2, which never fits. orders.py:31 in"
    assert limits[0].sentence.startswith(told)
    assert not Result(large, limits).grows  # no tracer is needed to find the line
    assert replace(large, places=[2] * 200).too_large == []


def test_a_failure_leaves_it_unmeasured_unless_allowed() -> None:
    failing = run_of(LEVEL, failures=[FailedInvocation(7, "KeyError: 'id'")])
    (finding, _) = find(failing, Limits())
    assert finding.outcome == "unknown"
    assert finding.sentence.startswith("1 of 200 invocations failed, the last number 7: KeyError: 'id'.")
    assert "try --allow-errors" in finding.sentence
    assert outcomes(failing, errors_percent=100) == {"growth": "kept"}
    for levels in (LEVEL[:5], []):  # that there is too little to judge as well is no news
        assert outcomes(run_of(levels, failures=[FailedInvocation(5, "KeyError")])) == {"errors": "unknown"}


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        (
            [FailedInvocation(1, "first"), FailedInvocation(5, "\x1b[2Jgone\n\ud800")],
            "the first was number 1, the last number 5: \\x1b[2Jgone \\ud800.",
        ),
        ([FailedInvocation(5, "x" * 10**6)], f"number 5: {'x' * 500}...."),
    ],
    ids=["in characters that a terminal shows", "cut where it is long"],
)
def test_an_error_is_shown_safely_and_shortened(failures: list[FailedInvocation], said: str) -> None:
    assert said in find(run_of(LEVEL[:5], failures=failures), Limits())[0].sentence


def test_without_a_record_nothing_is_known() -> None:
    (finding,) = find(run_of([], last_words="truemem ERROR register refused"), Limits(peak_mib=60))
    assert finding.outcome == "unknown"
    assert "The sidecar's last line: `truemem ERROR register refused`. Next: truemem " in finding.sentence


def test_drift_is_that_of_the_environment_that_served_most() -> None:
    other = [recorded(number, 90, 95, environmentId="two") for number in range(201, 231)]
    both = replace(run_of(LEVEL), seen=[*run_of(LEVEL).seen, *other])
    assert (both.finding.cause, both.highest_current) == ("none", 50)
    assert outcomes(both, peak_mib=94)["max-peak"] == "broken"
    assert "2 environments served: drift is that of the one that served most" in Result(both, []).notices()


@pytest.mark.parametrize(
    ("grown", "allowed", "expected"),
    [
        (1.09, AllowedGrowth(), "kept"),
        (1.11, AllowedGrowth(), "broken"),
        (1.11, AllowedGrowth(12), "kept"),
        (1.11, AllowedGrowth(6.1, percent=False), "kept"),  # of 50 and 55 MiB
        (1.11, AllowedGrowth(5, percent=False), "broken"),
        (0.5, AllowedGrowth(0), "kept"),
    ],
)
def test_growth_is_over_the_baseline(grown: float, allowed: AllowedGrowth, expected: str) -> None:
    was = Baseline.of(run_of(LEVEL))
    now = run_of([level * grown for level in LEVEL], spike=5 * grown)
    expectation = {"growth": "kept", "max-growth (peak)": expected, "max-growth (current)": expected}
    assert outcomes(now, was, growth=allowed) == expectation


@pytest.mark.parametrize(
    ("findings", "code"),
    [(["kept"], 0), (["kept", "broken"], 1), (["unknown", "kept"], 2), (["unknown", "broken"], 1)],
)
def test_the_exit_code_is_that_of_the_worst(findings: list[Any], code: int) -> None:
    made = [LimitCheck("max-peak", "", "", outcome, "") for outcome in findings]
    assert Result(run_of(LEVEL), made).exit_code == code


# --- /tmp and descriptors ---------------------------------------------------------------------------------------------

USES = f"{Path(__file__).parents[1] / 'resources' / 'functions' / 'uses.py'}:handler"
COUNT = 200


def run_with(opened: Sequence[int] = (), used: Sequence[float] = (), count: int = COUNT) -> Measurement:
    """A run whose lines have these figures."""
    resources: list[dict[str, Any]] = [{} for _ in opened or used or range(count)]
    for each, number in zip(resources, opened, strict=False):
        each["descriptors"] = {"open": number, "limit": 1024}
    for each, mib in zip(resources, used, strict=False):
        each["tmp"] = {"used": mib, "size": 512}
    lines = [
        recorded(number, 50, 55, closedBy="next-request", resources=each or None)
        for number, each in enumerate(resources, 1)
    ]
    return replace(run_of([50.0] * len(lines)), seen=lines)


@pytest.mark.parametrize(
    ("opened", "limit", "outcome", "why"),
    [
        ([10] * COUNT, 0, "kept", ""),
        ([10 + number for number in range(COUNT)], 0, "broken", ""),
        ([10 + number for number in range(COUNT)], 1.5, "kept", ""),
        ([10 + number // 20 for number in range(400)], 0, "broken", "descriptors still warming"),
        ([10 + number // 20 for number in range(400)], 0.1, "kept", ""),
        ([10 + min(20, number) for number in range(COUNT)], 0, "kept", ""),
        ([10 + number * 37 % 40 for number in range(COUNT)], 0.5, "kept", ""),
        ([10] * 100, 0, "unknown", "too few to judge"),
    ],
)
def test_descriptors_that_grow_beyond_the_limit_break_it(
    opened: list[int], limit: float, outcome: str, why: str
) -> None:
    measurement, limits = run_with(opened), Limits(descriptors_drift=limit, drift_kib=1e6)
    (finding,) = (each for each in find(measurement, limits) if each.name == "max-descriptors-drift")
    assert (finding.outcome, finding.why or "") == (outcome, why)
    assert undecided(measurement, limits) == why


@pytest.mark.parametrize(("allowed", "code"), [((), 1), (("descriptors",), 0), (("tmp",), 1)])
def test_descriptors_that_grow_break_the_gate(allowed: tuple[str, ...], code: int) -> None:
    leaking = run_with([10 + number for number in range(COUNT)])
    for limits in (Limits(allowed=allowed), Limits(allowed=allowed, drift_kib=4)):
        assert Result(leaking, find(leaking, limits)).exit_code == code
    finding = leaking.finding
    assert (finding.cause, finding.holder, finding.invocations_left) == ("descriptors", "descriptors", 815)


def test_what_is_left_in_tmp_breaks_its_limit() -> None:
    for used, outcome in (([10.0] * 199 + [60.5], "broken"), ([10.0] * 199 + [60.0], "kept"), ([], "unknown")):
        finding = find(run_with(used=used), Limits(tmp_mib=60))[-1]
        assert (finding.name, finding.outcome) == ("max-tmp", outcome)
    assert "truemem attach NAME --set resources=always" in finding.sentence


def test_figures_in_some_lines_keep_no_limit() -> None:
    """Of a deployed function without the setting: below a tenth they say nothing."""
    made = run_with(used=[60.0] * 100)
    mixed = replace(made, seen=[*made.seen, *(recorded(number, 50, 55) for number in range(101, 201))])
    assert find(mixed, Limits(tmp_mib=100))[-1].outcome == "unknown"
    assert find(mixed, Limits(tmp_mib=50))[-1].outcome == "broken"
    assert find(run_with(), Limits(descriptors_drift=1))[-1].outcome == "unknown"
    assert undecided(run_with(), Limits(descriptors_drift=1)) == ""  # more of the same would not tell either


@pytest.mark.parametrize(
    ("event", "option", "limit", "code"),
    [
        ({"do": "file"}, "--max-descriptors-drift", 0, 1),
        ({"do": "burst", "every": 2}, "--max-descriptors-drift", 0.1, 0),
        ({"do": "tmp", "kib": 256}, "--max-tmp", 30, 1),
        ({"do": "burst of files"}, "--max-tmp", 0.5, 0),
    ],
)
def test_the_command_checks_a_real_function(
    invoke_check: Check, event: dict[str, Any], option: str, limit: float, code: int
) -> None:
    counts = ["--warm-up", 10, "--invocations", 140, "--most", 140, "--max-drift", 1000]
    done = invoke_check(USES, "--event", json.dumps(event), *counts, option, limit, "--json")
    assert done.exit_code == code, done.output
    (finding,) = (each for each in json.loads(done.stdout)["limits"] if each["name"] == option[2:])
    assert finding["outcome"] == ("broken" if code else "kept")


def test_the_longer_run_is_a_command_that_works() -> None:
    options = (("--invocations", "300"), ("--most", "400"), ("--max-drift", "4"))
    commands = commands_local(Command("check", ("app.py:handler",), options))
    assert commands.longer == "truemem check app.py:handler --max-drift 4 --invocations 2000"
    few = Command("check", ("app.py:handler",), (("--invocations", "10"), ("--most", "10")))
    assert commands_local(few).longer == "truemem check app.py:handler"
    many = Command("check", ("app.py:handler",), (("--invocations", "2000"),))
    assert commands_local(many).longer == "truemem check app.py:handler --invocations 4000"


def test_what_was_ended_is_to_be_checked_again(invoke_check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with more invocations: those that were asked for have not been made."""
    invoke, number = Run.invoke, count(1)

    def ended(run: Run, *given: Any, **named: Any) -> Any:
        if next(number) > 90:
            raise Ended(signal.SIGINT)
        return invoke(run, *given, **named)

    monkeypatch.setattr(Run, "invoke", ended)
    done = invoke_check(STEADY)
    assert done.exit_code == 130, done.output
    assert re.search(r"the highest of (\d+) .*\d durations? of \d+ are left out", done.stdout, re.DOTALL)
    assert f" Next: truemem check {STEADY}\n" in done.stdout.replace(" --no-explain", "")
