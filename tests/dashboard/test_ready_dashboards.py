"""The ready dashboards: as their command writes them, and only about what is sent."""

import json
import re
from pathlib import Path

from truemem.outputs import dogstatsd, otlp_document

from deploy import ready_dashboards

FOLDER = Path(__file__).parents[2] / "deploy" / "dashboards"


def test_the_files_are_those_that_the_command_writes() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == ready_dashboards.files()


def test_grafana_names_exactly_the_metrics_that_are_sent() -> None:
    queries = " ".join(target["expr"] for panel in ready_dashboards.grafana()["panels"] for target in panel["targets"])
    named = set(re.findall(r"(?:faas|truemem|jvm_memory_(?!type))\w+", queries))
    gauges = {ready_dashboards.prometheus(name, unit) for name, (_, _, unit) in otlp_document.GAUGES.items()}
    sums = {ready_dashboards.prometheus(name, unit, total=True) for name, (_, unit) in otlp_document.SUMS.items()}
    jvm = ready_dashboards.JVM_NAMES
    heap = {ready_dashboards.prometheus(name, "By") for name in (*ready_dashboards.HEAP_NAMES, *jvm)}
    assert named == {"faas_mem_usage_bytes_bucket", *gauges, *sums, *heap}
    assert set(ready_dashboards.HEAP_NAMES) <= {f"truemem.heap.{name}" for name, *_ in otlp_document.HEAP.values()}
    assert {*jvm} <= {text.split()[0] for text in otlp_document.CONVENTIONS.values()}


def test_datadog_names_exactly_the_metrics_that_are_sent() -> None:
    text = json.dumps(ready_dashboards.datadog())
    assert set(re.findall(r"truemem\.[a-z_.]+(?={)", text)) == {*dogstatsd.METRICS, *dogstatsd.HEAP_METRICS}
