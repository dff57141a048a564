"""Draws the curves as a PNG for a phone: one panel for each of the most important environments."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from ..support.terminal import CURRENT, MARK, PEAK, QUIET
from ..support.untrusted_text import visible
from .environments import EnvironmentPage, Flag

Floats = NDArray[np.float64]

PANELS = 4
"""Most panels."""
WIDTH_INCHES, PANEL_INCHES, HEAD_INCHES = 6.75, 2.9, 0.95
"""Sizes in inches, at DPI: 1080 pixels wide."""
DPI = 160
CURVE_PIXELS = 800
"""Width of a curve in pixels. More points are thinned to the lowest and the highest of each pixel."""
LIMIT_DRAWN_SHARE = 0.6
"""The memory size is drawn only if a value reaches this share of it."""
LINE_CHARS = 92
"""Characters in a line under a panel's name."""
DEAD = "#C1121F"
CURVES = (("mark", MARK, 3.8, "Max Memory Used"), ("peak", PEAK, 2.6, "peak"), ("current", CURRENT, 1.2, "current"))
"""From the lowest layer to the highest. Each is wider than the next one: curves that are equal are all seen."""


def draw(environments: Sequence[EnvironmentPage], path: Path) -> None:
    """Write the PNG of the first few environments, in the order of `gather`. Raises OSError."""
    shown = [environment for environment in environments if len(environment)][:PANELS]
    height = HEAD_INCHES + PANEL_INCHES * max(1, len(shown))
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.parse_math": False}):
        figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DPI, facecolor="white")
        functions = {environment.function for environment in environments}
        title = functions.pop() if len(functions) == 1 else f"{len(functions)} functions"
        figure.text(
            0.03, 1 - 0.3 / height, visible(f"{title}: memory, MiB"), fontsize=15, fontweight="bold", va="center"
        )
        _legend(figure, 1 - 0.64 / height)
        left_out = len(environments) - len(shown)
        if left_out > 0:
            text = f"{len(shown)} of {len(environments)} environments"
            figure.text(0.97, 1 - 0.64 / height, text, fontsize=9, color=QUIET, ha="right", va="center")
        for place, environment in enumerate(shown):
            top = HEAD_INCHES + PANEL_INCHES * place
            bottom = 1 - (top + PANEL_INCHES - 0.36) / height
            axes = figure.add_axes((0.095, bottom, 0.855, (PANEL_INCHES - 1.14) / height))
            _panel(axes, environment)
            _words(figure, environment, 1 - (top + 0.12) / height, height)
        figure.savefig(path, format="png")


def thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Keep the lowest and the highest value of each pixel, so that no spike is lost. Short curves stay as they are."""
    if len(x) <= 2 * CURVE_PIXELS:
        return x, y
    kept = []
    for part in np.array_split(np.arange(len(x)), CURVE_PIXELS):
        known = part[~np.isnan(y[part])]
        if len(known):
            kept += sorted({int(known[np.argmin(y[known])]), int(known[np.argmax(y[known])])})
        else:
            kept.append(int(part[0]))
    return x[kept], y[kept]


def _legend(figure: Figure, y: float) -> None:
    x = 0.03
    for _, colour, _, name in CURVES:
        figure.text(x, y, f"━ {name}", color=colour, fontsize=10, fontweight="bold", va="center")
        x += 0.06 + 0.0145 * len(name)


def _words(figure: Figure, environment: EnvironmentPage, y: float, height: float) -> None:
    """Write the cause and the name above a panel, and the answer under them."""
    died = environment.count(Flag.OUT_OF_MEMORY)
    finding = environment.finding
    said = f"{finding.cause}, out of memory: {died}" if died else finding.cause
    figure.text(
        0.03, y, said, fontsize=11.5, fontweight="bold", color=DEAD if died or finding.grows else CURRENT, va="center"
    )
    stream = environment.id.rpartition("]")[2][:8]
    label = visible(f"{environment.function} {stream}, {len(environment):,} invocations")
    figure.text(0.97, y, label, fontsize=9, color=QUIET, ha="right", va="center")
    sentence = textwrap.shorten(visible(finding.paragraph()), 2 * LINE_CHARS, placeholder=" …")
    wrapped = textwrap.fill(sentence, LINE_CHARS)
    figure.text(0.03, y - 0.13 / height, wrapped, fontsize=9, color=QUIET, va="top", linespacing=1.3)


def _panel(axes: Axes, environment: EnvironmentPage) -> None:
    columns = {name: np.array(column) for name, column in environment.columns.items()}
    numbers = columns["number"]
    doubtful = columns["upper"] - columns["lower"] > 1
    if doubtful.any():
        x, low, high = numbers[doubtful], columns["lower"][doubtful], columns["upper"][doubtful]
        axes.vlines(x, low, high, color=PEAK, alpha=0.25, linewidth=2, zorder=2)
    few = len(numbers) < 60
    for order, (name, colour, width, _) in enumerate(CURVES):
        x, y = thinned(numbers, columns[name])
        marker = "o" if few and name != "mark" else ""
        axes.plot(x, y, color=colour, linewidth=width, marker=marker, markersize=2.5, zorder=3 + order)
    died = (columns["flags"].astype(int) & Flag.OUT_OF_MEMORY) > 0
    top = _ceiling(environment)
    if died.any():
        axes.plot(numbers[died], np.full(died.sum(), top * 0.97), "x", color=DEAD, markersize=7, mew=2, zorder=8)
    limit = environment.limit
    if limit is not None and limit <= top:
        axes.axhline(limit, color=QUIET, linewidth=1, linestyle=":", zorder=1)
        axes.annotate(f"memory size {limit:,.0f}", (numbers[0], limit), xytext=(3, 3), textcoords="offset points",
                      fontsize=8.5, color=QUIET)  # fmt: skip
    _frame(axes, numbers, top)


def _ceiling(environment: EnvironmentPage) -> float:
    """Upper end of the axis: above all values, and above the memory size if it is near."""
    top = max(environment.highest(name) for name in ("peak", "upper", "current", "mark"))
    if environment.limit is not None and top > LIMIT_DRAWN_SHARE * environment.limit:
        top = max(top, environment.limit)
    return top * 1.12 if top > 0 and math.isfinite(top) else 1.0


def _frame(axes: Axes, numbers: Floats, top: float) -> None:
    axes.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)
    axes.set_ylim(0, top)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, length=0, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")
