"""Checks peaks against a limit. Pure.

A peak is an interval, often a narrow one. It keeps a limit if all of it does, and breaks the limit if none of it keeps
it. A limit within the interval is undecided, and never counts as kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["kept", "broken", "unknown"]
"""Result of a limit."""

EXACT = "exact mode (AWS_LAMBDA_EXEC_WRAPPER=/opt/truemem/exact in Lambda; here it is on, unless with --no-exact)"
PROBE = (
    "the heap probe (truemem attach NAME --heap; here it is on, unless with --no-probe), which in Python knows how"
    " large child processes were"
)
SHOWN_MIB = 0.05
"""Bounds that are nearer than this are printed as one figure with one decimal."""


@dataclass(frozen=True)
class Peak:
    """The peak of an invocation or of the init phase, in MiB."""

    where: str
    lower: float
    """Lower bound."""
    upper: float
    """Upper bound; infinite if there is none."""
    tells: str = ""
    """What would give narrower bounds. Empty if nothing is known to."""

    def __str__(self) -> str:
        if self.upper - self.lower < SHOWN_MIB:
            return f"{self.lower:.1f} MiB"
        if math.isinf(self.upper):
            return f"{self.lower:.1f} MiB or more"
        return f"{self.lower:.1f} to {self.upper:.1f} MiB"


def against(peak: Peak, limit: float) -> Outcome:
    """Check one peak."""
    if peak.lower > limit:
        return "broken"
    return "kept" if peak.upper <= limit else "unknown"


def worst(peaks: Sequence[Peak], limit: float) -> tuple[Outcome, Peak]:
    """Check all peaks, at least one. Returns the result, and the peak that decides it."""
    highest = max(peaks, key=lambda peak: peak.lower)
    if against(highest, limit) == "broken":
        return "broken", highest
    widest = max(peaks, key=lambda peak: (peak.upper, peak.lower))
    return against(widest, limit), widest


def undecided(peak: Peak, limit: float) -> str:
    """Say why a peak leaves a limit undecided, and what to do, in one sentence."""
    ways = [peak.tells] if peak.tells else []
    ways += [f"a limit of {math.ceil(peak.upper):,} MiB"] if math.isfinite(peak.upper) else []
    sentence = f"Undecided: the peak of {peak.where} is {peak}, which may be above {limit:g} MiB."
    return f"{sentence[:-1]}: try {', or '.join(ways)}." if ways else sentence
