"""Draws a run: what each invocation needed and left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..support.bad_input import BadInput
from ..support.terminal import CURRENT, MARK, PEAK, QUIET
from ..support.untrusted_text import visible
from .limits import Limits
from .result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIMIT_SHOWN = 0.5  # a limit is drawn only if the curve reaches this share of it


def draw_curve(result: Result, limits: Limits, path: Path) -> None:
    """Draw peak, current and duration of every invocation, the warm-up, and limits that are near. Raises BadInput."""
    import matplotlib as mpl  # it takes a second
    from matplotlib.figure import Figure

    measured = result.measurement
    shown = [each for each in measured.seen if each.line.closed_by != "shutdown"]
    latency = measured.latency
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.parse_math": False}):
        figure = Figure(figsize=(10, 6 if latency else 4.5), dpi=120, facecolor="white", layout="constrained")
        memory, *below = figure.subplots(
            2 if latency else 1, sharex=True, squeeze=False, height_ratios=(3, 1) if latency else None
        ).flat

        for name, colour, width, label in (
            ("peak_rss", PEAK, 3.0, "peak of each invocation"),  # wider than what is drawn over it: both are seen
            ("current_rss", CURRENT, 1.2, "current, left behind"),
        ):
            known = [(each.number, value) for each in shown if (value := getattr(each.line, name)) is not None]
            memory.plot([x for x, _ in known], [y for _, y in known], color=colour, linewidth=width, label=label)

        def limit(axes: Axes, label: str, allowed: float | None, highest: float) -> None:
            if allowed is not None and highest > LIMIT_SHOWN * allowed:
                axes.axhline(allowed, color=MARK, linewidth=1.2, linestyle="--", label=f"{label} allowed: {allowed:g}")

        highest = measured.peak[1] if measured.peak else 0.0
        limit(memory, "peak", limits.peak_mib, highest)
        limit(memory, "current", limits.current_mib, highest)
        if latency:
            below[0].plot(list(measured.took), list(measured.took.values()), ".", color=CURRENT, markersize=2)
            limit(below[0], "p99", limits.p99_ms, max(measured.durations))
        for axes, unit in zip((memory, *below), ("MiB", "duration, ms"), strict=False):
            if measured.warm_up:
                label = "warm-up" if axes is memory else ""
                axes.axvspan(0.5, measured.warm_up + 0.5, color=QUIET, alpha=0.12, linewidth=0, label=label)
            axes.set_ylabel(unit, color=QUIET)
            axes.set_ylim(bottom=0)
            axes.grid(axis="y", color="#e3e3e3", linewidth=0.8)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(frameon=False, loc="lower right" if axes is memory else "upper left")
        memory.set_title(
            f"{visible(result.headline)}\n{visible(measured.finding.paragraph())}", loc="left", fontsize=10, wrap=True
        )
        axes.set_xlabel("invocation", color=QUIET, loc="left")
        try:
            figure.savefig(path, format="png")
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/curve.png") from None
