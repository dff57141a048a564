"""Lambda's Invoke API, called as customers call it."""

import base64
import json

import pytest
from botocore.exceptions import ClientError
from mypy_boto3_lambda import LambdaClient

from tests.local.conftest import Local, Start, client_of


@pytest.fixture
def local(start: Start) -> Local:
    return start(name="mine")


@pytest.fixture
def client(local: Local) -> LambdaClient:
    return client_of(local)


ACCOUNT = "123456789012:function:mine"


def test_boto3_invokes_the_function(client: LambdaClient) -> None:
    for name in ("mine", "mine:$LATEST", ACCOUNT, f"arn:aws:lambda:eu-west-1:{ACCOUNT}", "function"):
        answer = client.invoke(FunctionName=name, Payload=b'{"a": 1}')
        assert (answer["StatusCode"], answer["ExecutedVersion"]) == (200, "$LATEST")
        assert "FunctionError" not in answer
        assert json.loads(answer["Payload"].read())["event"] == {"a": 1}
    answer = client.invoke(FunctionName="mine", Payload=b'{"raise": "boom"}')
    assert answer["FunctionError"] == "Unhandled"
    assert json.loads(answer["Payload"].read())["errorMessage"] == "boom"


def test_the_log_tail_ends_with_the_report(client: LambdaClient) -> None:
    answer = client.invoke(FunctionName="mine", Payload=b'{"print": "a line"}', LogType="Tail")
    lines = base64.b64decode(answer["LogResult"]).decode().splitlines()
    assert lines[0].startswith("START RequestId: ")
    assert "a line" in lines
    assert lines[-1].startswith("REPORT RequestId: ")


def test_client_context_and_tenant_are_passed_on(client: LambdaClient, local: Local) -> None:
    context = base64.b64encode(b'{"custom": {"key": "value"}}').decode()
    answer = client.invoke(FunctionName="mine", Payload=b"{}", ClientContext=context, TenantId="green")
    assert json.loads(answer["Payload"].read())["client"] == {"key": "value"}
    assert local.of_type("start")[0]["tenantId"] == "green"


def test_an_event_is_handled_later_and_a_dry_run_never(client: LambdaClient, local: Local) -> None:
    assert client.invoke(FunctionName="mine", InvocationType="DryRun")["StatusCode"] == 204
    local.settle()
    assert local.reports == []
    answer = client.invoke(FunctionName="mine", Payload=b'{"print": "later"}', InvocationType="Event")
    assert answer["StatusCode"] == 202
    local.wait_for_line(lambda line: line.source == "function" and line.text == "later")


def test_what_is_refused(client: LambdaClient, local: Local) -> None:
    for name in ("other", "mine:alias"):
        missing = f"Function not found: .*:function:{name}.*FunctionName=mine"
        with pytest.raises(client.exceptions.ResourceNotFoundException, match=missing):
            client.invoke(FunctionName=name)
    with pytest.raises(ClientError, match="Could not parse request body into json") as error:
        client.invoke(FunctionName="mine", Payload=b"{")
    assert error.value.response["Error"]["Code"] == "InvalidRequestContentException"
    answer = local.post(name="mine", data=b'"' + b"x" * 6 * 1024 * 1024 + b'"')
    assert (answer.status_code, answer.headers["x-amzn-ErrorType"]) == (413, "RequestTooLargeException")
