"""Variables of the environment of a made-up function: what the platform sets, and what a user may set."""

from __future__ import annotations

from .rolls import Rolls, integer, text

CHOICES: dict[str, tuple[str, ...]] = {
    "TRUEMEM_ENABLED": ("true",) * 6 + ("off", "maybe"),
    "TRUEMEM_NAMESPACE": ("mine", "AWS/Lambda", "a b/c", "é"),
    "TRUEMEM_DIMENSIONS": ("Stage=prod", "A=1,B=2", "A", "PeakRSS=1", "=,", ":a=1"),
    "TRUEMEM_PROPERTIES": ("model=v3", "a=é,b=2", "a=b=c", "x"),
    "TRUEMEM_CPU_BUDGET": ("0.5", "1%", "50", "nan", "0", "1e400"),
    "TRUEMEM_OOM_SCORE_ADJ": ("0", "500", "1000", "1001", "-1"),
    "TRUEMEM_RESOURCES": ("auto", "always", "ALWAYS", "off", "x"),
    "TRUEMEM_DETAIL": ("always", "always", "always", "auto", "x"),
    "TRUEMEM_LINES": ("on", "50%", "1%,java", "x", "off"),
    "TRUEMEM_SETTLE": ("auto", "off"),
    "TRUEMEM_JOURNAL": ("true", "true", "off"),
    "TRUEMEM_AGGREGATE": ("1", "60", "300", "301", "off"),
    "TRUEMEM_OUTPUT": ("emf", "json", "otlp", "emf,otlp", "dogstatsd", "emf,dogstatsd,otlp,pprof", "json,pprof", "x"),
    "TRUEMEM_CPU_METRIC": ("true", "false"),
    "TRUEMEM_PORT": ("9100", "80", "x"),
    "TRUEMEM_LOG_LEVEL": ("info", "warn", "error", "off", "debug"),
    "TRUEMEM_WHAT": ("x",),
    "AWS_LAMBDA_LOG_LEVEL": ("INFO", "WARN", "FATAL"),
    "OTEL_EXPORTER_OTLP_ENDPOINT": (
        "http://localhost:4318",
        "http://127.0.0.1:4318/base",
        "https://x",
        "http://1.2.3.4:1",
    ),
    "OTEL_EXPORTER_OTLP_HEADERS": ("a=b,c=%20d", "host=x", "é=1"),
    "OTEL_RESOURCE_ATTRIBUTES": ("service.name=x,deployment.environment=prod", "%%%"),
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": ("cumulative", "delta", "lowmemory"),
    "OTEL_METRIC_EXPORT_INTERVAL": ("1000", "5000", "x", "99999999999"),
    "OTEL_EXPORTER_OTLP_TIMEOUT": ("1000", "0"),
    "DD_DOGSTATSD_URL": ("udp://127.0.0.1:8125", "unix:///tmp/dsd.sock", "x"),
    "DD_TAGS": ("env:prod,team:a b", "é"),
    "PYROSCOPE_SERVER_ADDRESS": ("http://localhost:4040",),
}


def variables(rolls: Rolls, memory_mib: int, is_managed: bool) -> dict[bytes, bytes]:
    """What `posix.environ` has."""
    kind = (
        "lambda-managed-instances"
        if is_managed
        else rolls.pick(("on-demand", "on-demand", "provisioned-concurrency", "snap-start"))
    )
    made = {
        "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001",
        "AWS_LAMBDA_FUNCTION_NAME": "f",
        "AWS_REGION": "eu-west-1",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(memory_mib),
        "AWS_LAMBDA_INITIALIZATION_TYPE": kind,
    }
    for name, choices in CHOICES.items():
        share = 450 if name in ("TRUEMEM_DETAIL", "TRUEMEM_OUTPUT") else 120
        if rolls.chance(share):
            made[name] = rolls.pick(choices)
    if rolls.chance(60):
        made[rolls.pick([*CHOICES])] = text(rolls, 40, surrogates=False).replace("\0", "")
    if rolls.chance(30):
        made["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = str(integer(rolls))
    if rolls.chance(10):
        made["AWS_LAMBDA_RUNTIME_API"] = rolls.pick(("127.0.0.1", "", "x:y", "[::1]:9001", "localhost:9001"))
    return {name.encode(): value.encode() for name, value in made.items()}
