"""Runs each repair of the incident with the same calls, to say how much it saves."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from ..analysis import heap as heaps
from .verdict import TAIL, Row, complete

REPAIRS: Mapping[str, Mapping[str, str]] = {
    "a cache of 8": {"CACHE_SIZE": "8"},
    "a file, not its bytes": {"LOAD_FROM": "path"},
    "the old session dropped first": {"POP_BEFORE_LOAD": "true"},
    "blocks from 32 KiB mapped": {"MMAP_THRESHOLD": "32768"},
}
"""The sample's variables for each repair (sample_function/README.md names the lines)."""

TOGETHER = "all of them"

WORTH_SAYING = 0.05
"""A figure that falls by less than this share counts as unchanged."""

ALL: Mapping[str, str] = {name: value for variables in REPAIRS.values() for name, value in variables.items()}


@dataclass(frozen=True, kw_only=True)
class Level:
    """The memory at the end of one run, in MiB."""

    current: float
    """Median RSS that the last invocations left behind."""
    mark: float
    """Max Memory Used at the end."""
    heap: heaps.Heap | None
    """Median of the last readings. None without the probe."""

    def figures(self) -> dict[str, float]:
        """The figures by their names in records. Unknown figures are left out."""
        known = {"currentRSS": self.current, "maxMemoryUsed": self.mark}
        if self.heap is not None:
            known |= {"inUse": self.heap.used, "held": self.heap.held}
        return known


def level(rows: Sequence[Row]) -> Level | None:
    """The level of a run. None if nothing was measured."""
    seen = complete(rows)
    if not seen:
        return None
    found = heaps.readings(row.record for row in rows if row.record)
    return Level(
        current=statistics.median(row.current for row in seen[-TAIL:]),
        mark=seen[-1].mark,
        heap=heaps.level(found) if found else None,
    )


def chosen(variables: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The variables of a run for each repair that is not made already, and for all repairs together."""
    each = {
        words: {**variables, **changed}
        for words, changed in REPAIRS.items()
        if any(variables.get(name) != value for name, value in changed.items())
    }
    return each if len(each) < 2 else {**each, TOGETHER: {**variables, **ALL}}


def largest(before: Level, after: Mapping[str, Level]) -> list[str]:
    """For each figure, say which single repair lowers it most, if any does."""
    titles = {"currentRSS": "what it leaves behind", "held": "what malloc holds", "maxMemoryUsed": "the mark"}
    told = []
    for name, title in titles.items():
        was = before.figures().get(name)
        now = {
            words: repaired.figures()[name]
            for words, repaired in after.items()
            if words != TOGETHER and name in repaired.figures()
        }
        if was is None or not now:
            continue
        best = min(now, key=now.__getitem__)
        if now[best] < (1 - WORTH_SAYING) * was:
            told.append(f"Most for {title}: {best}, {was:.0f} → {now[best]:.0f} MiB.")
    return told


def effects(before: Level, after: Mapping[str, Level]) -> Table:
    """A table with a row for each repair: figures before and after."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    grid.add_column("", no_wrap=True)
    titles = {"currentRSS": "current", "maxMemoryUsed": "mark", "inUse": "in use", "held": "held"}
    for title in titles.values():
        grid.add_column(title, justify="right", no_wrap=True)
    was = before.figures()
    for words, repaired in after.items():
        now = repaired.figures()
        cells = [f"{was[name]:.0f} → {now[name]:.0f}" if name in was and name in now else "-" for name in titles]
        grid.add_row(words, *cells)
    return grid
