"""Where something grows, it is asked which events it is kept of."""

import json
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.judge.settled import Reading, keepers, kinds_of
from truemem_workbench.runs.passes import IN_A_KIND, KINDS, kinds
from truemem_workbench.target.events import text_of

from tests.check.conftest import FUNCTIONS, Check

ORDERS = [{"kind": kind} for kind in ("order", "refund", "list", "bad")]


@pytest.fixture
def asked(invoke_check: Check, tmp_path: Path) -> Any:
    def ask(handler: str, events: list[Any], *options: str, exits: int = 1) -> dict[str, Any]:
        (tmp_path / "events.json").write_text(json.dumps(events))
        spec = f"{FUNCTIONS / 'by_kind.py'}:{handler}"
        done = invoke_check(spec, "--events", tmp_path / "events.json", "--no-explain", *options, "--json")
        assert done.exit_code == exits, done.output
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    return ask


def test_the_one_event_that_leaves_something_is_named(asked: Any) -> None:
    finding = asked("keeps_refunds", ORDERS)["finding"]
    (name,) = finding["byEvent"]
    assert name == "event 2"
    assert 19.5 < finding["byEvent"][name] < 21  # of four it is one: 5 KiB in each invocation
    assert 4.5 < finding["perInvocationKiB"] < 5.8
    assert f"Each invocation keeps {finding['byEvent'][name]:.1f} KiB with event 2" in finding["sentence"]


def test_a_number_that_grows_has_its_event_too(asked: Any) -> None:
    finding = asked("opens_for_refunds", ORDERS)["finding"]
    assert finding["cause"] == "descriptors"
    assert finding["byEvent"] == {"event 2": 1.0}


def test_what_every_event_leaves_is_nobodys(asked: Any) -> None:
    assert "byEvent" not in asked("keeps_all", ORDERS)["finding"]


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


NAMES = {10: "", 20: "small", 30: "large", 40: "large", 50: "small"}


def kept(*levels: float) -> tuple[dict[str, float], float]:
    return keepers(kinds_of(readings(*levels), NAMES), "in use", 10.0)


def test_the_rate_of_a_kind_is_that_of_its_own_passes() -> None:
    assert kept(100, 101, 301, 499, 500) == ({"large": 19.9}, 0.1)


@pytest.mark.parametrize(
    "levels",
    [(100, 101, 301, 302, 303), (100, 101, 1101, 1102, 102), (100, 101, 121, 141, 142)],
    ids=["a table has doubled once", "a large one was exchanged for a small one", "it does not explain the growth"],
)
def test_what_two_passes_do_not_say_alike_is_not_told(levels: tuple[float, ...]) -> None:
    assert kept(*levels) == ({}, 0.0)


def test_a_process_that_ended_between_passes_tells_nothing() -> None:
    assert kinds_of([*readings(100, 101), *readings(0, 0, 1, 2, 3, process=8)[2:]], NAMES) == []


def test_passes_that_name_failing_events_count_for_no_limit(asked: Any) -> None:
    events = [{"kind": "order", "id": number} for number in range(8)] + [{"kind": "bad"}]
    said = asked("keeps_what_fails", events, "--max-errors", "12", "--max-drift", "100", exits=0)
    assert [*said["finding"]["byEvent"]] == ["events that fail"]
    assert said["errors"]["share"] < 0.12
