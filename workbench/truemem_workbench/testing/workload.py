"""The accuracy workload: known amounts of memory, and the judgement of each record."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from .environment import SLACK_MIB, Record

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
