"""Finds sections by words, with SQLite's full-text search in memory: nothing is indexed before, the pages are small."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

from ..support.pages import Section

MOST_SECTIONS = 8
"""Sections of an answer."""


def search(sections: Iterable[Section], words: str) -> list[Section]:
    """The sections that have all of these words, in any form of English (`leaks`: `leak`), best first; a word in the
    title counts for ten in the text. If none has all, those with some. Empty for none.

    Source: https://www.sqlite.org/fts5.html, "The bm25() function" and "Porter Tokenizer".
    """
    found = list(sections)
    quoted = [f'"{word}"' for word in re.findall(r"\w+", words)]
    if not quoted:
        return []
    index = sqlite3.connect(":memory:")
    index.execute("CREATE VIRTUAL TABLE section USING fts5(title, text, topic, tokenize = 'porter unicode61')")
    index.executemany("INSERT INTO section VALUES (?, ?, ?)", ((each.title, each.own, each.topic) for each in found))
    for all_or_any in (" ", " OR "):
        rows = index.execute(
            "SELECT rowid FROM section WHERE section MATCH ? ORDER BY bm25(section, 10, 1, 5) LIMIT ?",
            (all_or_any.join(quoted), MOST_SECTIONS),
        ).fetchall()
        if rows:
            return [found[row - 1] for (row,) in rows]
    return []
