"""A real collector (Rotel, whose package brings it for x86_64) takes what is sent, and hands on the same."""

import gzip
import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from truemem.outputs.otlp_document import Trace

from faults import receivers
from faults.receivers import Collector
from testing.otel_conventions import broken
from tests.outputs.test_lambda import environment
from tests.outputs.test_otlp_document import HEAPS, TRACE, body, judged, made

PATIENCE_S = 20.0
TAKEN = receivers.answers(receivers.status(200, "Content-Type: application/x-protobuf\r\n", b""))


def program() -> Path:
    found = importlib.util.find_spec("rotel")
    path = Path(found.origin or "").with_name("rotel-agent") if found is not None else Path("-")
    if not path.is_file():
        pytest.skip("the package rotel has no collector for this machine")
    return path


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def real(address: str, folder: Path) -> Iterator[int]:
    """A collector that hands on what it takes, as protobuf, to `address`/v1/metrics. Its port."""
    port, other = free_port(), free_port()
    command = [str(program()), "start", "--exporter", "otlp", "--otlp-exporter-protocol", "http"]
    command += ["--otlp-exporter-endpoint", address]
    command += ["--otlp-http-endpoint", f"127.0.0.1:{port}", "--otlp-grpc-endpoint", f"127.0.0.1:{other}"]
    command += ["--pid-file", str(folder / "pid"), "--log-file", str(folder / "log")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE_S
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def handed_on(exporter: Collector, invocations: int) -> list[ExportMetricsServiceRequest]:
    """What the collector has handed on, when it has so many peaks."""
    until = time.monotonic() + PATIENCE_S
    found: list[ExportMetricsServiceRequest] = []
    while peaks(found) < invocations:
        assert time.monotonic() < until, "not all was handed on"
        time.sleep(0.05)
        plain = [gzip.decompress(each) if each.startswith(b"\x1f\x8b") else each for each in exporter.bodies]
        found = [ExportMetricsServiceRequest.FromString(each) for each in plain]
    return found


def peaks(requests: list[ExportMetricsServiceRequest]) -> int:
    return sum(
        point.count
        for request in requests
        for resource in request.resource_metrics
        for metric in resource.scope_metrics[0].metrics
        if metric.name == "faas.mem_usage"
        for point in metric.histogram.data_points
    )


@pytest.fixture
def exporter() -> Iterator[Collector]:
    with Collector(TAKEN) as collector:
        yield collector.start()


@pytest.mark.parametrize("trace", [TRACE, TRACE._replace(span_id=""), None])
def test_it_reads_each_kind_of_metric(trace: Trace | None, exporter: Collector, tmp_path: Path) -> None:
    records = [(made(20.0, CurrentRSS=5.5, MaxMemoryUsed=90, MemoryDrift=-2.5, heap=heap), trace) for heap in HEAPS]
    request = body(records, {"faas.name": "orders", "faas.max_memory": 512 << 20})
    with (
        real(f"http://127.0.0.1:{exporter.port}", tmp_path) as port,
        closing(socket.create_connection(("127.0.0.1", port), 5)) as connection,
    ):
        head = (
            f"POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(request)}"
        )
        connection.sendall(f"{head}\r\n\r\n".encode() + request)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        (found,) = handed_on(exporter, len(records))
    sent = judged(request)
    for metric in sent.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.histogram.data_points:
            for exemplar in point.exemplars:
                exemplar.ClearField("as_double")  # this collector loses it, of any sender's JSON
    assert found == sent


def test_it_takes_what_the_sidecar_sends(exporter: Collector, tmp_path: Path) -> None:
    with real(f"http://127.0.0.1:{exporter.port}", tmp_path) as port:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://localhost:{port}"}
        with environment("emf,otlp", variables) as made:
            for mib in 1, 40, 2:
                made.invoke(mib=mib)
            records = made.told()
        found = handed_on(exporter, len(records))
        assert "works," in made.log()
        assert "dropped" not in made.log()
    assert [broken(request) for request in found] == [[]] * len(found)
    assert peaks(found) == len(records) == 3
