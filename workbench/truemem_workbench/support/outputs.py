"""Options for what a command prints and writes: the same for every command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from .bad_input import BadInput

F = TypeVar("F", bound=Callable[..., Any])


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
    """Raise BadInput for a file with another ending, before any work is done."""
    for path in outputs:
        if path.suffix.lower() not in endings:
            named = " or ".join(endings)
            raise BadInput(f"--output {path}: its ending is not {named}. Try --output {path.stem or 'out'}{endings[0]}")
