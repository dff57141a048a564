"""How values become text at a terminal: amounts, counts, problems in one line, tables of any width, progress bars."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from .untrusted_text import visible

if TYPE_CHECKING:  # rich is for the work itself, not for every `truemem --help`
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text


def mib(value: float | None) -> str:
    """Format MiB: with one decimal, from 1,000 on without."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


def brief(count: float) -> str:
    """Format a count in a narrow place: `999,999`, `1.2M`, `3.4G`."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if count >= size:
            return f"{count / size:,.1f}{unit}"
    return f"{count:,.0f}"


def whole(value: float | None) -> str:
    """Format an amount that the platform gives in whole MB."""
    return "-" if value is None else f"{value:,.0f}"


MARK, PEAK, CURRENT, QUIET = "#D55E00", "#0072B2", "#111111", "#6b6b6b"
"""Colours of the pictures, from Okabe and Ito: colour-blind readers can tell them apart, also by lightness in grey."""


def counted(count: int, one: str, several: str | None = None) -> str:
    """Count things in words: `1 line`, `2 lines`. `several` is the plural if it is not made with an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many more there are: `a, b, c and 4 more`."""
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


INDENT = "  "


def table(title: str, texts: Sequence[str], figures: Sequence[str], last: Sequence[str]) -> Table:
    """A table with columns of texts, of figures, which are aligned right, and of texts again."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in texts:
        made.add_column(name, overflow="fold")
    for name in figures:
        made.add_column(name, justify="right", no_wrap=True)
    for name in last:
        made.add_column(name)
    return made


def fitted(made: Table, console: Console) -> RenderableType:
    """The table as it is, if it fits; otherwise its texts on one line and its figures on the next, for each row."""
    from rich.console import Group

    if console.measure(made, options=console.options.update(width=10_000)).maximum <= console.width:
        return made
    return Group(*_stacked(made, console))


def _stacked(made: Table, console: Console) -> Iterator[Text]:
    from rich.cells import cell_len
    from rich.text import Text

    def text(cell: RenderableType) -> Text:
        return cell if isinstance(cell, Text) else console.render_str(str(cell))

    columns = [[text(column.header), *map(text, column.cells)] for column in made.columns]
    aligned = [column.justify == "right" for column in made.columns]
    widths = [max(cell_len(cell.plain) for cell in column) for column in columns]
    if made.title:
        yield Text("\n").append_text(text(made.title))
    for number, row in enumerate(zip(*columns, strict=True)):
        words = [cell for cell, figure in zip(row, aligned, strict=True) if not figure and cell.plain]
        line = Text("")
        for word in words:
            if line.plain and cell_len(line.plain) + cell_len(word.plain) + 2 > console.width:
                yield line
                line = Text(INDENT)
            line = line.append(INDENT if line.plain.strip() else "").append_text(word)
        yield line
        figures = [cell.plain.rjust(width) for cell, width, figure in zip(row, widths, aligned, strict=True) if figure]
        if figures:
            yield Text(INDENT + " ".join(figures), style="bold" if number == 0 else "")
    if made.caption:
        yield text(made.caption)


Progress = Callable[[str, int, int], None]
"""Called with the present step, how much of it is done, and of how much."""
Count = Callable[[int], None]
"""Called with each amount that is done."""
FILE_COLUMNS = 140
"""Width of a file or a pipe: all columns fit."""
MOST_MESSAGE_CHARS = 2000
"""Longest message in characters."""
_WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}


def notify(command: str, message: object) -> None:
    """Print a message on stderr: in one line, or wrapped between words if that is a terminal."""
    text = str(message)
    line = f"{command}: {visible(text[:MOST_MESSAGE_CHARS])}{'...' if len(text) > MOST_MESSAGE_CHARS else ''}"
    is_terminal = sys.stderr.isatty()
    click.echo("\n".join(wrap(line, get_terminal_size().columns, **_WHOLE_WORDS)) if is_terminal else line, err=True)


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
    return console(width=None if _is_terminal() else FILE_COLUMNS)


def _is_terminal() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def say(console: Console, text: str, *, begin: str = "", style: str = "") -> None:
    """Print a sentence after `begin`. A terminal would cut words at its edge: there it is wrapped between words, and
    the command that it ends with (`Next: ...`) is on a line of its own, to be copied. Elsewhere it is one line."""
    lines = [begin + text]
    if _is_terminal():
        prose, following, command = lines[0].partition(" Next: ")
        hang = begin if begin.isspace() and len(begin) > 1 else INDENT
        lines = wrap(prose, console.width, subsequent_indent=hang, **_WHOLE_WORDS) or [""]
        lines += [f"{hang}Next: {command}"] if following else []
    for line in lines:
        console.print(line, style=style, soft_wrap=True)


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
