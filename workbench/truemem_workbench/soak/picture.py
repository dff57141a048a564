"""Draws a soak over time: memory of each environment, latency, and what failed or was throttled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..judge.latency import PERCENTS
from ..support.terminal import CURRENT, MARK, PEAK, QUIET
from ..support.untrusted_text import visible
from .result import SoakResult
from .tally import Bucket

TITLE_CHARS = 110
"""Characters of a line of the title."""
LATENCY = "#009E73"
PALE = 0.35
"""Opacity of an environment's curve, of which there can be many."""


def draw(result: SoakResult, path: Path) -> None:
    """Write the PNG. Raises OSError."""
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.parse_math": False}):
        figure = Figure(figsize=(10, 7), dpi=120, facecolor="white", layout="constrained")
        memory, latency, rate = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 1.4))
        _memory(memory, result)
        _latency(latency, result)
        _rate(rate, result)
        title = [line for text in (result.headline, result.sentences()[0]) for line in wrap(visible(text), TITLE_CHARS)]
        memory.set_title("\n".join(title), loc="left", fontsize=10)
        rate.set_xlabel("seconds since the start", color=QUIET, loc="left")
        figure.savefig(path, format="png")


def _memory(axes: Axes, result: SoakResult) -> None:
    for place, each in enumerate(result.tally.environments):
        seen = [(each_step.time_ms, each_step.current_kib) for each_step in each.steps()]
        known = [(result.tally.at_s(time_ms), kib / 1024) for time_ms, kib in seen if kib is not None]
        label = "current RSS, by environment" if not place else None
        axes.plot(*_columns(known), color=CURRENT, alpha=PALE, linewidth=1.2, label=label)
        if each.killed and known:
            axes.plot(*known[-1], "x", color=MARK, markersize=8, mew=2)
    means = [(_middle(each), each.current_mib) for each in result.tally.buckets]
    held = [(at, mib) for at, mib in means if mib is not None]
    axes.plot(*_columns(held), color=PEAK, linewidth=1.8, label="mean of what was served")
    _frame(axes, "MiB")


def _latency(axes: Axes, result: SoakResult) -> None:
    for percent, style in zip(PERCENTS, ("-", "--", ":"), strict=True):
        seen = [(_middle(each), each.latency.percentile(percent / 100)) for each in result.tally.buckets]
        known = [(at, ms) for at, ms in seen if ms is not None]
        name = f"p{percent} of the latency"
        axes.plot(*_columns(known), style, color=LATENCY, linewidth=1.4, label=name)
    _frame(axes, "ms")


def _rate(axes: Axes, result: SoakResult) -> None:
    buckets = result.tally.buckets
    middles = [_middle(each) for each in buckets]
    served = [each.count / each.width_s for each in buckets]
    axes.plot(middles, served, color=QUIET, linewidth=1.4, label="served a second")
    for name, colour, counts in (
        ("failed", MARK, [each.errors for each in buckets]),
        ("throttled", PEAK, [each.throttled for each in buckets]),
    ):
        if any(counts):
            at = [count / each.width_s for count, each in zip(counts, buckets, strict=True)]
            axes.plot(middles, at, color=colour, linewidth=1.4, label=f"{name} a second")
    _frame(axes, "a second")


def _middle(bucket: Bucket) -> float:
    return bucket.begin_s + bucket.width_s / 2


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _frame(axes: Axes, label: str) -> None:
    axes.set_ylim(bottom=0)
    axes.set_ylabel(label, color=QUIET)
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.8)
    axes.tick_params(colors=QUIET, length=0, labelsize=9)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, loc="best", fontsize=9)
