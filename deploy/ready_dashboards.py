"""Ready dashboards for Grafana and Datadog, from the tables of what is sent: `make dashboards`.

Grafana's has the names that Prometheus gives to OpenTelemetry's metrics ("Prometheus and OpenMetrics compatibility"):
underscores for dots, the unit as a suffix, `_total` for sums. A function is its `job`, an environment its `instance`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from truemem.line_schema import WHOLE
from truemem.outputs import dogstatsd, otlp_document

SUFFIXES = {"By": "_bytes", "s": "_seconds"}
"""Prometheus's suffix of a unit; one in braces has none, and neither has what stands after a slash in braces."""
HEAP_NAMES = ("truemem.heap.used", "truemem.heap.live", "truemem.heap.held")
JVM_NAMES = ("jvm.memory.used", "jvm.memory.used_after_last_gc", "jvm.memory.limit")
ABOUT = {
    "truemem.memory.current": "RSS of the function when the invocation's window closed",
    "truemem.memory.baseline": "RSS of the function when the invocation's window opened",
    "truemem.memory.mark": "High-water mark of the environment, as in REPORT",
    "truemem.memory.drift": "Growth of the memory from invocation to the next",
    "truemem.memory.growing": "Verdicts that the memory is growing",
    "truemem.oom": "Invocations that ran out of memory",
    "truemem.dropped": "What could not be measured, printed or sent",
    "faas.coldstarts": "Cold starts",
    "faas.invocations": "Invocations that succeeded",
    "faas.errors": "Invocations that failed",
    "faas.timeouts": "Invocations that ran into the timeout",
}
TITLE = "Memory of Lambda functions (truemem)"

Json = dict[str, Any]


def prometheus(name: str, unit: str, *, total: bool = False) -> str:
    """The name that a metric of OpenTelemetry has in Prometheus."""
    made = name.replace(".", "_") + SUFFIXES.get(unit.partition("/")[0], "")
    return made + "_total" if total else made


def grafana() -> Json:
    """A dashboard to import. The data source is chosen there."""
    panels: list[Json] = []
    for number, (title, unit, about, queries) in enumerate(_panels()):
        panels.append(
            {
                "id": number + 1,
                "type": "timeseries",
                "title": title,
                "description": about,
                "datasource": {"type": "prometheus", "uid": "${source}"},
                "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
                "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
                "targets": [
                    {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend}
                    for at, (query, legend) in enumerate(queries)
                ],
            }
        )
    count = prometheus(otlp_document.PEAK, "By") + "_count"
    variables: list[Json] = [
        {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"},
        {
            "name": "function",
            "type": "query",
            "label": "Function",
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "query": {"query": f"label_values({count}, job)", "refId": "A"},
            "definition": f"label_values({count}, job)",
            "refresh": 2,
            "multi": True,
            "includeAll": True,
        },
    ]
    return {
        "title": TITLE,
        "uid": "truemem",
        "schemaVersion": 39,
        "tags": ["truemem", "lambda"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": variables},
        "panels": panels,
    }


def _panels() -> Iterator[tuple[str, str, str, list[tuple[str, str]]]]:
    """Title, Grafana's unit, meaning, and queries with their legends."""
    chosen = '{job=~"$function"}'
    peak = prometheus(otlp_document.PEAK, "By")
    quantiles = [
        (
            f"histogram_quantile({q}, sum by (job, le) (rate({peak}_bucket{chosen}[$__rate_interval])))",
            f"{{{{job}}}} p{round(q * 100)}",
        )
        for q in (0.5, 0.99)
    ]
    yield "Peak of an invocation", "bytes", "faas.mem_usage: each invocation's own peak, within its bucket", quantiles
    for name, (_, _, unit) in otlp_document.GAUGES.items():
        by = "max by (job, instance)" if name == "truemem.memory.current" else "max by (job)"
        legend = "{{job}} {{instance}}" if "instance" in by else "{{job}}"
        yield name, "bytes", ABOUT[name], [(f"{by} ({prometheus(name, unit)}{chosen})", legend)]
    for name, (_, unit) in otlp_document.SUMS.items():
        query = f"sum by (job) (increase({prometheus(name, unit, total=True)}{chosen}[$__rate_interval]))"
        yield name, "short", ABOUT[name], [(query, "{{job}}")]
    heap = [(f"max by (job) ({prometheus(name, 'By')}{chosen})", f"{{{{job}}}} {name}") for name in HEAP_NAMES]
    yield "Heap", "bytes", "What the function's runtime says of its heap", heap
    of_jvm = '{job=~"$function", jvm_memory_type="heap"}'
    jvm = [(f"max by (job) ({prometheus(name, 'By')}{of_jvm})", f"{{{{job}}}} {name}") for name in JVM_NAMES]
    yield "Heap of a JVM", "bytes", "The same by OpenTelemetry's names", jvm


def datadog() -> Json:
    """A dashboard to import. Percentiles must be switched on for the distribution of peaks."""
    widgets: list[Json] = []
    first = next(iter(dogstatsd.METRICS))
    widgets.append(_widget("Peak of an invocation", [_query(how, first) for how in ("p50", "p99", "max")]))
    for name, (_, kind) in dogstatsd.METRICS.items():
        if name != first:
            widgets.append(_widget(name, [_query("sum" if kind == WHOLE else "max", name)]))
    widgets.append(_widget("Heap", [_query("max", name) for name in dogstatsd.HEAP_METRICS]))
    variable = {"name": "functionname", "prefix": "functionname", "available_values": [], "defaults": ["*"]}
    return {
        "title": TITLE,
        "layout_type": "ordered",
        "template_variables": [variable],
        "widgets": widgets,
    }


def _query(how: str, name: str) -> str:
    return f"{how}:{name}{{$functionname}} by {{functionname}}"


def _widget(title: str, queries: list[str]) -> Json:
    requests = [
        {
            "display_type": "line",
            "response_format": "timeseries",
            "formulas": [{"formula": f"query{at}"} for at in range(len(queries))],
            "queries": [
                {"name": f"query{at}", "data_source": "metrics", "query": query} for at, query in enumerate(queries)
            ],
        }
    ]
    return {"definition": {"type": "timeseries", "title": title, "show_legend": True, "requests": requests}}


def files() -> dict[str, str]:
    """The dashboards by the names of their files."""
    made = {"grafana.json": grafana(), "datadog.json": datadog()}
    return {name: json.dumps(document, indent=2) + "\n" for name, document in made.items()}


if __name__ == "__main__":
    for name, text in files().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
