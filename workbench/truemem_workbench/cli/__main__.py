"""The command `truemem`."""

from __future__ import annotations

import sys
from io import TextIOWrapper

import click
from truemem import VERSION

from ..support import exit_codes
from .lazy_group import Lazy, LazyGroup

PACKAGE = "truemem_workbench"
COMMANDS = {
    "local": Lazy(f"{PACKAGE}.cli.local_run:local", "A Lambda on this machine: truemem local run."),
    "check": Lazy(f"{PACKAGE}.check.command:check", "A gate for CI: fail if a function's memory grows."),
    "explain": Lazy(f"{PACKAGE}.explain.command:explain", "Which lines of a function hold what grows."),
    "size": Lazy(f"{PACKAGE}.size.command:size", "Which memory size: duration, cost and peak of each."),
    "soak": Lazy(f"{PACKAGE}.soak.command:soak", "Traffic for minutes or hours: memory, latency, errors."),
    "events": Lazy(f"{PACKAGE}.target.events:events", "The events that a function has logged, for check."),
    "report": Lazy(f"{PACKAGE}.report.command:report", "What to act on: memory by function and environment."),
    "lines": Lazy(f"{PACKAGE}.lines.command:lines", "The lines of code that keep memory, as profiled in Lambda."),
    "page": Lazy(f"{PACKAGE}.page.command:page", "Memory of each invocation as an HTML page, or as a PNG."),
    "metrics": Lazy(f"{PACKAGE}.metrics.command:metrics", "The function's memory metrics in CloudWatch over time."),
    "dashboard": Lazy(f"{PACKAGE}.dashboard.command:dashboard", "Dashboard and alarms for your functions."),
    "doctor": Lazy(f"{PACKAGE}.doctor.command:doctor", "Does the sidecar work there, and if not, what to do."),
    "attach": Lazy(f"{PACKAGE}.attach.command:attach", "Put the layer on functions of an AWS account."),
    "detach": Lazy(f"{PACKAGE}.attach.command:detach", "Take it off, and restore what was there."),
    "publish": Lazy(f"{PACKAGE}.publish.command:publish", "The layer in your regions, where its content is not there."),
    "layer-files": Lazy(f"{PACKAGE}.publish.layer_files:layer_files", "The layer's files, for a container image."),
    "docs": Lazy(f"{PACKAGE}.docs.command:docs", "The documentation of this version, without network."),
    "mcp": Lazy(f"{PACKAGE}.mcp.command:mcp", "These commands as tools of an assistant (MCP)."),
    "demo": Lazy(f"{PACKAGE}.demo.command:demo", "Replay an incident: a table, a verdict, a picture."),
}


@click.group("truemem", cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="truemem %(version)s")
def cli() -> None:
    """True memory telemetry for AWS Lambda: each invocation's own peak and current memory."""


def main() -> None:
    """Run the command and exit."""
    if sys.platform == "win32":  # a pipe there has a code page without the marks and bars of the answers
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(encoding="utf-8")
    sys.exit(exit_codes.ended(cli, "truemem"))


if __name__ == "__main__":
    main()
