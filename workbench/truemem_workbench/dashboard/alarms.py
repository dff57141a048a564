"""The alarms of one function, as CloudFormation resources. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from .watched import Watched

KINDS = ("OutOfMemory", "NearLimit", "Growing")
"""Alarms of each function, by the end of their logical ids."""
GROWING_OF = 4
"""Periods of 15 minutes that the alarm on growth looks at."""
CONDITION = "Notified"
"""Condition of the template: there is a topic."""


def alarms(function: Watched) -> dict[str, dict[str, Any]]:
    """The alarms by logical id. Their thresholds are parameters of the template."""
    return {
        logical_id(function.name, kind): {"Type": "AWS::CloudWatch::Alarm", "Properties": {**own, **_SHARED}}
        for kind, own in zip(KINDS, (_out_of_memory(function), _near_limit(function), _growing(function)), strict=True)
    }


def logical_id(name: str, kind: str) -> str:
    """A logical id has letters and digits only, so a hash of the name keeps `a-b` and `ab` apart."""
    plain = re.sub(r"[^A-Za-z0-9]", "", name)
    return f"{plain}{hashlib.sha256(name.encode()).hexdigest()[:8]}{kind}"


_SHARED = {
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    "TreatMissingData": "notBreaching",  # a function that is not invoked has no data
    "AlarmActions": {"Fn::If": [CONDITION, [{"Ref": "AlarmTopic"}], {"Ref": "AWS::NoValue"}]},
}


def _metric(function: Watched, name: str) -> dict[str, Any]:
    dimensions = [{"Name": "FunctionName", "Value": function.name}]
    return {"Namespace": function.namespace, "MetricName": name, "Dimensions": dimensions}


def _out_of_memory(function: Watched) -> dict[str, Any]:
    return {
        "AlarmDescription": f"{function.name} ran out of memory",
        **_metric(function, "OutOfMemory"),
        "Statistic": "Sum",
        "Period": 300,
        "EvaluationPeriods": 1,
        "Threshold": {"Ref": "OutOfMemoryCount"},
    }


def _near_limit(function: Watched) -> dict[str, Any]:
    stat = {"Metric": _metric(function, "PeakRSS"), "Stat": "Maximum", "Period": 60}
    return {
        "AlarmDescription": f"A peak of {function.name} is near its memory size",
        "Metrics": [
            {"Id": "percent", "Expression": f"100*peak/{function.memory_mib}"},
            {"Id": "peak", "ReturnData": False, "MetricStat": stat},
        ],
        "EvaluationPeriods": 1,
        "Threshold": {"Ref": "PeakPercent"},
    }


def _growing(function: Watched) -> dict[str, Any]:
    """A verdict `growing` in several periods: one alone is often that of a cache which has not bent yet."""
    return {
        "AlarmDescription": f"Memory of {function.name} grows with each invocation",
        **_metric(function, "MemoryGrowing"),
        "Statistic": "Sum",
        "Period": 900,
        "EvaluationPeriods": GROWING_OF,
        "DatapointsToAlarm": {"Ref": "GrowingPeriods"},
        "Threshold": 1,
    }
