"""How values become text at a terminal: amounts, counts, problems in one line, tables of any width, and
how far a command is."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from .typed_command import NEXT
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
MIB = 1 << 20
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
        prose, *command = NEXT.split(lines[0], maxsplit=1)
        hang = begin if begin.isspace() and len(begin) > 1 else INDENT
        lines = wrap(prose, console.width, subsequent_indent=hang, **_WHOLE_WORDS) or [""]
        lines += [hang + "".join(command)] if command else []
    for line in lines:
        console.print(line, style=style, soft_wrap=True)


PROGRESS_FILE = "TRUEMEM_PROGRESS_FILE"
"""Variable with the path where progress is written for who has started the command, and then not printed. Empty: it is
neither written nor printed."""
_OWNER = f"{__name__}.progress"
QUICK_S, CALM_S = 10.0, 60.0
"""Without a terminal: no line before so many seconds of a command, nor sooner after another; after CALM_S seldom."""
SELDOM_S = 30.0
WRITTEN_S = 0.5
"""Time between two looks whether a line is due, and between two of the file."""


def at_terminal() -> bool:
    """True if standard error is a terminal on which lines can be drawn again."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class ProgressOwner:
    """How far a command is: the one owner of that. A bar at a terminal; elsewhere lines on stderr, or the file of
    PROGRESS_FILE, by a thread: one step can take minutes."""

    def __init__(self, command: str) -> None:
        self._command, self._began, self._due_s = command, time.monotonic(), QUICK_S
        self._file, self._said = os.environ.get(PROGRESS_FILE), ""
        self.at: tuple[str, int, int] = ("starting", 0, 0)
        self._show: Progress | None = None

    @contextmanager
    def shown(self) -> Iterator[Progress]:
        if self._show is not None:  # a part of what is shown already
            yield self._show
            return
        try:
            with self._bar() if self._file is None and at_terminal() else self._told() as self._show:
                yield self._show
        finally:
            self._show = None

    @contextmanager
    def _told(self) -> Iterator[Progress]:
        over = threading.Event()
        teller = threading.Thread(target=self._tell_until, args=[over], daemon=True)
        teller.start()
        try:
            yield self.keep
        finally:
            over.set()
            teller.join()  # a pool that forks next must find no other thread

    def keep(self, phase: str, done: int, of: int) -> None:
        """It is here now; `of` is 0 where that is not known."""
        self.at = (phase, done, of)

    @contextmanager
    def _bar(self) -> Iterator[Progress]:
        from rich import progress as rich

        columns = (rich.TextColumn("{task.description:12}", markup=False), rich.BarColumn(), rich.MofNCompleteColumn())
        times = (rich.TimeElapsedColumn(), rich.TimeRemainingColumn())
        shows_both = sys.stdout.isatty()  # what is printed meanwhile goes above the bar, and else to its file
        settings: dict[str, Any] = {"transient": True, "redirect_stdout": shows_both}
        with rich.Progress(*columns, *times, console=console(stderr=True), **settings) as bar:
            task = bar.add_task(self.at[0], total=None)
            yield lambda phase, done, of: bar.update(task, description=phase, completed=done, total=of or None)

    def _tell_until(self, over: threading.Event) -> None:
        with suppress(OSError, ValueError):  # its reader has gone: the command goes on
            while True:
                self.tell(time.monotonic() - self._began)
                if over.wait(WRITTEN_S):
                    return

    def tell(self, seconds: float) -> None:
        """Say where it is, if that is due after so many seconds of the command. Raises OSError."""
        phase, done, of = self.at
        if self._file:
            step = {"phase": phase, "done": done, "of": of, "seconds": round(seconds, 1)}
            new = Path(f"{self._file}.new")
            new.write_text(json.dumps(step), encoding="utf-8")
            new.replace(self._file)
        elif self._file is None and seconds >= self._due_s:
            self._due_s = seconds + (QUICK_S if seconds < CALM_S else SELDOM_S)
            count = f" {done:,} of {of:,}," if of else ""
            notify(self._command, f"{phase},{count} {seconds:.0f} s")


@contextmanager
def steps() -> Iterator[Progress]:
    """Show on stderr how far the command is: a bar with phase and count at a terminal. Elsewhere a line like `truemem
    check: measuring, 120 of 400, 12 s`, at most each QUICK_S: the seconds are those of the command."""
    context = click.get_current_context(silent=True)
    kept: dict[str, Any] = {} if context is None else context.meta
    if _OWNER not in kept:
        kept[_OWNER] = ProgressOwner("truemem" if context is None else context.command_path)
    with kept[_OWNER].shown() as show:
        yield show


@contextmanager
def phase(name: str) -> Iterator[None]:
    """The same for one phase without a count."""
    with steps() as show:
        show(name, 0, 0)
        yield


@contextmanager
def progress(name: str, total: int, unit: int = 1) -> Iterator[Count]:
    """The same for one phase whose amounts are told as they are done. They are shown in units of so many."""
    done = 0
    with steps() as show:
        show(name, 0, -(-total // unit))

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            show(name, done // unit, -(-total // unit))

        yield advance
