"""What CloudFormation refuses or fails at, which moto does not: answers as the service gives them."""

import json
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from truemem_workbench.dashboard import deployment
from truemem_workbench.dashboard.template import Watched, template
from truemem_workbench.support.bad_input import BadInput

DOCUMENT = template([Watched("orders", 512, "/aws/lambda/orders")], "eu-west-1", {})
NONE = ("describe_stacks", ("ValidationError", "Stack with id memory does not exist"))
BODY = ("get_template", {"TemplateBody": json.dumps(DOCUMENT)})
EVENTS = [
    {"ResourceStatus": "DELETE_COMPLETE"},
    {"ResourceStatus": "CREATE_FAILED", "ResourceStatusReason": "Resource creation cancelled"},
    {"ResourceStatus": "CREATE_FAILED", "ResourceStatusReason": "not authorized to perform: cloudwatch:PutDashboard"},
    {"ResourceStatus": "UPDATE_IN_PROGRESS", "ResourceType": "AWS::CloudFormation::Stack"},
    {"ResourceStatus": "CREATE_FAILED", "ResourceStatusReason": "a reason of last year"},
]
"""The newest first."""
OF_ALARM = {
    "StackId": "1",
    "EventId": "1",
    "StackName": "memory",
    "Timestamp": "2026-01-01T00:00:00Z",
    "ResourceType": "AWS::CloudWatch::Alarm",
}


def stack(status: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """The answer about a stack that is there."""
    about = {"StackName": "memory", "CreationTime": "2026-01-01T00:00:00Z", "StackStatus": status}
    return "describe_stacks", {"Stacks": [{**about, **more}]}


def deploy(monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, Any]) -> str:
    """Deploy the template where CloudFormation answers so: each call in this order, with its result or its error."""
    client: Any = boto3.client("cloudformation", "eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
    stubber = Stubber(client)
    for operation, answer in answers:
        if isinstance(answer, tuple):
            stubber.add_client_error(operation, *answer)
        else:
            stubber.add_response(operation, {**answer})  # botocore parses the body in it
    monkeypatch.setattr(deployment, "client", lambda _: client)
    with stubber:
        (before,) = deployment.existing("memory", 1)
        url = deployment.deploy("memory", DOCUMENT, (), bucket=None, before=before)
    stubber.assert_no_pending_responses()
    return url


def test_a_creation_that_fails_says_the_first_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    events = ("describe_stack_events", {"StackEvents": [{**OF_ALARM, **event} for event in EVENTS]})
    failed = [("create_stack", {}), stack("ROLLBACK_COMPLETE"), events]
    with pytest.raises(BadInput, match=r"^stack memory: not authorized to perform: cloudwatch:PutDashboard$"):
        deploy(monkeypatch, NONE, NONE, *failed)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("ROLLBACK_COMPLETE", "never created completely. Try aws cloudformation delete-stack --stack-name memory"),
        ("UPDATE_IN_PROGRESS", "another update is running. Try again when it is done"),
    ],
)
def test_a_stack_that_takes_no_update_says_what_to_do(monkeypatch: pytest.MonkeyPatch, status: str, said: str) -> None:
    with pytest.raises(BadInput, match=f"^stack memory is {status}: .*{said}"):
        deploy(monkeypatch, stack(status), BODY)


def test_who_may_not_is_told_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"^stack memory: access denied\. The caller needs cloudformation:CreateStack"):
        deploy(monkeypatch, ("describe_stacks", ("AccessDenied", "not authorized")))


def test_where_nothing_changed_the_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    there = stack("CREATE_COMPLETE", Outputs=[{"OutputKey": "DashboardUrl", "OutputValue": "https://it"}])
    unchanged = ("update_stack", ("ValidationError", "No updates are to be performed."))
    assert deploy(monkeypatch, there, BODY, NONE, unchanged, there) == "https://it"
