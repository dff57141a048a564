"""Would the experiments notice? What is not as promised is found."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults import stalls
from faults.calls import under
from faults.deaths import DEATHS, EXTENSION_DIED, NOT_KILLED, Death, Died, judge
from faults.environment import FaultEnvironment, tally
from faults.exact_mode import held, same
from faults.kills import UNNOTED, UNREAD, Count, kills
from faults.lifecycle import row
from faults.oom import incomplete
from faults.subject import FAULTY, chosen, faulty, source
from testing.environment import EXTENSION
from testing.proxy import Received
from testing.workload import Judgement

COMPLETE = {
    "OutOfMemory": 1,
    "outOfMemory": {"signals": ["kernel"]},
    "lastSamples": [[1.0, 100.0]],
    "ending": {"level": 127.0, "growthPerSecond": 800.0, "holder": {"process": "python", "pid": 7, "rss": 90.0}},
}


@pytest.mark.parametrize(
    ("lines", "left", "counted"),
    [
        ([{}], "", "once"),
        ([{}], UNREAD, "once"),
        ([{"recovered": True}], "", "recovered"),
        ([{}, {"recovered": True, "mayRepeat": True}], "", "repeated"),
        ([{"recovered": True, "mayRepeat": True}], "", "repeated"),
        ([], UNREAD, "unknown"),
        ([], UNNOTED, "unnoted"),
        ([], "", "wrong"),
        ([{}, {}], "", "wrong"),
        ([{}, {"recovered": True}], "", "wrong"),
    ],
)
def test_an_invocation_is_judged_by_its_lines(lines: list[dict[str, Any]], left: str, counted: str) -> None:
    totals = Count()
    totals.judge("a", lines, left)
    found = {name: getattr(totals, name) for name in ("once", "recovered", "repeated", "unknown", "unnoted")}
    assert {name for name, number in {**found, "wrong": len(totals.wrong)}.items() if number} == {counted}


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({}, ""),
        ({"OutOfMemory": None}, "no OutOfMemory"),
        ({"lastSamples": None}, "no lastSamples"),
        ({"outOfMemory": {"signals": []}}, "no signal"),
        ({"ending": {"level": 127.0, "holder": {}}}, "no growthPerSecond in `ending`"),
        ({"lastSamples": [[1.0, 100.0]] * 200}, "a flight recorder of"),
        ({"mayRepeat": True}, "0 lines"),
    ],
)
def test_a_record_is_complete_or_it_is_said_what_is_missing(change: dict[str, Any], missing: str) -> None:
    record = {name: value for name, value in {**COMPLETE, **change}.items() if value is not None}
    said = incomplete([record], died=True)
    assert said.startswith(missing)
    assert bool(said) is bool(missing)


def test_a_missing_line_is_found() -> None:
    served = ["a", "b"]
    assert row("a fault", served, [{"requestId": "a"}], 0, 0, 0).broken == ["a fault: 1 line missing"]
    assert row("a fault", served, [{"requestId": name} for name in "abb"], 0, 0, 0).broken == [
        "a fault: a line printed twice"
    ]


BY_TITLE = {death.title: death for death in DEATHS}
SAYS_SO: dict[str, Any] = {"OutOfMemory": 1, "outOfMemory": {"signals": ["kernel"]}}
AT_LIMIT: dict[str, Any] = {"OutOfMemory": 1, "outOfMemory": {"signals": ["exit-at-limit"]}}


@pytest.mark.parametrize(
    ("title", "record", "others", "kills", "wrong"),
    [
        ("in a child", {"PeakRSS": 9, **SAYS_SO}, [{}], 1, 0),
        ("in a child", {"PeakRSS": 9, **SAYS_SO}, [{}], 2, 0),
        ("in a child", {"PeakRSS": 9}, [{}], 1, 2),
        ("in a child", {}, [{}], 1, 1),
        ("in a child", {"PeakRSS": 9, **SAYS_SO}, [{}], 0, 2),
        ("in a child", {"PeakRSS": 9, **AT_LIMIT}, [{}], 1, 1),
        ("in a child", {"PeakRSS": 9, **SAYS_SO}, [{}, {"OutOfMemory": 1}], 1, 1),
        ("in a child", {"PeakRSS": 9, **SAYS_SO}, [{"environmentKills": 1}], 1, 1),
        ("in a child", {"PeakRSS": 9, **SAYS_SO, "environmentKills": 1}, [{}], 1, 1),
        ("in a child", {"PeakRSS": 9, "outOfMemory": SAYS_SO["outOfMemory"]}, [{}], 1, 1),
        ("page cache, then timeout", {"status": "timeout"}, [{}], 0, 0),
        ("page cache, then timeout", {**AT_LIMIT}, [{}], 0, 1),
        ("page cache, then timeout", {"status": "timeout"}, [{}], 1, 2),
        ("timeout at the limit", {**AT_LIMIT}, [{}], 0, 0),
        ("timeout at the limit", {**SAYS_SO}, [{}], 1, 0),
        ("timeout at the limit", {"status": "timeout"}, [{}], 0, 1),
        ("an extension takes all memory", {"environmentKills": 1}, [{}], 1, 0),
        ("an extension takes all memory", {"status": "failure"}, [{}], 1, 1),
        ("an extension takes all memory", {**SAYS_SO}, [{}], 1, 3),
        ("exit with 1", {"PeakRSS": 9, "highWaterMark": 8}, [{}], 0, 1),
        ("exit with 1", {"PeakRSS": 9, "highWaterMark": 9}, [{}], 0, 0),
    ],
)
def test_a_record_of_a_death_that_is_wrong_is_found(
    title: str, record: dict[str, Any], others: list[dict[str, Any]], kills: int, wrong: int
) -> None:
    if "PeakRSS" in record:
        record = {"highWaterMark": 9, **record}
    assert len(judge(BY_TITLE[title], Died(record, others, kills, ""))) == wrong


@given(st.sampled_from(DEATHS), st.integers(0, 2))
def test_the_right_record_is_right_and_its_contrary_is_not(death: Death, more: int) -> None:
    kills = 0 if death.killed == NOT_KILLED else 1 + more
    right: dict[str, Any] = {"requestId": "a"}
    if death.killed == EXTENSION_DIED:
        right["environmentKills"] = kills
    elif death.out_of_memory:
        right |= SAYS_SO if kills else AT_LIMIT
    assert judge(death, Died(right, [{}], kills, "")) == []
    wrong = {"requestId": "a"} if death.out_of_memory else {**right, **AT_LIMIT}
    assert judge(death, Died(wrong, [{}], kills, "")) != []


def test_without_its_journal_kills_are_not_survived() -> None:
    forgetful = replace(chosen(), variables={"TRUEMEM_JOURNAL": "false"})
    assert any("no line" in broken for broken in kills(forgetful, 8, lambda: None).broken)


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
def test_a_fault_that_does_not_come_is_none(exact: bool) -> None:
    with FaultEnvironment(source(), exact=exact) as environment:
        environment.begin()
        for _ in range(3):
            environment.invoke()
        assert environment.shut_down() == 0
        records = environment.records()
        assert set(tally(environment.served, records).values()) == {1}
        assert [record.get("mode") for record in records] == ["exact" if exact else None] * 3
        assert (environment.wrong, environment.broken) == (0, 0)


def test_a_connection_of_the_runtime_that_breaks_is_found(tmp_path: Path) -> None:
    fault = "upstream-recv:EIO:2"
    assert under(faulty(tmp_path, fault), fault, exact=True).broken == "1 connections of the runtime have broken"
    asked_again = under(faulty(tmp_path, fault), fault, exact=True, may_break=True)
    assert (asked_again.cut_off, asked_again.broken) == (1, "")


@pytest.mark.parametrize(
    ("direct", "through", "alike"),
    [
        ((b"abc", "EOF"), (b"abc", "EOF"), True),
        ((b"abc", "EOF"), (b"ab", "EOF"), False),
        ((b"abc", "EOF"), (b"abd", "EOF"), False),
        ((b"abc", "EOF"), (b"abc", "reset"), False),
        ((b"abc", "reset"), (b"ab", "reset"), True),
        ((b"abc", "reset"), (b"b", "reset"), False),
    ],
)
def test_what_was_seen_differently_is_found(direct: tuple[bytes, str], through: tuple[bytes, str], alike: bool) -> None:
    first, second = (Received(bytearray(data), ending) for data, ending in (direct, through))
    assert same(first, second) is alike


def test_a_sidecar_that_changes_a_byte_is_found(tmp_path: Path) -> None:
    changing = tmp_path / "truemem"
    text = FAULTY.read_text().replace("super().send(*arguments)", "super().send(bytes(len(arguments[0])))")
    changing.write_text(text)
    changing.chmod(0o755)
    subject = replace(source(), path=changing, variables={"FAULTS": "none:EIO:1", "PYTHONPATH": str(EXTENSION)})
    row = held(subject, "a client that pipelines", 1, lambda: None)
    assert any("the function saw" in broken for broken in row.broken)


@pytest.mark.parametrize(
    ("change", "exact", "found"),
    [
        ({}, False, False),
        ({"PeakRSS": 31.0, "peakLower": 31.0, "peakUpper": 31.0}, False, True),
        ({"PeakRSS": 29.0, "raced": True, "peakUpper": 31.0, "peakLower": 29.0}, False, False),
        ({"PeakRSS": 29.0, "raced": True, "peakUpper": 29.4, "peakLower": 29.0}, False, True),
        ({"mode": "exact"}, True, False),
        ({"mode": "exact", "raced": True}, True, True),
        ({"mode": None}, True, True),
    ],
)
def test_what_is_claimed_and_not_so_is_found(change: dict[str, Any], exact: bool, found: bool) -> None:
    known = {"PeakRSS": 30.0, "peakLower": 30.0, "peakUpper": 30.0, "method": "vmhwm", "raced": None}
    record: Any = SimpleNamespace(baselineRSS=None, **{**known, **change})
    judged = Judgement(record, {"truth": 30 * 1024}, 128)
    assert bool(stalls.row("stalls", exact, 7, True, [judged], 0).broken) is found


@pytest.mark.parametrize(("stopped", "complete", "failed"), [(0, True, 0), (7, False, 0), (7, True, 1)])
def test_stalls_that_were_none_or_took_something_away_are_found(stopped: int, complete: bool, failed: int) -> None:
    assert stalls.row("stalls", False, stopped, complete, [], failed).broken != []
