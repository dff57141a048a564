"""Compares what metrics cost in CloudWatch, by EMF and by OTLP. Writes the table of docs/outputs.md.

A request is the sidecar's own, with each metric that every function has, and its bytes are counted as AWS does.
"""

from __future__ import annotations

import click
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from truemem import VERSION
from truemem.config import Config
from truemem.output_settings import PERIOD_MS
from truemem.outputs import otlp_document
from truemem.records.record import InvocationRecord
from truemem_workbench.analysis.prices import dollars

from benchmarks.cost import metrics_by_emf, metrics_by_otlp
from benchmarks.publish import ROOT, markdown, replace

PAGE, BY = ROOT / "docs" / "outputs.md", "python -m benchmarks.cloudwatch"
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
METRICS = {"PeakRSS": 50.5, "CurrentRSS": 40.5, "MaxMemoryUsed": 90, "MemoryDrift": 2.5}


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
    """Of one environment and period."""
    period = otlp_document.Period(NOW_NS)
    period.add(InvocationRecord(NOW_NS // 1_000_000, METRICS, {**ELSEWHERE, "baselineRSS": 40.5}), None)
    known = otlp_document.resource(Config(VARIABLES), "eu-central-1")
    resource = {**known, "cloud.account.id": "123456789012", **period.resource}
    text = otlp_document.resource_metrics(resource, VERSION, period.metrics(NOW_NS, NOW_NS))
    return json_format.Parse(otlp_document.request([text]), ExportMetricsServiceRequest())


@click.command(help=__doc__)
def main() -> None:
    """See the module."""
    size = billed_bytes(request())
    rows = []
    for functions, invocations, environments in FLEETS:
        each = functions, invocations, environments, size
        costs = metrics_by_emf(functions), *(metrics_by_otlp(*each, PERIOD_MS * count) for count in (1, LONGER))
        rows.append([f"{functions}", f"{invocations:,}", f"{environments}", *map(dollars, costs)])
    headings = ["functions", "invocations of each", "environments", "EMF", "OTLP", f"OTLP, {LONGER} minutes"]
    table = markdown(headings, rows, text_columns=0)
    text = f"{table}\n\nA month, without log lines; prices of September 2026. A request counts as {size:,} bytes."
    replace(PAGE, "cloudwatch", text, by=BY)
    click.echo(text)


if __name__ == "__main__":
    main()
