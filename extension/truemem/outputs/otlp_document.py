"""Records as metrics of OpenTelemetry: what a period has seen, and its OTLP/JSON. Pure.

Sources: opentelemetry-proto 1.x (metrics.proto) and its JSON mapping ("OTLP Specification", "JSON Protobuf Encoding":
lowerCamelCase, enums as numbers, trace ids in hex, 64-bit integers as text or numbers); the semantic conventions of
FaaS (`faas.mem_usage`: "distribution of max memory usage per invocation") and of cloud resources. Units are UCUM's.

Counts, values and an exemplar's time are numbers, other times and attributes are text: receivers made in Rust with
OpenTelemetry's own types read only these, and answer 200 to all else. Those made from protobuf or in Go take both.
"""

from __future__ import annotations

from ..line_schema import KIB, MIB, WHOLE
from ..support.minijson import dumps
from ..support.named_tuple import NamedTuple
from ..support.numbers import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..config import Config
    from ..records.record import InvocationRecord

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
"""Schema of the conventions that the names are from."""
DELTA, CUMULATIVE = 1, 2
"""AggregationTemporality."""
MEBI = 1 << 20
FACTORS = {MIB: 1 << 20, KIB: 1 << 10, WHOLE: 1}
INTEGER_LIMIT = 1 << 62
"""What a 64-bit integer surely has room for."""
HEADER_LIMIT = 1024
"""Characters of a tracing header that are looked at. A caller can add to it."""
_HEX = frozenset("0123456789abcdef")

BOUNDS_MIB = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240)
"""Upper bounds of the histogram's buckets: the same for all functions, so that they can be added up. 10,240 MiB is the
largest memory size."""
BOUNDS = [bound * MEBI for bound in BOUNDS_MIB]

PEAK = "faas.mem_usage"

GAUGES = {
    "truemem.memory.current": ("CurrentRSS", MIB, "By", "RSS of the function when the invocation's window closed"),
    "truemem.memory.baseline": ("baselineRSS", MIB, "By", "RSS of the function when the invocation's window opened"),
    "truemem.memory.mark": ("MaxMemoryUsed", MIB, "By", "High-water mark of the environment, as in REPORT"),
    "truemem.memory.drift": ("MemoryDrift", KIB, "By/{invocation}", "Growth of the memory from invocation to the next"),
}
"""The last value of a period: a member of the line, its kind there, the unit here, and what it is."""
SUMS = {
    "truemem.memory.growing": ("MemoryGrowing", "{verdict}", "Verdicts that the memory is growing"),
    "truemem.oom": ("OutOfMemory", "{invocation}", "Invocations that ran out of memory"),
    "truemem.dropped": ("dropped", "{record}", "What could not be measured, printed or sent"),
}
"""What a period has counted: a member of the line, the unit, and what it is."""
_SAME_NAMES = ("used", "live", "committed", "limit", "external", "metaspace")
HEAP_SIZES = {**{name: name for name in _SAME_NAMES}, "inUse": "in_use", "held": "held", "mapped": "mapped"}
"""Members of `heap`, MiB, and the ends of their metrics' names."""
HEAP_SUMS = {
    "collections": ("truemem.heap.collections", "{collection}", 1),
    "gcMs": ("truemem.heap.gc_time", "s", 1000),
}
"""Members of `heap` that count from the start of the function's process: name, unit, and how many make one."""


def scaled(members: Mapping[str, object], name: str, kind: str) -> int | None:
    """A member of such a kind as a whole number, sizes in bytes; None where it is no number, or none that fits. (What
    lay in the journal may be of any kind.)"""
    value = number(members.get(name))
    if value is None:
        return None
    whole = round(value * FACTORS[kind])
    return whole if abs(whole) < INTEGER_LIMIT else None


class Period:
    """Records since the last request, in bounded memory however many they are."""

    def __init__(self, begun_ns: int) -> None:
        """`begun_ns`: epoch ns at which it begins."""
        self.begun_ns = begun_ns
        self.records = 0
        self._buckets = [0] * (len(BOUNDS) + 1)
        self._sum = self._lowest = 0
        self._highest: tuple[int, InvocationRecord, Trace | None] | None = None
        self._last: dict[str, int] = {}
        """The last value of each of GAUGES that was seen, bytes."""
        self._counted = dict.fromkeys(SUMS, 0)
        self._heap: Mapping[str, Any] = {}
        self._tenant = self._environment_id = ""

    @property
    def resource(self) -> dict[str, object]:
        """`service.instance.id` tells environments apart: Prometheus knows a sender by it and `service.name` alone."""
        known = {"faas.instance": self._environment_id, "service.instance.id": self._environment_id}
        return {**known, "truemem.tenant.id": self._tenant} if self._tenant else {**known}

    def add(self, record: InvocationRecord, trace: Trace | None) -> None:
        """Add a finished record. The journal of an earlier process may have left one whose members are of any kind."""
        self.records += 1
        members = {**record.properties, **record.metrics}
        peak = scaled(members, "PeakRSS", MIB)
        if peak is not None and peak >= 0:
            self._buckets[sum(map(peak.__gt__, BOUNDS))] += 1
            self._sum += peak
            self._lowest = peak if self._highest is None else min(self._lowest, peak)
            if self._highest is None or peak > self._highest[0]:
                self._highest = peak, record, trace
        for name, (member, kind, _, _) in GAUGES.items():
            value = scaled(members, member, kind)
            if value is not None:
                self._last[name] = value
        for name, (member, _, _) in SUMS.items():
            self._counted[name] += max(0, scaled(members, member, WHOLE) or 0)
        heap, tenant = members.get("heap"), members.get("tenantId")
        self._heap = heap if isinstance(heap, dict) else self._heap
        self._tenant = tenant if isinstance(tenant, str) else self._tenant
        self._environment_id = f"{members.get('environmentId', '')}"[:512]

    def metrics(self, now_ns: int, started_ns: int) -> list[dict[str, object]]:
        """The period's metrics at epoch `now_ns`. `started_ns`: when the environment's processes began, about."""
        now = {"timeUnixNano": f"{max(now_ns, self.begun_ns)}"}
        times = {"startTimeUnixNano": f"{self.begun_ns}", **now}
        since = {"startTimeUnixNano": f"{min(started_ns, self.begun_ns)}", **now}
        made: list[dict[str, object]] = []
        if self._highest is not None:
            histogram = {"aggregationTemporality": DELTA, "dataPoints": [{**times, **self._histogram(*self._highest)}]}
            about = "Distribution of the highest RSS of the function in each invocation"
            made.append(_metric(PEAK, "By", about, histogram=histogram))
        for name, value in self._last.items():
            made.append(_metric(name, *GAUGES[name][2:], gauge={"dataPoints": [{**now, "asInt": value}]}))
        for name, count in self._counted.items():
            made.append(_metric(name, *SUMS[name][1:], sum=_sum(DELTA, {**times, "asInt": count})))
        about_heap = {"attributes": attributes({"truemem.heap.runtime": str(self._heap.get("runtime", "python"))})}
        for member, name in HEAP_SIZES.items():
            size = scaled(self._heap, member, MIB)
            if size is not None:
                gauge = {"dataPoints": [{**now, **about_heap, "asInt": size}]}
                made.append(_metric(f"truemem.heap.{name}", "By", gauge=gauge))
        for member, (name, unit, parts) in HEAP_SUMS.items():
            total = scaled(self._heap, member, WHOLE)
            if total is not None and total >= 0:
                point = {**since, **about_heap, "asDouble": total / parts}
                made.append(_metric(name, unit, sum=_sum(CUMULATIVE, point)))
        return made

    def _histogram(self, peak: int, record: InvocationRecord, trace: Trace | None) -> dict[str, object]:
        """The data point of the peaks' histogram; its exemplar is the record with the highest peak."""
        exemplar = {
            "timeUnixNano": record.time_ms * 1_000_000 if 0 <= record.time_ms < INTEGER_LIMIT // 1_000_000 else 0,
            "asDouble": peak,
            "filteredAttributes": attributes({"faas.invocation_id": record.properties.get("requestId", "")}),
            "traceId": trace.trace_id if trace is not None else "",
            "spanId": trace.span_id if trace is not None else "",
        }
        return {
            "count": sum(self._buckets),
            "sum": self._sum,
            "bucketCounts": self._buckets,
            "explicitBounds": BOUNDS,
            "min": self._lowest,
            "max": peak,
            "exemplars": [exemplar],
        }


def _metric(name: str, unit: str, about: str = "", **data: object) -> dict[str, object]:
    return {"name": name, "unit": unit, **({"description": about} if about else {}), **data}


def _sum(temporality: int, point: Mapping[str, object]) -> dict[str, object]:
    return {"aggregationTemporality": temporality, "isMonotonic": True, "dataPoints": [point]}


def attributes(values: Mapping[str, object]) -> list[dict[str, object]]:
    """Attributes as KeyValues: texts, and whole numbers."""
    return [{"key": _text(name), "value": _value(value)} for name, value in values.items()]


def _value(value: object) -> dict[str, str]:
    return {"intValue": f"{value}"} if isinstance(value, int) else {"stringValue": _text(value)}


def _text(value: object) -> str:
    """The value as text that UTF-8 can have: half of a surrogate pair is no character, and a collector may refuse the
    whole request."""
    return f"{value}".encode("utf-8", "replace").decode()


def resource(config: Config, region: str) -> dict[str, object]:
    """What the sidecar knows of the function when it starts; the size in bytes."""
    known: dict[str, object] = {
        "cloud.provider": "aws",
        "cloud.platform": "aws_lambda",
        "cloud.region": region,
        "faas.name": config.function_name,
        "service.name": config.function_name,
        "faas.version": config.function_version,
        "faas.max_memory": config.memory_mib * MEBI,
    }
    return {name: value for name, value in known.items() if value}


def resource_metrics(resource: Mapping[str, object], version: str, metrics: list[dict[str, object]]) -> str:
    """The OTLP request, as JSON, with the metrics of one period of one environment. `version` is truemem's."""
    scope = {"scope": {"name": "truemem", "version": version}, "metrics": metrics}
    made = {"resource": {"attributes": attributes(resource)}, "scopeMetrics": [scope], "schemaUrl": SCHEMA_URL}
    return dumps(made)


def request(periods: list[str]) -> bytes:
    """The body of an ExportMetricsServiceRequest, of some `resource_metrics`."""
    return b'{"resourceMetrics":[' + ",".join(periods).encode() + b"]}"


class Trace(NamedTuple):
    """The trace of an invocation, from the X-Ray header that the platform sends: both ids in lower-case hex digits.

    `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1` (X-Ray developer guide, "Tracing
    header"). Root without its version and hyphens is the trace id of OpenTelemetry and W3C, Parent a span of it."""

    trace_id: str
    """32 digits."""
    span_id: str
    """16 digits, of the span that the invocation belongs to; "" where that is not said."""


def parse_trace(tracing: object) -> Trace | None:
    """The trace in the `tracing` of INVOKE or platform.start. None where there is none, or it is not sampled: a trace
    that is not kept leads nowhere."""
    value = tracing.get("value") if isinstance(tracing, dict) else None
    if not isinstance(value, str):
        return None
    members: dict[str, str] = {}
    for part in value[:HEADER_LIMIT].split(";"):
        name, _, text = part.partition("=")
        members.setdefault(name.strip().lower(), text.strip().lower())
    version, _, rest = members.get("root", "").partition("-")
    trace_id, parent = rest.replace("-", "", 1), members.get("parent", "")
    if members.get("sampled") != "1" or version != "1" or rest[8:9] != "-" or not _is_id(trace_id, 32):
        return None
    return Trace(trace_id, parent if _is_id(parent, 16) else "")


def _is_id(text: str, digits: int) -> bool:
    """All zeros are no id (W3C trace context)."""
    return len(text) == digits and _HEX.issuperset(text) and text.strip("0") != ""
