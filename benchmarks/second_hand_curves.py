"""How often the verdict on RSS is right, on curves that a second hand has composed.

3,000 curves of `testing.drift.second_hand`, whose author had read nothing of the judge. One choice was made by them:
that it does not wait until a leak is urgent. A minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from truemem.verdict import GROWING
from truemem_workbench.judge.drift import Point, judge

from benchmarks.kit.bench import Bench, percent, share
from testing.drift.second_hand import KINDS, Truth, composed
from testing.pages import Result, Table

TITLE = "Curves of a second hand"
CURVES = 3000
LENGTHS = ((128, 255), (256, 511), (512, 1023), (1024, 4096))
MOST_ACCUSED, LEAST_RIGHT = 0.05, 0.9
"""Share of the bounded that may be called growing, and of those called so that must be leaks."""


class Told(NamedTuple):
    truth: Truth
    invocations: int
    is_growing: bool


def told(seed: int) -> Told:
    """The verdict on the curve of this seed."""
    levels, truth = composed(seed)
    points = [Point(number, number * 1000.0, kib, kib) for number, kib in enumerate(levels.tolist(), 1)]
    return Told(truth, len(points), judge(points).name == GROWING)


def shares(of: Sequence[Told]) -> tuple[float | None, float | None, float | None]:
    """Three shares: of the leaks, and of the bounded ones, those that are called growing; of all these, the leaks."""
    named = (share(each.is_growing for each in of if each.truth.leaks is leaks) for leaks in (True, False))
    leaks, bounded = named
    return leaks, bounded, share(each.truth.leaks for each in of if each.is_growing)


def run(bench: Bench) -> Result:
    seen = bench.spread("curves", told, range(bench.count(CURVES)))
    rows = [["all", *map(percent, shares(seen)), f"{len(seen):,}"]]
    for least, most in LENGTHS:
        own = [each for each in seen if least <= each.invocations <= most]
        rows.append([f"{least:,} to {most:,} invocations", *map(percent, shares(own)), f"{len(own):,}"])
    kinds = sorted({each.truth.kind for each in seen if each.truth.leaks})
    by_kind = [[kind, percent(share(each.is_growing for each in seen if each.truth.kind == kind))] for kind in kinds]
    _, accused, right = shares(seen)
    is_kept = (accused or 0) <= MOST_ACCUSED and (right or 0) >= LEAST_RIGHT
    headings = ("", "leaks: called growing", "bounded: called growing", "of these, leaks", "curves")
    note = f"{len(KINDS)} kinds. What is bounded has stopped filling by 60 % of its invocations. RSS alone is judged."
    tables = [Table("", headings, rows, note), Table("By the kind of leak", ("leak", "called growing"), by_kind)]
    return Result(tables, [] if is_kept else ["wrong too often"])
