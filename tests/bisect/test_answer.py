"""What is said of a search that has ended, and what to type next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from truemem_workbench.bisect.answer import Answer, not_as_given
from truemem_workbench.bisect.gate import Trial
from truemem_workbench.bisect.search import Found, Outcome, Version
from truemem_workbench.support.typed_command import Command

ORDER = [Version(f"sha{each}", f"s{each}", "2026-01-02", f"change {each}") for each in range(6)]
TYPED = Command("bisect", ("app.py:handler",), (("--good", "v1"), ("--bad", "v2"), ("--memory", "512")))
LEAK = {"cause": "leak", "low_kib": 8.0, "per_invocation_kib": 8.2, "high_kib": 8.4}


def trial(number: int, outcome: Outcome, **more: Any) -> Trial:
    said = {"good": "none", "bad": "leak, 8.2 KiB", "skipped": "failing"}[outcome]
    own: dict[str, Any] = LEAK if outcome == "bad" else {}
    return Trial(version=ORDER[number], outcome=outcome, said=said, seconds=2.0, **{**own, **more})


def answer(*trials: Trial, **more: Any) -> Answer:
    made = Answer(
        spec="app.py:handler",
        command=TYPED,
        package=None,
        is_node=False,
        order=ORDER,
        is_repair=False,
        tried={each.version.name: each for each in trials},
    )
    return replace(made, **more)


TRIALS = (trial(0, "good"), trial(2, "good"), trial(3, "bad"), trial(5, "bad"))
NAMED = Found("sha3", ["sha0", "sha2"], ["sha3"])


def test_a_commit_is_told_with_cause_rate_line_and_command() -> None:
    line = {"file": "src/app.py", "line": 3, "source": "    kept.append(event)", "perInvocationKiB": 8.1}
    told = answer(*TRIALS, found=NAMED, line=line)
    assert told.sentence() == (
        "Commit s3 of 2026-01-02 (change 3) brought it: leak, 8.2 KiB; before, in s2: none. Most is held by"
        " src/app.py:3 `kept.append(event)`: 8.1 KiB of each invocation."
    )
    assert (told.next(), told.exit_code) == ("git show s3", 0)
    assert told.headline == "app.py:handler: 4 of 6 commits measured, 0 skipped, 8 s"


def test_a_version_is_told_with_what_came_with_it() -> None:
    told = answer(*TRIALS, found=NAMED, package="boto3", others=["botocore 1.27.96 to 1.28.0"])
    assert told.sentence().startswith("boto3 s3 brought it: ")
    assert told.sentence().endswith(" With it changed botocore 1.27.96 to 1.28.0.")
    assert told.next() == "pip install boto3==sha2"
    assert replace(told, is_node=True).next() == "npm install boto3@sha2"


def test_a_repair_is_told_and_the_command_installs_it() -> None:
    trials = (trial(0, "bad"), trial(2, "bad"), trial(3, "good"), trial(5, "good"))
    told = answer(*trials, found=NAMED, package="boto3", is_repair=True)
    assert told.sentence() == "boto3 s3 ended it: none; before, in s2: leak, 8.2 KiB."
    assert told.next() == "pip install boto3==sha3"
    assert told.document()["asked"] == "first good"


def test_what_could_not_be_judged_makes_a_range() -> None:
    skipped = trial(2, "skipped")
    found = Found("sha3", ["sha0", "sha1"], ["sha2", "sha3"])
    told = answer(trial(0, "good"), trial(1, "good"), skipped, trial(3, "bad"), trial(5, "bad"), found=found)
    assert told.sentence() == (
        "One of 2 commits brought it: s2, s3. Only s3 could be judged: leak, 8.2 KiB; before, in s1: none."
    )
    assert told.exit_code == 2
    assert told.document()["candidates"] == ["sha2", "sha3"]
    assert "first" not in told.document()
    assert told.next() == "git log --stat s1..s3"
    undecided = replace(told, tried={**told.tried, "sha2": replace(skipped, cause="undecided")})
    assert undecided.next() == (
        "truemem bisect app.py:handler --memory 512 --good s1 --bad s3 --invocations 2000"
    )  # fmt: skip


def test_two_ends_that_both_grow_get_a_limit_between_them() -> None:
    slow = trial(0, "bad", low_kib=0.9, per_invocation_kib=1.0, high_kib=1.2)
    told = answer(slow, trial(5, "bad"), problem="Both fail.")
    assert told.sentence() == "Both fail."
    assert told.next() == f"{TYPED} --max-drift 4.6"
    assert answer(trial(0, "bad"), trial(5, "bad"), problem="Both fail.").next() == ""


def test_what_was_ended_early_goes_on_from_what_is_known() -> None:
    told = answer(*TRIALS, problem="It was ended.")
    assert told.next() == "truemem bisect app.py:handler --memory 512 --good s2 --bad s3"
    assert told.exit_code == 2


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("skipped", None, "--good s0 could not be judged: failing. Try another one, or --build COMMAND"),
        ("good", "skipped", "--bad s5 could not be judged: failing. Try another one"),
        ("bad", "good", "It is the other way round: s0 fails, s5 passes. Try --good s5 --bad s0."),
        ("bad", "bad", "--good s0 fails as well: leak, 8.2 KiB; --bad s5: leak, 8.2 KiB. Try an older --good"),
        ("good", "good", "--bad s5 passes: none. Try events that make it grow"),
    ],
)
def test_ends_that_are_not_as_given_say_what_to_try(good: Outcome, bad: Outcome | None, said: str) -> None:
    assert not_as_given(trial(0, good), trial(5, bad) if bad else None, False).startswith(said)


def test_ends_that_are_as_given_say_nothing() -> None:
    assert not_as_given(trial(0, "good"), trial(5, "bad"), True) == ""
