"""What AWS is asked: in the region that was named, by the name that people have, and not for longer than it helps."""

import io
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from truemem_workbench.aws import clients, cloudwatch
from truemem_workbench.support.bad_input import BadInput

from tests.report.conftest import Command, put_events
from tests.report.service import THROTTLED, Answer, insights, refusal, saying
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
    assert clients.client("lambda").meta.region_name == "eu-central-1"

    put(clients.client("logs"), "/aws/lambda/there")
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
    assert clients.name_of(function) == name


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
        assert "1 line of the sidecar" in truemem("doctor", "--function", "shop").out


def test_a_function_that_is_gone_has_left_its_log(truemem: Command, aws: Callable[[str], Any]) -> None:
    put(aws("logs"), "/aws/lambda/gone")

    assert truemem("report", "--function", "gone", "--json").document["lines"] == 1


OF_A_FUNCTION = [f"{name} x" for name in ("report", "page", "metrics", "doctor")]


@pytest.mark.parametrize("status", [200, 403])
@pytest.mark.parametrize("command", [*OF_A_FUNCTION, "report --log-group x"])
def test_a_page_for_people_is_no_answer_of_aws(
    command: str, status: int, truemem: Command, aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with saying(status, b"<html>\n<body>Please sign in</body>\n</html>") as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        refusal = truemem(*command.split()).refusal

    assert "the answer is not from AWS. Check HTTPS_PROXY and AWS_ENDPOINT_URL" in refusal


@pytest.mark.parametrize("most", [1, clients.UNANSWERED_ATTEMPTS])
def test_a_silent_service_is_not_asked_often(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    times: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        logs = clients.client("logs", unanswered=most, read_timeout=0.1)
        logs.meta.events.register("before-send", lambda request, **_: times.append(request.url))
        with pytest.raises(BadInput, match="Read timeout on endpoint"), clients.refused("log group x", ""):
            logs.describe_log_groups()

    assert len(times) == most


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
        monkeypatch.setattr(cloudwatch, "MOST_QUERY_S", -1)
    aws_answers(answer)
    with pytest.raises(cut_short):
        cloudwatch.fetch("x", NOW_MS - 60_000, NOW_MS, io.StringIO())

    assert operations.count("StopQuery") == 1


# Log groups of CloudWatch


@pytest.fixture
def orders(aws: Callable[[str], Any], request: pytest.FixtureRequest) -> str:
    """A function with a log of the last two hours: 40 invocations of two environments, and what else is in a log."""
    name = f"orders-{abs(hash(request.node.name))}"
    for environment in ("a", "b"):
        events = []
        for number in range(1, 21):
            at = NOW_MS - 7_200_000 + number * 300_000
            own = line(environment, number, _aws={"Timestamp": at})
            events += [(at, f"START RequestId: {number}\n"), (at + 5, own)]
        put_events(aws("logs"), f"/aws/lambda/{name}", environment, events)
    return name


@pytest.mark.parametrize("source", ["insights", "filter"])
def test_a_functions_log_is_reported(source: str, truemem: Command, orders: str) -> None:
    report = truemem("report", "--function", orders, "--source", source, "--json").document

    assert report["lines"] == 40
    assert {each["environment_id"][-1] for each in report["environments"]} == {"a", "b"}


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
    put_events(aws("logs"), "crowded", "a", [(second + number, line("a", number)) for number in range(1, 10)])
    file = io.StringIO()
    cloudwatch.fetch("crowded", second - 2_000, second + 2_000, file, rows=4)

    told = {json.loads(text)["invocation"] for text in file.getvalue().splitlines()}
    assert told == set(range(1, 10))


def test_missing_log_group_and_one_without_our_lines(truemem: Command, aws: Callable[[str], Any]) -> None:
    told = truemem("report", "--function", "unknown").refusal
    assert (
        "there is no log group /aws/lambda/unknown in this region and account (us-east-1). Try truemem doctor unknown"
        in told
    )

    aws("logs").create_log_group(logGroupName="/aws/lambda/bare")
    told = truemem("report", "--function", "bare").refusal
    assert "no line of the sidecar and no REPORT in log group /aws/lambda/bare. Try an earlier --since" in told


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (refusal("ExpiredTokenException"), "expired or not valid (ExpiredTokenException). Try aws sso login"),
        (refusal("UnrecognizedClientException"), "the AWS credentials are expired or not valid"),
        (refusal("AccessDeniedException"), "access denied. The caller needs logs:StartQuery, logs:GetQueryResults"),
        (refusal("MalformedQueryException"), "log group /aws/lambda/orders: MalformedQueryException: no"),
        (None, "the query ended as Timeout. Try a shorter --since, or --source filter"),
    ],
    ids=["expired", "unknown client", "denied", "malformed", "timeout"],
)
def test_refused_query_is_one_line_with_what_to_do(
    answer: tuple[int, dict[str, Any]] | None, told: str, truemem: Command, aws_answers: Callable[[Answer], None]
) -> None:
    aws_answers(lambda operation, times: answer or insights(operation, status="Timeout"))
    assert told in truemem("report", "--function", "orders").refusal


@pytest.mark.parametrize("is_throttled", [lambda times: times <= 2, lambda times: times % 2], ids=["first", "often"])
def test_throttling_is_waited_out_and_told_once(
    is_throttled: Callable[[int], bool], truemem: Command, aws_answers: Callable[[Answer], None]
) -> None:
    def answer(operation: str, times: int) -> tuple[int, dict[str, Any]]:
        status = "Complete" if times > 2 else "Running"
        found = insights(operation, status=status, messages=[line("a", 1, _aws={"Timestamp": int(time.time() * 1000)})])
        return THROTTLED if is_throttled(times) else found

    aws_answers(answer)
    ran = truemem("report", "--log-group", "x", "--since", "10m", "--json")

    assert ran.err == "truemem: AWS throttles the requests; truemem waits and tries again\n"
    assert ran.document["lines"] == 1
