"""`--remote` against the local Lambda's own Invoke API, and moto's CloudWatch Logs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import boto3
import pytest
from click.testing import Result
from moto import mock_aws
from truemem_workbench.check.remote_run import Remote, from_logs
from truemem_workbench.local import Function, LocalLambda, Settings
from truemem_workbench.local.configuration.sidecar import sidecar

from tests.check.conftest import STEADY, emf

if TYPE_CHECKING:
    from mypy_boto3_logs.type_defs import InputLogEventTypeDef

GROUP = "/aws/lambda/mine"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_LOGS", "http://127.0.0.1:9")  # nothing is there
    yield


@pytest.mark.usefixtures("account")
def test_a_deployed_function_is_invoked_and_its_log_tails_are_read(
    invoke_check: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(name="mine", memory_mib=256, extensions={"truemem": sidecar()})
    with LocalLambda(Function.from_spec(STEADY), settings) as local:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", local.endpoint)
        limits = ["--warm-up", 10, "--invocations", 40, "--max-peak", 128]
        # an event longer than telemetry's buffering: each line is in the tail of the invocation after its own
        done = invoke_check("--remote", "mine", "--event", '{"ms": 40}', *limits, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["checked"] == "remote:mine"
    assert (document["invocations"], document["memorySize"]) == (140, 256)
    assert document["records"] >= 138
    assert "40 invocations did not decide it: 90 more were made" in document["notices"]
    assert document["drift"]["verdict"] == "stable"


@pytest.mark.usefixtures("account")
def test_one_that_fails_shows_the_end_of_its_log_tail(
    invoke_check: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(name="mine", memory_mib=256, extensions={"truemem": sidecar()})
    with LocalLambda(Function.from_spec(STEADY), settings) as local:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", local.endpoint)
        done = invoke_check("--remote", "mine", "--event", '{"fail": true}')
    assert done.exit_code == 2, done.output
    assert "5 of 5 invocations failed" in done.output
    log = done.output.partition("The log of invocation 5 ends:\n")[2]
    assert "ValueError" in log
    assert '"schema"' not in log


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "other",
            (
                "Invoke of other: ResourceNotFoundException (Function not found: arn:aws:lambda:",
                "Try another name, or AWS_REGION",
            ),
        ),
        ("mine", ("Does mine have truemem's layer?", f"{GROUP} could not be read")),
    ],
    ids=["no such function", "no layer"],
)
def test_what_cannot_be_judged_is_told_with_a_way_out(
    invoke_check: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, name: str, said: tuple[str, str]
) -> None:
    with LocalLambda(Function.from_spec(STEADY), Settings(name="mine")) as local:
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", local.endpoint)
        done = invoke_check("--remote", name, "--warm-up", 0, "--invocations", 3)
    assert done.exit_code == 2
    assert all(part in done.output for part in said)


@pytest.mark.usefixtures("account")
def test_lines_that_come_late_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_LOGS")
    with mock_aws():
        logs = boto3.client("logs")
        logs.create_log_group(logGroupName=GROUP)
        logs.create_log_stream(logGroupName=GROUP, logStreamName="one")
        waits = []

        def put(number: int) -> None:
            event: InputLogEventTypeDef = {"timestamp": int(time.time() * 1000), "message": emf(number, 50, 55)}
            logs.put_log_events(logGroupName=GROUP, logStreamName="one", logEvents=[event])

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            put(len(waits) + 1)

        put(1)
        run = Remote("mine", boto3.client("lambda"), requests=["request-1", "request-2", "request-3"])
        from_logs(run, logs, GROUP, of=3, sleep=sleep)
        assert [each.number for each in run.seen()] == [1, 2, 3]
        assert len(waits) == 2


@pytest.mark.usefixtures("account")
def test_lines_that_never_come_are_waited_for_20_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_LOGS")
    waits: list[float] = []
    with mock_aws():
        logs = boto3.client("logs")
        logs.create_log_group(logGroupName=GROUP)
        run = Remote("mine", boto3.client("lambda"), requests=["request-1"])
        from_logs(run, logs, GROUP, of=1, patience_s=20, sleep=waits.append)
    assert sum(waits) == 20
    assert run.seen() == []
