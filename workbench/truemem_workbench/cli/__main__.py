"""The command `truemem`."""

from __future__ import annotations

import sys

import click
from truemem import VERSION

from ..support import exit_codes
from ..support.terminal import tell
from .lazy_group import Lazy, LazyGroup

PACKAGE = "truemem_workbench"
COMMANDS = {
    "local": Lazy(f"{PACKAGE}.cli.local:local", "A Lambda on this machine: truemem local run."),
    "check": Lazy(f"{PACKAGE}.check.command:check", "A gate for CI: fail if a function's memory grows.", "check"),
    "events": Lazy(f"{PACKAGE}.check.events_command:events", "The events that a function has logged, for check."),
    "report": Lazy(f"{PACKAGE}.report.command:report", "What to act on: memory by function and environment.", "report"),
    "page": Lazy(f"{PACKAGE}.page.command:page", "Memory of each invocation as an HTML page, or as a PNG.", "page"),
    "metrics": Lazy(f"{PACKAGE}.aws.metrics:metrics", "The function's memory metrics in CloudWatch over time."),
    "dashboard": Lazy(f"{PACKAGE}.dashboard.command:dashboard", "Dashboard and alarms for your functions."),
    "doctor": Lazy(f"{PACKAGE}.cli.doctor:doctor", "Does the sidecar work there, and if not, what to do."),
    "attach": Lazy(f"{PACKAGE}.attach.command:attach", "Put the layer on functions of an AWS account."),
    "detach": Lazy(f"{PACKAGE}.attach.detach_command:detach", "Take it off, and restore what was there."),
    "publish": Lazy(f"{PACKAGE}.publish.command:publish", "The layer in your regions, where its content is not there."),
    "layer-files": Lazy(f"{PACKAGE}.publish.layer_files:layer_files", "The layer's files, for a container image."),
    "probe": Lazy(f"{PACKAGE}.probe.command:probe", "Ask AWS Lambda itself what it permits: a file to share."),
    "demo": Lazy(f"{PACKAGE}.demo.command:demo", "Replay an incident: a table, a verdict, a picture.", "demo"),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="truemem %(version)s")
def cli() -> None:
    """True memory telemetry for AWS Lambda: each invocation's own peak and current memory."""


def main() -> None:
    """Run the command and exit. Wrong input is one line on stderr and exit code 2."""
    sys.exit(exit_codes.ended(_run))


def _run() -> int:
    try:
        code = cli.main(prog_name="truemem", standalone_mode=False)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "truemem"
        message = error.format_message().rstrip(".")
        tell(command, f"{message}{'' if message.endswith('?') else '.'} Try {command} --help")
        return error.exit_code
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
