"""Creates or updates the stack of a dashboard through CloudFormation, and waits until that is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from ..aws.clients import client, refused
from ..support.bad_input import BadInput
from ..support.terminal import some
from .template import functions_of

INLINE_BYTES = 51_200
"""Largest template that is sent in the call itself. A larger one comes from a bucket, with up to 1 MB."""
POLL_S, POLLS = 3, 400
"""Seconds between two looks at the stack, and how many looks: 20 minutes."""
BEGUN = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS")
"""Status of the stack itself with which an operation begins."""
PERMISSIONS = (
    "cloudformation:CreateStack, UpdateStack, DescribeStacks, DescribeStackEvents and GetTemplate,"
    " cloudwatch:PutDashboard and cloudwatch:PutMetricAlarm"
)


def deploy(name: str, document: Mapping[str, Any], given: Collection[str], *, bucket: str | None, replace: bool) -> str:
    """Create or update the stack, and wait. Returns the console's address of the dashboard. Raises BadInput.

    Parameters that are not `given` keep their values of an earlier deployment. A function that the stack watches and
    the template does not have is refused, unless `replace`.
    """
    cloudformation = client("cloudformation")
    with refused(f"stack {name}", PERMISSIONS):
        before = _existing(cloudformation, name)
        if before is not None:
            _check(cloudformation, name, before, document, replace=replace)
    body = _sent(json.dumps(document, separators=(",", ":")), name, bucket)
    kept = {each["ParameterKey"] for each in (before or {}).get("Parameters", ())} - set(given)
    parameters = [
        {"ParameterKey": key, "UsePreviousValue": True}
        if key in kept
        else {"ParameterKey": key, "ParameterValue": str(parameter["Default"])}
        for key, parameter in document["Parameters"].items()
    ]
    with refused(f"stack {name}", PERMISSIONS):
        if before is None:
            cloudformation.create_stack(StackName=name, Parameters=parameters, **body)
            _wait(cloudformation, name, "stack_create_complete")
        elif _updated(cloudformation, StackName=name, Parameters=parameters, **body):
            _wait(cloudformation, name, "stack_update_complete")
        after = _existing(cloudformation, name) or {}
        outputs = {each["OutputKey"]: each["OutputValue"] for each in after["Outputs"]}
        url: str = outputs["DashboardUrl"]
        return url


def _existing(cloudformation: Any, name: str) -> dict[str, Any] | None:
    """The stack, or None if there is none of this name."""
    from botocore.exceptions import ClientError

    try:
        stack: dict[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return stack


def _check(
    cloudformation: Any, name: str, stack: Mapping[str, Any], document: Mapping[str, Any], *, replace: bool
) -> None:
    """Raise BadInput if the update would fail, or would remove what the user did not mean."""
    status = stack["StackStatus"]
    if status == "ROLLBACK_COMPLETE":
        fix = f"Try aws cloudformation delete-stack --stack-name {name}, and then this again"
        raise BadInput(f"stack {name} is {status}: it was never created completely. {fix}")
    if status.endswith("_IN_PROGRESS"):
        raise BadInput(f"stack {name} is {status}: another update is running. Try again when it is done")
    functions = functions_of(cloudformation.get_template(StackName=name)["TemplateBody"])
    if functions is None:
        raise BadInput(f"stack {name} was not made by truemem dashboard. Try --stack-name {name}-memory")
    named = functions_of(document) or []
    gone = [function for function in functions if function not in named]
    if gone and not replace:
        fix = "Name them too, or take another --stack-name, or --replace to remove their alarms"
        raise BadInput(f"stack {name} watches {some(gone)} as well. {fix}")


def _sent(text: str, name: str, bucket: str | None) -> dict[str, str]:
    """The argument that has the template: the text itself, or the address of an object. Raises BadInput."""
    size = len(text.encode())
    if size <= INLINE_BYTES:
        return {"TemplateBody": text}
    if bucket is None:
        limit = f"without a bucket CloudFormation takes {INLINE_BYTES:,}"
        raise BadInput(f"the template has {size:,} bytes, and {limit}. Try --bucket NAME, or fewer functions")
    s3 = client("s3")
    key = f"truemem/{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    with refused(f"bucket {bucket}", "s3:PutObject and s3:GetObject"):
        s3.put_object(Bucket=bucket, Key=key, Body=text.encode(), ContentType="application/json")
    return {"TemplateURL": f"{s3.meta.endpoint_url}/{bucket}/{key}"}


def _updated(cloudformation: Any, **arguments: Any) -> bool:
    """Begin the update. False if there is nothing to update."""
    from botocore.exceptions import ClientError

    try:
        cloudformation.update_stack(**arguments)
    except ClientError as error:
        if "No updates are to be performed" in str(error):
            return False
        raise
    return True


def _wait(cloudformation: Any, name: str, state: str) -> None:
    from botocore.exceptions import WaiterError

    try:
        waiter = cloudformation.get_waiter(state)
        waiter.wait(StackName=name, WaiterConfig={"Delay": POLL_S, "MaxAttempts": POLLS})
    except WaiterError as error:
        raise BadInput(f"stack {name}: {_first_failure(cloudformation, name) or error}") from error


def _first_failure(cloudformation: Any, name: str) -> str | None:
    """Why the first resource failed since the stack's last operation began."""
    reason: str | None = None
    for page in cloudformation.get_paginator("describe_stack_events").paginate(StackName=name):
        for event in page["StackEvents"]:  # the newest first
            status = event["ResourceStatus"]
            if status.endswith("_FAILED"):
                reason = event.get("ResourceStatusReason")
            if event["ResourceType"] == "AWS::CloudFormation::Stack" and status in BEGUN:
                return reason
    return reason
