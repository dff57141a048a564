"""Where something grows, it is asked which events it is kept of."""

import json
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.analysis.settled import Reading, keepers, kinds_of
from truemem_workbench.check.events import IN_A_KIND, KINDS, kinds, text_of

from tests.check.conftest import FUNCTIONS, Check

ORDERS = [{"kind": kind} for kind in ("order", "refund", "list", "bad")]


@pytest.fixture
def asked(invoke_check: Check, tmp_path: Path) -> Any:
    def ask(handler: str, events: list[Any], *options: str) -> dict[str, Any]:
        (tmp_path / "events.json").write_text(json.dumps(events))
        spec = f"{FUNCTIONS / 'by_kind.py'}:{handler}"
        done = invoke_check(spec, "--events", tmp_path / "events.json", "--no-explain", *options, "--json")
        assert done.exit_code == 1, done.output
        finding: dict[str, Any] = json.loads(done.stdout)["finding"]
        return finding

    return ask


def test_the_one_event_that_leaves_something_is_named(asked: Any) -> None:
    finding = asked("keeps_refunds", ORDERS)
    (name,) = finding["byEvent"]
    assert name == 'event 2 ({"kind": "refund"})'
    assert 19.5 < finding["byEvent"][name] < 21  # of four it is one: 5 KiB in each invocation
    assert 4.5 < finding["perInvocationKiB"] < 5.8
    assert "Of event 2 (" in finding["sentence"]
    assert "is kept each time, of the others 0" in finding["sentence"]


def test_events_that_fail_and_leave_something_are_named(asked: Any) -> None:
    many = [{"kind": "order", "id": number} for number in range(8)] + [{"kind": "bad", "id": 9}]
    finding = asked("keeps_what_fails", many, "--allow-errors")
    assert [*finding["byEvent"]] == ["events that fail"]


def test_a_number_that_grows_has_its_event_too(asked: Any) -> None:
    finding = asked("opens_for_refunds", ORDERS)
    assert finding["cause"] == "descriptors"
    assert finding["byEvent"] == {'event 2 ({"kind": "refund"})': 1.0}


def test_what_every_event_leaves_is_nobodys(asked: Any) -> None:
    assert "byEvent" not in asked("keeps_all", ORDERS)


def test_many_events_are_told_apart_by_errors_and_size() -> None:
    events: list[object] = [{"text": "x" * (10 if number % 2 else 400), "n": number} for number in range(20)]
    by_name = kinds([*events, *events], failed={text_of(events[3])})
    assert [*by_name] == [
        "events that fail",
        "events that succeed",
        "events of up to 31 characters",
        "larger events",
    ]
    assert [len(each) for each in by_name.values()] == [1, 19, 10, 10]
    assert kinds(events[1::2], failed=()) == {}


@pytest.mark.parametrize(("count", "asked"), [(1, 0), (2, 2), (KINDS, KINDS), (KINDS + 1, 0)])
def test_few_events_are_asked_about_one_by_one(count: int, asked: int) -> None:
    assert len(kinds([{"n": number} for number in range(count)], failed=())) == asked


def readings(*levels: float, process: int = 7) -> list[Reading]:
    return [Reading(number * IN_A_KIND, {"in use": level}, process=process) for number, level in enumerate(levels, 1)]


NAMES = {10: "", 20: "small", 30: "large"}


def test_the_rate_of_a_kind_is_that_of_its_own_pass() -> None:
    assert keepers(kinds_of(readings(100, 101, 301), NAMES), "in use", 10.0) == ({"large": 20.0}, 0.1)


def test_kinds_that_do_not_explain_the_growth_are_not_told() -> None:
    assert keepers(kinds_of(readings(100, 101, 131), NAMES), "in use", 10.0) == ({}, 0.0)


def test_a_process_that_ended_between_passes_tells_nothing() -> None:
    assert kinds_of([*readings(100, 101), *readings(0, 0, 1, process=8)[2:]], NAMES) == []
