"""The queries of docs/queries.md, by name. Pure but for the place of the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ..support.bad_input import BadInput

NAME = "queries.md"
WHEEL = Path(__file__).parent
CHECKOUT = Path(__file__).parents[3] / "docs"
_PART = re.compile(r"^## (?P<title>[^\n]+)$|^```cwli (?P<name>[\w-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Query(NamedTuple):
    purpose: str
    """The heading above it."""
    text: str
    """For CloudWatch Logs Insights."""


def query_page() -> Path:
    """The page: in the wheel, or in this checkout. Raises BadInput if there is none."""
    for folder in (WHEEL, CHECKOUT):
        if (folder / NAME).is_file():
            return folder / NAME
    raise BadInput(f"{NAME} is not in this installation. Install the wheel again")


def queries_of(page: str) -> dict[str, Query]:
    """The queries of the page, in its order."""
    found, title = {}, ""
    for part in _PART.finditer(page):
        title = part["title"] or title
        if part["name"]:
            found[part["name"]] = Query(title, part["text"])
    return found
