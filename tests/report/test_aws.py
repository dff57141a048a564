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

from tests.report.conftest import Command, put_events
from tests.report.service import Answer, insights, refusal, saying
from tests.report.written import line

NOW_MS = int(time.time() * 1000)


def put(logs: Any, group: str) -> None:
    """One line of the sidecar."""
    at = NOW_MS - 60_000
    put_events(logs, group, "a", [(at, line("a", 1, _aws={"Timestamp": at}))])


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
    ("function", "name"),
    [
        ("shop", "shop"),
        ("shop:live", "shop"),
        ("shop:$LATEST", "shop"),
        ("/aws/lambda/shop", "shop"),
        ("123456789012:function:shop", "shop"),
        ("arn:aws:lambda:us-east-1:123456789012:function:shop", "shop"),
        ("arn:aws-cn:lambda:cn-north-1:123456789012:function:shop:42", "shop"),
        ("function:prod", "function"),
    ],
)
def test_a_function_has_many_names(function: str, name: str) -> None:
    assert asked.name_of(function) == name


def test_the_log_is_where_the_function_writes_it(
    truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(aws("logs"), "/teams/shop")
    arn = "arn:aws:lambda:us-east-1:123456789012:function:shop:live"
    configuration = {"FunctionName": "shop", "LoggingConfig": {"LogGroup": "/teams/shop"}}

    with saying(200, json.dumps(configuration).encode()) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", endpoint)  # moto knows no LoggingConfig
        for name in (arn, "shop", "/aws/lambda/shop"):
            assert truemem("report", "--function", name, "--json").document["lines"] == 1, name
            assert "1 line of the sidecar" in truemem("doctor", "--function", name).out, name


def test_a_function_that_is_gone_has_left_its_log(truemem: Command, aws: Callable[[str], Any]) -> None:
    put(aws("logs"), "/aws/lambda/gone")

    assert truemem("report", "--function", "gone", "--json").document["lines"] == 1


OF_A_FUNCTION = [f"{name} --function x" for name in ("report", "page", "metrics", "doctor")]


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize("command", [*OF_A_FUNCTION, "report --log-group x"])
def test_a_page_for_people_is_no_answer_of_aws(
    command: str, status: int, truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with saying(status, b"<html>\n<body>Please sign in</body>\n</html>") as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        refusal = truemem(*command.split()).refusal

    assert "the answer is not from AWS. Check HTTPS_PROXY and AWS_ENDPOINT_URL" in refusal


def test_a_silent_service_is_not_asked_often(aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        logs = asked.client("logs", read_timeout=0.1)
        logs.meta.events.register("before-send", lambda request, **_: times.append(request.url))
        with pytest.raises(BadInput, match="Read timeout on endpoint"), asked.refused("log group x", ""):
            logs.describe_log_groups()

    assert len(times) == asked.UNANSWERED


@pytest.mark.parametrize("cut_short", [KeyboardInterrupt, BadInput])
def test_a_query_that_is_given_up_is_stopped(
    cut_short: type[BaseException], aws_answers: Callable[[Answer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    operations: list[str] = []

    def answer(operation: str, times: int) -> tuple[int, dict[str, Any]]:
        operations.append(operation)
        if operation == "StopQuery":
            return refusal("InvalidParameterException", "it has ended meanwhile")
        return insights(operation, status="Running")

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    if cut_short is KeyboardInterrupt:
        monkeypatch.setattr("time.sleep", interrupt)
    else:
        monkeypatch.setattr(cloudwatch, "PATIENCE_S", -1)
    aws_answers(answer)
    with pytest.raises(cut_short):
        cloudwatch.fetch("x", NOW_MS - 60_000, NOW_MS, io.StringIO())

    assert operations.count("StopQuery") == 1
