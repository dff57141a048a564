"""Writes the line's tables into docs/metrics.md, and that of the causes into docs/patterns.md: `make line-table`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from truemem import line_schema
from truemem_workbench.judge.causes import TABLE

BEGIN, END = "<!-- causes: made by make line-table -->\n", "<!-- end of causes -->"


def with_causes_table(page: str) -> str:
    """Replace the table between the two comments by that of the causes. Raises ValueError if they are not there."""
    before, _, rest = page.partition(BEGIN)
    if END not in rest:
        raise ValueError(f"the page has no place for the causes: {BEGIN.strip()} ... {END}")
    rows = ["| finding | evidence | repair |", "|---|---|---|"]
    for row in TABLE:
        finding = f"[`{row.cause}`](#{row.pattern})" if row.pattern else f"`{row.cause}`"
        rows.append(f"| {finding} | {row.needs} | {row.repair} |")
    return before + BEGIN + "\n".join(rows) + "\n" + END + rest.partition(END)[2]


HEADS = {"Metrics": "metric", "Properties": "property"}
"""Head of the first column, by the schema's class."""


def with_line_tables(page: str) -> str:
    """Replace both tables of the page by those of the schema. Each stands between two comments that name its class."""
    for table, head in HEADS.items():
        begin, end = f"<!-- {table} of line_schema.py: make line-table -->\n", f"<!-- end of {table} -->"
        before, _, rest = page.partition(begin)
        if not rest or end not in rest:
            raise ValueError(f"the page has no place for the table {table}: {begin.strip()} ... {end}")
        page = before + begin + _member_table(table, head) + end + rest.partition(end)[2]
    return page


def _member_table(table: str, head: str) -> str:
    rows = [f"| {head} | kind | meaning |", "|---|---|---|"]
    for names, meaning in _meanings(table):
        kinds = dict.fromkeys(_kind_word(line_schema.MEMBERS[name]) for name in names)
        rows.append(f"| {', '.join(f'`{name}`' for name in names)} | {', '.join(kinds)} | {meaning} |")
    return "\n".join(rows) + "\n"


def _kind_word(kind: Any) -> str:
    return kind if isinstance(kind, str) else "object" if isinstance(kind, dict) else "list"


def _meanings(table: str) -> Iterator[tuple[list[str], str]]:
    """The names that share one text, and the text. Raises ValueError if a member has none."""
    source = ast.parse(Path(line_schema.__file__).read_text(encoding="utf-8"))
    (body,) = (node.body for node in source.body if isinstance(node, ast.ClassDef) and node.name == table)
    names: list[str] = []
    for node in body[1:]:  # the first is the class's own text
        match node:
            case ast.Assign([ast.Name(name)]):
                names.append(name)
            case ast.Expr(ast.Constant(str(text))) if names:
                yield names, re.sub(r"\s+", " ", text)
                names = []
    if names:
        raise ValueError(f"line_schema.py does not say what {', '.join(names)} means")


if __name__ == "__main__":
    for page, change in ("metrics", with_line_tables), ("patterns", with_causes_table):
        path = Path(sys.argv[1]) / f"{page}.md"
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
