"""`truemem report` and its neighbours as a user runs them, in this process."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
import requests
from botocore.loaders import create_loader
from click.testing import CliRunner
from truemem_workbench.commands.__main__ import cli

from tests.page.conftest import started
from tests.report.service import Answer, answering
from tests.report.written import log
from tests.sample.s3_server import CREDENTIALS, s3_server
from tests.template.stack import EMPTY_ZIP

__all__ = ["started"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def refusal(self) -> str:
        """What a command says that cannot be done: one line on standard error, and nothing else."""
        assert (self.code, self.out, self.err.count("\n")) == (2, "", 1), self
        return self.err


Command = Callable[..., Ran]
Report = Callable[..., Any]
Told = Callable[..., str]


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


@pytest.fixture
def report(truemem: Command, tmp_path: Path) -> Report:
    """`truemem report --json` of a log with these lines."""
    return lambda lines, *more: truemem("report", log(tmp_path, lines), "--json", *more).document


@pytest.fixture
def told(truemem: Command, tmp_path: Path) -> Told:
    """`truemem report` of a log with these lines; wherever its own lines end."""
    return lambda lines, *more: " ".join(truemem("report", log(tmp_path, lines), *more).out.split())


@pytest.fixture(scope="session")
def aws_endpoint() -> Iterator[str]:
    """moto's server: real HTTP, behind the real boto3."""
    with s3_server() as endpoint:
        yield endpoint


botocore_loader = cache(create_loader)
"""To parse AWS's service models takes most of a client's time: once for all tests."""


@pytest.fixture
def aws(aws_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Clients of that server, empty; and its address is in the environment, so that the command finds it too."""
    requests.post(f"{aws_endpoint}/moto-api/reset", timeout=30).raise_for_status()
    files = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), "/nonexistent")
    places = {"AWS_ENDPOINT_URL": aws_endpoint, "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    for name, value in {**CREDENTIALS, **places, **files}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("botocore.session.create_loader", botocore_loader)
    session: Any = boto3.Session()
    client: Callable[[str], Any] = cache(session.client)
    return client


def put_function(client: Callable[[Any], Any], name: str, **settings: Any) -> str:
    """A function without any code; its name."""
    trust = '{"Version": "2012-10-17", "Statement": []}'
    role = client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    settings = {"Runtime": "python3.13", "Handler": "app.handler", "Code": {"ZipFile": EMPTY_ZIP}, **settings}
    client("lambda").create_function(FunctionName=name, Role=role, **settings)
    return name


def put_events(logs: Any, group: str, stream: str, events: Iterable[tuple[int, str]]) -> None:
    """Times and messages, in a stream of their own; in a group that may be there."""
    with suppress(logs.exceptions.ResourceAlreadyExistsException):
        logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName=stream)
    made = [{"timestamp": at, "message": message} for at, message in events]
    logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=made)


@pytest.fixture
def aws_answers(aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], None]]:
    """From then on the command asks a service that answers so."""
    with ExitStack() as services:

        def begin(answer: Answer) -> None:
            monkeypatch.setenv("AWS_ENDPOINT_URL", services.enter_context(answering(answer)))

        yield begin
