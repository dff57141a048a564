"""A curve in a line of text."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

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
