"""What AWS is asked: in the region that was named, by the name that people have, and not for longer than it helps."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from truemem_workbench.aws import clients as asked
from truemem_workbench.aws import cloudwatch
from truemem_workbench.support.bad_input import BadInput

from tests.report.conftest import Command
from tests.report.service import answering, saying
from tests.report.written import line

NOW_MS = int(time.time() * 1000)
GROUP = "/teams/shop"


def put(logs: Any, group: str) -> None:
    """One line of the sidecar."""
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="a")
    events = [{"timestamp": NOW_MS - 60_000, "message": line("a", 1, _aws={"Timestamp": NOW_MS - 60_000})}]
    logs.put_log_events(logGroupName=group, logStreamName="a", logEvents=events)


def test_the_region_is_the_one_that_other_tools_of_aws_read(
    truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert asked.client("lambda").meta.region_name == "eu-central-1"

    put(asked.client("logs"), "/aws/lambda/there")
    assert truemem("report", "--log-group", "/aws/lambda/there", "--json").document["lines"] == 1
    monkeypatch.setenv("AWS_REGION", "")
    assert "there is no log group" in truemem("report", "--log-group", "/aws/lambda/there").err


@pytest.mark.parametrize(
    "function",
    [
        "shop",
        "shop:live",
        "shop:$LATEST",
        "/aws/lambda/shop",
        "123456789012:function:shop",
        "arn:aws:lambda:us-east-1:123456789012:function:shop",
        "arn:aws-cn:lambda:cn-north-1:123456789012:function:shop:42",
    ],
)
def test_a_function_has_many_names(function: str) -> None:
    assert asked.name_of(function) == "shop"


def test_a_function_may_be_called_function() -> None:
    assert asked.name_of("function:prod") == "function"


def test_the_log_is_where_the_function_writes_it(
    truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(aws("logs"), GROUP)
    arn = "arn:aws:lambda:us-east-1:123456789012:function:shop:live"
    configuration = {"FunctionName": "shop", "LoggingConfig": {"LogGroup": GROUP}}

    with saying(200, json.dumps(configuration).encode()) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", endpoint)  # moto knows no LoggingConfig
        for name in (arn, "shop", "/aws/lambda/shop"):
            assert truemem("report", "--function", name, "--json").document["lines"] == 1, name
            assert "1 line of the sidecar" in truemem("doctor", name).out, name


def test_a_function_that_is_gone_has_left_its_log(truemem: Command, aws: Callable[[str], Any]) -> None:
    put(aws("logs"), "/aws/lambda/gone")

    assert truemem("report", "--function", "gone", "--json").document["lines"] == 1


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"AWS_ENDPOINT_URL": "notaurl"}, "Invalid endpoint: notaurl. Check AWS_ENDPOINT_URL"),
        ({"AWS_PROFILE": "nobody's"}, "could not be found. Try aws sso login"),
        ({"AWS_REGION": "eu west"}, "Try AWS_REGION=eu-west-1"),
    ],
)
def test_what_is_wrong_around_it_is_one_line(
    variables: dict[str, str],
    told: str,
    truemem: Command,
    aws: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for command in (["report", "--function", "x"], ["metrics", "x"], ["doctor", "x"]):
        ran = truemem(*command)
        assert ran.code == 2
        assert told in ran.err
        assert ran.err.count("\n") == 1


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize(
    "command",
    [["report", "--function", "x"], ["report", "--log-group", "x"], ["metrics", "x"], ["doctor", "x"]],
    ids=" ".join,
)
def test_a_page_for_people_is_no_answer_of_aws(
    command: list[str], status: int, truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with saying(status, b"<html>\n<body>Please sign in</body>\n</html>") as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        ran = truemem(*command)

    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "the answer is not from AWS. Check HTTPS_PROXY and AWS_ENDPOINT_URL" in ran.err


def test_nobody_is_asked_often_who_does_not_answer(aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        logs = asked.client("logs", read_timeout=0.1)
        logs.meta.events.register("before-send", lambda request, **_: times.append(request.url))
        with pytest.raises(BadInput, match="Read timeout on endpoint"), asked.refused("log group x", ""):
            logs.describe_log_groups()

    assert len(times) == asked.UNANSWERED


def test_waiting_for_aws_is_told_once(
    truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(operation: str, times: int) -> tuple[int, dict[str, Any]]:
        if times <= 2:
            return 400, {"__type": "ThrottlingException", "message": "Rate exceeded"}
        if operation == "StartQuery":
            return 200, {"queryId": "1"}
        row = [{"field": "@message", "value": line("a", 1, _aws={"Timestamp": int(time.time() * 1000)})}]
        return 200, {"status": "Complete", "results": [row]}

    with answering(answer) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        ran = truemem("report", "--log-group", "x", "--since", "10m", "--json")

    assert ran.err == "truemem: AWS throttles the requests; truemem waits and tries again\n"
    assert ran.document["lines"] == 1


@pytest.mark.parametrize("cut_short", [KeyboardInterrupt, BadInput])
def test_a_query_that_is_given_up_is_stopped(
    cut_short: type[BaseException], aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    def answer(operation: str, times: int) -> tuple[int, dict[str, Any]]:
        if operation == "StopQuery":
            stopped.append(operation)
            return 400, {"__type": "InvalidParameterException", "message": "it has ended meanwhile"}
        return 200, {"queryId": "1"} if operation == "StartQuery" else {"status": "Running", "results": []}

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    if cut_short is KeyboardInterrupt:
        monkeypatch.setattr("time.sleep", interrupt)
    else:
        monkeypatch.setattr(cloudwatch, "PATIENCE_S", -1)
    with answering(answer) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(cut_short):
            cloudwatch.fetch("x", NOW_MS - 60_000, NOW_MS, io.StringIO())

    assert stopped == ["StopQuery"]


def test_since_is_looked_at_before_aws_is_asked(truemem: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    assert "--since bogus is no time. Try --since 3h" in truemem("doctor", "x", "--since", "bogus").err
