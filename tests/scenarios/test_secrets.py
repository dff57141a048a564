"""The sidecar reads the environments of processes, to know whose they are: nothing of them leaves it."""

import secrets
import tempfile
from pathlib import Path

import psutil
import pytest
from truemem.config import NAMES

from testing.environment import Environment


def test_what_is_in_environments_goes_nowhere() -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    variables = {
        "DATABASE_PASSWORD": canary,
        "AWS_SECRET_ACCESS_KEY": f"{canary}-key",
        "AWS_SESSION_TOKEN": f"{canary}-token",
        "TRUEMEM_CPU_BUDGET": "50",
    }
    with tempfile.TemporaryDirectory(dir="/tmp") as tmp:
        Path(tmp).chmod(0o777)
        with Environment(environment={**variables, "TMPDIR": tmp}, timeout_s=5) as environment:
            for _ in range(6):
                environment.invoke(mib=5, ms=20)
            read = [Path(f"/proc/{pid}/environ").read_bytes() for pid in environment.local.processes().values()]
            environment.invoke("child", mib=5, ms=20)
            environment.attempt("crash")
            environment.attempt(ms=60_000)
            environment.invoke()
            kept = [path.read_bytes() for path in Path(tmp).glob(".truemem-*")]
            environment.records()
        said = "\n".join(entry.text for entry in environment.local.logs if entry.source.startswith("extension:"))
    assert any(canary.encode() in text for text in read)  # it was there to be read
    assert "method=" in said
    assert '"requestId"' in said
    assert canary not in said
    assert kept
    assert not any(canary.encode() in text for text in kept)


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
def test_no_secret_in_a_setting_is_in_the_log(exact: bool) -> None:
    """Also of settings that are wrong, and of a wrapper that cannot be started."""
    canary = f"canary-{secrets.token_hex(8)}"
    variables = {f"TRUEMEM_{name}": canary for name in NAMES if name not in ("PROPERTIES", "OUTPUT")}
    variables |= {
        "TRUEMEM_PROPERTIES": f"key={canary}",
        "TRUEMEM_OUTPUT": "emf,otlp,dogstatsd",
        "TRUEMEM_EXEC_WRAPPER": f"/opt/{canary}",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://localhost:1/{canary}?api-token={canary}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization: Basic {canary}==",
        "OTEL_METRIC_EXPORT_INTERVAL": canary,
        "DD_DOGSTATSD_URL": f"unix:///tmp/{canary}",
    }
    with Environment(environment=variables, exact=exact) as environment:
        for _ in range(3):
            environment.invoke()
        records = environment.told()
        said = "\n".join(entry.text for entry in environment.local.logs)
    lines = [record.line for record in records]
    for line in lines:
        said = said.replace(line, "")
    for expected in ("OTEL_EXPORTER_OTLP_HEADERS: part 1", "otlp(127.0.0.1:1)", "dogstatsd(unix)", "[Errno 2]"):
        assert expected in said
    assert ("TRUEMEM_EXEC_WRAPPER: No such file or directory; the runtime starts without it" in said) == exact
    assert canary not in said
    assert all(canary in line for line in lines)  # of TRUEMEM_PROPERTIES: the user wants it there


def test_it_has_no_connection_beyond_loopback() -> None:
    with Environment(exact=True) as environment:
        environment.invoke()
        environment.invoke()
        made = psutil.Process(environment.local.processes()[f"extension:{environment.name}"]).net_connections("inet")
    remote = {connection.raddr.ip for connection in made if connection.raddr}
    assert remote == {"127.0.0.1"}
