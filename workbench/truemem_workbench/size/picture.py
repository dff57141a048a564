"""Draws duration and cost over the memory size, and the peak as a wall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from ..judge.sizing import HEADROOM
from ..support.terminal import MARK, PEAK, QUIET
from ..support.untrusted_text import visible
from .choice import Choice, Trial

COST = "#009E73"
WIDTH = 110
"""Characters of a line of the title."""
ROOM = 1.08
"""Height of the axes over what matplotlib gives them: its margin is a share of the range, not of the height from 0."""


def draw(spec: str, choice: Choice, path: Path) -> None:
    """Write the PNG. Raises OSError."""
    known = [each for each in choice.trials if each.durations]
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.parse_math": False}):
        figure = Figure(figsize=(10, 5), dpi=120, facecolor="white", layout="constrained")
        axes = figure.subplots()
        costs = axes.twinx()
        held = max((each.held for each in choice.trials if each.held is not None), default=None)
        _scale(axes, choice.trials, held)
        _wall(axes, choice.trials, held)
        sizes = [each.memory for each in known]
        axes.fill_between(
            sizes, [t.p50 for t in known], [t.percentile(95) for t in known], color=PEAK, alpha=0.15, linewidth=0
        )
        axes.plot(sizes, [each.p50 for each in known], color=PEAK, linewidth=1.8, label="duration: p50, shaded to p95")
        usd = [each.cost(choice.wanted.architecture) for each in known]
        costs.plot(sizes, usd, color=COST, linewidth=1.8, linestyle="--", label="cost of a million invocations")
        for trial, cost in zip(known, usd, strict=True):
            fill = "white" if choice.against[trial.memory] else None
            axes.plot(trial.memory, trial.p50, "o", color=PEAK, markerfacecolor=fill)
            costs.plot(trial.memory, cost, "s", color=COST, markerfacecolor=fill, markersize=5)
        if choice.suggested is not None:
            axes.axvline(choice.suggested.memory, color=QUIET, linewidth=1, linestyle=":", label="suggested")
        _frame(axes, "ms", PEAK)
        _frame(costs, f"USD a million, {choice.wanted.architecture}", COST)
        axes.set_xlabel("memory size, MB; hollow: something speaks against it", color=QUIET, loc="left")
        # matplotlib's own wrapping takes what is between two dollar signs as a formula, also without parse_math.
        title = [line for text in (visible(spec), choice.sentence()) for line in wrap(text, WIDTH)]
        axes.set_title("\n".join(title), loc="left", fontsize=10)
        figure.legend(frameon=False, loc="outside lower left", ncols=3, fontsize=9)
        figure.savefig(path, format="png")


def _scale(axes: Axes, trials: Sequence[Trial], held: float | None) -> None:
    sizes = [each.memory for each in trials] or [128]
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(min(*sizes, held or math.inf, math.inf) / 1.3, max(sizes) * 1.2)


def _wall(axes: Axes, trials: Sequence[Trial], held: float | None) -> None:
    """Shade sizes below what was needed, and lighter those without enough headroom; cross those that were killed."""
    left, _ = axes.get_xlim()
    if held is not None:
        below = f"below what function, sidecar and extensions need: {held:,.0f} MiB"
        short = f"less than {HEADROOM:.0%} headroom"
        axes.axvspan(left, held, color=MARK, alpha=0.3, linewidth=0, label=below)
        axes.axvspan(held, held * (1 + HEADROOM), color=MARK, alpha=0.12, linewidth=0, label=short)
    killed = [each.memory for each in trials if each.killed]
    if killed:
        axes.plot(killed, [0] * len(killed), "x", color=MARK, markersize=9, mew=2.5, label="killed", clip_on=False)


def _frame(axes: Axes, label: str, colour: str) -> None:
    axes.set_ylim(0, ROOM * axes.get_ylim()[1])
    axes.set_ylabel(label, color=colour)
    axes.tick_params(axis="y", colors=colour, length=0)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
