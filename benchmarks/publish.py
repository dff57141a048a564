"""Writes figures into the pages that show them, between two marks, and describes the machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import SubprocessError

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from truemem_workbench.support.bad_input import BadInput

ROOT = Path(__file__).parents[1]


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """A Markdown table; after the first `text_columns` all is figures, aligned right."""
    rule = ["---" if column < text_columns else "--:" for column in range(len(headings))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows))


def shown(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The same for the terminal."""
    table = Table(title=title, title_justify="left")
    for column, heading in enumerate(headings):
        table.add_column(heading, justify="right" if column else "left")
    for cells in rows:
        table.add_row(*cells)
    return table


@contextmanager
def measuring() -> Iterator[Callable[[str, int], Callable[[], None]]]:
    """Gives a function that adds a progress bar (name, steps) and returns what to call after each step.

    Exits with code 2 if it could not be measured.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            yield lambda name, steps: partial(progress.advance, progress.add_task(name, total=steps))
    except (OSError, AssertionError, RuntimeError, LookupError, SubprocessError, BadInput) as error:
        click.echo(f"could not measure: {error!r}", err=True)
        sys.exit(2)


def exit_if_broken(promises: Sequence[str]) -> None:
    """Exit with code 1 if there are any broken promises."""
    if promises:
        click.echo(f"broken promise: {'; '.join(promises)}. (Is the machine idle?)", err=True)
        sys.exit(1)


def replace(page: Path, name: str, text: str, by: str = "make bench") -> None:
    """Put `text` between the page's marks for `name`. Raises click.ClickException if they are not there."""
    begin, end = f"<!-- {name}: made by {by} -->", f"<!-- /{name} -->"
    before, opened, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise click.ClickException(f"{page.name} has no `{begin}` ... `{end}` for the table")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def machine() -> str:
    """Processors, kernel, C library and Python, in a line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.machine())
    system = f"Linux {platform.release()}, {' '.join(platform.libc_ver())}, Python {platform.python_version()}"
    return f"{os.cpu_count()} x {model}, {system}"
