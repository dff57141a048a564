"""The queries of docs/queries.md, by name."""

from __future__ import annotations

import re
from typing import NamedTuple

_PART = re.compile(r"^## (?P<title>[^\n]+)$|^```cwli (?P<name>[\w-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Query(NamedTuple):
    purpose: str
    """The heading above it."""
    text: str
    """The query's text, for CloudWatch Logs Insights."""


def queries_of(page: str) -> dict[str, Query]:
    """The queries of the page, in its order."""
    found, title = {}, ""
    for part in _PART.finditer(page):
        title = part["title"] or title
        if part["name"]:
            found[part["name"]] = Query(title, part["text"])
    return found
