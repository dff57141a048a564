"""A function's messages and log lines, cut to what is shown; a curve in a line of text."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from ..support.untrusted_text import visible

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


BARS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""For a terminal or a file that is not in UTF."""
WIDTH = 60
LEAST_SPAN = 0.05
"""Share of the level that fills the height at least: noise must not look like a mountain."""


def curve(values: Sequence[float], *, width: int = WIDTH, plain: bool = False, highest: bool = False) -> str:
    """Lowest to highest value from the lowest to the highest bar; each column is a median, or with `highest` that."""
    if not values:
        return ""
    bars = PLAIN if plain else BARS
    columns = min(width, len(values))
    pick = max if highest else statistics.median
    levels = [pick(values[len(values) * n // columns : len(values) * (n + 1) // columns]) for n in range(columns)]
    bottom = min(levels)
    span = max(max(levels) - bottom, LEAST_SPAN * max(levels)) or 1
    return "".join(bars[min(len(bars) - 1, int((level - bottom) / span * len(bars)))] for level in levels)
