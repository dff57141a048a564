"""Creates or updates the stacks of dashboards through CloudFormation, and waits until that is done."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..aws.clients import client, refused
from ..support.bad_input import BadInput
from ..support.terminal import some
from .template import content_of

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


class Stack(NamedTuple):
    """A stack that is there."""

    parameters: tuple[str, ...]
    functions: tuple[str, ...]
    """The functions that the stack watches."""


def stack_name(name: str, part: int) -> str:
    """Name of the stack of a part, counted from 1: NAME, NAME-2, NAME-3."""
    return name if part == 1 else f"{name}-{part}"


def deploy_command(name: str, path: Path) -> str:
    """The command of the AWS CLI that deploys a template that was written."""
    bucket = " --s3-bucket BUCKET" if path.stat().st_size > INLINE_BYTES else ""
    file = shlex.quote(str(path))
    return f"aws cloudformation deploy --stack-name {shlex.quote(name)} --template-file {file}{bucket}"


def existing(name: str, parts: int) -> list[Stack | None]:
    """The stacks of the first `parts` parts, and of all that follow them. Raises BadInput if one is not a dashboard's,
    or takes no update now."""
    cloudformation = client("cloudformation")
    found: list[Stack | None] = []
    while True:
        one = stack_name(name, len(found) + 1)
        with refused(f"stack {one}", PERMISSIONS):
            answer = _described(cloudformation, one)
            if answer is None and len(found) >= parts:
                return found
            body = answer and cloudformation.get_template(StackName=one)["TemplateBody"]
        content = content_of(body)
        if answer is not None and (content is None or content[1] != len(found) + 1):
            if len(found) >= parts:
                return found  # another's, and not needed
            raise BadInput(f"stack {one} was not made by truemem dashboard. Try --stack-name {name}-memory")
        if answer is not None:
            _check_status(one, answer["StackStatus"])
        keys = tuple(each["ParameterKey"] for each in (answer or {}).get("Parameters", ()))
        found.append(Stack(keys, tuple(content[0])) if content else None)


def deploy(
    name: str, document: Mapping[str, Any], given: Collection[str], *, bucket: str | None, before: Stack | None
) -> str:
    """Create the stack, or update what was there `before`, and wait. Returns the console's address of the dashboard.
    Raises BadInput.

    Parameters that are not `given` keep their values of an earlier deployment.
    """
    cloudformation = client("cloudformation")
    body = _sent(json.dumps(document, separators=(",", ":")), name, bucket)
    kept = {*(before.parameters if before else ())} - set(given)
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
        after = _described(cloudformation, name) or {}
        outputs = {each["OutputKey"]: each["OutputValue"] for each in after["Outputs"]}
        url: str = outputs["DashboardUrl"]
        return url


def _described(cloudformation: Any, name: str) -> dict[str, Any] | None:
    """What CloudFormation says of a stack, or None if there is none of this name."""
    from botocore.exceptions import ClientError

    try:
        stack: dict[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return stack


def _check_status(name: str, status: str) -> None:
    """Raise BadInput if the update would fail."""
    if status == "ROLLBACK_COMPLETE":
        fix = f"Try aws cloudformation delete-stack --stack-name {name}, and then this again"
        raise BadInput(f"stack {name} is {status}: it was never created completely. {fix}")
    if status.endswith("_IN_PROGRESS"):
        raise BadInput(f"stack {name} is {status}: another update is running. Try again when it is done")


def check_kept(name: str, stacks: Iterable[Stack | None], named: Collection[str]) -> None:
    """Raise BadInput if an update would remove what the user did not mean."""
    gone = [function for stack in stacks if stack for function in stack.functions if function not in named]
    if gone:
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
