"""One CloudFormation template with a dashboard and alarms for some functions. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..support.bad_input import BadInput
from . import widgets
from .alarms import CONDITION, GROWING_OF, KINDS, alarms
from .watched import Watched

RESOURCES = 500
"""Most resources of a template (CloudFormation's quotas)."""
MOST = (RESOURCES - 1) // len(KINDS)
"""Most functions of a template: each has its alarms, and the dashboard is one resource."""
TOPIC = "AlarmTopic"
OURS = "truemem"
"""Key in the template's Metadata, below which are the functions that it is for."""


def _number(default: int, least: int, text: str, **more: Any) -> dict[str, Any]:
    return {"Type": "Number", "Default": default, "MinValue": least, **more, "Description": text}


PARAMETERS: Mapping[str, dict[str, Any]] = {
    TOPIC: {"Type": "String", "Default": "", "Description": "ARN of an SNS topic for the alarms - empty for none"},
    "OutOfMemoryCount": _number(1, 1, "Alarm at so many invocations within 5 minutes that ran out of memory"),
    "PeakPercent": _number(90, 1, "Alarm when a peak reaches this percentage of the memory size", MaxValue=100),
    "GrowingPeriods": _number(
        2, 1, "Alarm when so many of the last four quarters of an hour had a verdict growing", MaxValue=GROWING_OF
    ),
}
URL = "https://${AWS::Region}.console.aws.amazon.com/cloudwatch/home?region=${AWS::Region}#dashboards/dashboard/${Dashboard}"


def template(functions: Sequence[Watched], region: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """The template. `settings` are the parameters' new defaults. Raises BadInput for too many functions, or a setting
    that is not allowed."""
    if len(functions) > MOST:
        fix = "Try several runs, each with its own --stack-name"
        raise BadInput(f"{len(functions)} functions: one template has room for {MOST}. {fix}")
    document = json.dumps(widgets.body(functions, region), separators=(",", ":"))
    # Dashboards have one list of names for all regions.
    name = {"Fn::Sub": "${AWS::StackName}-${AWS::Region}"}
    dashboard = {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardName": name, "DashboardBody": document}}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Memory of Lambda functions - dashboard and alarms, made by truemem dashboard",
        "Metadata": {OURS: {"functions": [function.name for function in functions]}},
        "Parameters": {
            name: {**parameter, "Default": _setting(name, settings.get(name), parameter)}
            for name, parameter in PARAMETERS.items()
        },
        "Conditions": {CONDITION: {"Fn::Not": [{"Fn::Equals": [{"Ref": TOPIC}, ""]}]}},
        "Resources": {
            "Dashboard": dashboard,
            **{logical_id: alarm for function in functions for logical_id, alarm in alarms(function).items()},
        },
        "Outputs": {"DashboardUrl": {"Description": "The dashboard in the console", "Value": {"Fn::Sub": URL}}},
    }


def functions_of(document: object) -> list[str] | None:
    """The functions of a template made here, or None if it is another's."""
    metadata = document.get("Metadata") if isinstance(document, dict) else None
    ours = metadata.get(OURS) if isinstance(metadata, dict) else None
    names = ours.get("functions") if isinstance(ours, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else None


def _setting(name: str, text: str | None, parameter: Mapping[str, Any]) -> str | int:
    """The parameter's value: the given one, if it is allowed. Raises BadInput."""
    default: str | int = parameter["Default"]
    if text is None or parameter["Type"] != "Number":
        return default if text is None else text
    least, most = parameter["MinValue"], parameter.get("MaxValue", "")
    wanted = f"{least} to {most}" if most else f"{least} or more"
    value = int(text) if text.isdecimal() and len(text) < 10 else None
    if value is None or value < least or (most and value > most):
        raise BadInput(f"--set {name}={text}: it has to be {wanted}. Try --set {name}={default}")
    return value
