"""Which size to take: by figures made by hand, and by those that AWS Lambda Power Tuning documents."""

from dataclasses import replace
from typing import Any

import pytest
from truemem_workbench.judge.finding import Finding
from truemem_workbench.size.choice import Choice, Strategy, Trial, Wanted, choose, reasons

from tests.size.conftest import HASHED, tried

WANTED = Wanted()

DOCUMENTED = {
    128: (37002.40, 7.7168e-5),
    256: (18647.77, 7.7792e-5),
    512: (8489.44, 7.0720e-5),
    1024: (3890.89, 6.4896e-5),
    1536: (2512.23, 6.4896e-5),
    3008: (2009.79, 1.0265e-4),
}
"""The example of Power Tuning's README (in its link to a picture): mean duration in ms and mean cost in USD, by memory
size. It is from when Lambda billed whole 100 ms."""


def chosen(trials: list[Trial], strategy: Strategy = "cost", **wanted: Any) -> Choice:
    return choose(trials, Wanted(strategy=strategy, **wanted))


def memory(trial: Trial | None) -> int | None:
    return None if trial is None else trial.memory


# --- cost -------------------------------------------------------------------------------------------------------------


def test_cost_is_what_lambda_bills() -> None:
    assert [each.cost("x86_64") for each in HASHED] == pytest.approx([7.38, 7.17, 7.67, 7.02, 10.37], abs=0.01)
    assert tried(1024, 0.2, 1.2).cost("arm64") == pytest.approx(1e6 * 1.5 / 1000 * 0.0000133334)  # 1 and 2 ms


def test_one_pause_of_the_machine_does_not_decide_the_cost() -> None:
    usual = [10.0] * 49
    assert tried(1024, *usual, 5000).cost("x86_64") == tried(1024, *usual, 10).cost("x86_64")
    assert tried(1024, *[10.0] * 9, 500).cost("x86_64") > 5 * tried(1024, 10).cost("x86_64")  # a tenth is no pause


def test_costs_are_those_of_power_tunings_example() -> None:
    for size, (ms, usd) in DOCUMENTED.items():
        assert tried(size, ms).cost("x86_64") / 1e6 == pytest.approx(usd, rel=100 / ms + 0.01)


# --- strategies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "weight", "expected"),
    [
        ("cost", 0.5, 1536),
        ("speed", 0.5, 3008),
        ("balanced", 0.5, 1536),
        ("balanced", 1, 1536),
        ("balanced", 0, 3008),
    ],
)
def test_strategies_choose_as_power_tuning_does(strategy: Strategy, weight: float, expected: int) -> None:
    """Its balance: the least of weight x cost / dearest + (1 - weight) x duration / slowest."""
    choice = chosen([tried(size, ms) for size, (ms, _) in DOCUMENTED.items()], strategy, weight=weight)
    assert memory(choice.suggested) == expected


def test_at_the_same_cost_the_faster_size_is_the_cheapest() -> None:
    """Power Tuning's README: 2.4 s with 128 MB, 300 ms with 1 GB, "for the very same average cost"."""
    assert memory(chosen([tried(128, 2400), tried(1024, 300)]).cheapest) == 1024


def test_at_nearly_the_same_cost_the_faster_size_is_suggested() -> None:
    choice = chosen([tried(448, 756), tried(1024, 340), tried(1769, 330)])
    assert (memory(choice.cheapest), memory(choice.fastest), memory(choice.suggested)) == (448, 1769, 1024)
    assert choice.sentence().startswith(
        "Suggested: 1,024 MB ($5.67 a million, p50 340 ms), within 5% of the cheapest, and faster;"
        " the cheapest is 448 MB ($5.51 a million, p50 756 ms); the fastest is 1,769 MB"
    )


def test_at_nearly_the_same_speed_the_cheaper_size_is_suggested() -> None:
    """One thread gains nothing from a second vCPU, but for noise."""
    choice = chosen([*HASHED, tried(3008, 355)], "speed")
    assert (memory(choice.fastest), memory(choice.suggested)) == (3008, 1769)
    assert "within 5% of the fastest, and cheaper; the cheapest is 1,024 MB" in choice.sentence()


def test_a_handler_that_waits_is_put_on_the_smallest_size() -> None:
    waits = [tried(size, 200.0) for size in (128, 256, 512)]
    choice = chosen(waits)
    assert (memory(choice.cheapest), memory(choice.fastest)) == (128, 128)
    assert memory(chosen(waits, "speed").suggested) == 128


def test_the_suggestion_is_a_sentence() -> None:
    assert chosen(HASHED).sentence() == (
        "Suggested: 1,024 MB ($7.02 a million, p50 421 ms), the cheapest;"
        " the fastest is 1,769 MB ($10.37 a million, p50 360 ms)."
    )
    waits = [tried(128, 200), tried(256, 200)]
    assert chosen(waits).sentence() == (
        "Suggested: 128 MB ($0.417 a million, p50 200 ms), the cheapest and the fastest."
    )
    between = chosen([tried(128, 1000), tried(512, 300), tried(2048, 150)], "balanced").sentence()
    assert between == (
        "Suggested: 512 MB ($2.50 a million, p50 300 ms), the best balance of cost and duration (weight 0.5);"
        " the cheapest is 128 MB ($2.08 a million, p50 1,000 ms);"
        " the fastest is 2,048 MB ($5.00 a million, p50 150 ms)."
    )


def test_growth_that_is_not_excluded_is_said() -> None:
    said = "; its memory rose in these few invocations, so growth is not excluded."
    assert chosen([tried(128, 10, is_rising=True)]).sentence().endswith(said)
    assert chosen([tried(128, 10, rise=7.0)]).sentence().endswith(said)
    assert not chosen([tried(128, 10, rise=5.0)]).sentence().endswith(said)
    judged = Finding(cause="none", title="No growth.")
    assert not chosen([tried(128, 10, is_rising=True, finding=judged)]).sentence().endswith(said)


def test_headroom_is_counted_from_what_the_timed_ones_needed() -> None:
    assert reasons(tried(128, 10, rise=60.0), WANTED) == {"headroom": "7% headroom over 120.0 MiB, 20% are wanted"}


# --- what speaks against a size ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trial", "reason", "said"),
    [
        (tried(128, failures=1, invocations=4, killed=1), "killed", "killed for memory in 1 of 4 invocations"),
        (
            tried(128, failures=1, invocations=1, killed=1, peak=None),
            "killed",
            "killed for memory in 1 of 1 invocations",
        ),
        (tried(128, failures=1, invocations=4, timeouts=1), "timeout", "timed out in 1 of 4 invocations"),
        (tried(128, failures=5, invocations=5, error="E: no"), "failed", "all invocations failed, the last with E: no"),
        (tried(128, invocations=2), "untried", "no invocation after the warm-up"),
        (tried(128, 900), "slow", "p95 of 900 ms, 800 are allowed"),
        (tried(128, 10, peak=100.0), "headroom", "16% headroom over 110.0 MiB, 20% are wanted"),
        (tried(128, 10, peak=200.0), "headroom", "0% headroom over 210.0 MiB, 20% are wanted"),
        (tried(128, 10, peak=None), "unmeasured", "its peak is not known"),
    ],
)
def test_a_reason_against_a_size(trial: Trial, reason: str, said: str) -> None:
    assert reasons(trial, Wanted(max_duration=800)) == {reason: said}


def test_a_size_where_some_fail_is_out_if_another_is_better() -> None:
    fails = {"failures": 3, "invocations": 60, "error": "E: no"}
    choice = chosen([tried(128, 10, **fails), tried(256, 10, failures=2, invocations=60)])
    assert choice.against[128] == {"failed": "3 of 60 invocations failed, the last with E: no"}
    assert choice.sentence().endswith("the cheapest and the fastest; 2 of 60 invocations failed there.")


def test_if_all_sizes_fail_as_often_none_is_out_for_it() -> None:
    often = {"failures": 15, "invocations": 60, "error": "E: no"}
    worse = often | {"failures": 30}
    killed = tried(128, failures=1, invocations=1, killed=1)
    choice = chosen([killed, tried(256, 10, **often), tried(512, 10, **often), tried(1024, 10, **worse)])
    assert [memory for memory, why in choice.against.items() if why] == [128, 1024]
    assert choice.sentence().endswith("; 15 of 60 invocations failed there; it fails at every size.")


def test_enough_headroom_is_that_of_the_report() -> None:
    assert not reasons(tried(128, 10, peak=96.0), WANTED)  # 96 and 10 of others, with a fifth: 127.2


def test_max_duration_is_kept_by_19_of_20() -> None:
    usual = [700.0] * 19
    assert not reasons(tried(128, *usual, 5000), Wanted(max_duration=800))
    assert "slow" in reasons(tried(128, *usual[1:], 900, 5000), Wanted(max_duration=800))


def test_a_size_that_is_out_is_neither_cheapest_nor_fastest() -> None:
    trials = [replace(HASHED[3], killed=1, failures=1), *HASHED[:3]]
    choice = chosen(trials)
    assert (memory(choice.cheapest), memory(choice.fastest)) == (256, 512)
    assert memory(chosen(trials, max_duration=1000).cheapest) == 512


def test_if_all_are_out_no_size_is_suggested() -> None:
    choice = chosen(HASHED, max_duration=100)
    assert (choice.cheapest, choice.fastest, choice.suggested) == (None, None, None)
    assert choice.sentence() == "No size can be suggested: each of them is out."
    assert chosen([]).sentence() == "No size was tried."
