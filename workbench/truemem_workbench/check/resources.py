"""Checks the limits on what else runs out: /tmp and descriptors. Pure.

Lines tell of them always where TRUEMEM_RESOURCES is `always`: a local run sets it, a deployed function needs it. Where
they do not, nothing passes: below a tenth of a limit a line says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from truemem.records.leak_verdict import GROWING_FROM
from truemem.records.resource_drift import COUNTED_KIB

from ..analysis.drift import Point, Verdict, judge, lives, trusted_of
from ..analysis.resources import resources
from ..lines.line import Line
from .growth import Finding

ENOUGH = 0.9
"""Share of the invocations with a record that must tell: of an environment that ends, the last one does not."""
UNTOLD = (
    "The lines do not tell it. For a deployed function set TRUEMEM_RESOURCES=always (truemem attach NAME --set"
    " resources=always)."
)


def tmp(left: Mapping[int, float], records: int, limit: float) -> Finding:
    """Check what invocations left in /tmp, MiB, by their number; `records` of them have a line."""
    allowed = f"{limit:g} MiB"
    number = max(left, key=left.__getitem__, default=0)
    highest = left.get(number, 0.0)
    sentence = f"Up to {highest:.1f} MiB were in /tmp, after invocation {number}, and {limit:g} MiB are allowed."
    if highest > limit:
        return Finding("max-tmp", allowed, f"{highest:.1f} MiB", "broken", sentence, highest)
    if not left or len(left) < ENOUGH * records:
        return Finding("max-tmp", allowed, "unknown", "unknown", f"How much of /tmp is used is unknown. {UNTOLD}")
    return Finding("max-tmp", allowed, f"{highest:.1f} MiB", "kept", sentence, highest)


def verdict(points: Sequence[Point]) -> Verdict:
    """Leak or not, of such points."""
    return judge(points, is_patient=False)


def descriptors_drift(points: Sequence[Point], limit: float) -> Finding:
    """Check the growth of open descriptors per invocation: broken if even the lower end of its interval is above the
    limit."""
    name, allowed = "max-descriptors-drift", f"{limit:g}"
    if not points:
        return Finding(name, allowed, "unknown", "unknown", f"How many descriptors are open is unknown. {UNTOLD}")
    count = max(len(trusted_of(life)) for life in lives(points))
    found = verdict(points)
    rates = found.per_invocation_kib, found.low_kib, found.high_kib
    if count < GROWING_FROM or None in rates:
        sentence = (
            f"Growth of descriptors cannot be judged: {count} invocations can be used, {GROWING_FROM} are needed."
        )
        return Finding(
            name, allowed, "too few", "unknown", f"{sentence} Try more --invocations.", why="too few to judge"
        )
    value, low, high = ((rate or 0.0) / COUNTED_KIB for rate in rates)
    measured = f"{value:.3g} ({low:.3g} to {high:.3g})"
    sentence = f"Open descriptors grow by {measured} per invocation, and {limit:g} are allowed."
    within = f"after {count} invocations the interval still has the limit in it"
    if low > limit:
        why = "descriptors still warming" if found.name == "warming" else None
        return Finding(name, allowed, measured, "broken", sentence + _repair(found), value, why=why)
    if high <= limit or (low <= 0 and value <= limit):
        return Finding(name, allowed, measured, "kept", sentence, value)
    why = "descriptors near the limit"
    if value > limit:
        undecided = f"{sentence} Undecided: {within}. Try more --invocations."
        return Finding(name, allowed, measured, "unknown", undecided, value, why=why)
    return Finding(name, allowed, measured, "kept", sentence, value, f"{name}: {within}", why)


def _repair(found: Verdict) -> str:
    return " What to do: docs/patterns.md#descriptors-that-leak" if found.name == "growing" else ""


def notices(lines: Sequence[Line]) -> list[str]:
    """What grows although no limit was set for it: a sentence for each."""
    told = [(line.invocation or at, line.members.get("resources")) for at, line in enumerate(lines, 1)]
    latest = max((number for number, _ in told), default=0)
    return [f"{each.sentence()}" for each in resources(told, latest) if each.growing]
