"""Draws the demo's picture: peak and current go up and down under the mark, which does not."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..support.terminal import CURRENT, MARK, PEAK, QUIET
from ..support.untrusted_text import visible
from .verdict import Row, headline

SUBTITLE_WIDTH = 135
"""Characters in a line under the title. There is room for two lines."""

LIMIT_SHOWN = 0.7
"""The memory size is drawn only if the mark reaches this share of it."""


def draw(rows: Sequence[Row], path: Path, *, memory_mib: int, subtitle: str) -> None:
    """Write the picture as PNG, 1600 x 800 pixels: twice the width of a README. Raises OSError."""
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.parse_math": False}):
        figure = Figure(figsize=(10, 5), dpi=160, facecolor="white")
        axes = figure.add_axes((0.05, 0.115, 0.715, 0.685))
        _lines(axes, rows)
        _labels(axes, rows)
        _limit(axes, rows, memory_mib)
        _frame(axes, rows)
        figure.text(0.02, 0.945, headline(rows), fontsize=14, fontweight="bold", va="center")
        lines = textwrap.fill(subtitle, SUBTITLE_WIDTH)
        figure.text(0.02, 0.91, lines, fontsize=9, color=QUIET, va="top", linespacing=1.4)
        figure.text(0.985, 0.03, ". ".join(_notes(rows)), fontsize=8.5, color=QUIET, ha="right", va="center")
        figure.savefig(path, format="png")


def _lines(axes: Axes, rows: Sequence[Row]) -> None:
    numbers = [row.number for row in rows]
    lower, upper = _column(rows, "lower"), _column(rows, "upper")
    # a step for each invocation: the doubt about one says nothing about its neighbours
    axes.fill_between(numbers, lower, upper, step="mid", color=PEAK, alpha=0.25, linewidth=0, zorder=2)
    axes.plot(numbers, _column(rows, "mark"), color=MARK, linewidth=3.6, zorder=3, solid_capstyle="round")
    axes.plot(numbers, _column(rows, "peak"), color=PEAK, linewidth=2.4, marker="o", markersize=3.8, zorder=4)
    axes.plot(numbers, _column(rows, "current"), color=CURRENT, linewidth=1.2, marker="o", markersize=1.6, zorder=5)


def _labels(axes: Axes, rows: Sequence[Row]) -> None:
    """Write the names at the right ends of the lines, without overlap."""
    ends = [
        (value, name.format(value), colour)
        for name, attribute, colour in (
            ("Max Memory Used\n(REPORT): {:,.0f}", "mark", MARK),
            ("peak of each invocation", "peak", PEAK),
            ("current, left behind: {:,.0f}", "current", CURRENT),
        )
        if (value := _last(rows, attribute)) is not None
    ]
    bottom, top = axes.get_ylim()[0], _ceiling(rows)
    apart = (top - bottom) * 0.055
    place = float("inf")
    for value, name, colour in sorted(ends, key=lambda end: -end[0]):
        lines = name.count("\n") + 1
        # sorted is stable: peak before current where both end at the same level
        place = min(value, place - apart * (1 + lines) / 2)
        axes.annotate(
            name,
            (1, place),
            xycoords=("axes fraction", "data"),
            xytext=(8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9.5,
            fontweight="bold",
            annotation_clip=False,
        )
        place -= apart * (lines - 1) / 2
    _spike(axes, rows)


def _spike(axes: Axes, rows: Sequence[Row]) -> None:
    measured = [row for row in rows if row.peak is not None]
    if not measured:
        return
    top = max(measured, key=lambda row: row.peak or 0)
    if top.call.batch == 1:
        return
    right = top.number > rows[len(rows) // 2].number
    axes.annotate(
        f"one batch of {top.call.batch:,} rows:\n{top.peak:,.0f} MiB, {visible(top.error or 'for a moment')}",
        (top.number, top.peak or 0),
        xytext=(-14 if right else 14, -2),
        textcoords="offset points",
        ha="right" if right else "left",
        va="top",
        fontsize=9.5,
        color=PEAK,
    )


def _limit(axes: Axes, rows: Sequence[Row], memory_mib: int) -> None:
    if max((row.mark or 0 for row in rows), default=0) < LIMIT_SHOWN * memory_mib:
        return
    axes.axhline(memory_mib, color=QUIET, linewidth=1, linestyle=":", zorder=1)
    axes.annotate(
        f"memory size: {memory_mib:,}",
        (0, memory_mib),
        xycoords=("axes fraction", "data"),
        xytext=(4, 3),
        textcoords="offset points",
        fontsize=9,
        color=QUIET,
    )


def _frame(axes: Axes, rows: Sequence[Row]) -> None:
    axes.set_xlim(rows[0].number - 0.5, rows[-1].number + 0.5)
    axes.set_ylim(0, max(_ceiling(rows), axes.get_ylim()[1]))
    axes.set_xlabel("invocation", color=QUIET, loc="left")
    axes.set_title("MiB", color=QUIET, loc="left", fontsize=10, x=-0.035)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=QUIET, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#bbbbbb")


def _ceiling(rows: Sequence[Row]) -> float:
    """Upper end of the axis: a little above all values."""
    return 1.1 * max((value for row in rows for value in (row.mark, row.upper) if value is not None), default=1)


def _notes(rows: Sequence[Row]) -> list[str]:
    """Notes on what may surprise a reader of this picture."""
    notes = []
    if any(row.mark is not None and row.peak is not None and row.peak > row.mark + 1 for row in rows):
        notes.append("Some peaks are above the mark: this machine counts the mark over less")
    if any(_doubt(row) for row in rows):
        notes.append("Shaded: bounds of an uncertain peak")
    return notes


def _doubt(row: Row) -> bool:
    """True if the bounds are far enough apart to be seen, about 2 pixels."""
    return row.lower is not None and row.upper is not None and row.upper - row.lower > _ceiling([row]) / 300


def _column(rows: Sequence[Row], attribute: str) -> list[float]:
    """One figure of every row. NaN makes a gap where it is unknown."""
    values = (getattr(row, attribute) for row in rows)
    return [float("nan") if value is None else value for value in values]


def _last(rows: Sequence[Row], attribute: str) -> float | None:
    return next((value for row in reversed(rows) if (value := getattr(row, attribute)) is not None), None)
