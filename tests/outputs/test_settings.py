"""What `OTEL_*` and `DD_*` say of where to send, and what is refused."""

from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.config import Config
from truemem.output_settings import DogStatsdSettings, OtlpSettings, dogstatsd, otlp, pprof
from truemem.outputs import door
from truemem.support.clock import Clock
from truemem.wings import Site


def environ(variables: dict[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): value.encode("utf-8", "surrogatepass") for name, value in variables.items()}


def collector(**variables: str) -> OtlpSettings:
    found, problems = otlp(environ({f"OTEL_{name}": value for name, value in variables.items()}))
    assert problems == []
    assert found is not None
    return found


def test_the_default_is_the_port_of_http_once_a_minute() -> None:
    assert collector() == OtlpSettings("127.0.0.1", 4318, "/v1/metrics", {}, {}, 10_000, 60_000, False)


@pytest.mark.parametrize(
    ("endpoint", "of_metrics", "address"),
    [
        ("http://localhost:5000", "", ("127.0.0.1", 5000, "/v1/metrics")),
        ("http://127.0.0.2:5000/a/", "", ("127.0.0.2", 5000, "/a/v1/metrics")),
        ("HTTP://LOCALHOST:5000", "", ("127.0.0.1", 5000, "/v1/metrics")),
        ("http://[::1]:5000", "", ("::1", 5000, "/v1/metrics")),
        ("", "http://localhost:5000/m", ("127.0.0.1", 5000, "/m")),
        ("", "http://localhost", ("127.0.0.1", 80, "/")),
        ("https://x", "http://localhost:1/m", ("127.0.0.1", 1, "/m")),
    ],
)
def test_an_endpoint_is_taken_as_opentelemetry_specifies(
    endpoint: str, of_metrics: str, address: tuple[str, int, str]
) -> None:
    found = collector(EXPORTER_OTLP_ENDPOINT=endpoint, EXPORTER_OTLP_METRICS_ENDPOINT=of_metrics)
    assert (found.host, found.port, found.path) == address


def test_headers_attributes_and_times_are_taken() -> None:
    variables = {"EXPORTER_OTLP_HEADERS": "x=y", "EXPORTER_OTLP_METRICS_HEADERS": "X-Key=a%20b, other = c"}
    variables |= {"RESOURCE_ATTRIBUTES": "deployment.environment.name=prod,service.name=a,k=%C3%BC"}
    variables |= {"SERVICE_NAME": "b", "EXPORTER_OTLP_TIMEOUT": "2000", "METRIC_EXPORT_INTERVAL": "5"}
    found = collector(**variables)
    assert found.headers == {"x-key": "a b", "other": "c"}
    assert found.attributes == {"deployment.environment.name": "prod", "service.name": "b", "k": "ü"}
    assert (found.timeout_ms, found.period_ms) == (2000, 1000)


@pytest.mark.parametrize(("wanted", "is_cumulative"), [("cumulative", True), ("DELTA", False), ("lowmemory", False)])
def test_counts_go_on_where_cumulative_is_preferred(wanted: str, is_cumulative: bool) -> None:
    assert collector(EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=wanted).is_cumulative == is_cumulative


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"OTEL_SDK_DISABLED": "True"}, "OTEL_SDK_DISABLED=true"),
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
        ("api-key: secret", 1, ""),
        ("a=b,secret", 2, ""),
    ],
)
def test_a_header_that_cannot_be_sent_is_told_by_its_place(text: str, part: int, why: str) -> None:
    """And without what may be a secret."""
    found, (problem,) = otlp(environ({"OTEL_EXPORTER_OTLP_HEADERS": text}))
    assert found is not None
    assert found.headers in ({}, {"a": "b"})
    what = f"is left out: {why}" if why else "is not name=value; it is left out"
    assert problem == f"OTEL_EXPORTER_OTLP_HEADERS: part {part} {what}"


def test_an_endpoint_for_grpc_is_not_used() -> None:
    variables = {"OTEL_EXPORTER_OTLP_PROTOCOL": "gRPC", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}
    found, (problem,) = otlp(environ(variables))
    assert found is not None
    assert found.port == 4318
    assert "for gRPC" in problem


@pytest.mark.parametrize(
    ("url", "host", "port", "found"),
    [
        ("", "", "", DogStatsdSettings("127.0.0.1", 8125, "")),
        ("UDP://Localhost:9", "", "", DogStatsdSettings("127.0.0.1", 9, "")),
        ("udp://[::1]:9", "", "", DogStatsdSettings("::1", 9, "")),
        ("unix:///var/run/dsd.socket", "", "", DogStatsdSettings("", 0, "/var/run/dsd.socket")),
        ("", "127.0.0.1", "9", DogStatsdSettings("127.0.0.1", 9, "")),
        ("unixstream:///x", "", "", "DD_DOGSTATSD_URL"),
        ("unix://x", "", "", "DD_DOGSTATSD_URL"),
        ("udp://agent:8125", "localhost", "", "DD_DOGSTATSD_URL"),
        ("", "10.0.0.1", "", "DD_AGENT_HOST"),
        ("", "", "x", "DD_DOGSTATSD_PORT"),
        ("", "localhost", "x", "DD_AGENT_HOST:DD_DOGSTATSD_PORT"),
    ],
)
def test_an_agent_is_found_as_datadogs_clients_find_it(
    url: str, host: str, port: str, found: DogStatsdSettings | str
) -> None:
    """Or it is told which variables are wrong."""
    settings, problems = dogstatsd(environ({"DD_DOGSTATSD_URL": url, "DD_AGENT_HOST": host, "DD_DOGSTATSD_PORT": port}))
    if isinstance(found, str):
        assert settings is None
        assert problems[0].startswith(f"dogstatsd is off: {found} ")
    else:
        assert (settings, problems) == (found, [])


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
    ],
)
def test_where_records_go_is_one_setting(text: str, outputs: tuple[str, ...], prints: bool, exports: bool) -> None:
    config = Config({b"TRUEMEM_OUTPUT": text.encode()})
    assert (config.outputs, config.prints, config.exports) == (outputs, prints, exports)
    assert len(config.problems) == (";" in text)
    nothing: Any = None  # of the site that matters here
    site = Site(config, {}, "", managed=False, table=nothing, proc=nothing, clock=Clock())
    assert (door(site) is not None) == exports


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("", ("127.0.0.1", 4040, "/ingest")),
        ("http://localhost:9999/", ("127.0.0.1", 9999, "/ingest")),
        ("http://[::1]:4040/behind/a/path", ("::1", 4040, "/behind/a/path/ingest")),
    ],
)
def test_a_relay_of_profiles_gets_the_functions_name(address: str, found: tuple[str, int, str]) -> None:
    function = {"AWS_LAMBDA_FUNCTION_NAME": "orders", "AWS_LAMBDA_FUNCTION_VERSION": "41"}
    relay, problems = pprof(environ({**function, "PYROSCOPE_SERVER_ADDRESS": address}))
    assert relay is not None
    path, _, query = relay.path.partition("?")
    assert ((relay.host, relay.port, path), problems) == (found, [])
    assert parse_qs(query) == {"format": ["pprof"], "name": ["orders{function_version=41}"]}


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("https://profiles.example.com", "needs TLS, which is a collector's: send to http://localhost:4040"),
        ("http://user:pa55word@localhost:4040", "has a user's name"),
        ("http://10.0.0.1:4040", "is not in this environment"),
    ],
)
def test_a_relay_elsewhere_is_refused(address: str, why: str) -> None:
    relay, (problem,) = pprof(environ({"PYROSCOPE_SERVER_ADDRESS": address}))
    assert relay is None
    assert problem.startswith(f"pprof is off: PYROSCOPE_SERVER_ADDRESS {why}")
    assert "pa55word" not in problem
