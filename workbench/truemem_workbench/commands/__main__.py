"""The command `truemem`."""

from __future__ import annotations

import sys
from io import TextIOWrapper

import click
from truemem import VERSION

from ..support import exit_codes
from .lazy_group import Lazy, LazyGroup

COMMANDS = {
    "init": Lazy("init:init", "Begin here: find the functions, write their gate, run it."),
    "local": Lazy("local_run:local", "A Lambda on this machine: truemem local run."),
    "check": Lazy("check:check", "A gate for CI: fail if a function's memory grows."),
    "explain": Lazy("explain:explain", "Which lines of a function hold what grows."),
    "bisect": Lazy("bisect:bisect", "Which commit or package version made memory grow."),
    "size": Lazy("size:size", "Which memory size: duration, cost and peak of each."),
    "soak": Lazy("soak:soak", "Traffic for minutes or hours: memory, latency, errors."),
    "events": Lazy("events:events", "The events that a function has logged, for check."),
    "triage": Lazy("triage:triage", "What Lambda's own logs prove: which functions to attach."),
    "report": Lazy("report:report", "What to act on: memory by function and environment."),
    "lines": Lazy("lines:lines", "The lines of code that keep memory, as profiled in Lambda."),
    "page": Lazy("page:page", "Memory of each invocation as an HTML page, or as a PNG."),
    "metrics": Lazy("metrics:metrics", "The function's memory metrics in CloudWatch over time."),
    "dashboard": Lazy("dashboard:dashboard", "Dashboard and alarms for your functions."),
    "doctor": Lazy("doctor:doctor", "Whether the sidecar works on a function, and what to do if not."),
    "attach": Lazy("attach:attach", "Put the layer on functions of an AWS account."),
    "detach": Lazy("attach:detach", "Take the layer off, and restore what was there."),
    "publish": Lazy("publish:publish", "Publish the layer in your regions."),
    "layer-files": Lazy("layer_files:layer_files", "The layer's files, for a container image."),
    "docs": Lazy("docs:docs", "The documentation of this version, without network."),
    "mcp": Lazy("mcp:mcp", "These commands as tools of an assistant (MCP)."),
    "demo": Lazy("demo:demo", "Replay an incident: a table, a verdict, a picture."),
}


BARE = "\nIn the folder of a function, a SAM template or a serverless.yml:\nNext: truemem init\n"


@click.group(
    "truemem", cls=LazyGroup, lazy=COMMANDS, bare=BARE, context_settings={"help_option_names": ["-h", "--help"]}
)
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
