"""Makes the demo's table: one line per invocation, figures in MiB, and a bar."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from .verdict import Row

BAR = 24
"""Length of the longest bar in characters."""

FIRST, LAST = 40, 20
"""Rows at the begin and at the end. The picture has all."""

DOUBT = 0.5
"""Bounds are printed if they are this far apart. Less is the kernel's own slack."""


def table(rows: Sequence[Row], *, bars: bool) -> Table:
    """The table, in 80 columns, or with `bars` in 110."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("#", "model", "rows", "peak", "current", Text("Max Memory\nUsed")):
        grid.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    grid.add_column("method", no_wrap=True, vertical="bottom")
    if bars:
        grid.add_column("█ current  ▒ peak  │ mark", no_wrap=True, vertical="bottom")
    full = max((value for row in rows for value in (row.mark, row.peak) if value), default=0.0)
    for row in _shown(rows):
        if row is None:
            grid.add_row("…")
            continue
        cells = [
            str(row.number),
            str(row.call.model),
            f"{row.call.batch:,}",
            peak(row),
            _figure(row.current),
            "-" if row.mark is None else f"{row.mark:.0f}",
            method(row),
        ]
        grid.add_row(*cells, *([bar(row, full)] if bars else []))
    return grid


def _shown(rows: Sequence[Row]) -> list[Row | None]:
    """The first rows and the last; None stands for those between."""
    return [*rows] if len(rows) <= FIRST + LAST else [*rows[:FIRST], None, *rows[-LAST:]]


def peak(row: Row) -> str:
    """The peak, with its bounds if they differ."""
    if row.lower is None or row.upper is None or row.upper - row.lower < DOUBT:
        return _figure(row.peak)
    return f"{_figure(row.peak)} ({row.lower:.0f}-{row.upper:.0f})"


def method(row: Row) -> str:
    """The method of the peak, or why there is none."""
    if row.error:
        return row.error.removeprefix("Runtime.")
    if row.record is None:
        return "no record"
    return f"{row.record.method or '-'}{', raced' if row.record.raced else ''}"


def bar(row: Row, full: float) -> Text:
    """A bar: current solid, up to the peak shaded, a line at the mark. `full` MiB are 24 characters."""
    if not full:
        return Text("")

    def cells(value: float | None) -> int:
        return round((value or 0) / full * BAR)

    solid, shaded = cells(row.current), max(cells(row.peak), cells(row.current))
    text = Text("█" * solid, style="bright_black")
    text.append("▒" * (shaded - solid), style="blue")
    if row.mark is not None:
        text.append(" " * max(0, cells(row.mark) - shaded))
        text.append("│", style="red")
    return text


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
