"""Which environment to look at first: one order for the report and the page. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .drift import Verdict

LARGEST_MIB = 32_768
"""In place of a memory size that is not known."""


def urgency(out_of_memory: int, verdict: Verdict, peak_mib: float | None, limit_mib: float | None) -> tuple[float, ...]:
    """Sort key of an environment: the smallest is the most urgent. First those that ran out of memory, then those that
    grow, with the fewest invocations left first, then by how near the highest peak is to the memory size."""
    growing = verdict.name == "growing"
    left = verdict.invocations_left if growing and verdict.invocations_left is not None else math.inf
    return (not out_of_memory, not growing, left, -(peak_mib or 0.0) / (limit_mib or LARGEST_MIB))
