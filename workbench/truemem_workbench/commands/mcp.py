"""The command `truemem mcp`: an assistant starts it, and speaks with it over standard input and output."""

from __future__ import annotations

import sys

import click

from ..support.bad_input import need
from ..support.terminal import notify

EPILOG = """
\b
Examples:
  truemem mcp
  truemem mcp --allow-changes
\b
Exit codes:
  0  the assistant has gone
  2  the package of the protocol is not installed
  130, 143  Ctrl-C or SIGTERM
"""


@click.command(epilog=EPILOG)
@click.option("--allow-changes", is_flag=True, help="Also attach and detach, which change functions in AWS.")
@click.pass_context
def mcp(context: click.Context, allow_changes: bool) -> int:
    """Serve triage, doctor, report, lines, events, run, check, explain, size and queries to an assistant as tools, over
    the Model Context Protocol on standard input and output.

    Nothing in AWS is changed without --allow-changes. With it, a tool first shows its plan.
    """
    need("mcp")
    if sys.stdin.isatty():
        notify("truemem mcp", "an assistant starts this command and writes to it. How: truemem docs assistants")
    import anyio

    from ..mcp.tools import serve

    group = context.find_root().command
    anyio.run(serve, allow_changes, group.list_commands(context) if isinstance(group, click.Group) else [])
    return 0
