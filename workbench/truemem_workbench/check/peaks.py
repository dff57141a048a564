"""A peak is an interval, and often a narrow one: what that says about a limit. Pure.

It keeps a limit where all of the interval does, and breaks it where none of it does. Where the limit lies within, that
is not known, and never taken for kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["kept", "broken", "unknown"]
"""Of a limit."""

EXACT = "exact mode (AWS_LAMBDA_EXEC_WRAPPER=/opt/truemem/exact in Lambda; here it is on, unless with --no-exact)"
PROBE = "`import truemem_heap` in the function, which knows how large its child processes were"
SHOWN_MIB = 0.05
"""Bounds that are nearer to each other are one figure with one decimal."""


@dataclass(frozen=True)
class Peak:
    """Of an invocation, or the init phase. MiB."""

    where: str
    lower: float
    """It is not below this,"""
    upper: float
    """nor above this; infinite where nothing bounds it."""
    tells: str = ""
    """What would tell more of it than these bounds; empty if nothing is known to."""

    def __str__(self) -> str:
        if self.upper - self.lower < SHOWN_MIB:
            return f"{self.lower:.1f} MiB"
        if math.isinf(self.upper):
            return f"{self.lower:.1f} MiB or more"
        return f"{self.lower:.1f} to {self.upper:.1f} MiB"


def against(peak: Peak, limit: float) -> Outcome:
    """What one peak makes of a limit."""
    if peak.lower > limit:
        return "broken"
    return "kept" if peak.upper <= limit else "unknown"


def worst(peaks: Sequence[Peak], limit: float) -> tuple[Outcome, Peak]:
    """What all of them make of it, of one at least; and the one that decides it."""
    highest = max(peaks, key=lambda peak: peak.lower)
    if against(highest, limit) == "broken":
        return "broken", highest
    widest = max(peaks, key=lambda peak: (peak.upper, peak.lower))
    return against(widest, limit), widest


def undecided(peak: Peak, limit: float) -> str:
    """Why a peak leaves a limit undecided, and what to do: one sentence."""
    ways = [peak.tells] if peak.tells else []
    ways += [f"a limit of {math.ceil(peak.upper):,} MiB"] if math.isfinite(peak.upper) else []
    sentence = f"Undecided: the peak of {peak.where} is {peak}, which may be above {limit:g} MiB."
    return f"{sentence[:-1]}: try {', or '.join(ways)}." if ways else sentence
