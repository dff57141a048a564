"""Shared by the commands at a terminal: width, progress bars, numeric options."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from .untrusted_text import visible

if TYPE_CHECKING:  # rich is for the work itself, not for every `truemem --help`
    from rich.console import Console
    from rich.text import Text

Progress = Callable[[str, int, int], None]
"""Called with the present step, how much of it is done, and of how much."""
Count = Callable[[int], None]
"""Called with each amount that is done."""
WIDTH = 140
"""Width of a file or a pipe: all columns fit."""
LONGEST = 2000
"""Longest message in characters."""


class Finite(click.FloatRange):
    """A range of numbers without NaN and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


def tell(command: str, problem: object) -> None:
    """Print a problem on stderr, in one line."""
    text = str(problem)
    click.echo(f"{command}: {visible(text[:LONGEST])}{'...' if len(text) > LONGEST else ''}", err=True)


def console(**settings: Any) -> Console:
    """rich's console for text from outside: it prints strings as they are, in tables too. Styles need a Text."""
    from rich.console import Console

    class Plain(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            plain = {"emoji": False, "markup": False, "highlight": False}
            return super().render_str(visible(text), **{**how, **plain})

    return Plain(highlight=False, **settings)


def output() -> Console:
    """A console on standard output, as wide as the terminal."""
    return console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH)


@contextmanager
def progress(doing: str, total: int, console: Console | None = None) -> Iterator[Count]:
    """Show a progress bar on stderr, if that is a terminal, with the time: one query can take a minute."""
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description:10}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    console = console or Console(stderr=True)
    with rich.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)

        def advance(amount: int) -> None:
            bar.advance(task, amount)

        yield advance


@contextmanager
def steps(*, shown: bool = True) -> Iterator[Progress]:
    """Show the steps of a run in a progress bar on stderr, if that is a terminal and unless not `shown`."""
    from rich import progress as rich

    stderr = console(stderr=True)

    columns = (rich.TextColumn("{task.description:12}"), rich.BarColumn(), rich.MofNCompleteColumn())
    last, hidden = rich.TimeRemainingColumn(), not (shown and stderr.is_terminal)
    with rich.Progress(*columns, last, console=stderr, transient=True, disable=hidden) as bar:
        task = bar.add_task("starting", total=None)

        def progress(doing: str, done: int, of: int) -> None:
            bar.update(task, description=doing, completed=done, total=of)

        yield progress
