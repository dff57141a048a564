"""The one writer of tables and pages: for the terminal, into results/, and between the marks of other pages."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click
from rich.table import Table as Shown

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


class Table(NamedTuple):
    """One table of a page, with what it means below it."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    text_columns: int = 1
    """So many columns from the left are text. The others are figures, aligned right."""

    def section(self) -> str:
        """The table as Markdown, below its title."""
        title = f"## {self.title}\n\n" if self.title else ""
        return f"{title}{self.markdown()}"

    def markdown(self) -> str:
        """The table and its note as Markdown."""
        return markdown(self.headings, self.rows, self.text_columns) + (f"\n\n{self.note}" if self.note else "")

    def shown(self) -> Shown:
        """The same for the terminal."""
        table = Shown(title=self.title, title_justify="left")
        for column, heading in enumerate(self.headings):
            table.add_column(heading, justify="right" if column >= self.text_columns else "left")
        for cells in self.rows:
            table.add_row(*cells)
        return table


@dataclass(frozen=True)
class Result:
    """What a benchmark has measured."""

    tables: Sequence[Table]
    broken: Sequence[str] = ()
    """Promises that were not kept: the command ends with code 1."""
    docs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Text to put between marks, by the page's path from the root and the name of the marks."""
    ratios: Mapping[str, float] | None = None
    """What `make gate` compares with."""
    note: str = ""
    """At the page's end."""


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """A Markdown table; after the first `text_columns` all is figures, aligned right."""
    rule = ["---" if column < text_columns else "--:" for column in range(len(headings))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows))


def page(title: str, command: str, result: Result, seconds: float) -> str:
    """A page of results/."""
    made = f"`{command}`, {datetime.now(UTC):%Y-%m-%d}, on {machine()}; {seconds:.0f} s."
    parts = [f"# {title}", made, *(table.section() for table in result.tables), result.note]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def replace(path: Path, name: str, text: str) -> None:
    """Put `text` between the page's marks for `name`. Raises click.ClickException if they are not there."""
    marks = re.compile(rf"(<!-- {re.escape(name)}: made by [^>]* -->\n).*?(\n<!-- /{re.escape(name)} -->)", re.S)
    changed, count = marks.subn(lambda found: f"{found[1]}{text}{found[2]}", path.read_text())
    if count != 1:
        raise click.ClickException(f"{path.name} has no `<!-- {name}: made by ... -->` for the table")
    path.write_text(changed)


def machine() -> str:
    """Processors, kernel, C library and Python, in a line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), platform.machine())
    system = f"Linux {platform.release()}, {' '.join(platform.libc_ver())}, Python {platform.python_version()}"
    return f"{os.cpu_count()} x {model}, {system}"
