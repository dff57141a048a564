"""Boards are filled: a real collector takes what sidecars send, and a real database answers the queries of dashboards.

The collector is Rotel, the database VictoriaMetrics (Debian's Prometheus is built without its receiver of OTLP). Both
have OpenTelemetry's names in Prometheus' form; VictoriaMetrics calls `service_name` what is `job` in Prometheus.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from deploy.ready_dashboards import files
from testing import installs
from tests.heaps.test_jvm import Java, blocks
from tests.outputs.test_lambda import environment
from tests.outputs.test_real_collector import PATIENCE_S, free_port, real

PACKAGE, RELEASE = "victoria-metrics", "trixie"
"""The first release of Debian whose database takes OTLP."""
HEAP = 'jvm_memory_type="heap"'
BOARDS = (
    f"sum by (job) (jvm_memory_used_bytes{{{HEAP}}}) / sum by (job) (jvm_memory_limit_bytes{{{HEAP}}})",
    f"sum by (job) (jvm_memory_used_after_last_gc_bytes{{{HEAP}}}) / sum by (job) (jvm_memory_limit_bytes{{{HEAP}}})",
    f"sum by (job, instance) (jvm_memory_committed_bytes{{{HEAP}}})",
    'jvm_memory_used_bytes{jvm_memory_type="non_heap", jvm_memory_pool_name="Metaspace"}',
    "sum by (job) (increase(faas_invocations_total[1m]))",
    "sum by (job) (increase(faas_errors_total[1m])) / sum by (job) (increase(faas_invocations_total[1m]))",
    "sum by (job) (faas_coldstarts_total)",
    "sum by (job) (faas_timeouts_total)",
    "histogram_quantile(0.95, sum by (job, le) (rate(faas_invoke_duration_seconds_bucket[1m])))",
    "sum by (job) (rate(faas_cpu_usage_seconds_sum[1m])) / sum by (job) (rate(faas_cpu_usage_seconds_count[1m]))",
    "histogram_quantile(0.5, sum by (job, le) (faas_init_duration_seconds_bucket))",
    "histogram_quantile(0.99, sum by (job, le) (rate(faas_mem_usage_bytes_bucket[1m])))",
    "process_memory_usage_bytes",
    "process_thread_count",
)
"""Queries in the form that dashboards for OpenTelemetry's names have."""
NOT_OF_THESE = ("drift", "held")
"""What these few invocations of Java and Python do not tell."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """Its address."""
    try:
        path = installs.debian_package(PACKAGE, RELEASE) / "usr" / "bin" / PACKAGE
    except installs.Missing as reason:
        pytest.skip(f"no {PACKAGE}: {reason}")
    address = f"127.0.0.1:{free_port()}"
    command = [str(path), f"-httpListenAddr={address}", f"-storageDataPath={tmp_path}/data"]
    command += ["-opentelemetry.usePrometheusNaming", "-search.latencyOffset=0s"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _until(lambda: requests.get(f"http://{address}/health", timeout=5).ok)
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def _until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            if true():
                return
        except requests.ConnectionError:
            pass
        assert time.monotonic() < until
        time.sleep(0.1)


def asked(database: str, query: str) -> dict[str, float]:
    """The answer's values by the function, or by none."""
    requests.get(f"{database}/internal/force_flush", timeout=10).raise_for_status()
    answer = requests.get(
        f"{database}/api/v1/query", {"query": query.replace("job", "service_name")}, timeout=10
    ).json()
    assert answer["status"] == "success", answer
    return {each["metric"].get("service_name", ""): float(each["value"][1]) for each in answer["data"]["result"]}


@pytest.mark.nightly  # the database is downloaded once
def test_boards_are_filled_through_a_real_collector(database: str, tmp_path: Path) -> None:
    with real(f"{database}/opentelemetry", tmp_path) as port, ExitStack() as stack:
        variables = {
            "TRUEMEM_OUTPUT": "emf,otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://localhost:{port}",
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "cumulative",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        }
        jvm = stack.enter_context(Java("17", environment={**variables, "OTEL_SERVICE_NAME": "of-java"}))
        of_python = {**variables, "OTEL_SERVICE_NAME": "of-python"}
        python = stack.enter_context(environment("emf,otlp", of_python, exact=True))
        for _ in range(6):
            jvm.invoke("leak", count=blocks(3))
            jvm.invoke("collect")
            python.invoke(mib=20)
            python.attempt("fails")
            time.sleep(0.5)
        heap = jvm.finished()[-1].heap
        records = python.told()
        assert "dropped" not in jvm.log() + python.log()
        _until(lambda: asked(database, "faas_mem_usage_bytes_count").get("of-python") == len(records))
    assert [query for query in BOARDS if not asked(database, query)] == []
    live = asked(database, f"jvm_memory_used_after_last_gc_bytes{{{HEAP}}}")["of-java"]
    assert live == pytest.approx(heap["live"] * (1 << 20), abs=1)
    assert [asked(database, f"faas_{what}_total")["of-python"] for what in ("invocations", "errors")] == [6, 6]
    ours = [target["expr"] for panel in json.loads(files()["grafana.json"])["panels"] for target in panel["targets"]]
    queries = [query.replace("$function", ".*").replace("$__rate_interval", "1m") for query in ours]
    assert [query for query in queries if not asked(database, query) and not any(map(query.count, NOT_OF_THESE))] == []
