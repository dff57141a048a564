"""A function's messages and log lines, cut to what is shown."""

from __future__ import annotations

from collections.abc import Iterable

from truemem_workbench.support.untrusted_text import visible

LAST_LINES = 10
"""Of a log, that are shown."""
LONGEST = 500
"""Characters of a line or a message that are shown."""


def printable(text: str) -> str:
    """On one line, and not too long."""
    shown = visible(" ".join(text[:LONGEST].splitlines()))
    return shown if len(text) <= LONGEST else f"{shown}..."


def end_of_log(texts: Iterable[str]) -> list[str]:
    """The last lines; the runtime client for Python writes some of them in one, with carriage returns between."""
    lines = [line.expandtabs() for text in texts for line in text.splitlines() if line.strip()]
    return [printable(line) for line in lines[-LAST_LINES:]]
