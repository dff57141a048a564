"""The sidecar reads the environments of processes, to know whose they are: nothing of them leaves it."""

import secrets
from pathlib import Path

import psutil

from testing.environment import Environment


def test_what_is_in_environments_goes_nowhere() -> None:
    canary = f"canary-{secrets.token_hex(8)}"
    variables = {
        "DATABASE_PASSWORD": canary,
        "AWS_SECRET_ACCESS_KEY": f"{canary}-key",
        "AWS_SESSION_TOKEN": f"{canary}-token",
        "TRUEMEM_CPU_BUDGET": "50",
    }
    with Environment(environment=variables, timeout_s=5) as environment:
        for _ in range(6):
            environment.invoke(mib=5, ms=20)
        read = [Path(f"/proc/{pid}/environ").read_bytes() for pid in environment.local.processes().values()]
        environment.invoke("child", mib=5, ms=20)
        environment.attempt("crash")
        environment.attempt(ms=60_000)
        environment.invoke()
        kept = [path.read_bytes() for path in (environment.local.environment_dir / "tmp").glob(".truemem-*")]
        environment.records()
    said = "\n".join(entry.text for entry in environment.local.logs if entry.source.startswith("extension:"))
    assert any(canary.encode() in text for text in read)  # it was there to be read
    assert "method=" in said
    assert '"requestId"' in said
    assert canary not in said
    assert kept
    assert not any(canary.encode() in text for text in kept)


def test_it_has_no_connection_beyond_loopback() -> None:
    with Environment(exact=True) as environment:
        environment.invoke()
        environment.invoke()
        made = psutil.Process(environment.local.processes()[f"extension:{environment.name}"]).net_connections("inet")
    remote = {connection.raddr.ip for connection in made if connection.raddr}
    assert remote == {"127.0.0.1"}
