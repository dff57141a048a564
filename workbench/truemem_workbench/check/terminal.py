"""Prints the result at a terminal, or for a build's log."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .peaks import Outcome
from .result import Result

MARKS: dict[Outcome, tuple[str, str]] = {
    "kept": ("kept", "green"),
    "broken": ("BROKEN", "bold red"),
    "unknown": ("unknown", "yellow"),
}
COLOURS = ("green", "bold red", "yellow")


def show(result: Result, console: Console) -> None:
    """Print the result. `console` is one of `truemem_workbench.support.terminal`, which prints strings as they are."""
    console.print(result.headline, style=COLOURS[result.exit_code], soft_wrap=True)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("limit", "allowed", "measured"):
        grid.add_column(name, overflow="fold")
    grid.add_column("", no_wrap=True, min_width=len("unknown"))
    for each in result.limits:
        grid.add_row(each.name, each.allowed, each.measured, Text(*MARKS[each.outcome]))
    console.print(grid)
    for line in result.curves(plain=not console.encoding.startswith("utf")):
        console.print(line, soft_wrap=True)
    console.print()
    for sentence in result.sentences():
        console.print(f"- {sentence}", soft_wrap=True)  # a command can be copied
    for notice in result.notices():
        console.print(f"note: {notice}", style="dim")
    if result.explanation is not None:
        console.print()
        for line in result.explanation.lines():
            console.print(line, soft_wrap=True)
    for line in result.log():
        console.print(line, soft_wrap=True)
