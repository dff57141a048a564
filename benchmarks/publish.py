"""Writes figures into the pages that show them, between two marks, and describes the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table

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
