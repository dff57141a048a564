"""Draws a run: what each invocation needed and left behind."""

from __future__ import annotations

from pathlib import Path

from ..support.bad_input import BadInput
from ..support.terminal import CURRENT, MARK, PEAK, QUIET
from ..support.untrusted_text import visible
from .limits import Limits
from .result import Result

LIMIT_SHOWN = 0.5  # a limit is drawn only if the curve reaches this share of it


def draw_curve(result: Result, limits: Limits, path: Path) -> None:
    """Draw peak and current of every invocation, the warm-up, and the limits that are near. Raises BadInput."""
    import matplotlib as mpl  # a second, and an extra of its own
    from matplotlib.figure import Figure

    measured = result.measurement
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 10, "text.parse_math": False}):
        figure = Figure(figsize=(10, 4.5), dpi=120, facecolor="white", layout="constrained")
        axes = figure.subplots()
        shown = [each for each in measured.seen if each.line.closed_by != "shutdown"]
        for name, colour in (("peak_rss", PEAK), ("current_rss", CURRENT)):
            known = [(each.number, value) for each in shown if (value := getattr(each.line, name)) is not None]
            label = {"peak_rss": "peak of each invocation", "current_rss": "current, left behind"}[name]
            axes.plot([x for x, _ in known], [y for _, y in known], color=colour, linewidth=1.4, label=label)
        highest = measured.peak[1] if measured.peak else 0.0
        for label, limit in (("peak", limits.peak_mib), ("current", limits.current_mib)):
            if limit is not None and highest > LIMIT_SHOWN * limit:
                axes.axhline(limit, color=MARK, linewidth=1.2, linestyle="--", label=f"{label} allowed: {limit:g}")
        if measured.warm_up:
            axes.axvspan(0.5, measured.warm_up + 0.5, color=QUIET, alpha=0.12, linewidth=0, label="warm-up")
        axes.set_title(
            f"{visible(result.headline)}\n{visible(measured.finding.paragraph())}", loc="left", fontsize=10, wrap=True
        )
        axes.set_xlabel("invocation", color=QUIET, loc="left")
        axes.set_ylabel("MiB", color=QUIET)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color="#e3e3e3", linewidth=0.8)
        axes.legend(frameon=False, loc="lower right")
        try:
            figure.savefig(path, format="png")
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}. Try --output FOLDER/curve.png") from None
