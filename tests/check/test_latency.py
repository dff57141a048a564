"""Durations as percentiles, their noise and their limit; and errors as a share of all invocations."""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import comb
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.answer.baseline import Baseline, read_baseline, write_baseline
from truemem_workbench.answer.limits import Limits, check_errors, check_p99, find, undecided
from truemem_workbench.answer.outputs import github_annotations, github_summary, junit_document, plain_text
from truemem_workbench.answer.result import Result
from truemem_workbench.judge.latency import PERCENTS, Latency, Percentile, failed_share, interval, ms, rank
from truemem_workbench.local import BadInput
from truemem_workbench.runs.here import Run
from truemem_workbench.runs.measurement import FailedInvocation, Measurement
from truemem_workbench.target.resolve import resolve

from tests.check.conftest import FUNCTIONS, LEVEL, STEADY, Check, recorded, run_of

SLOWER = f"{FUNCTIONS / 'slower.py'}:handler"


def timed(durations: Sequence[float | None], **members: Any) -> Measurement:
    """A run whose invocations took so long; None: their lines do not tell it."""
    made = [recorded(number, 50, 55, durationMs=each) for number, each in enumerate(durations, 1)]
    return replace(run_of([50.0] * len(made), **members), seen=made)


def latency_of(durations: Sequence[float]) -> Latency:
    found = Latency.of(durations)
    assert found is not None
    return found


# --- percentiles ------------------------------------------------------------------------------------------------------


durations = st.lists(st.floats(0, 1e6), min_size=1, max_size=300)


@given(durations, st.randoms(use_true_random=False))
def test_a_percentile_occurred_and_has_its_share_below(values: list[float], chance: random.Random) -> None:
    shuffled = list(values)
    chance.shuffle(shuffled)
    found = latency_of(shuffled)
    assert found == latency_of(values)
    for percent in PERCENTS:
        each: Percentile = getattr(found, f"p{percent}")
        assert each.value in values
        assert 100 * sum(value <= each.value for value in values) >= percent * len(values)
        assert 100 * sum(value < each.value for value in values) < percent * len(values)
        assert each.low <= each.value <= each.high
    assert found.p50.value <= found.p95.value <= found.p99.value
    assert (found.p99.value == max(values)) or len(values) >= 100


@given(st.sampled_from(PERCENTS), st.integers(1, 600))
def test_an_interval_holds_the_percentile_19_times_in_20(percent: int, count: int) -> None:
    """By counting: of independent values, how many are below the true percentile is binomial, whatever they are."""

    def at_most_40th(numbers: range) -> bool:
        ways = sum(comb(count, below) * percent**below * (100 - percent) ** (count - below) for below in numbers)
        return 40 * int(ways) <= int(100**count)

    low, high = interval(percent, count)
    assert 1 <= low <= rank(percent, count) <= high <= count
    assert low == 1 or at_most_40th(range(low))
    has_upper_end = count >= {50: 6, 95: 72, 99: 368}[percent]
    assert at_most_40th(range(high, count + 1)) == has_upper_end


def test_without_durations_there_is_no_latency() -> None:
    assert Latency.of([]) is None
    assert timed([None] * 200).latency is None
    assert "latencyMs" not in Result(timed([None] * 200), []).document()


def test_the_warm_up_and_what_settling_slows_are_left_out() -> None:
    values = [900.0] * 10 + [5.0] * 150 + [700.0] * 40
    assert timed(values, warm_up=10, slowed=range(161, 500)).durations == [5.0] * 150
    failed = timed(values, warm_up=10, failures=[FailedInvocation(160, "KeyError")])
    assert failed.durations == values[10:]  # one that fails takes its time too
    late = timed([None, 7.0, None], reported_ms={1: 5.0, 2: 6.0})
    assert (late.durations, late.untimed) == ([5.0, 6.0], 1)


# --- beside a baseline ------------------------------------------------------------------------------------------------


@given(durations, durations)
def test_a_change_is_the_same_from_both_sides(one: list[float], two: list[float]) -> None:
    opposite = {"slower": "faster", "faster": "slower", "alike": "alike"}
    for name in ("p50", "p95", "p99"):
        now, was = getattr(latency_of(one), name), getattr(latency_of(two), name)
        assert now.change(was) == opposite[was.change(now)]
        assert now.change(now) == "alike"


def test_chance_alone_is_seldom_a_change() -> None:
    """Of 300 pairs of runs of the same function, and then of one that takes a third longer."""
    changes = {1.0: 0, 1.33: 0}
    for factor in changes:
        for seed in range(300):
            chance = random.Random(seed)
            was, now = ([chance.lognormvariate(3, 0.3) * each for _ in range(200)] for each in (1, factor))
            changed = [each.outcome for each in latency_of(now).figures(latency_of(was))]
            changes[factor] += changed[0] != "alike" if factor > 1 else changed.count("alike") < 3
    assert changes[1.0] <= 15
    assert changes[1.33] >= 290


def rows_of(now: Measurement, was: Baseline | None = None) -> list[tuple[str, ...]]:
    return [tuple(each) for each in Result(now, [], was=was).figures]


def test_figures_stand_beside_those_of_the_baseline() -> None:
    steady, slow = timed([10.0] * 200), timed([12.5] * 200, failures=[FailedInvocation(3, "KeyError")])
    assert rows_of(steady) == [
        *((f"p{each}", "", "10.0 ms", "note") for each in PERCENTS),
        ("errors", "", "0 of 200", "note"),
    ]
    assert rows_of(slow, Baseline.of(steady)) == [
        *((f"p{each}", "was 10.0 ms", "12.5 ms (+25 %)", "slower") for each in PERCENTS),
        ("errors", "was 0 %", "1 of 200 (0.5 %)", "note"),
    ]
    assert rows_of(steady, Baseline.of(slow))[0] == ("p50", "was 12.5 ms", "10.0 ms (-20 %)", "faster")
    assert [each[-1] for each in rows_of(steady, Baseline.of(steady))] == ["alike"] * 3 + ["note"]
    slower = "p50, p95, p99: slower than in the baseline, by more than chance in both runs"
    (said,) = (each for each in Result(slow, [], was=Baseline.of(steady)).notices() if each.startswith(slower))
    assert "--max-p99 MS is a limit" in said
    assert Result(steady, [], was=Baseline.of(slow)).notices() == []
    checks = find(slow, Limits(errors_percent=5), Baseline.of(steady))
    assert {each.outcome for each in checks} == {"kept"}  # it is a note


def test_p99_of_fewer_than_100_says_that_it_is_the_highest() -> None:
    few, enough = (rows_of(timed([float(n) for n in range(1, count + 1)])) for count in (99, 100))
    assert few[2] == ("p99", "", "99.0 ms, the highest of 99", "note")
    assert enough[2] == ("p99", "", "99.0 ms", "note")
    assert rows_of(timed([7.0]))[0] == ("p50", "", "7.00 ms, the highest of 1", "note")


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.00"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (5400000.0, "5,400,000")]
)
def test_a_duration_has_three_digits_or_all_before_the_point(value: float, text: str) -> None:
    assert ms(value) == text


def test_a_baseline_keeps_latency_and_errors(tmp_path: Path) -> None:
    path, now = tmp_path / "memory.json", Baseline.of(timed([float(each) for each in range(1, 201)]))
    assert now is not None
    write_baseline(path, "app.py:one", now)
    assert read_baseline(path, "app.py:one") == now
    assert json.loads(path.read_text())["functions"]["app.py:one"]["latency"]["p99"]["value"] == 198


def test_an_earlier_baseline_has_no_latency(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    path.write_text('{"schema": 1, "functions": {"app.py:one": {"peak": 55, "current": 50, "about": {}}}}')
    was = read_baseline(path, "app.py:one")
    assert was == Baseline(55, 50)
    assert {before for _, before, *_ in rows_of(timed([10.0] * 200), was)} == {""}
    write_baseline(path, "app.py:one", was)  # nor has it afterwards
    assert json.loads(path.read_text())["functions"]["app.py:one"].keys() == {"peak", "current", "about"}


@pytest.mark.parametrize("wrong", [7, {}, {"p50": 1}, {"p99": {"value": "x"}}, {"p95": {"value": -1}}])
def test_a_latency_that_is_none_is_refused(tmp_path: Path, wrong: Any) -> None:
    whole = asdict(latency_of([1.0]))
    latency = whole | {"p50": 1, **wrong} if isinstance(wrong, dict) else wrong
    path = tmp_path / "memory.json"
    entry = {"peak": 55, "current": 50, "latency": latency}
    path.write_text(json.dumps({"schema": 1, "functions": {"app.py:one": entry}}))
    with pytest.raises(BadInput, match="or another figure is none"):
        read_baseline(path, "app.py:one")


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "limit", "expected"),
    [
        ([10.0] * 200, 10, ("kept", "")),
        ([10.0] * 200, 9.9, ("broken", "")),
        ([10.0] * 199 + [500.0], 100, ("kept", "p99 near the limit")),  # one pause: with more it is over or not
        ([10.0] * 197 + [500.0] * 3, 100, ("unknown", "p99 near the limit")),
        ([10.0] * 180 + [500.0] * 20, 100, ("broken", "")),
        ([10.0] * 1999 + [500.0], 100, ("kept", "")),
        ([10.0] * 198 + [None] * 2, 100, ("kept", "")),
        ([10.0] * 197 + [None] * 3, 100, ("unknown", "")),
        ([None] * 200, 100, ("unknown", "")),
    ],
)
def test_p99_is_held_against_its_interval(values: list[float | None], limit: float, expected: tuple[str, str]) -> None:
    measurement, limits = timed(values), Limits(p99_ms=limit)
    check = find(measurement, limits)[-1]
    assert (check.name, check.outcome, check.why or "") == ("max-p99", *expected)
    assert undecided(measurement, limits) == expected[1]


@given(durations, st.floats(0, 1e6))
def test_p99_above_its_limit_is_never_kept(values: list[float], limit: float) -> None:
    check = check_p99(Latency.of(values), limit)
    assert (check.outcome == "kept") == (latency_of(values).p99.value <= limit)
    assert ("the highest of" in check.sentence) == (len(values) < 100)


@given(st.integers(0, 500), st.integers(1, 500), st.floats(0, 100))
def test_errors_are_a_share_of_this_run(failed: int, of: int, percent: float) -> None:
    failed = min(failed, of)
    check = check_errors(failed, of, percent, "")
    assert (check.outcome == "kept") == (100 * failed / of <= percent)
    assert check.measured.startswith(f"{failed} of {of}")


@pytest.mark.parametrize(
    ("failures", "percent", "errors", "code"),
    [
        (0, None, None, 0),
        (1, None, ("errors", "unknown"), 2),
        (0, 0, ("max-errors", "kept"), 0),
        (1, 0, ("max-errors", "broken"), 1),
        (10, 5, ("max-errors", "kept"), 0),
        (11, 5, ("max-errors", "broken"), 1),
        (200, 5, ("max-errors", "broken"), 1),
        (200, 100, None, 0),
    ],
)
def test_errors_have_one_limit(failures: int, percent: float | None, errors: tuple[str, str] | None, code: int) -> None:
    failed = [FailedInvocation(number, "KeyError: 'id'", ["the log"]) for number in range(1, failures + 1)]
    measurement = run_of(LEVEL, failures=failed, errors_percent=percent or 0.0)
    result = Result(measurement, find(measurement, Limits(errors_percent=percent)))
    found = [(each.name, each.outcome) for each in result.limits if "errors" in each.name]
    assert (found, result.exit_code) == ([errors] if errors else [], code)
    assert [each.name for each in result.figures if each.name == "errors"] == ([] if errors else ["errors"])
    assert bool(result.log()) == bool(code)
    assert result.document()["errors"] == {"count": failures, "share": failures / 200}


def test_what_outputs_say_of_latency() -> None:
    slow = timed([10.0] * 150 + [80.0] * 50)
    result = Result(slow, find(slow, Limits(p99_ms=50)))
    said = "p99 is 80.0 ms (80.0 to 80.0), of 200 invocations, and 50 ms are allowed."
    assert not result.grows  # a tracer of memory would not explain it
    assert result.document()["latencyMs"] == {"p50": 10.0, "p95": 80.0, "p99": 80.0, "invocations": 200, "leftOut": 0}
    assert said in result.sentences()
    (case,) = (each for each in junit_document(result).iter("testcase") if each.get("name") == "max-p99")
    assert [each.get("message") for each in case] == [said]
    assert [each.get("name") for each in junit_document(result).iter("testcase")] == ["growth", "max-p99"]
    summary = github_summary(result)
    assert "| max-p99 | 50 ms | 80.0 ms (80.0 to 80.0) | ❌ broken |" in summary
    assert "| p95 |  | 80.0 ms | note |" in summary
    assert "| p99 |" not in summary  # its limit has it
    assert [each.partition("::p99")[0] for each in github_annotations(result)] == ["::error title=truemem%3A max-p99"]
    lines = plain_text(result).splitlines()
    assert any(line.split() == ["p50", "10.0", "ms", "note"] for line in lines)
    assert any(line.startswith("duration    10.0 ▁") and line.endswith("█ 80.0 ms") for line in lines)


# --- the command ------------------------------------------------------------------------------------------------------

FEW = ["--warm-up", 0, "--invocations", 130, "--most", 130]


def test_durations_are_those_of_report() -> None:
    with Run(resolve(STEADY)) as run:
        made = [run.invoke({"ms": 2, "fail": number == 4}) for number in range(10)]
        reports = [run.report_of(each).duration_ms for each in made]
        assert run.measurement(0).durations == pytest.approx(reports, abs=0.01)


def test_one_that_gets_slower_breaks_p99(invoke_check: Check, tmp_path: Path) -> None:
    picture = tmp_path / "curve.png"
    done = invoke_check(SLOWER, *FEW, "--max-p99", 30, "--json", "--output", picture)
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    limits = {each["name"]: each for each in document["limits"]}
    assert limits["max-p99"]["outcome"] == "broken"
    latency = document["latencyMs"]
    assert latency["p99"] == limits["max-p99"]["value"] >= 35
    assert latency["p50"] >= 20
    assert latency["invocations"] == 130 - 2 * 8  # in each pass the process is settled twice
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_one_in_ten_that_fails(invoke_check: Check, tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    events.write_text(json.dumps([{"mib": 1}] * 9 + [{"fail": True}]))
    done = invoke_check(STEADY, "--events", events, *FEW[:4], "--max-errors", 5, "--json")
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    found = [(each["name"], each["outcome"]) for each in document["limits"] if "errors" in each["name"]]
    assert found == [("max-errors", "broken")]
    assert document["errors"] == {"count": document["invocations"] // 10, "share": pytest.approx(0.1, abs=0.008)}


def test_a_share_has_no_power_of_ten() -> None:
    assert failed_share(0, 240) == "0 of 240"
    assert failed_share(3, 240) == "3 of 240 (1.2 %)"
    assert failed_share(239, 240) == "239 of 240 (99.6 %)"
    assert failed_share(240, 240) == "240 of 240 (100 %)"
