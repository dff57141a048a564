"""Options that are the same for every command, how they are read, and the command as the user typed it."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from .bad_input import BadInput, need
from .typed_command import Command

F = TypeVar("F", bound=Callable[..., Any])
_FUNCTION = re.compile(r"arn:aws[\w-]*:lambda:.+|(/aws/lambda/)?\w[\w-]{0,63}(:[\w$-]+)?", re.ASCII)
"""What may be a function, and not a file: a name, an ARN, a log group."""


class Finite(click.FloatRange):
    """A range of numbers without NaN and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([MG])i?B?", re.IGNORECASE)


class Mebibytes(click.types.IntParamType):
    """A whole number of MiB."""

    name = "MiB"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, str) and not value.strip().lstrip("-").isdigit():
            size = _SIZE.fullmatch(value.strip())
            near = f" Did you mean {float(size[1]) * (1024 if size[2] in 'Gg' else 1):.0f}?" if size else ""
            self.fail(f"{value!r} is no whole number of MiB.{near}", param, ctx)
        number: int = super().convert(value, param, ctx)
        return number


class CommandLine(str):
    """A target of several words: the command of a web server."""

    __slots__ = ()


def target_argument(metavar: str, *, required: bool = True) -> Callable[[F], F]:
    """Add the target to a command: one word, or several as a CommandLine."""

    def one(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> str | None:
        return CommandLine(shlex.join(words)) if len(words) > 1 else next(iter(words), None)

    return click.argument("target", nargs=-1, required=required, is_eager=True, callback=one, metavar=metavar)


def option_group(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Add these options and arguments to a command, in this order: the same group for several commands."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def format_options(*names: str) -> Callable[[F], F]:
    """Add --format with these names, of which `text` is the default, and --json. Read both with `chosen`."""

    return option_group(
        click.option("--format", "form", type=click.Choice(names), help="What is printed [default: text]."),
        click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
    )


def chosen(form: str | None, as_json: bool) -> str:
    """The format, `text` by default. Raises BadInput if two are asked for."""
    if as_json and form not in (None, "json"):
        raise BadInput(f"--json with --format {form}: standard output takes one of them. Leave one out")
    return "json" if as_json else form or "text"


def output_option(*endings: str, default: str | None = None) -> Callable[[F], F]:
    """Add --output, for files whose endings say what is written (`.png`). Check them with `check_outputs`."""
    text = f"Also write a file: its ending says what ({', '.join(endings)}). Repeatable."
    if default is not None:
        text = f"Write a file: its ending says what ({', '.join(endings)}). Repeatable [default: {default}]."
    return click.option(
        "--output", "outputs", multiple=True, metavar="FILE", type=click.Path(path_type=Path), help=text
    )


def check_outputs(outputs: Sequence[Path], *endings: str) -> None:
    """Raise BadInput for a file with another ending, that cannot be written, or a picture that nothing can draw, before
    any work is done."""
    for path in outputs:
        if not path.name.lower().endswith(endings):
            named = " or ".join(endings)
            raise BadInput(f"--output {path}: its ending is not {named}. Try --output {path.stem or 'out'}{endings[0]}")
        if path.suffix.lower() == ".png":
            need("pictures")
        if not str(path).startswith(("s3:", "s3a:")):  # an object of S3: see aws.clients.is_object
            try_place(path, f"--output FOLDER/{path.name}")


def try_place(path: Path, fix: str) -> None:
    """Raise BadInput if this file cannot be written. `fix` is what to try instead."""
    was_there = path.exists()
    if was_there and not path.is_file() and not path.is_dir():
        return  # a pipe, or a device
    try:
        with path.open("ab"):
            pass
        if not was_there:
            path.unlink()
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try {fix}") from None


def typed(context: click.Context, name: str, only: Collection[str] = (), but: Collection[str] = ()) -> Command:
    """The command of this name, with the arguments and options that were given on the command line: `only` some, or all
    `but` some."""
    made = Command(name)
    for parameter in context.command.params:
        given = context.params.get(parameter.name or "")
        if context.get_parameter_source(parameter.name or "") is not ParameterSource.COMMANDLINE or given is None:
            continue
        if isinstance(parameter, click.Argument):
            made = replace(made, arguments=(*made.arguments, str(given)))
            continue
        option = max(parameter.opts, key=len)
        if option not in but and (not only or option in only):
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            for value in given if isinstance(given, tuple) else (given,):
                made = made.with_option(option, None if is_flag else value)
    return made


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def since_ms(text: str, now_ms: float) -> float:
    """Parse `90m`, `3h`, `2d` ago, or an ISO 8601 time (without a zone it is local), to epoch ms. Raises BadInput."""
    if ago := re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip()):
        return now_ms - float(ago[1]) * _SECONDS[ago[2]] * 1000
    try:
        return datetime.fromisoformat(text.strip()).timestamp() * 1000
    except ValueError:
        raise BadInput(f"--since {text} is no time. Try --since 3h, or --since 2026-11-21T12:00:00Z") from None


def is_function(file: Path | str) -> bool:
    """True for a FILE that is none, and may be a function's name."""
    return _FUNCTION.fullmatch(str(file)) is not None and not Path(file).exists()
