"""Ten incidents solved over MCP alone, by a reader who takes each answer literally.

Each (testing.literal_reader) begins at a function's log in the form of an account, or at its handler, and ends when an
answer says that nothing is left to do. The reader changes only what an answer names: line, variable, extension.
Ten minutes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import TextContent

from benchmarks.kit.bench import Bench
from testing.cases import ready
from testing.installs import Missing
from testing.literal_reader import STORIES, Lost, Read, Story, Told, read
from testing.pages import Result, Table

TITLE = "Incidents over MCP"
TRUEMEM = Path(sys.executable).with_name("truemem")
LONGEST_S = 900.0


def solved(story: Story) -> Read | str:
    """Follow the answers of a server of its own, in the folder of the program: how it went, or why not. Raises Missing
    where something that the program needs is not here."""
    program = ready(story.of)
    server = StdioServerParameters(command=str(TRUEMEM), args=["mcp"], env={**os.environ}, cwd=program.folder)
    client = Client(server, read_timeout_seconds=LONGEST_S)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as session:

        def ask(tool: str, arguments: Mapping[str, Any]) -> Told:
            answer = portal.call(session.call_tool, tool, dict(arguments))
            (block,) = answer.content
            assert isinstance(block, TextContent)
            return Told(block.text, answer.structured_content or {}, answer.is_error)

        try:
            return read(story, program, ask)
        except Lost as why:
            return str(why)


def run(bench: Bench) -> Result:
    known = {story.case: story for story in STORIES}
    rows, lost, missing, steps = [], list[str](), list[str](), dict[str, str]()
    for name in bench.each("incidents", bench.chosen(known)):
        story, begun = known[name], time.monotonic()
        try:
            how = solved(story)
        except Missing as why:
            missing.append(name)
            bench.echo(f"{name}: left out, {why}")
            continue
        if isinstance(how, str):
            lost.append(name)
            bench.echo(how)
            continue
        rows.append([name, story.truth, how.named, " > ".join(how.calls), f"{time.monotonic() - begun:.0f}"])
        steps[name] = "; ".join(f"`{each}`" if each.startswith(("truemem ", "aws ")) else each for each in how.typed)
        bench.echo(" | ".join(rows[-1]))
    count = len(rows) + len(lost)
    persons = "; ".join(f"{name}: {text}" for name, text in steps.items() if text)
    note = (
        f"{len(rows)} of {count} incidents are solved: the reader took the named next call only, and what it named to"
        f" repair. The truth is of the public reports in tests/cases. What a person had to do beside it: {persons}; and"
        " to deploy what is repaired."
    )
    heads = ("incident", "what is true", "named", "calls", "s")
    broken = [f"not solved: {', '.join(lost)}"] if lost else []
    return Result([Table("", heads, rows, note, 4)], broken + ([f"left out: {', '.join(missing)}"] if missing else []))
