"""Shortens a function's messages and log lines, and draws a curve in a line of text."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from ..support.untrusted_text import visible

LAST_LINES = 10
"""Lines of a log that are shown."""
LONGEST = 500
"""Characters of a line or a message that are shown."""


def printable(text: str) -> str:
    """The text on one line, shortened."""
    shown = visible(" ".join(text[:LONGEST].splitlines()))
    return shown if len(text) <= LONGEST else f"{shown}..."


def end_of_log(texts: Iterable[str]) -> list[str]:
    """The last lines. Python's runtime client joins some of them by carriage returns."""
    lines = [line.expandtabs() for text in texts for line in text.splitlines() if line.strip()]
    return [printable(line) for line in lines[-LAST_LINES:]]


BARS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*%#"
"""Bars for a terminal or a file that is not in UTF."""
WIDTH = 60
LEAST_SPAN = 0.05
"""Least span of the curve's height, as a share of the level: noise must not look like growth."""


def curve(values: Sequence[float], *, width: int = WIDTH, plain: bool = False, highest: bool = False) -> str:
    """Draw values from the lowest to the highest bar. Each column is a median, or with `highest` a maximum."""
    if not values:
        return ""
    bars = PLAIN if plain else BARS
    columns = min(width, len(values))
    pick = max if highest else statistics.median
    levels = [pick(values[len(values) * n // columns : len(values) * (n + 1) // columns]) for n in range(columns)]
    bottom = min(levels)
    span = max(max(levels) - bottom, LEAST_SPAN * max(levels)) or 1
    return "".join(bars[min(len(bars) - 1, int((level - bottom) / span * len(bars)))] for level in levels)
