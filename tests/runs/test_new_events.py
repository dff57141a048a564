"""Events that the function has not seen are a question of their own."""

import json
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.runs.passes import held_back

from tests.check.conftest import FUNCTIONS, Check


def customers(count: int) -> list[object]:
    return [{"customer": f"{number:03}"} for number in range(count)]


@pytest.fixture
def asked(invoke_check: Check, tmp_path: Path) -> Any:
    def ask(handler: str, exits: int) -> dict[str, Any]:
        (tmp_path / "events.json").write_text(json.dumps(customers(60)))
        done = invoke_check(f"{FUNCTIONS / 'by_customer.py'}:{handler}", "--events", tmp_path / "events.json", "--json")
        assert done.exit_code == exits, done.output
        finding: dict[str, Any] = json.loads(done.stdout)["finding"]
        return finding

    return ask


def test_what_is_kept_of_each_new_event_is_a_leak_of_its_own(asked: Any) -> None:
    finding = asked("without_bound", 1)
    assert finding["cause"] == "leak"
    assert 2.05 < finding["perInvocationKiB"] < 3  # with its key, and what AWS's client and a reading keep in four
    assert finding["sentence"].startswith("Leak if new keys never end: ")
    assert "the same events again keep nothing" in finding["evidence"]


def test_a_cache_with_a_bound_that_new_events_fill_passes(asked: Any) -> None:
    finding = asked("with_bound", 0)
    assert finding["cause"] == "cache"
    assert "lru_cache of made has 60 of 100" in finding["sentence"]


def test_new_events_of_known_kinds_keep_nothing(asked: Any) -> None:
    assert asked("of_few_kinds", 0)["cause"] == "none"


@pytest.mark.parametrize(("count", "new"), [(1, 0), (35, 0), (36, 10), (99, 30), (900, 50)])
def test_a_third_of_many_events_is_kept_back(count: int, new: int) -> None:
    events = customers(count)
    rest, held = held_back([*events, *events])
    assert len(held) == new
    assert len(rest) == 2 * (count - new)
    assert not any(each in rest for each in held)


def test_an_undecided_run_sends_every_event(invoke_check: Check, tmp_path: Path) -> None:
    source = tmp_path / "app.py"
    source.write_text(
        "import pathlib\n"
        f"SEEN = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        "def handler(event, context):\n"
        "    with SEEN.open('a') as file: print(event['customer'], file=file)\n"
    )
    (tmp_path / "events.json").write_text(json.dumps(customers(36)))
    few = ("--warm-up", "0", "--invocations", "26", "--most", "26")
    done = invoke_check(f"{source}:handler", "--events", tmp_path / "events.json", *few, "--json")
    assert json.loads(done.stdout)["finding"]["cause"] == "undecided", done.output
    assert {*(tmp_path / "seen").read_text().split()} == {f"{number:03}" for number in range(36)}
