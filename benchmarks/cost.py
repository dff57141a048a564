"""What it costs a user: log lines with TRUEMEM_AGGREGATE and without, metrics by EMF and by OTLP.

Writes the tables of docs/report.md, docs/platform-team.md and docs/outputs.md. Prices are those of
`truemem_workbench.judge.prices`, Lambda's for x86_64.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import psutil
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from truemem import VERSION
from truemem.config import VCPU_MIB, Config
from truemem.output_settings import PERIOD_MS
from truemem.outputs import otlp_document
from truemem.records.record import InvocationRecord
from truemem_workbench.dashboard.template import ALARMS_PER_FUNCTION, MOST_FUNCTIONS
from truemem_workbench.judge.prices import (
    ALARM_MONTH,
    DASHBOARD_MONTH,
    GB_SECOND,
    LOG_GB,
    METRIC_MONTH,
    MILLION,
    MONTH_MS,
    OTLP_GB,
    computing,
    dollars,
)
from truemem_workbench.printed.line import parse_event

from benchmarks.kit.bench import Bench, in_turn
from benchmarks.kit.contenders import EXECUTABLE
from testing.environment import Environment
from testing.pages import Result, Table, machine

SETTINGS = {"functions": "Of the fleet (200)."}
METRICS = 4
"""Of a function, by EMF. MemoryGrowing and OutOfMemory are two more, while they are written."""
SIZES_MIB = (128, 1024, 10_240)
INVOCATIONS, RUNS = 2002, 3
"""The first and the last have a line of their own."""
FLEET_MONTHLY, FLEET_MIB = (10_000_000, 100_000_000, 1_000_000_000), 1024
"""Invocations a month of all functions together."""
FLEETS = ((40, 100_000, 1), (40, 10_000_000, 20), (200, 100_000, 1), (200, 10_000_000, 20))
"""Functions; invocations a month and environments at work of each."""
LONGER = 5
"""Periods in one."""
NOW_NS = 1_800_000_000_000_000_000
VARIABLES = {
    b"AWS_LAMBDA_FUNCTION_NAME": b"orders-production",
    b"AWS_LAMBDA_FUNCTION_VERSION": b"42",
    b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": b"512",
}
ELSEWHERE = {
    "environmentId": "2026/11/26/[42]af1d8931ab53436794a0b40a73d8f0f2",
    "requestId": "8e6b08c1-a34f-4be9-b35f-17eb928cfd0e",
}


@dataclass(frozen=True)
class Cost:
    """One memory size, one million invocations, USD."""

    logs: float
    duration_at_most: float
    """If all of the sidecar's CPU time were taken from a function that computes all the time."""
    delay_at_most_ms: float
    """The same for one invocation."""
    cold_starts: float
    """One million cold starts, each longer by exec to register: Lambda starts the runtime after that."""
    memory_percent: float
    """What it takes of the environment's memory."""


def cost(memory_mib: int, line_bytes: float, cpu_ms: float, register_ms: float, pss_mib: float) -> Cost:
    """See Cost. `cpu_ms` is of one invocation, `register_ms` from exec to the register request."""
    a_million_ms = MILLION * computing(memory_mib, 1, GB_SECOND["x86_64"])
    share = min(1.0, memory_mib / VCPU_MIB)
    delay_ms = cpu_ms / share if share < 1 else 0.0  # with a CPU to spare it runs beside the function
    return Cost(
        logs=logs(MILLION, line_bytes),
        duration_at_most=delay_ms * a_million_ms,
        delay_at_most_ms=delay_ms,
        cold_starts=register_ms * a_million_ms,
        memory_percent=100 * pss_mib / memory_mib,
    )


def logs(invocations: float, line_bytes: float) -> float:
    """USD of the lines of so many invocations."""
    return invocations * line_bytes / 1e9 * LOG_GB


def metrics_by_emf(functions: int) -> float:
    """USD a month, whatever they write."""
    return functions * METRICS * METRIC_MONTH


def metrics_by_otlp(functions: int, invocations: int, environments: int, request_bytes: float, period_ms: int) -> float:
    """USD a month. Each function has so many `invocations` a month, in so many `environments`, of which each sends one
    request of `request_bytes` a period."""
    requests = min(invocations, environments * MONTH_MS / period_ms)
    return functions * requests * request_bytes / 1e9 * OTLP_GB


def once(environ: dict[str, str]) -> dict[str, float]:
    """Bytes of log and µs of CPU an invocation, and PSS at the end in MiB."""
    with Environment(
        sidecar=EXECUTABLE, environment={"TRUEMEM_DETAIL": "auto", **environ}, freeze="off"
    ) as environment:
        environment.invoke(mib=1)
        sidecar = psutil.Process(environment.local.processes()[f"extension:{EXECUTABLE.name}"])
        began = sum(sidecar.cpu_times()[:2])
        for number in range(INVOCATIONS - 1):
            environment.invoke(mib=number % 5)
        spent = sum(sidecar.cpu_times()[:2]) - began
        pss = sidecar.memory_full_info().pss
        environment.local.stop()
        lines = environment.local.extension_stdout(EXECUTABLE.name)[1:-1]
    told = sum(len(parse_event(line)) for line in lines)
    assert told == INVOCATIONS - 2, f"{told} invocations are told of, not {INVOCATIONS - 2}"
    written = sum(len(line.encode()) + 1 for line in lines)
    return {"bytes": written / told, "cpu": spent / (INVOCATIONS - 1) * 1e6, "pss": pss / 2**20}


def fleet(functions: int, alone: dict[str, float], together: dict[str, float]) -> Table:
    """Dollars a month. `alone` and `together`: what `once` says without and with TRUEMEM_AGGREGATE."""

    def row(name: str, of: Callable[[int], float]) -> list[str]:
        return [name, *(f"${of(invocations):,.0f}" for invocations in FLEET_MONTHLY)]

    a_million = cost(FLEET_MIB, 0, alone["cpu"] / 1000, 0, 0).duration_at_most
    alarms = functions * ALARMS_PER_FUNCTION * ALARM_MONTH + -(-functions // MOST_FUNCTIONS) * DASHBOARD_MONTH
    rows = [
        row("log lines", lambda invocations: logs(invocations, alone["bytes"])),
        row("with `TRUEMEM_AGGREGATE=60`", lambda invocations: logs(invocations, together["bytes"])),
        row("four metrics each", lambda _: metrics_by_emf(functions)),
        row("alarms and dashboards", lambda _: alarms),
        row(f"billed time at most, at {FLEET_MIB:,} MiB", lambda invocations: a_million * invocations / MILLION),
    ]
    monthly = [f"{count // MILLION:,} million" for count in FLEET_MONTHLY]
    return Table("A fleet", [f"{functions} functions, a month, with invocations", *monthly], rows)


def billed_bytes(request: ExportMetricsServiceRequest) -> int:
    """Each data point with its metric, scope and resource ("OTel metrics pricing and storage", CloudWatch's guide)."""
    total = 0
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                assert kind is not None
                for point in getattr(metric, kind).data_points:
                    alone = ExportMetricsServiceRequest()
                    of_resource = alone.resource_metrics.add(resource=resource.resource, schema_url=resource.schema_url)
                    of_metric = of_resource.scope_metrics.add(scope=scope.scope).metrics.add()
                    of_metric.CopyFrom(metric)
                    del getattr(of_metric, kind).data_points[:]
                    getattr(of_metric, kind).data_points.append(point)
                    total += alone.ByteSize()
    return total


def request() -> ExportMetricsServiceRequest:
    """The sidecar's own, of one environment and period, with each metric that every function has."""
    period = otlp_document.Period(NOW_NS)
    metrics = {"PeakRSS": 50.5, "CurrentRSS": 40.5, "MaxMemoryUsed": 90, "MemoryDrift": 2.5}
    members = {**ELSEWHERE, "baselineRSS": 40.5, "status": "success", "durationMs": 12.5, "cpuMs": 10.0}
    members |= {"processes": 1, "threads": 3}
    period.add(InvocationRecord(NOW_NS // 1_000_000, metrics, members), None)
    known = otlp_document.resource(Config(VARIABLES), "eu-central-1")
    resource = {**known, "cloud.account.id": "123456789012", **period.resource}
    text = otlp_document.resource_metrics(resource, VERSION, period.metrics(NOW_NS, NOW_NS))
    return json_format.Parse(otlp_document.request([text]), ExportMetricsServiceRequest())


def metrics() -> Table:
    """By EMF and by OTLP."""
    size, rows = billed_bytes(request()), []
    for functions, invocations, environments in FLEETS:
        each = functions, invocations, environments, size
        costs = metrics_by_emf(functions), *(metrics_by_otlp(*each, PERIOD_MS * count) for count in (1, LONGER))
        rows.append([f"{functions}", f"{invocations:,}", f"{environments}", *map(dollars, costs)])
    headings = ["functions", "invocations of each", "environments", "EMF", "OTLP", f"OTLP, {LONGER} minutes"]
    note = f"A month, without log lines; prices of September 2026. A request counts as {size:,} bytes."
    return Table("Metrics in CloudWatch", headings, rows, note, text_columns=0)


def run(bench: Bench) -> Result:
    runs = bench.count(RUNS)
    ways = {"a line each": {}, "`TRUEMEM_AGGREGATE=60`": {"TRUEMEM_AGGREGATE": "60"}}
    made = in_turn({name: partial(once, way) for name, way in ways.items()}, runs, bench.step("lines", runs))
    medians = {
        name: {what: statistics.median(each[what] for each in of) for what in of[0]} for name, of in made.items()
    }
    rows = [
        [
            name,
            f"{one['bytes']:.0f}",
            f"${logs(100e6, one['bytes']):.2f}",
            f"{one['cpu']:.0f} µs",
            f"{one['pss']:.1f} MiB",
        ]
        for name, one in medians.items()
    ]
    head = ["", "bytes of log an invocation", "a month, of 100 million", "CPU an invocation", "PSS"]
    note = f"Medians of {runs} runs of {INVOCATIONS:,} invocations, in turn, on {machine()}."
    alone, together = medians.values()
    tables = [
        Table("Log lines", head, rows, note),
        fleet(int(bench.settings.get("functions", 200)), alone, together),
        metrics(),
    ]
    marks = ("docs/report.md", "aggregate"), ("docs/platform-team.md", "fleet"), ("docs/outputs.md", "cloudwatch")
    docs = {mark: table.markdown() for mark, table in zip(marks, tables, strict=True)}
    broken = ["shared lines are more than a fifth of the bytes"] * (together["bytes"] > alone["bytes"] / 5)
    return Result(tables, broken, docs)
