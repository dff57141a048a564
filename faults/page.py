"""Tables of the rows for the terminal and benchmarks/results/faults.md, and their sums for docs/reliability.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table

from faults.result import Row, counted
from faults.subject import Subject
from testing import pages

PAGE = pages.ROOT / "docs" / "reliability.md"
RESULTS = pages.ROOT / "benchmarks" / "results" / "faults.md"
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


def write(rows: Sequence[Row], subject: Subject, name: str) -> None:
    """Put the table of that name into the results, and its sum into the page."""
    date, inside = f"{datetime.now(UTC):%Y-%m-%d}", ""
    if name == "faults":
        inside = "; system calls that fail inside Python, against the source under python3"
    headings = HEADINGS[name]
    made = pages.markdown(headings, [cells(row) for row in rows], text_columns=len(headings))
    place = f"{date}, against {subject}{inside}. On {pages.machine()}."
    pages.replace(RESULTS, name, f"{made}\n\n{place}")
    pages.replace(PAGE, name, summed(rows, f"{date}, against {subject}"))


def summed(rows: Sequence[Row], place: str) -> str:
    """How many kinds were tried, and how many of them were not as promised."""
    broken = sum(bool(row.broken) for row in rows)
    kept = f"{broken} not as promised" if broken else "all as promised"
    return f"{counted(len(rows), 'kind')} tried, {kept} ({place})."
