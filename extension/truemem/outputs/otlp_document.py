"""Records as metrics of OpenTelemetry: what a period has seen, and its OTLP/JSON. Pure.

Sources: opentelemetry-proto 1.x (metrics.proto) and its JSON mapping ("OTLP Specification", "JSON Protobuf Encoding":
lowerCamelCase, enums as numbers, trace ids in hex, 64-bit integers as text or numbers); the semantic conventions 1.44.0
of FaaS, of cloud resources, of processes and of runtimes. Units are UCUM's. Only a figure that is what a convention
says has its name: docs/outputs.md tells of the others.

Counts, values and an exemplar's time are numbers, other times and attributes are text: receivers made in Rust with
OpenTelemetry's own types read only these, and answer 200 to all else. Those made from protobuf or in Go take both.
"""

from __future__ import annotations

from ..line_schema import KIB, MIB, MS, WHOLE
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
FACTORS = {MIB: 1 << 20, KIB: 1 << 10, WHOLE: 1, MS: 0.001}
"""How many bytes, or seconds, such a kind of member is."""
INTEGER_LIMIT = 1 << 62
"""What a 64-bit integer surely has room for."""
HEADER_LIMIT = 1024
"""Characters of a tracing header that are looked at. A caller can add to it."""
_HEX = frozenset("0123456789abcdef")

BOUNDS_MIB = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240)
"""Upper bounds of the histogram's buckets: the same for all functions, so that they can be added up. 10,240 MiB is the
largest memory size."""
BOUNDS = [bound * MEBI for bound in BOUNDS_MIB]

SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
"""Upper bounds of the durations' buckets, as the conventions have them."""

PEAK = "faas.mem_usage"
DURATIONS = {"faas.cpu_usage": "cpuMs", "faas.invoke_duration": "durationMs", "faas.init_duration": "initDurationMs"}
"""What a period has seen of each invocation beside its peak: members of the line, ms."""
GAUGES = {
    "truemem.memory.current": ("CurrentRSS", MIB, "By"),
    "truemem.memory.baseline": ("baselineRSS", MIB, "By"),
    "truemem.memory.mark": ("MaxMemoryUsed", MIB, "By"),
    "truemem.memory.drift": ("MemoryDrift", KIB, "By/{invocation}"),
}
"""The last value of a period: a member of the line, its kind there, and the unit here."""
LEVELS = {
    **GAUGES,
    "process.memory.usage": ("CurrentRSS", MIB, "By"),
    "process.thread.count": ("threads", WHOLE, "{thread}"),
    "process.unix.file_descriptor.count": ("open", WHOLE, "{file_descriptor}"),
}
"""The same, with those of a process: the function's where that is one process."""
SUMS = {
    "truemem.memory.growing": ("MemoryGrowing", "{verdict}"),
    "truemem.oom": ("OutOfMemory", "{invocation}"),
    "truemem.dropped": ("dropped", "{record}"),
    "faas.coldstarts": ("", "{coldstart}"),
    "faas.invocations": ("", "{invocation}"),
    "faas.errors": ("", "{error}"),
    "faas.timeouts": ("", "{timeout}"),
}
"""What a period has counted: a member of the line whose value is added, and the unit."""
OUTCOMES = {"success": "faas.invocations", "failure": "faas.errors", "error": "faas.errors", "timeout": "faas.timeouts"}
"""Where an invocation is counted, by its `status`: as OpenTelemetry's own receiver of Lambda's telemetry does."""
SIZES = ("used", "live", "committed", "limit", "external", "metaspace", "held", "mapped")
HEAP = {**{name: (name, "By", MIB) for name in SIZES}, "inUse": ("in_use", "By", MIB)}
HEAP |= {"collections": ("collections", "{collection}", WHOLE), "gcMs": ("gc_time", "s", MS)}
"""Members of `heap`: the ends of our own metrics' names, the unit, and the kind there. The last two count from the
start of the function's process."""
CONVENTIONS = {
    "java.used": "jvm.memory.used By jvm.memory.type=heap",
    "java.live": "jvm.memory.used_after_last_gc By jvm.memory.type=heap",
    "java.committed": "jvm.memory.committed By jvm.memory.type=heap",
    "java.limit": "jvm.memory.limit By jvm.memory.type=heap",
    "java.metaspace": "jvm.memory.used By jvm.memory.type=non_heap jvm.memory.pool.name=Metaspace",
    "go.limit": "go.memory.limit By",
    "go.collections": "go.memory.gc.cycles {gc_cycle}",
    "dotnet.collections": "dotnet.gc.collections {collection} dotnet.gc.heap.generation=gen2",
    "dotnet.gcMs": "dotnet.gc.pause.time s",
}
"""What the conventions call a runtime's member of `heap`: name, unit, attributes. Beside these our own names are sent
until 0.2.0."""


def scaled(members: Mapping[str, object], name: str, kind: str) -> float | None:
    """A member of such a kind in bytes or seconds, or as it is: a whole number, but of times. None where it is no
    number, or none that fits. (What lay in the journal may be of any kind.)"""
    value = number(members.get(name))
    if value is None:
        return None
    factor = FACTORS[kind]
    made = value * factor if factor < 1 else round(value * factor)
    return made if abs(made) < INTEGER_LIMIT else None


class Period:
    """Records since the last request, in bounded memory however many they are."""

    def __init__(self, begun_ns: int, before: Period | None = None) -> None:
        """`begun_ns`: epoch ns at which its counts begin. `before`: the period whose counts go on (cumulative), or none
        (delta)."""
        self.begun_ns = begun_ns
        self.records = 0
        self._seen: dict[str, dict[str, Any]] = {} if before is None else before._seen
        """Data points of the histograms, by name."""
        self._counted: dict[str, float] = dict.fromkeys(SUMS, 0) if before is None else before._counted
        self._highest: tuple[float, InvocationRecord | None, Trace | None] = -1.0, None, None
        """The highest peak since the last request, in bytes, and whose it is."""
        self._last: dict[str, float] = {}
        """The last value of each of LEVELS that was seen."""
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
        self._see(PEAK, peak, BOUNDS)
        if peak is not None and peak > self._highest[0]:
            self._highest = peak, record, trace
        for name, member in DURATIONS.items():
            self._see(name, scaled(members, member, MS), SECONDS)
        resources = members.get("resources")
        if isinstance(resources, dict) and isinstance(descriptors := resources.get("descriptors"), dict):
            members["open"] = descriptors.get("open")
        is_one = members.get("processes") == 1
        for name, (member, kind, _) in (LEVELS if is_one else GAUGES).items():
            if member in members and (value := scaled(members, member, kind)) is not None:
                self._last[name] = value
        for name, (member, _) in SUMS.items():
            if member in members:
                self._counted[name] += max(0, scaled(members, member, WHOLE) or 0)
        status = "error" if members.get("handlerError") is True else f"{members.get('status')}"
        if status in OUTCOMES:
            self._counted[OUTCOMES[status]] += 1
        self._counted["faas.coldstarts"] += members.get("coldStart") is True
        heap, tenant = members.get("heap"), members.get("tenantId")
        self._heap = heap if isinstance(heap, dict) else self._heap
        self._tenant = tenant if isinstance(tenant, str) else self._tenant
        self._environment_id = f"{members.get('environmentId', '')}"[:512]

    def _see(self, name: str, value: float | None, bounds: list[int] | list[float]) -> None:
        """Add a value to a histogram, if it is one."""
        if value is None or value < 0:
            return
        seen = self._seen.get(name)
        if seen is None:
            counts = {"count": 0, "sum": 0, "bucketCounts": [0] * (len(bounds) + 1), "explicitBounds": bounds}
            seen = self._seen[name] = {**counts, "min": value, "max": value}
        seen["count"] += 1
        seen["sum"] += value
        seen["bucketCounts"][sum(map(value.__gt__, bounds))] += 1
        seen["min"], seen["max"] = min(seen["min"], value), max(seen["max"], value)

    def metrics(self, now_ns: int, started_ns: int, temporality: int = DELTA) -> list[dict[str, Any]]:
        """The period's metrics at epoch `now_ns`. `started_ns`: when the environment's processes began, about."""
        now = {"timeUnixNano": f"{max(now_ns, self.begun_ns)}"}
        since = {"startTimeUnixNano": f"{min(started_ns, self.begun_ns)}", **now}
        times = {"startTimeUnixNano": f"{self.begun_ns}", **now}
        made: dict[str, dict[str, Any]] = {}

        def put(name: str, unit: str, form: str, point: Mapping[str, object], **about: object) -> None:
            """Add a data point to a metric, which is there once. `about`: its members beside the points."""
            metric = made.setdefault(name, {"name": name, "unit": unit, form: {**about, "dataPoints": []}})
            metric[form]["dataPoints"].append(point)

        def put_level(name: str, unit: str, value: float, known: Mapping[str, object], counts: bool = False) -> None:
            """Add a value of the conventions' kind: what goes up and down is a sum as well."""
            point = {**since, **_number(value), "attributes": attributes(known)}
            put(name, unit, "sum", point, aggregationTemporality=CUMULATIVE, isMonotonic=counts)

        for name, seen in self._seen.items():
            exemplars = {"exemplars": [_exemplar(*self._highest)]} if name == PEAK and self._highest[0] >= 0 else {}
            unit = "By" if name == PEAK else "s"
            put(name, unit, "histogram", {**times, **seen, **exemplars}, aggregationTemporality=temporality)
        for name, value in self._last.items():
            if name in GAUGES:
                put(name, LEVELS[name][2], "gauge", {**now, **_number(value)})
            else:
                put_level(name, LEVELS[name][2], value, {})
        for name, value in self._counted.items():
            if not value and temporality == DELTA:
                continue
            point = {**times, **_number(value)}
            put(name, SUMS[name][1], "sum", point, aggregationTemporality=temporality, isMonotonic=True)
        runtime = f"{self._heap.get('runtime', 'python')}"
        for member, (end, unit, kind) in HEAP.items():
            size = scaled(self._heap, member, kind)
            if size is None or size < 0:
                continue
            counts, known = kind != MIB, {"truemem.heap.runtime": runtime}
            if counts:
                put_level(f"truemem.heap.{end}", unit, size, known, counts)
            else:
                put(f"truemem.heap.{end}", unit, "gauge", {**now, **_number(size), "attributes": attributes(known)})
            words = CONVENTIONS.get(f"{runtime}.{member}", "").split()
            if words:
                put_level(words[0], words[1], size, dict([word.split("=") for word in words[2:]]), counts)
        return [*made.values()]


def _exemplar(peak: float, record: InvocationRecord | None, trace: Trace | None) -> dict[str, object]:
    """The exemplar of the peaks: the record with the highest one."""
    assert record is not None
    return {
        "timeUnixNano": record.time_ms * 1_000_000 if 0 <= record.time_ms < INTEGER_LIMIT // 1_000_000 else 0,
        "asDouble": peak,
        "filteredAttributes": attributes({"faas.invocation_id": record.properties.get("requestId", "")}),
        "traceId": trace.trace_id if trace is not None else "",
        "spanId": trace.span_id if trace is not None else "",
    }


def _number(value: float) -> dict[str, float]:
    return {"asInt" if isinstance(value, int) else "asDouble": value}


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
