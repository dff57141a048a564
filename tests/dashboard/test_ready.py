"""The ready dashboards: as their command writes them, and only about what is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path

from truemem.records import dogstatsd, otlp
from truemem_workbench.dashboard import ready

FOLDER = Path(__file__).parents[2] / "deploy" / "dashboards"


def test_the_files_are_those_that_the_command_writes() -> None:
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == ready.files()


def test_grafanas_queries_name_every_metric_that_is_sent_and_no_other() -> None:
    queries = " ".join(target["expr"] for panel in ready.grafana()["panels"] for target in panel["targets"])
    named = set(re.findall(r"(?:faas|truemem)_\w+", queries))
    gauges = {ready.prometheus(name, unit) for name, (_, _, unit, _) in otlp.GAUGES.items()}
    sums = {ready.prometheus(name, unit, total=True) for name, (_, unit, _) in otlp.SUMS.items()}
    heap = {ready.prometheus(name, "By") for name in ready.HEAP}
    assert named == {"faas_mem_usage_bytes_bucket", *gauges, *sums, *heap}
    assert set(ready.HEAP) <= {f"truemem.heap.{name}" for name in otlp.HEAP_SIZES.values()}


def test_names_are_as_prometheus_translates_them() -> None:
    assert ready.prometheus("truemem.memory.drift", "By/{invocation}") == "truemem_memory_drift_bytes"
    assert ready.prometheus("truemem.oom", "{invocation}", total=True) == "truemem_oom_total"
    assert ready.prometheus("truemem.heap.gc_time", "s", total=True) == "truemem_heap_gc_time_seconds_total"


def test_datadogs_queries_name_every_metric_that_is_sent_and_no_other() -> None:
    text = json.dumps(ready.datadog())
    assert set(re.findall(r"truemem\.[a-z_.]+(?={)", text)) == {*dogstatsd.METRICS, *dogstatsd.HEAP}


def test_panels_do_not_overlap() -> None:
    places = [tuple(panel["gridPos"].values()) for panel in ready.grafana()["panels"]]
    assert len(set(places)) == len(places)
