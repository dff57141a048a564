"""`check NAME` against the local Lambda's own Invoke API, and moto's CloudWatch Logs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import boto3
import pytest
from click.testing import Result
from moto import mock_aws
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import sidecar
from truemem_workbench.runs.deployed import Remote, from_logs

from tests.check.conftest import STEADY, Check, emf

if TYPE_CHECKING:
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_logs.type_defs import InputLogEventTypeDef

GROUP = "/aws/lambda/mine"
WITH_LAYER = Settings(name="mine", memory_mib=256, extensions={"truemem": sidecar()})


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_LOGS", "http://127.0.0.1:9")  # nothing is there


@pytest.fixture
def check_deployed(invoke_check: Check, monkeypatch: pytest.MonkeyPatch) -> Check:
    """`truemem check ARGUMENTS`, where a function of these settings is what is deployed."""

    def invoke(settings: Settings, *arguments: object) -> Result:
        with LocalLambda(Function.from_spec(STEADY), settings) as local:
            monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", local.endpoint)
            return invoke_check(*arguments)

    return invoke


def test_the_log_tails_of_a_deployed_function_are_read(check_deployed: Check) -> None:
    limits = ["--warm-up", 10, "--invocations", 40, "--max-peak", 128]
    # an event longer than telemetry's buffering: each line is in the tail of the invocation after its own
    done = check_deployed(WITH_LAYER, "mine", "--event", '{"ms": 40}', *limits, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["checked"] == "remote:mine"
    assert (document["invocations"], document["memorySize"]) == (150, 256)
    assert document["records"] >= 138
    assert "40 invocations did not decide it: 100 more were made" in document["notices"]
    assert document["finding"]["cause"] == "none"
    assert document["latencyMs"]["p50"] >= 40


def test_one_that_fails_shows_the_end_of_its_log_tail(check_deployed: Check) -> None:
    done = check_deployed(WITH_LAYER, "mine", "--event", '{"fail": true}')
    assert done.exit_code == 2, done.output
    assert "5 of 5 invocations failed" in done.output
    log = done.output.partition("The log of invocation 5 ends:\n")[2]
    assert "ValueError" in log
    assert '"schema"' not in log


@pytest.mark.parametrize(
    ("name", "failed", "advice"),
    [
        (
            "other",
            "there is no function other in this region and account (",
            "Try aws lambda list-functions --region ",
        ),
        ("mine", f"{GROUP} could not be read", "Does mine have truemem's layer?"),
    ],
    ids=["no such function", "no layer"],
)
def test_what_cannot_be_judged_has_a_way_out(check_deployed: Check, name: str, failed: str, advice: str) -> None:
    done = check_deployed(Settings(name="mine"), name, "--warm-up", 0, "--invocations", 3)
    assert done.exit_code == 2
    assert failed in done.output
    assert advice in done.output


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudWatchLogsClient]:
    """The function's log group, still empty."""
    monkeypatch.delenv("AWS_ENDPOINT_URL_LOGS")
    with mock_aws():
        client = boto3.client("logs")
        client.create_log_group(logGroupName=GROUP)
        client.create_log_stream(logGroupName=GROUP, logStreamName="one")
        yield client


def test_lines_that_come_late_are_waited_for(logs: CloudWatchLogsClient) -> None:
    waits: list[float] = []

    def put_next(seconds: float) -> None:
        waits.append(seconds)
        message = emf(len(waits), 50, 55)
        event: InputLogEventTypeDef = {"timestamp": int(time.time() * 1000), "message": message}
        logs.put_log_events(logGroupName=GROUP, logStreamName="one", logEvents=[event])

    run = Remote("mine", boto3.client("lambda"), requests=["request-1", "request-2", "request-3"])
    put_next(0)
    from_logs(run, logs, GROUP, of=3, sleep=put_next)
    assert [each.number for each in run.seen()] == [1, 2, 3]
    assert len(waits) == 3  # two of them from_logs's own

    waits.clear()
    run = Remote("mine", boto3.client("lambda"), requests=["another"])
    from_logs(run, logs, GROUP, of=1, patience_s=20, sleep=waits.append)  # its line never comes
    assert (sum(waits), run.seen()) == (20, [])
