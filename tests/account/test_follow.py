"""`truemem doctor --follow`: does the function that was just attached measure?"""

import json
import shlex
import time
from typing import Any

import pytest
from moto.awslambda.models import LambdaFunction
from truemem_workbench.commands import doctor

from tests.account.conftest import Account
from tests.report.conftest import Command, put_events
from tests.report.written import line, line_now

NAME = "orders"


@pytest.fixture
def invoked(account: Account, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The events that a function was invoked with. It prints a line about each one when the next one begins."""
    monkeypatch.setattr(doctor, "POLL_S", 0.1)
    events: list[Any] = []

    def invoke(self: Any, body: str, *_: Any) -> str:
        events.append(json.loads(body))
        if len(events) == 2:
            written(account, line_now("a", 1, mode="exact", PeakRSS=84.25, MaxMemoryUsed=96.0))
        return "{}"

    monkeypatch.setattr(LambdaFunction, "invoke", invoke)
    account.function(NAME)
    return events


def written(account: Account, *messages: str, ago_s: float = 0) -> None:
    """Log events of the function."""
    at = int((time.time() - ago_s) * 1000)
    put_events(account.client("logs"), f"/aws/lambda/{NAME}", f"stream {at}", [(at, each) for each in messages])


def test_it_invokes_twice_and_shows_peak_beside_mark(truemem: Command, invoked: list[Any]) -> None:
    ran = truemem("doctor", NAME, "--follow", "--invoke", "--event", '{"a": 1}')
    assert (ran.code, invoked) == (0, [{"a": 1}, {"a": 1}])
    said = [each for each in ran.out.splitlines() if each[0] in "✓!✗"]
    assert len(said) == 5
    for text, told in zip(
        (
            "measures this function",
            "Method: vmhwm",
            "Exact mode",
            "First peak: 84.2 MiB",
            "Memory Used beside it: 96 MB",
        ),
        said,
        strict=True,
    ):
        assert text in told


def test_it_waits_for_others_to_invoke_it(truemem: Command, account: Account, invoked: list[Any]) -> None:
    written(account, line_now("a", 1))
    ran = truemem("doctor", "--function", NAME, "--follow", "--json")
    assert (ran.code, invoked) == (0, [])
    assert [json.loads(each)["grade"] for each in ran.out.splitlines()].count("problem") == 0


@pytest.mark.parametrize(("record", "ago_s"), [(line("a", 1), 3600), (line_now("a", 1, ago_s=60), 0)])
def test_record_of_before_the_change_does_not_count(
    truemem: Command, account: Account, invoked: list[Any], record: str, ago_s: float
) -> None:
    """An environment of before prints its last record when it ends."""
    written(account, record, ago_s=ago_s)
    ran = truemem("doctor", NAME, "--follow", "--wait", "0")
    assert (ran.code, "No record came within 0 s" in ran.out) == (1, True)


@pytest.mark.parametrize(("before", "ago_s"), [([], -60), (["ffmpeg: exec format error"], 0)])
def test_record_is_found_by_a_late_clock(
    truemem: Command, account: Account, invoked: list[Any], before: list[str], ago_s: float
) -> None:
    written(account, *before, line_now("a", 1, ago_s=ago_s), ago_s=ago_s)
    assert truemem("doctor", NAME, "--follow", "--wait", "0").code == 0


def test_a_layer_for_another_architecture_is_told_at_once(
    truemem: Command, account: Account, invoked: list[Any]
) -> None:
    written(account, "fork/exec /opt/extensions/truemem: exec format error")
    assert "another architecture" in truemem("doctor", NAME, "--follow").err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--follow"],
        [NAME, "other", "--follow"],
        [NAME, "--invoke"],
        [NAME, "--follow", "--event", "{}"],
        [NAME, "--follow", "--since", "3h"],
        [NAME, "--follow", "--invoke", "--event", "{"],
        ["missing", "--follow"],
    ],
)
def test_options_that_do_not_fit_are_one_line(truemem: Command, invoked: list[Any], arguments: list[str]) -> None:
    assert "truemem doctor: " in truemem("doctor", *arguments).refusal
    assert invoked == []


def test_the_commands_of_doctor_repair_what_it_found(truemem: Command, account: Account) -> None:
    own = {"TABLE": "a 'quoted' \"name\" $HOME"}
    account.function(NAME, variables={**own, "TRUEMEM_ENABLED": "false"})
    ran = truemem("doctor", "--function", NAME, "--json")
    found = [json.loads(each) for each in ran.out.splitlines()]
    fixes = [shlex.split(each["fix"]) for each in found if each["fix"].startswith("truemem attach")]
    assert len(fixes) == 2
    for _, *arguments in fixes:
        assert truemem(*arguments, "--yes").code == 0
    held = account.held(NAME)
    assert held.variables == {**own, "TRUEMEM_ENABLED": "true"}
    assert "truemem-x86_64" in held.layers[0]
    assert "truemem attach" not in truemem("doctor", "--function", NAME).out
