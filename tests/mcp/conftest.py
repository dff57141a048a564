"""The SDK's own client before a real `truemem mcp`, over its standard input and output."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult, TextContent

from testing.literal_reader import Told
from tests.report.conftest import aws, aws_endpoint

__all__ = ["aws", "aws_endpoint"]
TRUEMEM = Path(sys.executable).with_name("truemem")


def told(result: CallToolResult) -> Told:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return Told(block.text, result.structured_content or {}, result.is_error)


def serving(*options: str, mode: str = "auto", folder: Path | None = None) -> Client:
    """A client of a server of its own, with the variables of this process. `legacy`: as before the revision of 2026."""
    parameters = StdioServerParameters(command=str(TRUEMEM), args=["mcp", *options], env={**os.environ}, cwd=folder)
    return Client(parameters, read_timeout_seconds=400, mode=mode)


Conversation = Callable[[Client], Awaitable[Any]]


def converse(about: Conversation, *options: str, mode: str = "auto") -> Any:
    """Start a server, have this conversation with it, and end it."""

    async def session() -> Any:
        async with serving(*options, mode=mode) as client:
            return await about(client)

    return anyio.run(session)


Asked = Callable[[str, Mapping[str, Any]], Told]


@pytest.fixture(scope="session")
def asked() -> Iterator[Asked]:
    """One question to a server that is there for all of them: it starts in two seconds."""
    with asking(serving()) as ask:
        yield ask


@contextmanager
def asking(server: Client) -> Iterator[Asked]:
    """One question after the other to a server."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as client:
        yield lambda tool, arguments: told(portal.call(client.call_tool, tool, dict(arguments)))
