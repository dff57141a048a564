"""The command that the user typed, to be typed again with another option."""

from __future__ import annotations

import shlex
from collections.abc import Collection

import click
from click.core import ParameterSource


def typed(context: click.Context, command: str, only: Collection[str] = (), but: Collection[str] = ()) -> str:
    """`command`, with the arguments and options that were given on the command line: `only` some, or all `but` some."""
    words = [command]
    for parameter in context.command.params:
        given = context.params.get(parameter.name or "")
        if context.get_parameter_source(parameter.name or "") is not ParameterSource.COMMANDLINE or given is None:
            continue
        if isinstance(parameter, click.Argument):
            words.append(shlex.quote(str(given)))
            continue
        name = max(parameter.opts, key=len)
        if name not in but and (not only or name in only):
            values = given if isinstance(given, tuple) else (given,)
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            words += [name] if is_flag else [word for value in values for word in (name, shlex.quote(str(value)))]
    return " ".join(words)
