"""Invocations whose memory is easy to miss, at random, and the judgement of their records (functions/hiding.py)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from .environment import FUNCTIONS, SLACK_MIB, Record

FUNCTION = FUNCTIONS / "hiding.py"
MEMORY_MIB = 1769
"""Room for a child of 100 MiB beside its parent, and a whole CPU."""
AROUND_MS = (-5.0, -3.0, -1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0, 3.0, 5.0)
"""When a child ends: before the answer, or after it."""
EXIT, KILL = "exit", "kill"

CHILDREN: dict[str, dict[str, Any]] = {
    "child that exits": {"how": EXIT},
    "child that is killed": {"how": KILL},
    "child of another program": {"how": KILL, "spawned": True},
    "daemon": {"how": EXIT, "depth": 2, "daemon": True},
    "daemon that is killed": {"how": KILL, "depth": 2, "daemon": True},
    "grandchild": {"how": EXIT, "depth": 2},
    "grandchild that is killed": {"how": KILL, "depth": 2},
}
THREADS: dict[str, dict[str, Any]] = {
    "threads that map and unmap": {"count": [2, 4, 8]},
    "one touches, another unmaps": {"count": [1, 2], "apart": True},
    "threads that map a file": {"count": [2, 4], "file": True},
}
KINDS = (*CHILDREN, *THREADS)


def event(kind: str, chance: random.Random) -> dict[str, Any]:
    """One of this kind, of any size, at any time."""
    if kind in CHILDREN:
        end_ms = chance.choice(AROUND_MS)
        made = {**CHILDREN[kind], "mib": chance.choice([5, 20, 50, 100])}
        return {"do": "child", **made, "end_ms": min(0.0, end_ms) if made["how"] == KILL else end_ms}
    size = {"mib": chance.choice([1, 4, 16]), "rounds": chance.choice([2, 4])}
    return {"do": "threads", **THREADS[kind], "count": chance.choice(THREADS[kind]["count"]), **size}


def events(count: int, seed: int, kinds: tuple[str, ...] = KINDS) -> Iterator[tuple[str, dict[str, Any]]]:
    """So many of each kind, in turn: (kind, event)."""
    chance = random.Random(seed)
    for _ in range(count):
        for kind in kinds:
            yield kind, event(kind, chance)


class Verdict:
    """One record compared with what the function has read of itself: the truth, or a little less. All in MiB."""

    def __init__(self, kind: str, record: Record, truth_kib: float) -> None:
        self.kind = kind
        self.record = record
        self.truth = truth_kib / 1024
        upper = MEMORY_MIB if record.peakUpper is None else record.peakUpper
        self.width = upper - record.peakLower
        self.claims_exactness = self.width <= SLACK_MIB or (record.method == "vmhwm" and not record.raced)
        self.missed = self.truth - record.PeakRSS
        self.outside = self.truth > upper + SLACK_MIB
        """Above the upper bound."""

    @property
    def is_false(self) -> bool:
        return self.outside or (self.claims_exactness and self.missed > SLACK_MIB)

    def __repr__(self) -> str:
        return f"{self.kind}: truth {self.truth:.2f}: {self.record}"
