"""Writes the table of causes into docs/patterns.md, from `causes.TABLE`: `make line-table`."""

from __future__ import annotations

import sys
from pathlib import Path

from .causes import TABLE

BEGIN, END = "<!-- causes: made by make line-table -->\n", "<!-- end of causes -->"


def with_table(page: str) -> str:
    """Replace the table between the two comments by that of the causes. Raises ValueError if they are not there."""
    before, _, rest = page.partition(BEGIN)
    if END not in rest:
        raise ValueError(f"the page has no place for the causes: {BEGIN.strip()} ... {END}")
    rows = ["| finding | evidence | repair | pattern |", "|---|---|---|---|"]
    for row in TABLE:
        link = f"[{row.pattern}](#{row.pattern})" if row.pattern else ""
        rows.append(f"| `{row.cause}` | {row.needs} | {row.repair} | {link} |")
    return before + BEGIN + "\n".join(rows) + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
