"""The application, built once by AWS's own tools, and accounts to create it in."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from deploy import application
from testing.installs import Missing
from tests.sample.s3_server import s3_server
from tests.template import sam, stack
from tests.template.resolve import Resolver
from tests.template.stack import Account, Stack, plain

REGION = "eu-central-1"
Resources = Callable[[str], dict[str, dict[str, Any]]]
EVERYTHING = {"Drive": "true", "Tracing": "true", "LogFormat": "JSON", "LogLevel": "WARN"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`sam build` loads the packages of both architectures."""
    for item in items:
        if isinstance(item, pytest.Function) and "build" in item.fixturenames:
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def template() -> application.Template:
    return application.load()


@pytest.fixture(scope="session")
def build() -> Iterator[Path]:
    """`sam build` of the whole template, where everybody may read it, as the local Lambda's ordinary user must."""
    with tempfile.TemporaryDirectory(prefix="truemem-sam-") as name:
        Path(name).chmod(0o755)
        try:
            yield sam.build(Path(name))
        except Missing as reason:
            pytest.skip(str(reason))


@pytest.fixture(scope="session")
def aws() -> Iterator[str]:
    """Endpoint of moto's real server, which boto3 talks to over HTTP."""
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def account(aws: str, template: application.Template) -> Account:
    """With the code uploaded."""
    session = boto3.session.Session("testing", "testing", region_name=REGION)
    made = Account(lambda name: session.client(name, endpoint_url=aws))
    stack.upload(made, template)
    return made


@pytest.fixture(scope="session")
def truth(account: Account, template: application.Template) -> Stack:
    """The stack, with all that is off by default on."""
    return stack.create(account, template, "truth", **EVERYTHING)


@pytest.fixture(scope="session")
def resources(template: application.Template) -> Resources:
    """By type: the properties of the stack's resources, by logical id. (cfn-lint looks at their names and types.)"""
    return Resolver(plain(template), EVERYTHING, {}).resources
