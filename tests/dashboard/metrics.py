"""Metrics by their identity in CloudWatch: namespace, name, and the whole set of dimensions with their values."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from testing.emf_check import valid_emf

Metric = tuple[str, str, frozenset[tuple[str, str]]]


def made_by(lines: Iterable[str]) -> set[Metric]:
    """The metrics that CloudWatch makes of the sidecar's lines."""
    return {
        (directive["Namespace"], metric["Name"], frozenset((name, document[name]) for name in dimensions))
        for document in map(valid_emf, lines)
        for directive in document["_aws"]["CloudWatchMetrics"]
        for dimensions in directive["Dimensions"]
        for metric in directive["Metrics"]
    }


def of_alarms(resources: Mapping[str, Any]) -> set[Metric]:
    """The metrics that the alarms of a template or a stack look at."""
    return {
        _identity(metric)
        for each in resources.values()
        if each["Type"] == "AWS::CloudWatch::Alarm"
        for metric in _of_alarm(each["Properties"])
    }


def of_dashboard(body: str) -> set[Metric]:
    """The metrics of a dashboard's graphs."""
    graphs = [each["properties"]["metrics"] for each in json.loads(body)["widgets"] if each["type"] == "metric"]
    return {metric for graph in graphs for metric in _of_graph(graph)}


def _of_alarm(properties: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "MetricName" in properties:
        return [properties]
    return [query["MetricStat"]["Metric"] for query in properties["Metrics"] if "MetricStat" in query]


def _identity(metric: Mapping[str, Any]) -> Metric:
    dimensions = frozenset((each["Name"], each["Value"]) for each in metric["Dimensions"])
    return metric["Namespace"], metric["MetricName"], dimensions


def _of_graph(rows: Iterable[list[Any]]) -> Iterator[Metric]:
    before: list[str] = []
    for row in rows:
        texts = [each for each in row if isinstance(each, str)]
        if texts:  # a row of an expression has none
            before = [text if text != "." else before[at] for at, text in enumerate(texts)]
            namespace, name, *dimensions = before
            yield namespace, name, frozenset(zip(dimensions[::2], dimensions[1::2], strict=True))
