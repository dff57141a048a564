"""Workloads of known amounts of memory, some of it easy to miss, and the judgement of each record."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from .environment import FUNCTIONS, SLACK_MIB, Record

KINDS: tuple[tuple[str, float, dict[str, float]], ...] = (
    ("hold", 0.30, {"ms": 3}),
    ("spike of 2 ms", 0.15, {"ms": 2}),
    ("spike of 0.2 ms", 0.20, {"ms": 0.2, "mib": 0.75}),
    ("keep", 0.10, {"mib": 4}),
    ("release", 0.10, {"mib": 6}),
    ("threads", 0.05, {"ms": 2, "mib": 32}),
    ("child", 0.04, {"ms": 5, "mib": 24}),
    ("file", 0.06, {"ms": 1, "mib": 16}),
)
"""Name, share and settings of each kind. The first word of a name is the function's command."""


def events(count: int, seed: int = 2026) -> Iterator[dict[str, Any]]:
    """Make `count` events, the same for the same seed. Sizes are 1 to 64 MiB if the kind does not fix them."""
    chance = random.Random(seed)
    names = [name for name, _, _ in KINDS]
    shares = [share for _, share, _ in KINDS]
    settings = {name: made for name, _, made in KINDS}
    for name in chance.choices(names, shares, k=count):
        yield {"do": name.split()[0], "mib": chance.choice([1, 5, 20, 64]), **settings[name]}


class Judgement:
    """One record compared with the truth that the function reported. All in MiB."""

    def __init__(self, record: Record, answer: dict[str, Any], limit_mib: int) -> None:
        self.record = record
        self.truth = answer["truth"] / 1024
        upper = record.peakUpper if record.peakUpper is not None else limit_mib
        self.within_bounds = record.peakLower - SLACK_MIB <= self.truth <= upper + SLACK_MIB
        self.claims_exactness = record.method == "vmhwm" and not record.raced
        """True for one process with the kernel's watermark and without a race."""
        self.error = record.PeakRSS - self.truth
        self.growth_error = record.growth - answer["touched"] / 1024 if record.baselineRSS is not None else None

    @property
    def exact(self) -> bool:
        """True if the promise is kept: within half a MiB of the true peak and, if the baseline is known, of the true
        growth."""
        return bool(max(abs(self.error), abs(self.growth_error or 0)) <= SLACK_MIB)

    @property
    def honest(self) -> bool:
        """True if the truth lies within the bounds, and a peak that claims to be exact is exact."""
        return self.within_bounds and (not self.claims_exactness or abs(self.error) <= SLACK_MIB)

    def __repr__(self) -> str:
        return f"truth {self.truth:.2f}, error {self.error:+.2f}, growth error {self.growth_error}: {self.record}"


HIDING_FUNCTION = FUNCTIONS / "hiding.py"
HIDING_MEMORY_MIB = 1769
"""Room for a child of 100 MiB beside its parent, and a whole CPU."""
AROUND_MS = (-5.0, -3.0, -1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0, 3.0, 5.0)
"""When a child ends: before the answer, or after it."""
EXIT, KILL = "exit", "kill"

HIDDEN_CHILDREN: dict[str, dict[str, Any]] = {
    "child that exits": {"how": EXIT},
    "child that is killed": {"how": KILL},
    "child of another program": {"how": KILL, "spawned": True},
    "daemon": {"how": EXIT, "depth": 2, "daemon": True},
    "daemon that is killed": {"how": KILL, "depth": 2, "daemon": True},
    "grandchild": {"how": EXIT, "depth": 2},
    "grandchild that is killed": {"how": KILL, "depth": 2},
}
HIDDEN_THREADS: dict[str, dict[str, Any]] = {
    "threads that map and unmap": {"count": [2, 4, 8]},
    "one touches, another unmaps": {"count": [1, 2], "apart": True},
    "threads that map a file": {"count": [2, 4], "file": True},
}
HIDDEN = (*HIDDEN_CHILDREN, *HIDDEN_THREADS)


def hidden_event(kind: str, chance: random.Random) -> dict[str, Any]:
    """One of this kind, of any size, at any time."""
    if kind in HIDDEN_CHILDREN:
        end_ms = chance.choice(AROUND_MS)
        made = {**HIDDEN_CHILDREN[kind], "mib": chance.choice([5, 20, 50, 100])}
        return {"do": "child", **made, "end_ms": min(0.0, end_ms) if made["how"] == KILL else end_ms}
    size = {"mib": chance.choice([1, 4, 16]), "rounds": chance.choice([2, 4])}
    return {"do": "threads", **HIDDEN_THREADS[kind], "count": chance.choice(HIDDEN_THREADS[kind]["count"]), **size}


def hidden_events(count: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """So many of each kind, in turn: (kind, event)."""
    chance = random.Random(seed)
    for _ in range(count):
        for kind in HIDDEN:
            yield kind, hidden_event(kind, chance)


class HiddenJudgement:
    """One record compared with what the function has read of itself: the truth, or a little less. All in MiB."""

    def __init__(self, kind: str, record: Record, truth_kib: float) -> None:
        self.kind = kind
        self.record = record
        self.truth = truth_kib / 1024
        upper = HIDING_MEMORY_MIB if record.peakUpper is None else record.peakUpper
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
