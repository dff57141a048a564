"""Text of somebody else's, made fit for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

LAST_LINES = 10
"""Of a log, that are shown."""
LONGEST = 500
"""Characters of a line or a message that are shown."""


def printable(text: str) -> str:
    """With what a terminal would take for a command (ESC and its like) in words, `\\x1b`, and plain spaces."""
    shown = "".join(_printable(each) for each in text[:LONGEST])
    return shown if len(text) <= LONGEST else f"{shown}..."


def _printable(character: str) -> str:
    if character.isspace():
        return " "
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def end_of_log(texts: Iterable[str]) -> list[str]:
    """The last lines; the runtime client for Python writes some of them in one, with carriage returns between."""
    lines = [line.expandtabs() for text in texts for line in text.splitlines() if line.strip()]
    return [printable(line) for line in lines[-LAST_LINES:]]
