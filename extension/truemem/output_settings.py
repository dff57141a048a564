"""Where records are sent: what `OTEL_*` and `DD_*` variables say of it. Pure.

Sources: "OpenTelemetry protocol exporter" and "Environment variable specification" of OpenTelemetry; "DogStatsD client"
of Datadog's documentation. Only to receivers of this environment: TLS, credentials and the way out of it are theirs.
"""

from __future__ import annotations

from .platform.tcp import parse_address
from .support.log import OwnWords, reason
from .support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OTLP_PORT, DOGSTATSD_PORT, PYROSCOPE_PORT = 4318, 8125, 4040
PERIOD_MS = 60_000
TIMEOUT_MS = 10_000
SHORTEST_MS, LONGEST_MS = 1_000, 3_600_000
MOST_VALUE_BYTES = 8192
PAIRS = 64
SUN_PATH = 107
"""Bytes of a Unix socket's name (unix(7))."""

RESERVED_HEADERS = frozenset(
    ("host", "content-length", "content-type", "transfer-encoding", "connection", "expect", "upgrade")
)
"""Headers that are not the user's to set."""
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")

ELSEWHERE = "is not in this environment. Send to a collector that is: a layer, or a process of the image"


class Unusable(OwnWords, ValueError):
    """An address cannot be used. Says why and what to do, and nothing of what is in it."""


class OtlpSettings(NamedTuple):
    """A collector of OpenTelemetry, or a relay of profiles, that listens in this environment."""

    host: str
    port: int
    path: str
    headers: dict[str, str]
    """Headers of each request, by name in lower case."""
    attributes: dict[str, str]
    """Attributes of the resource, as the user wants them."""
    timeout_ms: int
    period_ms: int
    is_cumulative: bool
    """Do counts go on from request to request? Else each has those since the one before (delta)."""

    @property
    def address(self) -> str:
        """The collector's address, for people and for the header Host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class DogStatsdSettings(NamedTuple):
    """An agent of Datadog that listens in this environment."""

    host: str
    port: int
    path: str
    """Path of the agent's Unix socket; "" for UDP."""

    @property
    def address(self) -> str:
        """The agent's address for people, without the path of a socket."""
        return "unix" if self.path else f"udp://{self.host}:{self.port}"


class Variables:
    """Environment variables as text, and what is wrong with them. Any part of a value may be a secret, also what stands
    where a name should be: it is told by the variable's name and the place in it."""

    def __init__(self, environ: Mapping[bytes, bytes]) -> None:
        self._environ = environ
        self.problems: list[str] = []

    def text(self, *names: str) -> tuple[str, str]:
        """The first of these that is set, and its name; both empty where none is."""
        for name in names:
            value = self._environ.get(name.encode(), b"")[:MOST_VALUE_BYTES].decode("utf-8", "replace").strip()
            if value:
                return value, name
        return "", ""

    def milliseconds(self, default: int, *names: str) -> int:
        """The variable's value as a number of ms, from SHORTEST_MS to LONGEST_MS."""
        value, name = self.text(*names)
        if not value:
            return default
        if not value.isdecimal() or not value.isascii() or len(value) > 9:
            self.problems.append(f"{name} is not a whole number of milliseconds; {default} is used")
            return default
        return min(max(int(value), SHORTEST_MS), LONGEST_MS)

    def pairs(self, *names: str) -> dict[str, str]:
        """The variable's pairs: `name=value,name=value`, percent-encoded (W3C baggage, without its properties)."""
        return {key: value for _, key, value in [*self._parts(*names)][:PAIRS]}

    def headers(self, *names: str) -> dict[str, str]:
        """The variable's pairs that can be sent as headers, by name in lower case."""
        found: dict[str, str] = {}
        for part, key, value in self._parts(*names):
            name = key.lower()
            if name in RESERVED_HEADERS:
                self.problems.append(f"{part} is left out: truemem sets the header {name} itself")
            elif not _TOKEN.issuperset(name):
                self.problems.append(f"{part} is left out: no name of a header. Write NAME=VALUE, not NAME: VALUE")
            elif not value.isascii() or not value.isprintable():
                self.problems.append(f"{part} is left out: its value is not printable ASCII")
            elif len(found) < PAIRS:
                found[name] = value
        return found

    def _parts(self, *names: str) -> Iterator[tuple[str, str, str]]:
        """Each pair: where it is, its name and its value."""
        value, name = self.text(*names)
        for number, part in enumerate(value.split(","), 1):
            key, equals, text = part.partition("=")
            place = f"{name}: part {number}"
            if equals and key.strip():
                yield place, _decoded(key.strip()), _decoded(text.strip())
            elif part.strip():
                self.problems.append(f"{place} is not name=value; it is left out")


def otlp(environ: Mapping[bytes, bytes]) -> tuple[OtlpSettings | None, list[str]]:
    """The collector, and what is wrong with the variables; None where nothing is to be sent, or can be."""
    variables = Variables(environ)
    problems = variables.problems
    off, name = variables.text("OTEL_SDK_DISABLED")
    if off.lower() == "true":
        return None, ["otlp is off: OTEL_SDK_DISABLED=true"]
    if "none" in [part.strip() for part in variables.text("OTEL_METRICS_EXPORTER")[0].lower().split(",")]:
        return None, ["otlp is off: OTEL_METRICS_EXPORTER=none"]
    protocol, _ = variables.text("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    url, name = variables.text("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    if protocol.lower() == "grpc" and url:
        problems.append(f"{name} is for gRPC, and not used: HTTP/JSON goes to http://localhost:{OTLP_PORT}")
        url = ""
    if url and name == "OTEL_EXPORTER_OTLP_ENDPOINT":
        url = url.rstrip("/") + "/v1/metrics"
    try:
        host, port, path = _http(url or f"http://localhost:{OTLP_PORT}/v1/metrics", OTLP_PORT)
    except Unusable as error:
        return None, [*problems, f"otlp is off: {name} {reason(error)}"]
    headers = variables.headers("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    attributes = variables.pairs("OTEL_RESOURCE_ATTRIBUTES")
    service, _ = variables.text("OTEL_SERVICE_NAME")
    if service:
        attributes["service.name"] = service
    timeout_ms = variables.milliseconds(TIMEOUT_MS, "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
    period_ms = variables.milliseconds(PERIOD_MS, "OTEL_METRIC_EXPORT_INTERVAL")
    temporality, _ = variables.text("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")
    is_cumulative = temporality.lower() == "cumulative"
    return OtlpSettings(host, port, path, headers, attributes, timeout_ms, period_ms, is_cumulative), problems


def pprof(environ: Mapping[bytes, bytes]) -> tuple[OtlpSettings | None, list[str]]:
    """A relay of Grafana Pyroscope, by the variable of its clients, and what is wrong with that. The server reads
    `format`, and labels in `name` ("Server HTTP API", /ingest)."""
    variables = Variables(environ)
    url, name = variables.text("PYROSCOPE_SERVER_ADDRESS")
    try:
        host, port, path = _http(url or f"http://localhost:{PYROSCOPE_PORT}", PYROSCOPE_PORT)
    except Unusable as error:
        return None, [f"pprof is off: {name} {reason(error)}"]
    function, version = (variables.text(f"AWS_LAMBDA_FUNCTION_{part}")[0] for part in ("NAME", "VERSION"))
    path = f"{path.rstrip('/')}/ingest?format=pprof&name={function}%7Bfunction_version%3D{version}%7D"
    return OtlpSettings(host, port, path, {}, {}, TIMEOUT_MS, PERIOD_MS, False), []


def dogstatsd(environ: Mapping[bytes, bytes]) -> tuple[DogStatsdSettings | None, list[str]]:
    """What the `DD_*` variables say of Datadog's agent."""
    variables = Variables(environ)
    url, name = variables.text("DD_DOGSTATSD_URL")
    if not url:
        host, of_host = variables.text("DD_AGENT_HOST")
        port, of_port = variables.text("DD_DOGSTATSD_PORT")
        host = host or "localhost"
        url = f"udp://{f'[{host}]' if ':' in host else host}:{port or DOGSTATSD_PORT}"
        name = ":".join(filter(None, (of_host, of_port)))
    try:
        return _agent(url), []
    except Unusable as error:
        return None, [f"dogstatsd is off: {name} {reason(error)}"]


def _agent(url: str) -> DogStatsdSettings:
    """Raises Unusable, which says what is wrong."""
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme in ("unix", "unixgram"):
        if not rest.startswith("/") or len(rest.encode("utf-8", "replace")) > SUN_PATH or not rest.isprintable():
            raise Unusable(f"is not the absolute path of a socket, of {SUN_PATH} bytes at most")
        return DogStatsdSettings("", 0, rest)
    if scheme != "udp":
        raise Unusable("is not udp://HOST:PORT or unix:///PATH")
    return DogStatsdSettings(*_loopback(rest.rstrip("/"), DOGSTATSD_PORT), "")


def _http(url: str, usual_port: int) -> tuple[str, int, str]:
    """Host, port and path. Raises Unusable, which says what to do."""
    scheme, _, rest = url.partition("://")
    if scheme.lower() == "https":
        raise Unusable(f"needs TLS, which is a collector's: send to http://localhost:{usual_port}, and let it forward")
    if scheme.lower() != "http":
        raise Unusable(f"is not http://HOST:PORT, such as http://localhost:{usual_port}")
    authority, slash, path = rest.partition("/")
    if "@" in authority:
        raise Unusable("has a user's name: credentials are a collector's")
    host, port = _loopback(authority, 80)
    path = slash + path
    if not path.isascii() or not path.isprintable() or " " in path:
        raise Unusable("has a path that is not percent-encoded")
    return host, port, path.partition("#")[0] or "/"


def _loopback(address: str, default_port: int) -> tuple[str, int]:
    """Host and port. Raises Unusable where it is not of this environment; names are not looked up."""
    has_port = ":" in address.rpartition("]")[2]
    try:
        host, port = parse_address(address.lower() if has_port else f"{address.lower()}:{default_port}")
    except ValueError as error:
        if f"{error}" == "no address":
            raise Unusable("names another host: only `localhost` and addresses are known here") from None
        raise Unusable("has no port from 1 to 65535") from None
    if host != "::1" and not host.startswith("127."):
        raise Unusable(ELSEWHERE)
    return host, port


def _decoded(text: str) -> str:
    """Percent-decoding; what is not UTF-8, or no encoding, stays visible."""
    first, *parts = text.encode("utf-8", "replace").split(b"%")
    made = first
    for part in parts:
        try:
            made += bytes((int(part[:2], 16),)) + part[2:] if part[:2].isalnum() and len(part) > 1 else b"%" + part
        except ValueError:
            made += b"%" + part
    return made.decode("utf-8", "replace")
