"""A group of commands, each of which is imported when it is called: `--help` and completion import none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from textwrap import wrap
from typing import Any, NamedTuple

import click

from ..support.bad_input import BadInput
from ..support.near import meant
from ..support.terminal import notify


class Lazy(NamedTuple):
    place: str
    """`module:name` of a click command: a module beside this one."""
    short_help: str
    """One sentence for the list of commands."""


HELP_WIDTH = 78
"""Of an epilog: click indents it by two, and prints what follows a `\\b` as it is."""


def wrapped(epilog: str) -> str:
    """The epilog with no line that a terminal of 80 columns would cut within a word, but for examples to be copied."""
    lines: list[str] = []
    for line in epilog.splitlines():
        entry = re.match(r" *\S+ {2,}| *", line)
        hang = " " * len(entry[0] if entry else "")
        is_example = line.lstrip().startswith("truemem ")
        lines += [line] if is_example or len(line) <= HELP_WIDTH else wrap(line, HELP_WIDTH, subsequent_indent=hang)
    return "\n".join(lines)


class LazyGroup(click.Group):
    """Bare, it prints its help, and below it `bare`. BadInput of a command becomes one line on stderr and the result
    2."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], bare: str = "", **settings: Any) -> None:
        settings["invoke_without_command"] = True
        super().__init__(*args, **settings)
        self._lazy, self._bare = lazy, bare

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        module, _, name = self._lazy[cmd_name].place.partition(":")
        command: click.Command = getattr(import_module(f"{__package__}.{module}"), name)
        command.epilog = wrapped(command.epilog or "")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._lazy and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}.{meant(args[0], self._lazy)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.short_help) for name, lazy in self._lazy.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
        except BadInput as error:
            notify(f"{ctx.command_path} {ctx.invoked_subcommand}", error)
            return 2
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())
            click.echo(self._bare, nl=False)
        return result
