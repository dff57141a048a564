"""The accuracy workload: known amounts of memory, and what each record has to say about them."""

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
"""Name, share, settings. A kind's first word is what the function is told to do."""


def events(count: int, seed: int = 2026) -> Iterator[dict[str, Any]]:
    """`count` events, the same for the same seed; sizes from 1 to 64 MiB where the kind does not fix them."""
    chance = random.Random(seed)
    names = [name for name, _, _ in KINDS]
    shares = [share for _, share, _ in KINDS]
    settings = {name: made for name, _, made in KINDS}
    for name in chance.choices(names, shares, k=count):
        yield {"do": name.split()[0], "mib": chance.choice([1, 5, 20, 64]), **settings[name]}


class Judgement:
    """One record against the truth that the function told. All in MiB."""

    def __init__(self, record: Record, answer: dict[str, Any], limit_mib: int) -> None:
        self.record = record
        self.truth = answer["truth"] / 1024
        upper = record.peakUpper if record.peakUpper is not None else limit_mib
        self.within_bounds = record.peakLower - SLACK_MIB <= self.truth <= upper + SLACK_MIB
        self.claims_exactness = record.method == "vmhwm" and not record.raced
        """One process, kernel's watermark, race not lost."""
        self.error = record.PeakRSS - self.truth
        self.growth_error = record.growth - answer["touched"] / 1024 if record.baselineRSS is not None else None

    @property
    def exact(self) -> bool:
        """The promise: within half a MiB, of the peak and, where the baseline is known, of the growth over it."""
        return bool(max(abs(self.error), abs(self.growth_error or 0)) <= SLACK_MIB)

    @property
    def honest(self) -> bool:
        """The truth lies within the bounds, and a peak that claims to be exact is."""
        return self.within_bounds and (not self.claims_exactness or abs(self.error) <= SLACK_MIB)

    def __repr__(self) -> str:
        return f"truth {self.truth:.2f}, error {self.error:+.2f}, growth error {self.growth_error}: {self.record}"
