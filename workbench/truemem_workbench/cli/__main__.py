"""The command `truemem`."""

from __future__ import annotations

import sys

import click

from ..aws.metrics import metrics
from ..check.command import check
from ..page.command import page
from ..report.command import report
from ..support import exit_codes
from ..support.bad_input import BadInput
from ..support.terminal import tell
from .doctor import doctor
from .local_run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """True memory telemetry for AWS Lambda: each invocation's own peak and current memory."""


@cli.group()
def local() -> None:
    """A Lambda on this machine, with memory: limit, high-water mark, freeze, late reports."""


local.add_command(run)
cli.add_command(check)
cli.add_command(report)
cli.add_command(doctor)
cli.add_command(metrics)
cli.add_command(page)


def main() -> None:
    """Run the command and exit. Wrong input is one line on stderr and exit code 2."""
    sys.exit(exit_codes.ended(_run))


def _run() -> int:
    try:
        code = cli.main(prog_name="truemem", standalone_mode=False)
    except BadInput as error:
        tell("truemem local run", error)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "truemem"
        message = error.format_message().rstrip(".")
        tell(command, f"{message}{'' if message.endswith('?') else '.'} Try {command} --help")
        return error.exit_code
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
