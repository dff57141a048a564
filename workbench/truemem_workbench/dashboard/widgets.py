"""The body of a CloudWatch dashboard for some functions. Pure.

Limits (CloudWatch user guide, "Dashboard body structure" and "service quotas"): 500 widgets, 500 metrics in a widget,
2,500 in a dashboard; 50 log groups in a query. Most metrics have no label: the console labels them by what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .watched import Watched

WIDTH = 24
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
OPEN = 'filter ispresent(CurrentRSS) and ispresent(closedBy) and closedBy != "shutdown"'
"""Lines whose CurrentRSS is what the invocation left behind: at a shutdown the function was gone already."""
LEVELS = (
    f"{OPEN} | stats latest(CurrentRSS) as currentMiB, max(PeakRSS) as peakMiB, latest(memoryLimit) as limitMiB,"
    " latest(invocation) as invocations by FunctionName, environmentId | sort currentMiB desc | limit 20"
)
VERDICTS = (
    "filter ispresent(drift.verdict) | stats latest(drift.verdict) as verdict, latest(drift.perInvocationKiB) as"
    " growthKiB, latest(invocation) as invocations by FunctionName, environmentId | sort growthKiB desc | limit 20"
)
EACH = f'{OPEN} and FunctionName = "%s" | stats max(CurrentRSS) as current by bin(5m), environmentId'


def body(functions: Sequence[Watched], region: str) -> dict[str, Any]:
    """The dashboard's document. The region is that of the functions, in which the stack has to be."""
    placed = [{"type": "text", "x": 0, "y": 0, "width": WIDTH, "height": 2, "properties": {"markdown": NOTE}}]
    x, y = 0, 2
    for kind, width, properties in _widgets(functions):
        place = {"x": x, "y": y, "width": width, "height": HEIGHT}
        placed.append({"type": kind, **place, "properties": {"region": region, **properties}})
        x, y = (x + width, y) if x + width < WIDTH else (0, y + HEIGHT)
    return {"widgets": placed}


def _widgets(functions: Sequence[Watched]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Type, width and properties of each. The widths of a row add up to WIDTH."""
    for graph in (_out_of_memory, _headroom, _growth):
        yield "metric", WIDTH // 3, graph(functions)
    groups = sorted({function.log_group for function in functions})
    for begin in range(0, len(groups), QUERY_GROUPS):
        some = groups[begin : begin + QUERY_GROUPS]
        yield "log", WIDTH // 2, _table("Environments with the highest level (MiB)", some, LEVELS)
        yield "log", WIDTH // 2, _table("Environments that grow most in each invocation (KiB)", some, VERDICTS)
    for function in functions:
        yield "metric", WIDTH // 2, _memory(function)
        if len(functions) <= DRAWN_BY_QUERY:
            yield "log", WIDTH // 2, _environments(function)


def _metric(function: Watched, name: str, **options: Any) -> list[Any]:
    return [function.namespace, name, "FunctionName", function.name, *([options] if options else [])]


def _out_of_memory(functions: Sequence[Watched]) -> dict[str, Any]:
    metrics = [_metric(function, "OutOfMemory") for function in functions]
    return {"title": "Invocations that ran out of memory", "stat": "Sum", "period": 300, "metrics": metrics}


def _headroom(functions: Sequence[Watched]) -> dict[str, Any]:
    metrics: list[Any] = []
    for number, function in enumerate(functions):
        metrics.append([{"expression": f"{function.memory_mib}-p{number}", "label": function.name}])
        metrics.append(_metric(function, "PeakRSS", id=f"p{number}", visible=False))
    title = "Headroom: memory size less the highest peak (MiB)"
    return {"title": title, "stat": "Maximum", "period": 300, "metrics": metrics}


def _growth(functions: Sequence[Watched]) -> dict[str, Any]:
    metrics = [_metric(function, "MemoryGrowing") for function in functions]
    return {"title": "Verdicts that memory is growing", "stat": "Sum", "period": 900, "metrics": metrics}


def _memory(function: Watched) -> dict[str, Any]:
    rest = ([".", name, ".", "."] for name in ("CurrentRSS", "MaxMemoryUsed"))
    return {
        "title": f"{function.name}: memory and its limit (MiB), duration (ms)",
        "stat": "Maximum",
        "period": 60,
        "metrics": [
            _metric(function, "PeakRSS"),
            *rest,
            ["AWS/Lambda", "Duration", ".", ".", {"yAxis": "right"}],
        ],
        "annotations": {"horizontal": [{"value": function.memory_mib}]},
    }


def _environments(function: Watched) -> dict[str, Any]:
    title = f"{function.name}: what each environment is left with (MiB)"
    return {"title": title, "view": "timeSeries", "query": _query([function.log_group], EACH % function.name)}


def _table(title: str, groups: Sequence[str], query: str) -> dict[str, Any]:
    return {"title": title, "view": "table", "query": _query(groups, query)}


def _query(groups: Sequence[str], query: str) -> str:
    return " | ".join([*(f"SOURCE '{group}'" for group in groups), query])
