"""Judges from one environment's invocations whether memory leaks.

Values in, a value out. The shape of the curve tells a leak from a cache, a collector or changing traffic. The verdict
is `truemem.records.drift.shape`, as in the sidecar. The sidecar judges while the environment runs, and merges its
levels as they come. Here all points are there, and each level is the median of its part: that finds more leaks beside
larger movements. The growth is Theil-Sen's slope over all points. Its interval assumes independent points, so it is
widened by their autocorrelation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from truemem.records import drift

from ..lines.line import Line
from .block_medians import edges, medians, usual_edges

Name = Literal["stable", "warming", "plateau", "growing", "spiky", "insufficient"]
Floats = NDArray[np.float64]

MINIMUM = drift.MINIMUM
SHORT = 8
"""Least length of a life for a verdict, if it ended by running out of memory."""
SEVERAL = 3
"""Number of such lives that are judged together, if one alone is not enough."""
MOST = 150
"""Most points for Theil-Sen, which compares all pairs. More points are reduced to medians."""
MINUTE_MS = 60_000

PATTERNS: dict[Name, str] = {
    "stable": "steady",
    "warming": "a-cache-that-fills",
    "plateau": "a-cache-that-fills",
    "growing": "a-cache-without-bound",
    "spiky": "two-copies-at-load",
    "insufficient": "too-few-invocations",
}
"""Section of docs/patterns.md that explains a verdict: the likeliest pattern, with links to the others."""


class Point(NamedTuple):
    """One invocation, as the verdict needs it."""

    invocation: int
    """Number in its environment, from 1."""
    time_ms: float
    """Begin of the invocation, in epoch milliseconds."""
    current_kib: float
    """RSS when its window closed: what it left behind."""
    peak_kib: float | None
    """Highest RSS in the invocation, or None if unknown."""
    certain: bool = True
    """False if `current_kib` may contain another invocation's memory, or is of a dying process."""
    begins: bool = False
    """True if the function's processes are new: at a cold start, and first after a reset."""
    died: bool = False
    """True if this invocation ran out of memory."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one environment."""

    name: Name
    per_invocation_kib: float | None
    """Growth per invocation over the judged part (Theil-Sen). None without a verdict."""
    low_kib: float | None
    high_kib: float | None
    """Ends of its 95 % interval."""
    per_minute_kib: float | None
    """Growth per minute, freezes included. None if the times are not known."""
    invocations_left: int | None
    """Invocations until the memory limit at this rate. Only for `growing`."""
    pattern: str
    """Anchor in docs/patterns.md."""

    def sentence(self) -> str:
        """The verdict as a sentence for the user."""
        if self.name == "growing":
            return self._growing()
        return {
            "stable": "Stable: what it holds after an invocation goes up and down, and does not grow.",
            "warming": f"Warming: it still grows, by {_size(self.per_invocation_kib)} per invocation; it is too early"
            " to tell a leak from a cache that fills.",
            "plateau": "Plateau: it has grown and stopped, as a full cache does.",
            "spiky": "Spiky: single invocations need much more than they leave behind; this is not a leak.",
            "insufficient": f"Too few to judge: {MINIMUM} invocations of one environment are needed.",
        }[self.name]

    def _growing(self) -> str:
        said = f"Growing: {_size(self.per_invocation_kib)} per invocation"
        said += f" (95 % interval {_size(self.low_kib)} to {_size(self.high_kib)})"
        if self.per_minute_kib is not None:
            said += f", {_size(self.per_minute_kib)} a minute"
        if self.invocations_left is not None:
            said += f"; the limit is about {self.invocations_left:,} invocations away"
        return said + ". A leak, or a cache that is far from full."


INSUFFICIENT = Verdict("insufficient", None, None, None, None, None, PATTERNS["insufficient"])


def judge(points: Sequence[Point], limit_mib: int | None = None) -> Verdict:
    """Judge one environment's invocations, given in any order.

    Each life (the time between two resets) is judged on its own. A leak in any life is a leak; else the verdict is that
    of the last life that is long enough. Of the lives that ran out of memory before they were long enough, at least
    half must have grown into the limit.
    """
    all_lives = list(lives(points))
    told = [verdict for verdict in (_judge(life, limit_mib) for life in all_lives) if verdict.name != "insufficient"]
    growing = [verdict for verdict in told if verdict.name == "growing"]
    killed = [life for life in all_lives if SHORT <= len(life) < drift.GROWING_FROM and life[-1].died]
    return (growing or _killed(killed) or told or [INSUFFICIENT])[-1]


def lives(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Split points into lives: invocations of the same processes. At least one life, which may be empty."""
    life: list[Point] = []
    for point in sorted(points, key=lambda point: point.invocation):
        if point.begins and life:
            yield life
            life = []
        life.append(point)
    yield life


def trusted_of(life: list[Point], least: int = MINIMUM) -> list[Point]:
    """The points that are certain, if there are at least `least` of them; else all points."""
    certain = [point for point in life if point.certain]
    return certain if len(certain) >= least else life  # doubtful is better than not at all: medians bear some of it


def _judge(life: list[Point], limit_mib: int | None) -> Verdict:
    trusted = trusted_of(life)
    if len(trusted) < MINIMUM:
        return INSUFFICIENT
    numbers = np.array([point.invocation for point in trusted], dtype=float)
    held = np.array([point.current_kib for point in trusted], dtype=float)

    parts = usual_edges(len(held))
    levels = medians(held.tolist(), parts)
    name = cast(Name, drift.shape(levels, len(held), _spikes(life)).name)

    first, smooth = drift.judged_part(levels)
    loaded = np.repeat(np.array(levels[first:]) - smooth, np.diff(parts[first:]))
    begin = parts[first]
    growth, low, high = _growth(numbers[begin:], held[begin:] - loaded)
    high += float(loaded[-1] / (numbers[-1] - numbers[begin]))  # a load, or a part of the growth: unknown which
    left = None
    if name == "growing" and limit_mib and growth > 0:
        highest = np.quantile([point.peak_kib or point.current_kib for point in trusted[-MINIMUM:]], 0.9)
        left = max(0, math.floor((limit_mib * 1024 - highest) / growth))
    return Verdict(name, growth, low, high, _per_minute(growth, trusted[begin:]), left, PATTERNS[name])


def _killed(lives: list[list[Point]]) -> list[Verdict]:
    """Judge lives that ran out of memory: `growing` if at least half of them grew evenly into the limit.

    If there are several, it is enough that, taken together, they grew as much late as early.
    """
    grew = [(verdict, held) for verdict, held in map(_into_the_limit, lives) if verdict is not None]
    even = [verdict for verdict, held in grew if drift.evenly(held) and not drift.slows(held)]
    if even and 2 * len(even) >= len(lives):
        return even
    early = sum(held[len(held) // 2] - held[0] for _, held in grew)
    late = sum(held[-1] - held[-1 - len(held) // 2] for _, held in grew)
    several = len(grew) >= SEVERAL and 2 * len(grew) >= len(lives) and late >= drift.DECELERATED * early
    return [verdict for verdict, _ in grew] if several else []


def _into_the_limit(life: list[Point]) -> tuple[Verdict | None, list[float]]:
    """Judge one life that ran out of memory: did it grow into the limit? Returns its levels too.

    It must have grown by at least half of the way, and by no more than a third of that at once. A spike that kills, a
    load, and a cache that was nearly full are not growth.
    """
    *before, last = life
    trusted = trusted_of(before, SHORT - 1)
    numbers = np.array([point.invocation for point in trusted], dtype=float)
    held = np.array([point.current_kib for point in trusted], dtype=float)
    growth, low, high = _growth(numbers, held)
    way = max(last.current_kib, last.peak_kib or 0) - float(held[0])
    grown = growth * (last.invocation - float(numbers[0]))
    if low <= 0 or grown < max(way / 2, drift.FLOOR_KIB) or np.diff(held).max() > grown / 3:
        return None, []
    per_minute = _per_minute(growth, trusted)
    return Verdict("growing", growth, low, high, per_minute, None, PATTERNS["growing"]), held.tolist()


def _per_minute(growth: float, points: Sequence[Point]) -> float | None:
    """Growth per minute; None if the times are not known."""
    span = (points[-1].time_ms - points[0].time_ms) / MINUTE_MS
    return growth * (points[-1].invocation - points[0].invocation) / span if span > 0 else None


def _growth(numbers: Floats, held: Floats) -> tuple[float, float, float]:
    """Growth in KiB per invocation, and its 95 % interval."""
    from scipy import stats  # half a second, which a command's first output need not wait for

    if len(held) > MOST:
        between = edges(len(held), MOST)
        numbers, held = (np.array(medians(values.tolist(), between)) for values in (numbers, held))
    slope, _, low, high = stats.theilslopes(held, numbers, 0.95)
    off = stats.rankdata(held - slope * numbers)  # ranks: one outlier must not hide what all others remember
    memory = float(np.corrcoef(off[:-1], off[1:])[0, 1]) if np.ptp(off[:-1]) and np.ptp(off[1:]) else 0.0
    memory = min(max(memory, 0.0), 0.95)
    wider = math.sqrt((1 + memory) / (1 - memory))
    return float(slope), float(slope - (slope - low) * wider), float(slope + (high - slope) * wider)


def _spikes(points: Sequence[Point]) -> int:
    return sum(
        point.peak_kib is not None and drift.is_spike(point.peak_kib, max(before.current_kib, point.current_kib))
        for before, point in pairwise(points)
    )


def _size(kib: float | None) -> str:
    if kib is None:
        return "?"
    return f"{kib / 1024:,.1f} MiB" if abs(kib) >= 1024 else f"{kib:,.1f} KiB"


def points(lines: Iterable[Line]) -> list[Point]:
    """Make the points of one environment. An invocation that ran out of memory has at least its last level."""
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
