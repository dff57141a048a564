"""A CloudFormation template with a dashboard and alarms for some functions. More than it has room for get several.

Limits (CloudWatch user guide, "Dashboard body structure" and "service quotas"): 500 widgets, 500 metrics in a widget,
2,500 in a dashboard; 50 log groups in a query. Most metrics have no label: the console labels them by what differs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from truemem.config import Config

from ..aws.clients import CALLS_PER_S, Pace, client, configuration_of, log_group_in, paced, refused
from ..support.bad_input import BadInput

FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LOG_GROUP = re.compile(r"[\w./#-]{1,512}", re.ASCII)
"""What Lambda and CloudWatch Logs allow. Nothing else gets into queries and titles."""


class Watched(NamedTuple):
    """A function that the dashboard shows."""

    name: str
    memory_mib: int
    log_group: str
    namespace: str = "truemem"
    """CloudWatch namespace of its metrics: its TRUEMEM_NAMESPACE."""
    layered: bool = True
    """False if a layer of truemem could be attached, and none is."""


def watched(configuration: Mapping[str, Any]) -> Watched:
    """Read what Lambda's GetFunctionConfiguration returned. Raises KeyError if it is not Lambda's answer, and BadInput
    if the variables cannot be read."""
    name, memory = configuration["FunctionName"], configuration["MemorySize"]
    environment = configuration.get("Environment") or {}
    if "Error" in environment:
        why = "its variables cannot be read, and TRUEMEM_NAMESPACE may be among them"
        raise BadInput(f"function {name}: {why}. The caller needs kms:Decrypt for its key")
    group = log_group_in(configuration, name)
    if not (FUNCTION_NAME.fullmatch(name) and isinstance(memory, int) and LOG_GROUP.fullmatch(group)):
        raise KeyError(name)
    namespace = environment.get("Variables", {}).get("TRUEMEM_NAMESPACE", "")
    layers = [str(layer.get("Arn")) for layer in configuration.get("Layers", ())]
    return Watched(
        name,
        memory,
        group,
        Config({b"TRUEMEM_NAMESPACE": namespace.encode(errors="replace")}).namespace,
        configuration.get("PackageType") == "Image" or any("truemem" in arn for arn in layers),
    )


def look_up(functions: Sequence[str], done: Callable[[int], None]) -> tuple[str, list[Watched]]:
    """Ask Lambda for each function (name or ARN). Returns their region, and each function once, in the given order.

    `done` is called with 1 after each. Raises BadInput.
    """
    found: dict[str, Watched] = {}
    regions: set[str] = set()
    asked = paced(client("lambda"), Pace(CALLS_PER_S))
    for function in functions:
        with refused(f"function {function}", "lambda:GetFunctionConfiguration"):
            configuration = configuration_of(function, asked)
            one = watched(configuration)
            regions.add(configuration["FunctionArn"].split(":")[3])
        found[one.name] = one
        done(1)
    if len(regions) > 1:
        raise BadInput(
            f"functions of {len(regions)} regions ({', '.join(sorted(regions))}). Try one run for each region"
        )
    return regions.pop(), list(found.values())


ALARMS_PER_FUNCTION = 3
GROWING_OF = 4
"""Periods of 15 minutes that the alarm on growth looks at."""
CONDITION = "Notified"
"""Condition of the template: there is a topic."""
_SHARED_PROPERTIES = {
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    "TreatMissingData": "notBreaching",  # a function that is not invoked has no data
    "AlarmActions": {"Fn::If": [CONDITION, [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]},
}


def alarms(function: Watched) -> dict[str, dict[str, Any]]:
    """The ALARMS_PER_FUNCTION alarms by logical id. Their thresholds are parameters of the template."""

    def metric(name: str) -> dict[str, Any]:
        dimensions = [{"Name": "FunctionName", "Value": function.name}]
        return {"Namespace": function.namespace, "MetricName": name, "Dimensions": dimensions}

    peak = {"Metric": metric("PeakRSS"), "Stat": "Maximum", "Period": 60}
    by_kind: dict[str, dict[str, Any]] = {
        "OutOfMemory": {
            "AlarmDescription": f"{function.name} ran out of memory",
            **metric("OutOfMemory"),
            "Statistic": "Sum",
            "Period": 300,
            "EvaluationPeriods": 1,
            "Threshold": {"Ref": "OutOfMemoryCount"},
        },
        "NearLimit": {
            "AlarmDescription": f"A peak of {function.name} is near its memory size",
            "Metrics": [
                {"Id": "percent", "Expression": f"100*peak/{function.memory_mib}"},
                {"Id": "peak", "ReturnData": False, "MetricStat": peak},
            ],
            "EvaluationPeriods": 1,
            "Threshold": {"Ref": "PeakPercent"},
        },
        # in several periods: one verdict alone is often that of a cache which has not bent yet
        "Growing": {
            "AlarmDescription": f"Memory of {function.name} grows with each invocation",
            **metric("MemoryGrowing"),
            "Statistic": "Sum",
            "Period": 900,
            "EvaluationPeriods": GROWING_OF,
            "DatapointsToAlarm": {"Ref": "GrowingPeriods"},
            "Threshold": 1,
        },
    }
    return {
        logical_id(function.name, kind): {"Type": "AWS::CloudWatch::Alarm", "Properties": {**own, **_SHARED_PROPERTIES}}
        for kind, own in by_kind.items()
    }


def logical_id(name: str, kind: str) -> str:
    """A logical id has letters and digits only, so a hash of the name keeps `a-b` and `ab` apart."""
    plain = re.sub(r"[^A-Za-z0-9]", "", name)
    return f"{plain}{hashlib.sha256(name.encode()).hexdigest()[:8]}{kind}"


DASHBOARD_WIDTH = 24
HEIGHT = 6
QUERY_GROUPS = 50
"""Log groups that one query may read."""
DRAWN_BY_QUERY = 6
"""Up to so many functions each has a graph with a line for each environment. It is a query, and each reads the log
whenever the dashboard is opened."""
NOTE = (
    "**PeakRSS** and **CurrentRSS** are each invocation's own; CurrentRSS is what it left behind. **MaxMemoryUsed** is"
    " the high-water mark of an execution environment: it never falls. Sizes are MiB. Made by `truemem dashboard`."
)
OPEN_FILTER = 'filter ispresent(CurrentRSS) and (not ispresent(closedBy) or closedBy != "shutdown")'
"""Lines whose CurrentRSS is what the invocation left behind: at a shutdown the function was gone already."""
TABLES = {
    "Environments with the highest level (MiB)": (
        f"{OPEN_FILTER} | stats latest(CurrentRSS) as currentMiB, max(PeakRSS) as peakMiB, latest(memoryLimit) as"
        " limitMiB, latest(invocation) as invocations by FunctionName, environmentId | sort currentMiB desc | limit 20"
    ),
    "Environments that grow most in each invocation (KiB)": (
        "filter ispresent(drift.verdict) | stats latest(drift.verdict) as verdict, latest(drift.perInvocationKiB) as"
        " growthKiB, latest(invocation) as invocations by FunctionName, environmentId | sort growthKiB desc | limit 20"
    ),
}
"""Queries by the title of their table."""
ENVIRONMENTS_QUERY = (
    f'{OPEN_FILTER} and FunctionName = "%s" | stats max(CurrentRSS) as current by bin(5m), environmentId'
)


def dashboard_body(functions: Sequence[Watched], region: str) -> dict[str, Any]:
    """The dashboard's document. The region is that of the functions, in which the stack has to be."""
    placed = [{"type": "text", "x": 0, "y": 0, "width": DASHBOARD_WIDTH, "height": 2, "properties": {"markdown": NOTE}}]
    x, y = 0, 2
    for kind, width, properties in _widgets(functions):
        place = {"x": x, "y": y, "width": width, "height": HEIGHT}
        placed.append({"type": kind, **place, "properties": {"region": region, **properties}})
        x, y = (x + width, y) if x + width < DASHBOARD_WIDTH else (0, y + HEIGHT)
    return {"widgets": placed}


def _widgets(functions: Sequence[Watched]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Type, width and properties of each. The widths of a row add up to DASHBOARD_WIDTH."""
    third, half = DASHBOARD_WIDTH // 3, DASHBOARD_WIDTH // 2
    yield "metric", third, _sums_graph("Invocations that ran out of memory", functions, "OutOfMemory", 300)
    yield "metric", third, _headroom_graph(functions)
    yield "metric", third, _sums_graph("Verdicts that memory is growing", functions, "MemoryGrowing", 900)
    groups = sorted({function.log_group for function in functions})
    for begin in range(0, len(groups), QUERY_GROUPS):
        for title, query in TABLES.items():
            text = _query(groups[begin : begin + QUERY_GROUPS], query)
            yield "log", half, {"title": title, "view": "table", "query": text}
    for function in functions:
        yield "metric", half, _memory_graph(function)
        if len(functions) <= DRAWN_BY_QUERY:
            title = f"{function.name}: what each environment is left with (MiB)"
            text = _query([function.log_group], ENVIRONMENTS_QUERY % function.name)
            yield "log", half, {"title": title, "view": "timeSeries", "query": text}


def _graph_metric(function: Watched, name: str, **options: Any) -> list[Any]:
    return [function.namespace, name, "FunctionName", function.name, *([options] if options else [])]


def _sums_graph(title: str, functions: Sequence[Watched], name: str, period_s: int) -> dict[str, Any]:
    metrics = [_graph_metric(function, name) for function in functions]
    return {"title": title, "stat": "Sum", "period": period_s, "metrics": metrics}


def _headroom_graph(functions: Sequence[Watched]) -> dict[str, Any]:
    metrics: list[Any] = []
    for number, function in enumerate(functions):
        metrics.append([{"expression": f"{function.memory_mib}-p{number}", "label": function.name}])
        metrics.append(_graph_metric(function, "PeakRSS", id=f"p{number}", visible=False))
    title = "Headroom: memory size less the highest peak (MiB)"
    return {"title": title, "stat": "Maximum", "period": 300, "metrics": metrics}


def _memory_graph(function: Watched) -> dict[str, Any]:
    return {
        "title": f"{function.name}: memory and its limit (MiB), duration (ms)",
        "stat": "Maximum",
        "period": 60,
        "metrics": [
            _graph_metric(function, "PeakRSS"),
            *([".", name, ".", "."] for name in ("CurrentRSS", "MaxMemoryUsed")),
            ["AWS/Lambda", "Duration", ".", ".", {"yAxis": "right"}],
        ],
        "annotations": {"horizontal": [{"value": function.memory_mib}]},
    }


def _query(groups: Sequence[str], query: str) -> str:
    return " | ".join([*(f"SOURCE '{group}'" for group in groups), query])


RESOURCES = 500
"""Most resources of a template (CloudFormation's quotas)."""
MOST_FUNCTIONS = (RESOURCES - 1) // ALARMS_PER_FUNCTION
"""Most functions of a template, 166: each has its alarms, and the dashboard is one resource."""
TOPIC = "AlarmTopic"
METADATA_KEY = "truemem"
"""Key in the template's Metadata, below which are the functions that it is for, and which of several it is."""


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


def arranged(functions: Sequence[Watched], held: Sequence[Sequence[str]] = ()) -> list[list[Watched]]:
    """The functions of each template, up to MOST_FUNCTIONS. `held` are the names in each that is deployed: a function
    stays where it is, because its alarms would begin anew in another stack, and then one may be left without any."""
    by_name = {function.name: function for function in functions}
    parts = [[by_name.pop(name) for name in names if name in by_name] for names in held]
    rest = deque(by_name.values())
    for part in parts:
        part.extend(rest.popleft() for _ in range(min(len(rest), MOST_FUNCTIONS - len(part))))
    while rest:
        parts.append([rest.popleft() for _ in range(min(len(rest), MOST_FUNCTIONS))])
    return parts


def template(functions: Sequence[Watched], region: str, settings: Mapping[str, str], part: int = 1) -> dict[str, Any]:
    """The template of up to MOST_FUNCTIONS functions. `settings` are the parameters' new defaults; `part` counts the
    templates from 1. Raises BadInput for a setting that is not allowed."""
    document = json.dumps(dashboard_body(functions, region), separators=(",", ":"))
    # Dashboards have one list of names for all regions.
    name = {"Fn::Sub": "${AWS::StackName}-${AWS::Region}"}
    dashboard = {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardName": name, "DashboardBody": document}}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Memory of Lambda functions - dashboard and alarms, made by truemem dashboard",
        "Metadata": {METADATA_KEY: {"functions": [function.name for function in functions], "part": part}},
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


def content_of(document: object) -> tuple[list[str], int] | None:
    """The functions and the part of a template made here, or None if it is another's."""
    metadata = document.get("Metadata") if isinstance(document, dict) else None
    ours = metadata.get(METADATA_KEY) if isinstance(metadata, dict) else None
    names = ours.get("functions") if isinstance(ours, dict) else None
    return ([str(name) for name in names], ours.get("part", 1)) if ours and isinstance(names, list) else None


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
