"""The rows as a table, for the terminal and for docs/reliability.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table

from benchmarks import publish
from faults.result import Row
from faults.subject import Subject

PAGE = publish.ROOT / "docs" / "reliability.md"
HEADINGS = ("fault", "how often tried", "what the function saw", "what was lost")


def cells(row: Row) -> list[str]:
    """One row."""
    return [
        row.fault,
        row.tried,
        row.saw,
        row.lost + (f"; **{len(row.broken)} not as promised**" if row.broken else ""),
    ]


def table(rows: Sequence[Row]) -> Table:
    """For the terminal."""
    made = Table(*HEADINGS)
    for row in rows:
        made.add_row(*cells(row))
    return made


def text(rows: Sequence[Row], subject: Subject) -> str:
    """For the page."""
    made = publish.markdown(HEADINGS, [cells(row) for row in rows], text_columns=len(HEADINGS))
    return (
        f"{made}\n\n{datetime.now(UTC):%Y-%m-%d}, against {subject}; system calls that fail inside Python, against the "
        f"source under python3. On {publish.machine()}."
    )
