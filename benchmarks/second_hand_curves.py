"""How often the verdict on RSS is right, on curves that a second hand has composed.

`python -m benchmarks.second_hand_curves` draws 3,000 curves of `testing.drift.second_hand`, whose author had read
nothing of the judge. One choice was made by them: that it does not wait until a leak is urgent. Writes
results/second_hand_curves.md: a minute. Exit codes: 0 as promised, 1 not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from truemem.verdict import GROWING
from truemem_workbench.analysis.drift import Point, judge

from benchmarks.publish import machine, markdown
from testing.drift.second_hand import KINDS, Truth, composed

RESULTS = Path(__file__).with_name("results") / "second_hand_curves.md"
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
    return Told(truth, len(points), judge(points, truth.limit_mib).name == GROWING)


def share(of: Sequence[Told], wanted: Callable[[Told], bool]) -> float:
    """Part of them of which `wanted` is true; NaN of none."""
    return sum(map(wanted, of)) / len(of) if of else float("nan")


def page(seen: Sequence[Told]) -> tuple[str, bool]:
    """The results as Markdown, and whether they are as promised."""
    leaks, bounded, growing = (
        [each for each in seen if each.truth.leaks],
        [each for each in seen if not each.truth.leaks],
        [each for each in seen if each.is_growing],
    )

    def named(of: Sequence[Told]) -> str:
        return f"{share(of, lambda each: each.is_growing):.1%}"

    def right(of: Sequence[Told]) -> float:
        return share(of, lambda each: each.truth.leaks)

    rows = [["all", named(leaks), named(bounded), f"{right(growing):.1%}", f"{len(seen):,}"]]
    for least, most in LENGTHS:
        own = [[each for each in of if least <= each.invocations <= most] for of in (leaks, bounded, growing)]
        count = f"{len(own[0]) + len(own[1]):,}"
        rows.append([f"{least:,} to {most:,} invocations", named(own[0]), named(own[1]), f"{right(own[2]):.1%}", count])
    by_kind = sorted({each.truth.kind for each in leaks})
    kinds = [[kind, named([each for each in leaks if each.truth.kind == kind])] for kind in by_kind]
    is_kept = share(bounded, lambda each: each.is_growing) <= MOST_ACCUSED and right(growing) >= LEAST_RIGHT
    return (
        f"# Curves of a second hand\n\n`python -m benchmarks.second_hand_curves`, on {machine()}.\n\n{len(KINDS)} kinds"
        ". What is bounded has stopped filling by 60 % of its invocations. RSS alone is judged.\n\n"
        + markdown(["", "leaks: called growing", "bounded: called growing", "of these, leaks", "curves"], rows)
        + "\n\n## By the kind of leak\n\n"
        + markdown(["leak", "called growing"], kinds)
        + "\n",
        is_kept,
    )


def main() -> int:
    with ProcessPoolExecutor() as workers:
        text, is_kept = page([*workers.map(told, range(CURVES), chunksize=50)])
    RESULTS.write_text(text)
    print(text)
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
