"""Does a request keep OpenTelemetry's conventions? A judge where their own (`weaver registry live-check`) is not to be
had, with its rules: the name is known, and instrument, unit, type of the values and attributes are those of the name.

CONVENTIONS is of the model of github.com/open-telemetry/semantic-conventions at v1.44.0 (`model/*/*metrics.yaml`:
instrument, unit, `metric_value_type`, attributes, of which those with `!` are required). The package
opentelemetry-semantic-conventions has the same for FaaS and processes alone: a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

OWN = "truemem."
_JVM = ("updowncounter", "By", "int", "jvm.memory.type jvm.memory.pool.name")
CONVENTIONS = {
    "faas.coldstarts": ("counter", "{coldstart}", "int", "faas.trigger"),
    "faas.invocations": ("counter", "{invocation}", "int", "faas.trigger"),
    "faas.errors": ("counter", "{error}", "int", "faas.trigger"),
    "faas.timeouts": ("counter", "{timeout}", "int", "faas.trigger"),
    "faas.mem_usage": ("histogram", "By", "int", "faas.trigger"),
    "faas.cpu_usage": ("histogram", "s", "double", "faas.trigger"),
    "faas.invoke_duration": ("histogram", "s", "double", "faas.trigger"),
    "faas.init_duration": ("histogram", "s", "double", "faas.trigger"),
    "process.memory.usage": ("updowncounter", "By", "int", ""),
    "process.thread.count": ("updowncounter", "{thread}", "int", ""),
    "process.unix.file_descriptor.count": ("updowncounter", "{file_descriptor}", "int", ""),
    "jvm.memory.used": _JVM,
    "jvm.memory.used_after_last_gc": _JVM,
    "jvm.memory.committed": _JVM,
    "jvm.memory.limit": _JVM,
    "go.memory.used": ("updowncounter", "By", "int", "go.memory.type go.memory.detailed_type"),
    "go.memory.limit": ("updowncounter", "By", "int", ""),
    "go.memory.gc.cycles": ("counter", "{gc_cycle}", "int", ""),
    "dotnet.gc.collections": ("counter", "{collection}", "int", "dotnet.gc.heap.generation!"),
    "dotnet.gc.pause.time": ("counter", "s", "double", ""),
    "dotnet.gc.last_collection.heap.size": ("updowncounter", "By", "int", "dotnet.gc.heap.generation!"),
    "dotnet.gc.last_collection.memory.committed_size": ("updowncounter", "By", "int", ""),
    "v8js.memory.heap.used": ("updowncounter", "By", "int", "v8js.heap.space.name!"),
    "cpython.gc.collections": ("counter", "{collection}", "int", "cpython.gc.generation!"),
}
"""Instrument, unit, type of the values, attributes."""
VALUES = {
    "jvm.memory.type": {"heap", "non_heap"},
    "dotnet.gc.heap.generation": {"gen0", "gen1", "gen2", "loh", "poh"},
}
"""The values that the model has of these attributes."""


def broken(request: ExportMetricsServiceRequest) -> list[str]:
    """What is not as the conventions say, as sentences; empty if all is. Names that begin with `truemem.` are ours."""
    metrics = [
        metric
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if not metric.name.startswith(OWN)
    ]
    return [f"{metric.name}: {why}" for metric in metrics for why in _broken(metric)]


def _broken(metric: Metric) -> Iterator[str]:
    if metric.name not in CONVENTIONS:
        yield "no such name"
        return
    instrument, unit, kind, attributes = CONVENTIONS[metric.name]
    if _instrument(metric) != instrument:
        yield f"{_instrument(metric)}, not {instrument}"
    if metric.unit != unit:
        yield f"{metric.unit}, not {unit}"
    known = {name.rstrip("!"): name.endswith("!") for name in attributes.split()}
    points = getattr(metric, str(metric.WhichOneof("data"))).data_points
    for point in points:
        if instrument != "histogram" and point.WhichOneof("value") != f"as_{kind}":
            yield f"{point.WhichOneof('value')}, not {kind}"
        given = _texts(point.attributes)
        yield from (f"without {name}" for name, is_needed in known.items() if is_needed and name not in given)
        yield from (f"with {name}" for name in given if name not in known)
        yield from (f"{name}={given[name]}" for name, some in VALUES.items() if given.get(name, min(some)) not in some)
    if len({tuple(sorted(_texts(point.attributes).items())) for point in points}) < len(points):
        yield "two values for the same attributes"


def _instrument(metric: Metric) -> str:
    """The instrument that makes such data ("Metrics SDK", default aggregation)."""
    form = str(metric.WhichOneof("data"))
    if form != "sum":
        return form
    if metric.sum.is_monotonic:
        return "counter"
    cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    return "updowncounter" if metric.sum.aggregation_temporality == cumulative else "updowncounter in deltas"


def _texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {each.key: each.value.string_value for each in attributes}
