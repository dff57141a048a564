"""Lines of one environment as the points that the verdict takes."""

from __future__ import annotations

from collections.abc import Iterable

from truemem_workbench.lines.line import Line

from .drift import Point


def points(lines: Iterable[Line]) -> list[Point]:
    """What the verdict takes of one environment's lines. What ran out of memory has left its last level at least."""
    made = []
    for number, line in enumerate(lines, 1):
        current = line.peak_rss if line.current_rss is None and line.out_of_memory else line.current_rss
        if current is None:
            continue
        made.append(
            Point(
                invocation=line.invocation or number,
                time_ms=line.time_ms or 0.0,
                current_kib=current * 1024,
                peak_kib=None if line.peak_rss is None else line.peak_rss * 1024,
                certain=line.certain,
                begins=line.begins,
                died=line.out_of_memory,
            )
        )
    return made
