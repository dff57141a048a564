"""Divides REPORT lines by function, version and memory size, and into the lives of environments. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..judge.marks import Life, Run
from ..printed.platform_lines import Ended, Place, Reports

AT_LIMIT = 0.98
"""A timeout or a kill whose mark is this part of the memory size was short of memory: the kernel reclaims before it
kills, which is slow (public logs: 252 to 254 of 256 MB at a timeout)."""
AGAIN_MS = 30_000
"""Lambda tries again after a minute (asynchronous invocations); a line that was read twice has the same time."""
_VERSION = re.compile(r"\[([^\]]+)\]")


class Key(NamedTuple):
    """Environments that are judged together."""

    function: str
    """Empty if nothing says it."""
    version: str
    """$LATEST or a number; empty if no log stream says it."""
    size_mb: int
    file: str = ""
    """Where nothing says the function."""


@dataclass
class Observed:
    """What the logs have of one Key."""

    lives: list[Life] = field(default_factory=list)
    environments: int = 0
    """Log streams; without their names as many as lives."""
    mixed: bool = False
    """True if environments are mixed in the log without their names: there are no lives then."""
    nameless: bool = False
    """True if some lines have no log stream: environments may be mixed although it does not show."""
    invocations: int = 0
    highest_mb: int = 0
    """The highest mark."""
    ended: Counter[Ended] = field(default_factory=Counter)
    at_limit: int = 0
    """Timeouts with a mark at the memory size, in environments where no invocation ended well with such a mark."""
    ages: list[int] = field(default_factory=list)
    """Invocations from an environment's begin, or its last kill, to a kill."""
    survived: list[int] = field(default_factory=list)
    """The same to the end of those that were not killed."""
    killed_ms: list[float] = field(default_factory=list)
    """When, epoch ms, as far as the log says it."""
    billed_ms: float = 0.0
    durations_ms: Sequence[float] = ()
    """Median and 99th percentile."""
    first_ms: float = math.nan
    last_ms: float = math.nan

    @property
    def out_of_memory(self) -> int:
        return self.ended[Ended.OUT_OF_MEMORY]


Column = NDArray[Any]


def observed(reports: Reports) -> dict[Key, Observed]:
    """All that REPORT lines say, by function, version and size. A line that comes twice counts once."""
    if not len(reports):
        return {}
    rows = _in_order(_once(dict(reports.columns)))
    rows["ended"] = _endings(rows, reports)
    new = _begins(rows, reports)
    begins = np.flatnonzero(new)
    mixed = _mixed(rows, reports, begins)
    found: dict[Key, Observed] = {}
    streams: dict[Key, set[int]] = {}
    numbers: dict[Key, int] = {}
    of_lives: list[int] = []
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(new)], strict=True):
        place = reports.places[int(rows["place"][begin])]
        key = key_of(place, int(rows["size_mb"][begin]))
        one = found.setdefault(key, Observed())
        one.nameless |= not place.stream
        part = {name: column[begin:end] for name, column in rows.items()}
        if int(part["place"][0]) in mixed:
            one.mixed = True
        else:
            continues = begin > 0 and rows["place"][begin - 1] == part["place"][0]
            _add_life(one, part, int(rows["mark_mb"][begin - 1]) if continues else None)
        of_lives.append(numbers.setdefault(key, len(numbers)))
        streams.setdefault(key, set()).add(int(part["place"][0]) if place.stream else begin)
    for key, one in found.items():
        one.environments = len(streams[key])
        if one.mixed:
            one.lives, one.ages, one.survived = [], [], []
    _add_counts(found, rows, np.repeat(of_lives, np.diff(begins, append=len(new))))
    return found


def key_of(place: Place, size_mb: int) -> Key:
    """Where a line of this place belongs."""
    said = _VERSION.search(place.stream)
    return Key(place.function, said[1] if said else "", size_mb, "" if place.function else place.file)


def _once(rows: dict[str, Column]) -> dict[str, Column]:
    """A request may have several REPORT lines: it was tried again, after a minute where all else is the same."""
    same = rows["request"] ^ (rows["mark_mb"].astype(np.uint64) << np.uint64(32)) ^ rows["duration_ms"].view(np.uint32)
    order = np.lexsort((rows["time_ms"], same))
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(same[order]) != 0) | (np.diff(rows["time_ms"][order]) > AGAIN_MS)
    kept = np.sort(order[is_new])
    return {name: column[kept] for name, column in rows.items()}


def _in_order(rows: dict[str, Column]) -> dict[str, Column]:
    """By place, then by time where all have one, else as they were read."""
    times = rows["time_ms"]
    keys = (times, rows["place"]) if np.isfinite(times).all() else (rows["place"],)
    order = np.lexsort(keys)
    return {name: column[order] for name, column in rows.items()}


def _endings(rows: dict[str, Column], reports: Reports) -> Column:
    """With what other lines say of how requests ended. A kill is a lack of memory where the mark is at the size."""
    ended = rows["ended"].copy()
    if reports.killed:
        requests = np.array(list(reports.killed), np.uint64)
        hows = np.array(list(reports.killed.values()), np.int8)
        order = np.argsort(requests)
        place = np.minimum(np.searchsorted(requests[order], rows["request"]), len(requests) - 1)
        said = np.where(requests[order][place] == rows["request"], hows[order][place], 0)
        ended = np.maximum(ended, said)
    full = rows["mark_mb"] >= AT_LIMIT * rows["size_mb"]
    return np.where((ended == Ended.KILLED) & full, Ended.OUT_OF_MEMORY, ended).astype(np.int8)


def _begins(rows: dict[str, Column], reports: Reports) -> NDArray[np.bool_]:
    """Where a life begins: at another place or size, where the runtime begins anew (after a kill, an exit or a timeout)
    or the mark falls, and where an environment starts in a log that has no names of streams."""
    place, mark, size = rows["place"], rows["mark_mb"], rows["size_mb"]
    new = np.ones(len(place), bool)
    new[1:] = (place[1:] != place[:-1]) | (size[1:] != size[:-1]) | (mark[1:] < mark[:-1])
    new[1:] |= rows["ended"][:-1] >= Ended.EXITED
    nameless = [key for key, where in reports.places.items() if not where.stream]
    if nameless:
        new |= np.isin(place, np.array(nameless, np.uint64)) & np.isfinite(rows["init_ms"])
    return new


def _mixed(rows: dict[str, Column], reports: Reports, begins: Column) -> set[int]:
    """Places without a stream in which a mark falls although nothing began or ended there: several environments."""
    mixed = set()
    for begin in begins.tolist():
        key = int(rows["place"][begin])
        if begin == 0 or reports.places[key].stream or int(rows["place"][begin - 1]) != key:
            continue
        falls = rows["mark_mb"][begin] < rows["mark_mb"][begin - 1]
        if falls and math.isnan(rows["init_ms"][begin]) and rows["ended"][begin - 1] < Ended.EXITED:
            mixed.add(key)
    return mixed


def _add_life(one: Observed, part: dict[str, Column], before: int | None) -> None:
    """`before`: the mark of the life that this environment had before in this log. One that goes on has peaks in it of
    a process that is gone."""
    mark, duration = part["mark_mb"], part["duration_ms"]
    starts = np.flatnonzero(np.diff(mark, prepend=-1))
    counts = np.diff(starts, append=len(mark))
    means = np.add.reduceat(duration, starts) / counts
    runs = [Run(*run) for run in zip(mark[starts].tolist(), counts.tolist(), means.tolist(), strict=True)]
    how, full = part["ended"][-1], mark[-1] >= AT_LIMIT * part["size_mb"][0]
    began = float(part["time_ms"][0])
    has_init = math.isfinite(part["init_ms"][0])
    if has_init or before is not None:
        (one.ages if how == Ended.OUT_OF_MEMORY else one.survived).append(len(mark))
    if before is not None and mark[0] >= AT_LIMIT * part["size_mb"][0]:
        return  # the mark went on after a kill: it says nothing more
    from_birth = has_init or (before is not None and bool(mark[0] < before))
    killed = bool(how >= Ended.KILLED or (how == Ended.TIMEOUT and full))
    one.lives.append(Life(runs, None if math.isnan(began) else began, from_birth, killed))


def _add_counts(found: dict[Key, Observed], rows: dict[str, Column], of: Column) -> None:
    """`of`: which of the found each row belongs to."""
    order = np.argsort(of, kind="stable")
    edges = np.searchsorted(of[order], np.arange(len(found) + 1))
    for number, (key, one) in enumerate(found.items()):
        chosen = order[edges[number] : edges[number + 1]]
        part = {name: column[chosen] for name, column in rows.items()}
        one.invocations, one.highest_mb = len(chosen), int(part["mark_mb"].max())
        one.ended = Counter(
            {
                Ended(how): n
                for how, n in zip(*map(np.ndarray.tolist, np.unique(part["ended"], return_counts=True)), strict=True)
            }
        )
        full = part["mark_mb"] >= AT_LIMIT * key.size_mb
        went_well = {*part["place"][full & (part["ended"] < Ended.EXITED)].tolist()}
        late = part["place"][full & (part["ended"] == Ended.TIMEOUT)].tolist()
        one.at_limit = sum(place not in went_well for place in late)
        one.killed_ms = [t for t in part["time_ms"][part["ended"] == Ended.OUT_OF_MEMORY].tolist() if math.isfinite(t)]
        one.billed_ms = float(np.nansum(part["billed_ms"], dtype=float))
        if np.isfinite(part["duration_ms"]).any():
            one.durations_ms = np.nanquantile(part["duration_ms"], (0.5, 0.99)).tolist()
        if np.isfinite(part["time_ms"]).any():
            one.first_ms, one.last_ms = float(np.nanmin(part["time_ms"])), float(np.nanmax(part["time_ms"]))
