"""The release order: who gets an invocation first, runtime or extensions, and how long before the other. Pure."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

from ...support.bad_input import BadInput

RUNTIME_FIRST = 0.95
RUNTIME_LEAD_US = ((0.0, 0), (0.25, 40), (0.5, 80), (0.9, 200), (0.99, 550), (1.0, 720))
"""Quantiles of the runtime's lead under AWS's own emulator. Its code signals the extensions first, but Go's scheduler
runs first what was signalled last."""
EXTENSION_LEAD_US = 40
"""Longest lead of the extensions, in the other 5 % of the invocations."""
LONGEST_US = 1_000_000


class Lead(NamedTuple):
    runtime_first: bool
    us: float
    """Time between the first and the second, in microseconds."""


def lead(order: str, chance: Random) -> Lead:
    """Draw the lead of one invocation: `aws`, `together`, `runtime:US` or `extension:US`. Others raise BadInput."""
    if order == "aws":
        if chance.random() < RUNTIME_FIRST:
            return Lead(True, _quantile(chance.random()))
        return Lead(False, chance.uniform(0, EXTENSION_LEAD_US))
    if order == "together":
        return Lead(chance.random() < 0.5, 0)
    first, _, us = order.partition(":")
    if first not in ("runtime", "extension") or not (us.isascii() and us.isdecimal()) or int(us) > LONGEST_US:
        raise BadInput(
            f"release {order!r}: it is aws, together, runtime:US or extension:US, up to {LONGEST_US} microseconds. "
            "Try --release aws"
        )
    return Lead(first == "runtime", int(us))


def _quantile(share: float) -> float:
    """The runtime's lead at this quantile, in microseconds."""
    for (low, low_us), (high, high_us) in pairwise(RUNTIME_LEAD_US):
        if share <= high:
            return low_us + (share - low) / (high - low) * (high_us - low_us)
    return RUNTIME_LEAD_US[-1][1]
