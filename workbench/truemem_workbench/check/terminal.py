"""The result for a person at a terminal, or reading a build's log."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from .peaks import Outcome
from .result import Result

MARKS: dict[Outcome, str] = {"kept": "[green]kept[/]", "broken": "[bold red]BROKEN[/]", "unknown": "[yellow]unknown[/]"}
COLOURS = ("green", "bold red", "yellow")


def show(result: Result, console: Console) -> None:
    console.print(result.headline, style=COLOURS[result.exit_code], markup=False, soft_wrap=True)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("limit", "allowed", "measured"):
        grid.add_column(name, overflow="fold")
    grid.add_column("", no_wrap=True, min_width=len("unknown"))
    for finding in result.findings:
        grid.add_row(finding.name, finding.allowed, finding.measured, MARKS[finding.outcome])
    console.print(grid)
    for line in result.curves(plain=not console.encoding.startswith("utf")):
        console.print(line, markup=False, soft_wrap=True)
    console.print()
    for sentence in result.sentences():
        console.print(f"- {sentence}", markup=False)
    for notice in result.notices():
        console.print(f"note: {notice}", style="dim", markup=False)
    for line in result.log():
        console.print(line, markup=False, soft_wrap=True)
