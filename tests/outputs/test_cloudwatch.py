"""From the sidecar through AWS's collector to a stand-in for CloudWatch, which checks signatures by botocore."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from truemem.output_settings import OTLP_PORT
from truemem.outputs.otlp_document import PEAK
from truemem_workbench.local.configuration.settings import LOCAL_CREDENTIALS, REGION

from benchmarks.cost import billed_bytes
from testing.cloudwatch import CloudWatch, refusal
from testing.environment import Environment
from tests.outputs.test_lambda import environment

CONFIGURATION = Path(__file__).parents[2] / "layer" / "truemem" / "cloudwatch.yaml"
KEY = Credentials(LOCAL_CREDENTIALS["AccessKeyId"], LOCAL_CREDENTIALS["SecretAccessKey"], LOCAL_CREDENTIALS["Token"])
MIB = 1 << 20
PATIENCE_S = 60.0

OF_AWSS_LAYER = {
    "receivers": {"otlp"},
    "exporters": {"awsxray", "awsemf", "prometheusremotewrite", "debug", "otlp", "otlphttp"},
    "extensions": {"sigv4auth"},
}
"""Components of aws-otel-collector-*-ver-0-117-0 (aws-otel-lambda's README)."""


def test_the_configuration_has_what_awss_layer_has() -> None:
    document = yaml.safe_load(CONFIGURATION.read_text())
    used = {room: {*document[room]} for room in document if room != "service"}
    assert used.keys() == OF_AWSS_LAYER.keys()
    assert all(used[room] <= OF_AWSS_LAYER[room] for room in used)
    assert document["receivers"]["otlp"]["protocols"]["http"]["endpoint"] == f"localhost:{OTLP_PORT}"


@pytest.mark.parametrize(
    ("key", "region", "service", "body", "why"),
    [
        (KEY, REGION, "monitoring", b"{}", ""),
        (Credentials("local", "other", "local"), REGION, "monitoring", b"{}", "another key"),
        (Credentials("other", "local", "local"), REGION, "monitoring", b"{}", "signed for other/"),
        (Credentials("local", "local", "other"), REGION, "monitoring", b"{}", "another key"),
        (KEY, "eu-west-1", "monitoring", b"{}", "signed for local/"),
        (KEY, REGION, "xray", b"{}", "signed for local/"),
        (KEY, REGION, "monitoring", b"{ }", "another key, or another request"),
    ],
)
def test_the_stand_in_refuses_what_is_signed_otherwise(
    key: Credentials, region: str, service: str, body: bytes, why: str
) -> None:
    request = AWSRequest("POST", "https://monitoring.us-east-1.amazonaws.com/v1/metrics", data=b"{}")
    request.headers["Host"] = "monitoring.us-east-1.amazonaws.com"
    SigV4Auth(key, service, region).add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers["x-amz-security-token"] = LOCAL_CREDENTIALS["Token"]
    found = refusal(KEY, REGION, headers, body)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_a_price_counts_each_point_with_its_resource() -> None:
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.add(key="faas.name").value.string_value = "orders"
    scope = resource.scope_metrics.add()
    scope.scope.name = "truemem"
    points = scope.metrics.add(name="truemem.oom", unit="1").gauge.data_points
    points.add(as_int=1, time_unix_nano=1)
    once = request.ByteSize()
    points.add(as_int=1, time_unix_nano=2)
    assert billed_bytes(request) == 2 * once > request.ByteSize()


@pytest.fixture
def collector(tmp_path: Path) -> Path:
    """AWS's layer has it as extensions/collector. It listens on a name that only Lambda knows: it gets /etc/hosts."""
    path = os.environ.get("TRUEMEM_TEST_COLLECTOR", "")
    if not path:
        pytest.skip("TRUEMEM_TEST_COLLECTOR does not name the file extensions/collector of AWS's collector layer")
    hosts, started = tmp_path / "hosts", tmp_path / "collector"
    hosts.write_text("127.0.0.1 localhost sandbox.localdomain\n")
    there = f"mount --bind {hosts} /etc/hosts && exec {path}"
    started.write_text(f"#!/bin/sh\nexec unshare --map-root-user --mount sh -c '{there}'\n")
    started.chmod(0o755)
    return started


def beside(collector: Path, cloudwatch: CloudWatch, **settings: object) -> Environment:
    """The sidecar sends once a second."""
    variables = {"OPENTELEMETRY_COLLECTOR_CONFIG_URI": str(CONFIGURATION), "OTEL_METRIC_EXPORT_INTERVAL": "1000"}
    return environment("emf,otlp", cloudwatch.variables, variables, extensions=[collector], **settings)


def invoke_until(made: Environment, happened: Callable[[], object], pause_s: float = 1.1) -> None:
    """With more than a second between: each invocation is sent in a request of its own, when the next one comes."""
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until, made.log()
        made.invoke(mib=20)
        time.sleep(pause_s)


def dropped(made: Environment) -> int:
    """Invocations that the sidecar says it could not send."""
    found = re.search(r"(\d+) invocations dropped in all", made.log())
    return int(found[1]) if found else 0


def gauge(metric: Metric) -> tuple[str, int]:
    (point,) = metric.gauge.data_points
    return metric.unit, point.as_int


@pytest.mark.nightly
def test_what_the_line_has_arrives_signed(collector: Path, tmp_path: Path) -> None:
    with CloudWatch(tmp_path, REGION, KEY) as cloudwatch, beside(collector, cloudwatch) as made:
        invoke_until(made, lambda: len(cloudwatch.requests) >= 3)
        records = made.told()
    assert cloudwatch.refused == []
    peaks = cloudwatch.metrics(PEAK)
    counts = [point.count for metric in peaks for point in metric.histogram.data_points]
    assert sum(counts) + dropped(made) == len(records)
    first, record = peaks[0].histogram.data_points[0], records[0]
    assert (peaks[0].unit, first.count, first.sum) == ("By", 1, round(record.PeakRSS * MIB))
    assert gauge(cloudwatch.metrics("truemem.memory.current")[0]) == ("By", round(record.CurrentRSS * MIB))
    assert gauge(cloudwatch.metrics("truemem.memory.mark")[0]) == ("By", round(record.MaxMemoryUsed * MIB))
    resource = {
        each.key: each.value.string_value for each in cloudwatch.requests[0].resource_metrics[0].resource.attributes
    }
    assert (resource["faas.name"], resource["faas.instance"]) == ("function", record.environmentId)


@pytest.mark.nightly
def test_another_key_is_refused_and_the_log_says_so(collector: Path, tmp_path: Path) -> None:
    other = Credentials(KEY.access_key, "another", KEY.token)
    with CloudWatch(tmp_path, REGION, other) as cloudwatch, beside(collector, cloudwatch) as made:
        invoke_until(made, lambda: cloudwatch.refused)
        records = made.told()
    assert cloudwatch.requests == []
    assert "status 403; " in made.log()
    assert dropped(made) == len(records)


@pytest.mark.nightly
def test_nothing_arrives_twice_whose_answer_comes_while_frozen(collector: Path, tmp_path: Path) -> None:
    """A timeout that counts the freeze would say that it was not taken."""
    with CloudWatch(tmp_path, REGION, KEY, pause_s=0.5) as cloudwatch, beside(collector, cloudwatch) as made:
        invoke_until(made, lambda: len(cloudwatch.requests) >= 3, pause_s=7)
        records = made.told()
    counts = [point.count for metric in cloudwatch.metrics(PEAK) for point in metric.histogram.data_points]
    assert sum(counts) + dropped(made) == len(records)


@pytest.mark.nightly
def test_a_death_arrives_though_the_collector_ends_first(collector: Path, tmp_path: Path) -> None:
    with CloudWatch(tmp_path, REGION, KEY) as cloudwatch, beside(collector, cloudwatch, memory_mib=128) as made:
        made.attempt(mib=400)
        invoke_until(made, lambda: cloudwatch.metrics("truemem.oom"))
        died = made.records()[0]
    assert died.OutOfMemory == 1
    (first, *_) = (metric.sum.data_points[0].as_int for metric in cloudwatch.metrics("truemem.oom"))
    assert first == 1
