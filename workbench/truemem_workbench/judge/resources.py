"""What else runs out in an environment: /tmp, descriptors, threads, processes (`resources` of the line). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from truemem.verdict import VERDICT_EVERY

from ..printed.document import figure
from ..support.terminal import mib, whole
from .thresholds import NEAR

RECENT_INVOCATIONS = 2 * VERDICT_EVERY
"""A verdict `growing` is repeated after so many invocations at most: without one it grows no more."""


class ResourceKind(NamedTuple):
    """One kind of what runs out."""

    name: str
    """The kind's member in `resources`."""
    used: str
    """Name of the member with what is in use."""
    limit: str
    """Name of the member with the limit."""
    word: str
    """The kind's name in sentences."""


RESOURCE_KINDS = (
    ResourceKind("tmp", "used", "size", "MiB in /tmp"),
    ResourceKind("descriptors", "open", "limit", "open descriptors"),
    ResourceKind("threads", "count", "limit", "threads"),
    ResourceKind("processes", "count", "limit", "processes"),
)


@dataclass(frozen=True, kw_only=True)
class Resource:
    """What the lines say of one kind. /tmp in MiB, its growth in KiB; all else are numbers."""

    name: str
    used: float
    """What was in use as last reported."""
    highest: float
    limit: float | None
    growing: bool
    """True if it was called growing, and not long ago."""
    per_invocation: float | None
    """Growth, if it grows."""
    invocations_left: int | None
    zombies: int = 0
    """Processes that have ended, and were not waited for."""
    holders: Mapping[str, float] = field(default_factory=dict)
    """Open descriptors of each holder."""

    @property
    def kind(self) -> ResourceKind:
        return next(kind for kind in RESOURCE_KINDS if kind.name == self.name)

    @property
    def share(self) -> float:
        """Share of the limit that is in use; 0 if the limit is not known."""
        return self.highest / self.limit if self.limit else 0.0

    @property
    def runs_out(self) -> bool:
        """True if it grows, or is near its limit."""
        return self.growing or self.share >= NEAR

    @property
    def urgency(self) -> tuple[float, ...]:
        """Sort key: the smallest runs out first."""
        left = math.inf if self.invocations_left is None else self.invocations_left
        return (not self.runs_out, left, -self.share)

    @property
    def amount(self) -> str:
        """What is in use, of how much."""
        show = mib if self.name == "tmp" else whole
        of = f" of {show(self.limit)}" if self.limit else ""
        return f"{show(self.used)}{of} {self.kind.word}"


class ResourceHistory:
    """What the lines of one environment tell, in any order."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, Mapping[str, Any]]] = {}
        """By name, the latest invocation that tells of the resource, and what it says."""
        self._verdicts: dict[str, tuple[float, Mapping[str, Any]]] = {}
        """By name, the latest invocation that has a verdict on the resource, and what it says."""
        self._highest: dict[str, float] = {}

    def add(self, invocation: float, members: object) -> None:
        """Add the `resources` of a line. What is not as the sidecar writes it is passed over."""
        for kind in RESOURCE_KINDS:
            reported = members.get(kind.name) if isinstance(members, Mapping) else None
            used = figure(reported.get(kind.used)) if isinstance(reported, Mapping) else None
            if used is None or used < 0 or not isinstance(reported, Mapping):
                continue
            self._highest[kind.name] = max(self._highest.get(kind.name, 0.0), used)
            for place in (self._last, self._verdicts) if isinstance(reported.get("verdict"), str) else (self._last,):
                if kind.name not in place or place[kind.name][0] <= invocation:
                    place[kind.name] = invocation, reported

    def found(self, latest: float) -> list[Resource]:
        """What is known by the environment's `latest` invocation, the most urgent first."""
        made = [self._made(kind, latest) for kind in RESOURCE_KINDS if kind.name in self._last]
        return sorted(made, key=lambda each: each.urgency)

    def _made(self, kind: ResourceKind, latest: float) -> Resource:
        _, reported = self._last[kind.name]
        at, verdict = self._verdicts.get(kind.name, (-math.inf, {}))
        growing = verdict.get("verdict") == "growing" and latest - at <= RECENT_INVOCATIONS
        rate = figure(verdict.get("perInvocationKiB", verdict.get("perInvocation"))) if growing else None
        left = _left(kind, verdict, rate, figure(reported.get(kind.used)) or 0.0)
        holders = reported.get("holders")
        return Resource(
            name=kind.name,
            used=figure(reported.get(kind.used)) or 0.0,
            highest=self._highest[kind.name],
            limit=figure(reported.get(kind.limit)),
            growing=growing,
            per_invocation=rate,
            invocations_left=left,
            zombies=int(figure(reported.get("zombies")) or 0),
            holders={
                name: count
                for name, value in (holders.items() if isinstance(holders, Mapping) else ())
                if (count := figure(value)) is not None
            },
        )


def _left(kind: ResourceKind, verdict: Mapping[str, Any], rate: float | None, used: float) -> int | None:
    """Invocations left from what is `used` now. The verdict's line may have another figure: of some invocations ago, or
    of processes that a reset has ended since."""
    left, then = figure(verdict.get("invocationsLeft")), figure(verdict.get(kind.used))
    if left is None or rate is None or rate <= 0 or then is None:
        return None
    since = (used - then) * (1024 if kind.name == "tmp" else 1)
    now = max(0.0, left - since / rate)
    return int(now) if left >= 0 and now < 1e15 else None


def resources(reported: Iterable[tuple[float, object]], latest: float) -> list[Resource]:
    """What is known of one environment: of pairs of an invocation's number and its `resources`."""
    made = ResourceHistory()
    for invocation, members in reported:
        made.add(invocation, members)
    return made.found(latest)
