"""The application, built once by AWS's own tools."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy import application
from testing.installs import Missing
from tests.template import sam
from tests.template.resolve import Resolver
from tests.template.stack import plain

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
def resources(template: application.Template) -> Resources:
    """By type: the properties of the stack's resources, by logical id. (cfn-lint looks at their names and types.)"""
    return Resolver(plain(template), EVERYTHING, {}).resources
