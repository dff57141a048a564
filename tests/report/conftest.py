"""`truemem report` and its neighbours as a user runs them, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
import requests
from click.testing import CliRunner
from truemem_workbench.cli.__main__ import cli

from tests.sample.s3_server import CREDENTIALS, s3_server


class Ran(NamedTuple):
    """One command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Ran]


@pytest.fixture
def truemem(monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, with its output in a pipe; pytest's own processes say how wide a terminal is."""
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Ran:
        result = CliRunner().invoke(cli, [str(each) for each in arguments], input=stdin, standalone_mode=False)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.return_value if result.return_value is not None else 0, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """moto's server: real HTTP, behind the real boto3."""
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def aws(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Clients of that server, empty; and its address is in the environment, so that the command finds it too."""
    requests.post(f"{aws_endpoint}/moto-api/reset", timeout=30).raise_for_status()
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": aws_endpoint, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    session: Any = boto3.Session()
    client: Callable[[str], Any] = session.client
    return client
