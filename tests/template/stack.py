"""The application in an account: a stack, created through CloudFormation's API; and its parts, through each service's
own, since moto's CloudFormation leaves out layers, architectures, alarms, metric filters and bucket policies.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deploy import application
from tests.template.resolve import Resolver

CODE = "code"
"""Bucket of what `sam deploy` would have uploaded."""

EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


@dataclass(frozen=True)
class Account:
    """Somewhere to create things: `client("lambda")` is boto3's client of it."""

    client: Callable[[Any], Any]


@dataclass(frozen=True)
class Stack:
    """One that was created."""

    account: Account
    name: str

    @cached_property
    def ids(self) -> dict[str, str]:
        """Physical id by logical id, of what moto can make."""
        cloudformation = self.account.client("cloudformation")
        found = cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]
        return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found if "PhysicalResourceId" in each}

    def description(self) -> dict[str, Any]:
        """Status, outputs."""
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


class Parts:
    """What moto's CloudFormation leaves out, created by the services' own APIs with the template's own properties:
    boto3 refuses a name or a type that the service does not know. Names are logical ids.
    """

    def __init__(self, account: Account, template: application.Template, stack: Stack, **parameters: str) -> None:
        self._client = account.client
        translated = plain(template)
        self.resolve = Resolver(translated, parameters, {**stack.ids, **self._publish(translated, parameters)})
        self.role = self._client("iam").get_role(RoleName=stack.ids["SampleRole"])["Role"]["Arn"]

    def _publish(self, translated: application.Template, parameters: dict[str, str]) -> dict[str, str]:
        """The layers' ARNs by logical id."""
        arns = {}
        for name, properties in Resolver(translated, parameters, {}).resources("AWS::Lambda::LayerVersion").items():
            made = self._client("lambda").publish_layer_version(**properties)
            arns[name] = made["LayerVersionArn"]
        return arns

    def layers(self) -> dict[str, dict[str, Any]]:
        """By name, as Lambda tells it."""
        found = self._client("lambda").list_layers()["Layers"]
        return {each["LayerName"]: each["LatestMatchingVersion"] for each in found}

    def function(self, name: str) -> dict[str, Any]:
        """Created, and its configuration as Lambda tells it."""
        properties = self.resolve.resources("AWS::Lambda::Function")[name]
        properties.pop("Tags", None)  # a list here, a mapping there
        properties["Role"] = self.role
        aws_lambda = self._client("lambda")
        aws_lambda.create_function(FunctionName=name, **properties)
        answer: dict[str, Any] = aws_lambda.get_function_configuration(FunctionName=name)
        return {**properties, **answer}  # moto does not tell all of it: the rest as it was sent

    def alarms(self) -> dict[str, dict[str, Any]]:
        """All of them, by logical id."""
        cloudwatch = self._client("cloudwatch")
        for name, properties in self.resolve.resources("AWS::CloudWatch::Alarm").items():
            cloudwatch.put_metric_alarm(AlarmName=name, **_numbers(properties))
        return {each["AlarmName"]: each for each in cloudwatch.describe_alarms()["MetricAlarms"]}

    def dashboard(self) -> dict[str, Any]:
        """Its body."""
        ((name, properties),) = self.resolve.resources("AWS::CloudWatch::Dashboard").items()
        cloudwatch = self._client("cloudwatch")
        cloudwatch.put_dashboard(DashboardName=name, DashboardBody=properties["DashboardBody"])
        body: dict[str, Any] = json.loads(cloudwatch.get_dashboard(DashboardName=name)["DashboardBody"])
        return body


NUMBERS = {"Threshold": float, "Period": int, "EvaluationPeriods": int}


def _numbers(value: Any) -> Any:
    """CloudFormation turns a parameter, which is a text, into the number that the property wants."""
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: NUMBERS[key](each) if key in NUMBERS else _numbers(each) for key, each in value.items()}
    return value
