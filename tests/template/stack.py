"""The application in an account: a stack, created through CloudFormation's API."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deploy import application

CODE = "code"
"""Bucket of what `sam deploy` would have uploaded."""

EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


@dataclass(frozen=True)
class Account:
    """Somewhere to create things: `client("lambda")` is boto3's client of it."""

    client: Callable[[Any], Any]


@dataclass(frozen=True)
class Stack:
    account: Account
    name: str

    @cached_property
    def ids(self) -> dict[str, str]:
        """Physical id by logical id, of what moto can make."""
        cloudformation = self.account.client("cloudformation")
        found = cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]
        return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found if "PhysicalResourceId" in each}

    def description(self) -> dict[str, Any]:
        (stack,) = self.account.client("cloudformation").describe_stacks(StackName=self.name)["Stacks"]
        found: dict[str, Any] = stack
        return found


def zips(template: application.Template) -> dict[str, str]:
    """The object that each function and layer comes from."""
    return {
        name: f"{name}.zip"
        for name, resource in template["Resources"].items()
        if resource["Type"].startswith("AWS::Serverless::") and resource["Properties"].get("PackageType") != "Image"
    }


def plain(template: application.Template) -> application.Template:
    """What CloudFormation gets, by AWS's own translator."""
    return application.translated(application.located(template, CODE, zips(template)))


def upload(account: Account, template: application.Template) -> None:
    """A small zip for each piece of code."""
    s3 = account.client("s3")
    s3.create_bucket(Bucket=CODE, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    for key in zips(template).values():
        s3.put_object(Bucket=CODE, Key=key, Body=EMPTY_ZIP)


def create(account: Account, template: application.Template, name: str, **parameters: str) -> Stack:
    """Through CloudFormation. Raises what boto3 raises."""
    account.client("cloudformation").create_stack(
        StackName=name,
        TemplateBody=json.dumps(plain(template)),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    return Stack(account, name)
