"""`truemem report --function` against moto's CloudWatch Logs, and against a server that refuses as AWS does.

moto's Logs Insights knows `fields`, `sort` and `limit`, and leaves `filter` out: it answers with more than was asked
for, which the reader drops as it does in a file.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from truemem_workbench.aws import clients, cloudwatch

from tests.report.conftest import Command
from tests.report.service import answering
from tests.report.written import line

NOW_MS = int(time.time() * 1000)


@pytest.fixture
def orders(aws: Callable[[str], Any], request: pytest.FixtureRequest) -> str:
    """A function with a log of the last two hours: 40 invocations of two environments, and what else is in a log."""
    name = f"orders-{abs(hash(request.node.name))}"
    logs = aws("logs")
    logs.create_log_group(logGroupName=f"/aws/lambda/{name}")
    for environment in ("a", "b"):
        logs.create_log_stream(logGroupName=f"/aws/lambda/{name}", logStreamName=environment)
        events = []
        for number in range(1, 21):
            at = NOW_MS - 7_200_000 + number * 300_000
            events.append({"timestamp": at, "message": f"START RequestId: {number}\n"})
            events.append({"timestamp": at + 5, "message": line(environment, number, _aws={"Timestamp": at})})
        logs.put_log_events(logGroupName=f"/aws/lambda/{name}", logStreamName=environment, logEvents=events)
    return name


@pytest.mark.parametrize("source", ["insights", "filter"])
def test_a_functions_log_is_reported(source: str, truemem: Command, orders: str) -> None:
    report = truemem("report", "--function", orders, "--source", source, "--json").document

    assert report["lines"] == 40
    assert {each["environment_id"][-1] for each in report["environments"]} == {"a", "b"}


def test_since_says_how_far_back_to_look(truemem: Command, orders: str) -> None:
    report = truemem("report", "--log-group", f"/aws/lambda/{orders}", "--since", "50m", "--json").document

    assert 0 < report["lines"] < 30


@pytest.mark.parametrize("rows", [7, 30, 10_000])
def test_slices_of_time_keep_within_the_rows_of_a_query(rows: int, orders: str) -> None:
    file = io.StringIO()
    done: list[int] = []
    begin = NOW_MS - 8_000_000
    cloudwatch.fetch(f"/aws/lambda/{orders}", begin, NOW_MS, file, fetched=done.append, rows=rows)

    told = [json.loads(text) for text in file.getvalue().splitlines() if text.startswith("{")]
    assert sorted({(each["environmentId"][-1], each["invocation"]) for each in told}) == [
        (environment, number) for environment in ("a", "b") for number in range(1, 21)
    ]
    assert sum(done) == pytest.approx(NOW_MS - begin, abs=3_000)


def test_more_in_one_second_than_a_query_gives(aws: Callable[[str], Any]) -> None:
    second = NOW_MS // 1000 * 1000 - 5_000
    logs = aws("logs")
    logs.create_log_group(logGroupName="crowded")
    logs.create_log_stream(logGroupName="crowded", logStreamName="a")
    events = [{"timestamp": second + number, "message": line("a", number)} for number in range(1, 10)]
    logs.put_log_events(logGroupName="crowded", logStreamName="a", logEvents=events)
    file = io.StringIO()
    cloudwatch.fetch("crowded", second - 2_000, second + 2_000, file, rows=4)

    told = {json.loads(text)["invocation"] for text in file.getvalue().splitlines()}
    assert told == set(range(1, 10))


def test_a_log_group_that_is_not_there(truemem: Command, aws: Callable[[str], Any]) -> None:
    ran = truemem("report", "--function", "nobody")

    assert (ran.code, ran.out) == (2, "")
    assert "there is no log group /aws/lambda/nobody in this region and account" in ran.err


def test_a_log_without_a_line_of_ours(truemem: Command, aws: Callable[[str], Any]) -> None:
    aws("logs").create_log_group(logGroupName="/aws/lambda/bare")

    assert "no line of the sidecar in log group /aws/lambda/bare. Try an earlier --since" in (
        truemem("report", "--function", "bare").err
    )


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "ExpiredTokenException",
            "the AWS credentials are expired or not valid (ExpiredTokenException). Try aws sso login",
        ),
        ("UnrecognizedClientException", "the AWS credentials are expired or not valid"),
        ("AccessDeniedException", "access denied. The caller needs logs:StartQuery, logs:GetQueryResults"),
        ("MalformedQueryException", "log group /aws/lambda/orders: MalformedQueryException: no"),
    ],
)
def test_a_refusal_is_one_line_with_what_mends_it(
    code: str, told: str, truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(lambda operation, times: (400, {"__type": code, "message": "no"})) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        ran = truemem("report", "--function", "orders")

    assert ran.code == 2
    assert told in ran.err
    assert ran.err.count("\n") == 1


def test_throttling_is_waited_out(truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(operation: str, times: int) -> tuple[int, dict[str, Any]]:
        if times % 2:
            return 400, {"__type": "ThrottlingException", "message": "Rate exceeded"}
        if operation == "StartQuery":
            return 200, {"queryId": "1"}
        row = [{"field": "@message", "value": line("a", 1, _aws={"Timestamp": int(time.time() * 1000)})}]
        return 200, {"status": "Complete" if times > 2 else "Running", "results": [row]}

    with answering(answer) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        report = truemem("report", "--function", "orders", "--since", "10m", "--json")

    assert report.document["lines"] == 1


def test_throttling_for_good_is_told(
    truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "ATTEMPTS", 2)
    with answering(lambda operation, times: (400, {"__type": "ThrottlingException", "message": "Rate"})) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        ran = truemem("report", "--function", "orders")

    assert "throttled 2 times (ThrottlingException). Try again later, or a shorter --since" in ran.err


def test_a_query_that_fails_is_told(
    truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(operation: str, times: int) -> tuple[int, dict[str, Any]]:
        return 200, {"queryId": "1"} if operation == "StartQuery" else {"status": "Timeout", "results": []}

    with answering(answer) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        ran = truemem("report", "--function", "orders")

    assert "the query ended as Timeout. Try a shorter --since, or --source filter" in ran.err


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (
            ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
            "there are no AWS credentials. Try aws sso login, or aws configure",
        ),
        (("AWS_DEFAULT_REGION", "AWS_REGION"), "You must specify a region. Try AWS_REGION="),
    ],
    ids=["credentials", "region"],
)
@pytest.mark.usefixtures("aws")
def test_what_aws_needs_and_is_not_set_is_named(
    truemem: Command, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, str], said: str
) -> None:
    for name in missing:
        monkeypatch.delenv(name, raising=False)
    assert said in truemem("report", "--function", "orders").err


def test_an_endpoint_that_nobody_answers_at_is_one_line(
    truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "eu-wset-1")

    ran = truemem("report", "--log-group", "orders")
    assert '"http://127.0.0.1:9/". Check the network, and the region eu-wset-1' in ran.err
    assert (ran.code, ran.err.count("\n")) == (2, 1)
