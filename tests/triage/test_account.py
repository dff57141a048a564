"""`truemem triage`: which functions of an account to attach first, without touching one."""

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from truemem_workbench.printed.platform_lines import Ended
from truemem_workbench.triage.account import lives_of

from tests.attach.insights import LogEvent, run
from tests.report.conftest import Command, put_events, put_function
from tests.report.service import Reply, Request, serving
from tests.triage.logged import Logged, flat, life, noisy, platform, report, stream_of

NOW_MS = int(time.time() * 1000)
BEGIN_MS = NOW_MS - 3_600_000

FLEET: dict[str, list[Logged]] = {
    "leaks": [e for n in range(6) for e in life(noisy(1500, n, grows=0.3), f"l{n}", begin_ms=BEGIN_MS + n)],
    "steady": [e for n in range(6) for e in life(flat(800), f"s{n}", begin_ms=BEGIN_MS + n)],
    "small": [e for n in range(6) for e in life([600.0], f"k{n}", begin_ms=BEGIN_MS + n)],
    "rare": [Logged(BEGIN_MS, stream_of("r"), json.dumps(platform(Logged(BEGIN_MS, "", report(80, init=True)))))],
}
STATES = {"leaks": "out of memory", "small": "out of memory", "steady": "no sign of growth", "rare": "undecided"}


def states(document: Any) -> dict[str, str]:
    return {each["function"]: each["state"] for each in document["functions"]}


def insights_service(fleet: dict[str, list[Logged]], asked: list[str]) -> Callable[[Request], Reply]:
    """Lambda's list of functions, and Logs Insights that runs the queries over their logs."""
    answers: dict[str, list[list[dict[str, str]]]] = {}

    def answer(operation: str, body: dict[str, Any]) -> dict[str, Any]:
        if operation == "DescribeLogGroups":
            return {"logGroups": [{"logGroupName": f"/aws/lambda/{name}", "storedBytes": 10**7} for name in fleet]}
        if operation == "GetQueryResults":
            return {"status": "Complete", "results": answers[body["queryId"]]}
        assert operation == "StartQuery", operation
        asked.append(body["queryString"])
        events = [
            LogEvent(each.time_ms, each.stream, each.text, group)
            for group in body["logGroupNames"]
            for each in fleet[group.rpartition("/")[2]]
            if body["startTime"] <= each.time_ms // 1000 <= body["endTime"]
        ]
        rows = run(body["queryString"], events)
        cells = [[{"field": n, "value": _said(v)} for n, v in row.items() if v is not None] for row in rows]
        answers[str(len(asked))] = cells
        return {"queryId": str(len(asked))}

    def reply(request: Request) -> Reply:
        if "X-Amz-Target" in request.headers:
            made = answer(request.headers["X-Amz-Target"].rpartition(".")[2], json.loads(request.body))
        else:
            made = {"Functions": [{"FunctionName": name} for name in fleet]}
        return Reply(200, json.dumps(made).encode())

    return reply


def _said(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@pytest.fixture
def insights(aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Iterable[list[str]]:
    """An account with FLEET; the queries that it was asked."""
    asked: list[str] = []
    with serving(insights_service(FLEET, asked)) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield asked


def test_counts_alone_say_what_lines_say(truemem: Command, insights: list[str]) -> None:
    made = truemem("triage", "--json")
    assert states(made.document) == STATES
    found = {each["function"]: each for each in made.document["functions"]}
    assert found["steady"]["growth"]["likelyKiB"] == pytest.approx(1024 / 380, rel=0.01)
    assert found["leaks"]["agesAtKills"]["lowest"] > 1000
    assert "within 1 minute" not in found["small"]["sentence"]
    assert "costs $0.0004 at most" in made.err  # said before it is read
    assert len(insights) == 3  # counts of all, and the streams of two functions with kills


def test_one_function_without_the_sidecar_is_reported(truemem: Command, insights: list[str]) -> None:
    (made,) = truemem("report", "--log-group", "/aws/lambda/steady", "--json").document["without_sidecar"]
    assert (made["function"], made["state"]) == ("steady", "no sign of growth")


def counted(**cells: float) -> dict[str, str]:
    """A row of the counts."""
    return {"@log": "1:/aws/lambda/a", "@logStream": stream_of("a"), **{k: str(v) for k, v in cells.items()}}


def seen(mark: int, first: int, last: int, kills: int = 0) -> dict[str, str]:
    return counted(mark=mark, size=512, n=50, first=first, last=last, initMs=9, allMs=500, kills=kills)


@pytest.mark.parametrize(
    ("mark", "kills", "told"), [(512, 1, (1, 0)), (512, 0, (1, 0)), (400, 1, (1, 0)), (400, 0, (0, 1))]
)
def test_a_kill_that_is_told_twice_counts_once(mark: int, kills: int, told: tuple[int, int]) -> None:
    """REPORT may say Runtime.OutOfMemory, and a line without a mark `signal: killed`."""
    (one,) = lives_of([seen(mark, 0, 9, kills), counted(n=1, first=9, last=9, signals=1)]).values()
    assert (one.out_of_memory, one.ended[Ended.KILLED]) == told
    assert one.lives == []


def test_counts_of_a_mark_that_fell_have_no_life() -> None:
    (risen,) = lives_of([seen(100, 0, 9), seen(101, 10, 19)]).values()
    (fell,) = lives_of([seen(100, 0, 29), seen(101, 10, 19)]).values()
    assert (len(risen.lives), len(fell.lives)) == (1, 0)


def test_nothing_is_read_that_costs_too_much(truemem: Command, insights: list[str]) -> None:
    assert "Nothing was read" in truemem("triage", "--most-usd", "0.0001").refusal
    assert insights == []


def test_an_answer_that_is_full_is_asked_in_parts(truemem: Command, aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from truemem_workbench.triage import account

    asked: list[str] = []
    with serving(insights_service(FLEET, asked)) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        groups = account.groups_of(list(FLEET))
        whole = account.count_lines(groups, BEGIN_MS, NOW_MS)
        parts = account.count_lines(groups, BEGIN_MS, NOW_MS, rows=200)
    assert {key: one.invocations for key, one in parts.items()} == {key: one.invocations for key, one in whole.items()}
    assert {key: one.out_of_memory for key, one in parts.items()} == {
        key: one.out_of_memory for key, one in whole.items()
    }


def test_200_functions_are_read_and_the_worst_are_first(truemem: Command, aws: Callable[[str], Any]) -> None:
    """At moto's real server, with FilterLogEvents."""
    logs = aws("logs")
    for number in range(200):
        name = put_function(aws, f"fn-{number:03}")
        peaks = [[600.0], flat(60), flat(20, 480)][number % 100 if number % 100 < 2 else 1 if number % 50 else 2]
        lines = list(life(peaks, f"f{number}", begin_ms=BEGIN_MS))
        put_events(logs, f"/aws/lambda/{name}", lines[0].stream, [(each.time_ms, each.text) for each in lines])
    made = truemem("triage", "--source", "filter", "--json").document
    assert len(made["functions"]) == 200
    assert [each["function"] for each in made["functions"][:2]] == ["fn-000", "fn-100"]
    assert made["functions"][2]["state"] == "near the limit"
    told = truemem("triage", "--source", "filter").out
    assert "190 more: --top N, --all" in told
    assert "Next: truemem attach fn-000 fn-100 " in told


def test_a_tag_chooses(truemem: Command, aws: Callable[[str], Any]) -> None:
    for name, tags in {"a": {"team": "ml"}, "b": {}}.items():
        put_function(aws, name, Tags=tags)
        put_events(aws("logs"), f"/aws/lambda/{name}", stream_of(name), [(BEGIN_MS, report(100, init=True))])
    made = truemem("triage", "--tag", "team=ml", "--source", "filter", "--json").document
    assert [each["function"] for each in made["functions"]] == ["a"]


def test_functions_that_never_ran_are_nothing_to_read(truemem: Command, aws: Callable[[str], Any]) -> None:
    put_function(aws, "a")
    assert "none has run yet" in truemem("triage").refusal
