"""What is sent to a collector, by the judgement of OpenTelemetry's own packages."""

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.semconv._incubating.attributes import cloud_attributes, faas_attributes, service_attributes
from opentelemetry.semconv._incubating.metrics import cpython_metrics, faas_metrics, process_metrics
from opentelemetry.semconv.schemas import Schemas
from truemem.config import Config
from truemem.outputs import otlp_document
from truemem.outputs.otlp_document import Trace, parse_trace
from truemem.records.record import InvocationRecord

from testing.otel_conventions import CONVENTIONS, broken

ROOT = "Root=1-5759e988-bd862e3fe1be46a994272793"
TRACE_ID, SPAN_ID = "5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8"


@pytest.mark.parametrize(
    ("header", "trace"),
    [
        (f"{ROOT};Parent={SPAN_ID};Sampled=1", Trace(TRACE_ID, SPAN_ID)),
        (f"{ROOT};Parent={SPAN_ID};Sampled=1;Lineage=2:a87bd80c:0", Trace(TRACE_ID, SPAN_ID)),
        (f"sampled=1; parent={SPAN_ID.upper()} ;{ROOT.upper()}", Trace(TRACE_ID, SPAN_ID)),
        (f"{ROOT};Sampled=1", Trace(TRACE_ID, "")),
        (f"{ROOT};Parent=0000000000000000;Sampled=1", Trace(TRACE_ID, "")),
        (f"{ROOT};Parent={SPAN_ID};Sampled=0", None),
        (f"{ROOT};Parent={SPAN_ID}", None),
        (f"{ROOT};Sampled=?", None),
        ("Root=2-5759e988-bd862e3fe1be46a994272793;Sampled=1", None),
        ("Root=1-5759e988bd862e3fe1be46a994272793;Sampled=1", None),
        ("Root=1-00000000-000000000000000000000000;Sampled=1", None),
        ("", None),
    ],
)
def test_a_sampled_trace_has_opentelemetrys_ids(header: str, trace: Trace | None) -> None:
    assert parse_trace({"type": "X-Amzn-Trace-Id", "value": header}) == trace


@given(
    st.none() | st.text() | st.dictionaries(st.sampled_from(["value", "type"]), st.none() | st.text() | st.integers())
)
def test_whatever_comes_instead_is_no_trace(tracing: object) -> None:
    assert parse_trace(tracing) is None


MIB = 1 << 20
BEGUN_NS, NOW_NS = 1_700_000_000_000_000_000, 1_700_000_060_000_000_000
TRACE = Trace("5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8")
_SIZES = {"used": 10.0, "live": 5.0, "committed": 20.0, "limit": 100.0, "metaspace": 2.0}
HEAPS: tuple[dict[str, object], ...] = (
    {"runtime": "java", **_SIZES, "collections": 3, "gcMs": 250},
    {"inUse": 1.5, "held": 2.0, "mapped": 0.0, "gc": [700, 10, 10], "threads": 2},
    {"runtime": "nodejs", **_SIZES, "external": 1.0, "collections": 3, "gcMs": 250},
    {"runtime": "go", **_SIZES, "collections": 3},
    {"runtime": "dotnet", **_SIZES, "collections": 3, "gcMs": 250},
)
ORDINARY: dict[str, Any] = {
    "CurrentRSS": 5.5,
    "MaxMemoryUsed": 90,
    "MemoryDrift": -2.5,
    "status": "success",
    "durationMs": 12.5,
    "cpuMs": 10.25,
    "processes": 1,
    "threads": 3,
    "resources": {"descriptors": {"open": 200, "limit": 1024}},
}


def made(peak: float | None = 20.0, **members: Any) -> InvocationRecord:
    metrics = {} if peak is None else {"PeakRSS": peak}
    named = ("CurrentRSS", "MaxMemoryUsed", "MemoryDrift", "MemoryGrowing", "OutOfMemory")
    metrics |= {name: members.pop(name) for name in named if name in members}
    return InvocationRecord(1_700_000_000_500, metrics, {"requestId": "one", "environmentId": "env", **members})


def body(records: Sequence[tuple[InvocationRecord, Trace | None]], resource: dict[str, object] | None = None) -> bytes:
    period = otlp_document.Period(BEGUN_NS)
    for record, trace in records:
        period.add(record, trace)
    return otlp_document.request(
        [otlp_document.resource_metrics(resource or {}, "1", period.metrics(NOW_NS, BEGUN_NS - 1))]
    )


def judged(request: bytes) -> ExportMetricsServiceRequest:
    """As OpenTelemetry's own types. Raises json_format.ParseError for what they do not know.

    Protobuf's JSON has bytes in base64, OTLP's has ids in hex digits ("JSON Protobuf Encoding")."""
    document = json.loads(request)
    for resource in document["resourceMetrics"]:
        for metric in resource["scopeMetrics"][0]["metrics"]:
            for point in metric.get("histogram", {}).get("dataPoints", ()):
                for exemplar in point.get("exemplars", ()):
                    for name in ("traceId", "spanId"):
                        if name in exemplar:
                            exemplar[name] = base64.b64encode(bytes.fromhex(exemplar[name])).decode()
    return json_format.ParseDict(document, ExportMetricsServiceRequest())


def metrics(request: bytes) -> dict[str, Metric]:
    (resource,) = judged(request).resource_metrics
    return {metric.name: metric for metric in resource.scope_metrics[0].metrics}


def test_peaks_are_a_delta_histogram_of_bytes() -> None:
    found = metrics(body([(made(10.0), None), (made(20.0), TRACE), (made(20_000.0), None)]))
    metric = found[faas_metrics.FAAS_MEM_USAGE]
    assert metric.unit == "By"
    assert metric.histogram.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    (point,) = metric.histogram.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (BEGUN_NS, NOW_NS)
    assert (point.count, point.sum, point.min, point.max) == (3, 20_030 * MIB, 10 * MIB, 20_000 * MIB)
    assert [at for at, count in enumerate(point.bucket_counts) if count] == [0, 1, len(otlp_document.BOUNDS_MIB)]


def test_the_exemplar_is_the_highest_peaks() -> None:
    (point,) = metrics(body([(made(20.0, requestId="a"), TRACE), (made(5.0), None)]))[
        otlp_document.PEAK
    ].histogram.data_points
    (exemplar,) = point.exemplars
    assert (exemplar.trace_id.hex(), exemplar.span_id.hex(), exemplar.as_double) == (*TRACE, 20.0 * MIB)
    (attribute,) = exemplar.filtered_attributes
    assert (attribute.key, attribute.value.string_value) == (faas_attributes.FAAS_INVOCATION_ID, "a")
    (point,) = metrics(body([(made(20.0), None)]))[otlp_document.PEAK].histogram.data_points
    assert point.exemplars[0].trace_id == b""


def test_the_last_values_are_gauges_and_what_is_counted_sums() -> None:
    records = [made(CurrentRSS=5.0, baselineRSS=4.0), made(CurrentRSS=7.5, MaxMemoryUsed=90, MemoryDrift=12.5)]
    records += [made(OutOfMemory=1, MemoryGrowing=1), made(dropped=3)]
    found = metrics(body([(record, None) for record in records]))
    gauges = {name: metric.gauge.data_points[0].as_int for name, metric in found.items() if metric.HasField("gauge")}
    assert gauges == {
        "truemem.memory.current": round(7.5 * MIB),
        "truemem.memory.baseline": 4 * MIB,
        "truemem.memory.mark": 90 * MIB,
        "truemem.memory.drift": 12_800,
    }
    sums = {name: metric.sum.data_points[0].as_int for name, metric in found.items() if metric.HasField("sum")}
    assert sums == {"truemem.oom": 1, "truemem.memory.growing": 1, "truemem.dropped": 3}
    assert {metric.sum.aggregation_temporality for metric in found.values() if metric.HasField("sum")} == {
        otlp_document.DELTA
    }


@pytest.mark.parametrize("heap", HEAPS, ids=lambda heap: heap.get("runtime", "python"))
def test_what_conventions_name_is_as_they_say(heap: dict[str, object]) -> None:
    first = made(heap=heap, **ORDINARY, coldStart=True, initDurationMs=300.0)
    request = body([(first, TRACE), (made(heap=heap, **ORDINARY), None)], {"faas.name": "orders"})
    assert broken(judged(request)) == []


def test_the_judge_of_conventions_finds_what_breaks_them() -> None:
    wrong = Metric(name="jvm.memory.used", unit="MB")
    wrong.gauge.data_points.add(as_double=1.0).attributes.add(key="pool")
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    scope.metrics.extend([wrong, Metric(name="jvm.memory.max", gauge=wrong.gauge)])
    said = [text.partition(": ")[2] for text in broken(request)]
    assert said == ["gauge, not updowncounter", "MB, not By", "as_double, not int", "with pool", "no such name"]
    scope.metrics.add(name="dotnet.gc.collections", unit="{collection}").sum.data_points.add(as_int=1)
    assert broken(request)[5:] == [
        "dotnet.gc.collections: updowncounter in deltas, not counter",
        "dotnet.gc.collections: without dotnet.gc.heap.generation",
    ]


class Instruments:
    """Notes what the conventions' own package makes."""

    def __getattr__(self, kind: str) -> Any:
        return lambda name, unit, description: (name, kind.removeprefix("create_").replace("_", ""), unit)


def test_the_judge_knows_what_the_published_package_says() -> None:
    published = [
        function(Instruments())
        for module in (faas_metrics, process_metrics, cpython_metrics)
        for name, function in vars(module).items()
        if name.startswith("create_") and "callbacks" not in function.__annotations__
    ]
    shared = {name: (instrument, unit) for name, instrument, unit in published if name in CONVENTIONS}
    assert len(shared) == 12
    assert shared == {name: CONVENTIONS[name][:2] for name in shared}


def test_invocations_are_counted_by_how_they_ended() -> None:
    ends = ["success", "success", "error", "failure", "timeout", None]
    records = [made(status=each) if each else made() for each in ends]
    records += [made(status="success", handlerError=True, coldStart=True)]
    found = metrics(body([(record, None) for record in records]))
    found.pop(faas_metrics.FAAS_MEM_USAGE)
    counted = {name: metric.sum.data_points[0].as_int for name, metric in found.items() if name.startswith("faas.")}
    assert counted == {"faas.invocations": 2, "faas.errors": 3, "faas.timeouts": 1, "faas.coldstarts": 1}


def test_times_are_histograms_of_seconds() -> None:
    found = metrics(body([(made(durationMs=1500.0, cpuMs=750.5, initDurationMs=2.0), None), (made(cpuMs=0), None)]))
    points = {
        name: metric.histogram.data_points[0]
        for name, metric in found.items()
        if metric.HasField("histogram") and metric.unit == "s"
    }
    assert {name: (point.count, point.sum) for name, point in points.items()} == {
        "faas.invoke_duration": (1, 1.5),
        "faas.cpu_usage": (2, pytest.approx(0.7505)),
        "faas.init_duration": (1, 0.002),
    }
    (bucket,) = [at for at, count in enumerate(points["faas.invoke_duration"].bucket_counts) if count]
    assert (points["faas.invoke_duration"].explicit_bounds[bucket - 1], bucket) == (1, 10)


def test_of_several_processes_none_is_told_of_one() -> None:
    assert metrics(body([(made(**ORDINARY), None)]))["process.memory.usage"].sum.data_points[0].as_int == 5.5 * MIB
    several = metrics(body([(made(**{**ORDINARY, "processes": 2}), None)]))
    assert not [name for name in several if name.startswith("process.")]


def test_a_jvms_memory_is_heap_and_metaspace() -> None:
    found = metrics(body([(made(heap=HEAPS[0]), None)]))
    told = {
        (name, *sorted(each.value.string_value for each in point.attributes)): point.as_int // MIB
        for name, metric in found.items()
        if name.startswith("jvm.")
        for point in metric.sum.data_points
    }
    assert told == {
        ("jvm.memory.used", "heap"): 10,
        ("jvm.memory.used", "Metaspace", "non_heap"): 2,
        ("jvm.memory.used_after_last_gc", "heap"): 5,
        ("jvm.memory.committed", "heap"): 20,
        ("jvm.memory.limit", "heap"): 100,
    }


def test_cumulative_counts_go_on_and_levels_do_not() -> None:
    first = otlp_document.Period(BEGUN_NS)
    first.add(made(20.0, status="success", CurrentRSS=5.0), None)
    second = otlp_document.Period(BEGUN_NS, first)
    second.add(made(5.0, status="error"), None)
    sent = second.metrics(NOW_NS, BEGUN_NS - 1, otlp_document.CUMULATIVE)
    found = metrics(otlp_document.request([otlp_document.resource_metrics({}, "1", sent)]))
    cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    peaks, succeeded = found[otlp_document.PEAK].histogram, found["faas.invocations"].sum
    assert {peaks.aggregation_temporality, succeeded.aggregation_temporality} == {cumulative}
    (point,) = peaks.data_points
    assert (point.count, point.sum, point.max, point.start_time_unix_nano) == (2, 25 * MIB, 20 * MIB, BEGUN_NS)
    assert point.exemplars[0].as_double == 5 * MIB
    assert [succeeded.data_points[0].as_int, found["faas.errors"].sum.data_points[0].as_int] == [1, 1]
    assert "truemem.memory.current" not in found


def test_a_heap_has_its_sizes_and_what_its_collector_has_done() -> None:
    java, python = (metrics(body([(made(heap=heap), None)])) for heap in HEAPS[:2])
    assert java["truemem.heap.used"].gauge.data_points[0].as_int == 10 * MIB
    time = java["truemem.heap.gc_time"]
    assert (time.unit, time.sum.data_points[0].as_double) == ("s", 0.25)
    assert time.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert python["truemem.heap.held"].gauge.data_points[0].as_int == 2 * MIB
    (attribute,) = python["truemem.heap.held"].gauge.data_points[0].attributes
    assert (attribute.key, attribute.value.string_value) == ("truemem.heap.runtime", "python")


def test_names_are_those_of_the_published_conventions() -> None:
    assert otlp_document.PEAK == faas_metrics.FAAS_MEM_USAGE
    assert otlp_document.SCHEMA_URL in {schema.value for schema in Schemas}
    sized = {b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512", b"AWS_LAMBDA_FUNCTION_VERSION": b"1"}
    known = otlp_document.resource(Config(sized), "eu-west-1")
    assert len(known) == 7
    conventions = {**vars(faas_attributes), **vars(cloud_attributes), **vars(service_attributes)}
    assert known.keys() | otlp_document.Period(0).resource.keys() <= {
        name for name in conventions.values() if isinstance(name, str)
    }
    assert known["cloud.platform"] == cloud_attributes.CloudPlatformValues.AWS_LAMBDA.value
    assert known["cloud.provider"] == cloud_attributes.CloudProviderValues.AWS.value


def test_several_periods_are_one_request() -> None:
    assert metrics(body([(made(None), None)])) == {}  # a delta of nothing is not sent
    one = otlp_document.resource_metrics({"faas.max_memory": 512 * MIB, "faas.name": "a"}, "1", [])
    request = judged(otlp_document.request([one, one]))
    assert len(request.resource_metrics) == 2
    first, second = request.resource_metrics[0].resource.attributes
    assert (first.value.int_value, second.value.string_value) == (512 * MIB, "a")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
hostile = st.dictionaries(
    st.sampled_from(
        [
            *("PeakRSS", "CurrentRSS", "OutOfMemory", "MemoryDrift", "dropped", "heap", "tenantId", "requestId"),
            *("status", "coldStart", "cpuMs", "durationMs", "processes", "threads", "resources", "handlerError"),
        ]
    ),
    anything
    | st.sampled_from(HEAPS)
    | st.dictionaries(st.sampled_from([*otlp_document.HEAP, "gcMs", "runtime"]), anything),
)


@given(st.lists(hostile, max_size=5), st.dictionaries(st.text(), st.text() | st.integers(0, 1 << 40), max_size=3))
def test_any_record_makes_a_request_that_can_be_read(
    records: list[dict[str, Any]], resource: dict[str, object]
) -> None:
    found = [(InvocationRecord(1, {}, members), TRACE) for members in records]
    for metric in metrics(body(found, resource)).values():
        for point in metric.histogram.data_points:
            assert point.count == sum(point.bucket_counts)
            assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
            assert point.min <= point.sum / point.count <= point.max or math.isclose(point.min, point.max)


@pytest.mark.parametrize("time_ms", [10**15 - 1, -1])
def test_any_time_in_the_journal_fits_into_a_request(time_ms: int) -> None:
    """One that does not fit would cost the whole request."""
    (point,) = metrics(body([(InvocationRecord(time_ms, {"PeakRSS": 5.0}, {}), None)]))[
        otlp_document.PEAK
    ].histogram.data_points
    assert [exemplar.time_unix_nano for exemplar in point.exemplars] == [0]
