"""Durations of invocations as percentiles, with their noise, and what has changed since a baseline. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..support.estimates import binomial_quantile

PERCENTS = (50, 95, 99)


class Figure(NamedTuple):
    """A figure that has no limit: a row below the limits."""

    name: str
    before: str
    """The baseline's. Empty if there is none."""
    measured: str
    outcome: str = "note"
    """With a baseline `slower` or `faster`, if that is more than noise, else `alike`."""


def rank(percent: int, count: int) -> int:
    """The rank of a percentile among `count` values, from 1: the nearest one, so that the value has occurred."""
    return -(-percent * count // 100)


def interval(percent: int, count: int) -> tuple[int, int]:
    """The ranks between which the percentile of all that could have been measured is, with 95 %, whatever its
    distribution.

    With too few values for an upper end it is the highest one: below 368 for p99, below 72 for p95.
    """
    low, high = (binomial_quantile(tail, count, percent / 100) for tail in (0.025, 0.975))
    return max(1, low), min(count, high + 1)


@dataclass(frozen=True)
class Percentile:
    """A duration that occurred, and its 95 % interval, ms: how much chance there is in it. That of another machine, or
    of another hour, is not in it."""

    value: float
    low: float
    high: float

    def change(self, was: Percentile) -> str:
        if self.low <= was.high and was.low <= self.high:
            return "alike"
        return "slower" if self.value > was.value else "faster"


@dataclass(frozen=True)
class Latency:
    invocations: int
    p50: Percentile
    p95: Percentile
    p99: Percentile

    @classmethod
    def of(cls, durations: Sequence[float]) -> Latency | None:
        """Of durations in ms. None if there are none."""
        ranked = sorted(durations)
        return cls.by_rank(len(ranked), lambda rank: ranked[rank - 1]) if ranked else None

    @classmethod
    def by_rank(cls, count: int, duration: Callable[[int], float]) -> Latency:
        """Of `count` durations, of which `duration` knows the one of each rank, from 1."""
        found = ((rank(percent, count), *interval(percent, count)) for percent in PERCENTS)
        return cls(count, *(Percentile(*map(duration, each)) for each in found))

    @property
    def is_few(self) -> bool:
        """True if p99 is the highest of them: how many there are is said then."""
        return rank(99, self.invocations) == self.invocations

    def document(self) -> dict[str, float]:
        return {"p50": self.p50.value, "p95": self.p95.value, "p99": self.p99.value, "invocations": self.invocations}

    def figures(self, was: Latency | None) -> list[Figure]:
        """A row for each percentile, beside the baseline's."""
        return [self._figure(percent, was) for percent in PERCENTS]

    def _figure(self, percent: int, was: Latency | None) -> Figure:
        name = f"p{percent}"
        now: Percentile = getattr(self, name)
        measured = f"{ms(now.value)} ms"
        if rank(percent, self.invocations) == self.invocations:
            measured += f", the highest of {self.invocations}"
        if was is None:
            return Figure(name, "", measured)
        before: Percentile = getattr(was, name)
        change = f" ({100 * (now.value / before.value - 1):+,.0f} %)" if before.value else ""
        return Figure(name, f"was {ms(before.value)} ms", measured + change, now.change(before))


def ms(value: float) -> str:
    """Format a duration in ms: with three digits, or all that are before the point."""
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def percentage(share: float) -> str:
    """Format a share with two digits, as `1.2 %`; all of it is `100 %`."""
    return f"{100 * share:.{3 if share >= 0.995 else 2}g} %"


def failed_share(failed: int, of: int) -> str:
    """Format how many invocations failed: `3 of 240 (1.2 %)`."""
    return f"{failed:,} of {of:,}" + (f" ({percentage(failed / max(1, of))})" if failed else "")


def errors_figure(failed: int, of: int, was: float | None) -> Figure:
    """How many failed. `was`: the baseline's share."""
    return Figure("errors", "" if was is None else f"was {percentage(was)}", failed_share(failed, of))
