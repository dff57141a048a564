"""Makes tables of the rows, for the terminal and for docs/reliability.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table

from benchmarks import publish
from faults.result import Row
from faults.subject import Subject

PAGE = publish.ROOT / "docs" / "reliability.md"
HEADINGS = {
    "faults": ("fault", "how often tried", "what the function saw", "what was lost"),
    "collectors": ("fault", "how often tried", "what the function saw", "what was lost"),
    "deaths": ("death", "what ended", "killed by the kernel", "out of memory, says the record"),
}
"""Of each table of the page."""


def cells(row: Row) -> list[str]:
    """One row."""
    return [
        row.fault,
        row.tried,
        row.saw,
        row.lost + (f"; **{len(row.broken)} not as promised**" if row.broken else ""),
    ]


def table(rows: Sequence[Row], name: str = "faults") -> Table:
    """For the terminal."""
    made = Table(*HEADINGS[name])
    for row in rows:
        made.add_row(*cells(row))
    return made


def text(rows: Sequence[Row], subject: Subject, name: str = "faults") -> str:
    """For the page."""
    headings = HEADINGS[name]
    made = publish.markdown(headings, [cells(row) for row in rows], text_columns=len(headings))
    inside = "; system calls that fail inside Python, against the source under python3" if name == "faults" else ""
    return f"{made}\n\n{datetime.now(UTC):%Y-%m-%d}, against {subject}{inside}. On {publish.machine()}."
