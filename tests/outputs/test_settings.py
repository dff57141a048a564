"""What `OTEL_*` and `DD_*` say of where to send, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.platform.output_settings import DogStatsdSettings, OtlpSettings, dogstatsd, otlp


def environ(variables: dict[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode("utf-8", "surrogatepass") for name, value in variables.items()}


def collector(**variables: str) -> OtlpSettings:
    found, problems = otlp(environ({f"OTEL_{name}": value for name, value in variables.items()}))
    assert problems == []
    assert found is not None
    return found


def test_without_variables_it_is_the_port_of_http_on_this_machine_once_a_minute() -> None:
    assert collector() == OtlpSettings("127.0.0.1", 4318, "/v1/metrics", {}, {}, 10_000, 60_000)


@pytest.mark.parametrize(
    ("variables", "host", "port", "path"),
    [
        ({"EXPORTER_OTLP_ENDPOINT": "http://localhost:5000"}, "127.0.0.1", 5000, "/v1/metrics"),
        ({"EXPORTER_OTLP_ENDPOINT": "http://127.0.0.2:5000/a/"}, "127.0.0.2", 5000, "/a/v1/metrics"),
        ({"EXPORTER_OTLP_ENDPOINT": "HTTP://LOCALHOST:5000"}, "127.0.0.1", 5000, "/v1/metrics"),
        ({"EXPORTER_OTLP_ENDPOINT": "http://[::1]:5000"}, "::1", 5000, "/v1/metrics"),
        ({"EXPORTER_OTLP_METRICS_ENDPOINT": "http://localhost:5000/m"}, "127.0.0.1", 5000, "/m"),
        ({"EXPORTER_OTLP_METRICS_ENDPOINT": "http://localhost"}, "127.0.0.1", 80, "/"),
        (
            {"EXPORTER_OTLP_METRICS_ENDPOINT": "http://localhost:1/m", "EXPORTER_OTLP_ENDPOINT": "https://x"},
            "127.0.0.1",
            1,
            "/m",
        ),
    ],
)
def test_an_endpoint_is_taken_as_opentelemetry_specifies(
    variables: dict[str, str], host: str, port: int, path: str
) -> None:
    found = collector(**variables)
    assert (found.host, found.port, found.path) == (host, port, path)


def test_headers_attributes_and_times_are_taken() -> None:
    variables = {"EXPORTER_OTLP_HEADERS": "x=y", "EXPORTER_OTLP_METRICS_HEADERS": "X-Key=a%20b, other = c"}
    variables |= {
        "RESOURCE_ATTRIBUTES": "deployment.environment.name=prod,service.name=a,k=%C3%BC",
        "SERVICE_NAME": "b",
    }
    variables |= {"EXPORTER_OTLP_TIMEOUT": "2000", "METRIC_EXPORT_INTERVAL": "5"}
    found = collector(**variables)
    assert found.headers == {"x-key": "a b", "other": "c"}
    assert found.attributes == {"deployment.environment.name": "prod", "service.name": "b", "k": "ü"}
    assert (found.timeout_ms, found.period_ms) == (2000, 1000)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"OTEL_SDK_DISABLED": "True"}, "OTEL_SDK_DISABLED=true"),
        ({"OTEL_METRICS_EXPORTER": "none"}, "OTEL_METRICS_EXPORTER=none"),
        ({"OTEL_METRICS_EXPORTER": "None"}, "OTEL_METRICS_EXPORTER=none"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector:4318"}, "needs TLS, which is a collector's"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, "is not http://HOST:PORT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, "only `localhost` and addresses"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://10.0.0.5:4318"}, "is not in this environment"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:0"}, "has no port"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:secret@localhost"}, "credentials are a collector's"),
    ],
)
def test_where_it_cannot_send_one_line_says_why_and_it_is_off(variables: dict[str, str], says: str) -> None:
    found, (problem,) = otlp(environ(variables))
    assert found is None
    assert problem.startswith("otlp is off: ")
    assert says in problem
    assert "secret" not in problem


@pytest.mark.parametrize(
    ("text", "part", "why"),
    [
        ("Host=evil", 1, "truemem sets the header host itself"),
        ("a=b,a%0Ab=hidden", 2, "no name of a header. Write NAME=VALUE, not NAME: VALUE"),
        ("Authorization: Basic aGlkZGVu==", 1, "no name of a header. Write NAME=VALUE, not NAME: VALUE"),
        ("a=b,,c=hid%0D%0Aden", 3, "its value is not printable ASCII"),
    ],
)
def test_a_header_that_cannot_be_sent_is_told_by_its_place(text: str, part: int, why: str) -> None:
    found, (problem,) = otlp(environ({"OTEL_EXPORTER_OTLP_HEADERS": text}))
    assert found is not None
    assert found.headers in ({}, {"a": "b"})
    assert problem == f"OTEL_EXPORTER_OTLP_HEADERS: part {part} is left out: {why}"


@pytest.mark.parametrize("text", ["api-key: secret", "Authorization=Basic c2VjcmV0,secret", "x-team:secret,a=1"])
def test_what_is_no_header_is_told_without_what_may_be_a_secret(text: str) -> None:
    found, (problem,) = otlp(environ({"OTEL_EXPORTER_OTLP_HEADERS": text}))
    assert found is not None
    assert "is not name=value" in problem
    assert "secret" not in problem


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({"DD_AGENT_HOST": "agent"}, "DD_AGENT_HOST"),
        ({"DD_DOGSTATSD_PORT": "x"}, "DD_DOGSTATSD_PORT"),
        ({"DD_AGENT_HOST": "localhost", "DD_DOGSTATSD_PORT": "x"}, "DD_AGENT_HOST:DD_DOGSTATSD_PORT"),
        ({"DD_DOGSTATSD_URL": "udp://agent", "DD_AGENT_HOST": "localhost"}, "DD_DOGSTATSD_URL"),
    ],
)
def test_an_agents_address_is_told_by_its_variables(variables: dict[str, str], names: str) -> None:
    found, (problem,) = dogstatsd(environ(variables))
    assert found is None
    assert problem.startswith(f"dogstatsd is off: {names} ")


@pytest.mark.parametrize("protocol", ["grpc", "GRPC"])
def test_an_endpoint_for_grpc_is_not_used(protocol: str) -> None:
    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}
    found, (problem,) = otlp(environ(variables))
    assert found is not None
    assert found.port == 4318
    assert "for gRPC" in problem


@pytest.mark.parametrize(
    ("variables", "settings"),
    [
        ({}, DogStatsdSettings("127.0.0.1", 8125, "")),
        ({"DD_DOGSTATSD_URL": "udp://localhost:9"}, DogStatsdSettings("127.0.0.1", 9, "")),
        ({"DD_DOGSTATSD_URL": "UDP://Localhost:9"}, DogStatsdSettings("127.0.0.1", 9, "")),
        ({"DD_DOGSTATSD_URL": "udp://[::1]:9"}, DogStatsdSettings("::1", 9, "")),
        ({"DD_DOGSTATSD_URL": "unix:///var/run/dsd.socket"}, DogStatsdSettings("", 0, "/var/run/dsd.socket")),
        ({"DD_AGENT_HOST": "127.0.0.1", "DD_DOGSTATSD_PORT": "9"}, DogStatsdSettings("127.0.0.1", 9, "")),
        ({"DD_DOGSTATSD_URL": "unixstream:///x"}, None),
        ({"DD_DOGSTATSD_URL": "unix://x"}, None),
        ({"DD_DOGSTATSD_URL": "udp://agent:8125"}, None),
        ({"DD_AGENT_HOST": "10.0.0.1"}, None),
    ],
)
def test_an_agent_is_found_as_datadogs_clients_find_it(
    variables: dict[str, str], settings: DogStatsdSettings | None
) -> None:
    found, problems = dogstatsd(environ(variables))
    assert found == settings
    assert len(problems) == (settings is None)


@given(
    st.text(st.characters()), st.sampled_from(["", "http://", "https://", "udp://", "unix:///", "http://localhost:"])
)
def test_whatever_is_set_it_is_settings_or_one_line(text: str, scheme: str) -> None:
    url = scheme + text
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES"):
        found, problems = otlp({name.encode(): url.encode("utf-8", "surrogatepass")})
        assert found is not None or problems
        if found is not None:
            assert found.path.isascii()
            assert all(value.isprintable() and value.isascii() for pair in found.headers.items() for value in pair)
    found_agent, problems = dogstatsd({b"DD_DOGSTATSD_URL": url.encode("utf-8", "surrogatepass")})
    assert found_agent is not None or problems


@pytest.mark.parametrize(
    ("text", "outputs", "prints", "exports"),
    [
        ("", ("emf",), True, False),
        ("json", ("json",), True, False),
        ("otlp", ("otlp",), False, True),
        (" EMF , dogstatsd ", ("emf", "dogstatsd"), True, True),
        ("emf;otlp", ("emf",), True, False),
    ],
)
def test_where_records_go_is_one_setting(text: str, outputs: tuple[str, ...], prints: bool, exports: bool) -> None:
    config = Config({b"TRUEMEM_OUTPUT": text.encode()})
    assert (config.outputs, config.prints, config.exports) == (outputs, prints, exports)
    assert len(config.problems) == (";" in text)


def test_where_nothing_is_sent_nothing_of_it_is_loaded() -> None:
    code = "import sys, truemem.__main__; print(*[name for name in sys.modules if name.startswith('truemem.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {f"truemem.{name}" for name in ("lifecycle.outputs", "lifecycle.otlp_output", "records.otlp")}
    ours |= {"truemem.records.dogstatsd", "truemem.platform.collector_connection", "truemem.platform.output_settings"}
    assert "truemem.lifecycle.startup" in done.stdout.split()
    assert ours.isdisjoint(done.stdout.split())
