"""Tables for a terminal of any width: where a table is too wide, names get lines of their own, and nothing is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # rich is for the work itself, not for every `truemem --help`
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

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
