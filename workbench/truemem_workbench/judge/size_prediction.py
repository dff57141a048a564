"""How long invocations would take at another memory size, and what they would cost, from their CPU time. Pure.

A memory size buys CPU: size / 1,769 of a vCPU, as a quota in each period of some ms; one thread uses one vCPU at most.
A duration is waiting, which is the same at every size, and computing, which is not. Two figures of an invocation,
duration and CPU time, do not say how they were arranged. So a prediction is an interval: it covers

- a quota that is spent evenly, and one of LONGEST_PERIOD_MS: then a short burst runs at full speed at any size;
- one thread, and as many as there are vCPUs, where the CPU time does not say which;
- waiting that computing is divided by (the quota lasts for longer), unless the quota was used up.

It does not know of CPU time of extensions, of slower disk or network at a small size, of waiting that passes while the
function is throttled, nor of threads that spin while they wait for each other: numpy's and onnxruntime's take twice the
CPU time at an eighth of the size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from truemem.config import VCPU_MIB

from ..support.terminal import counted
from .prices import MILLION, computing

CPU_INVOCATIONS_NEEDED = 100
"""Least number of invocations with CPU time."""
MOST_UNKNOWN = 0.02
"""Most of the invocations, and of their billed time, that may be without: those that fail are not like others."""
SLOWER = 3.0
"""Most that p99 may become times what it is now, at worst, for a size that is proposed."""
LONGEST_PERIOD_MS = 100.0
"""Period of the CPU quota: Linux's default. AWS does not say; pauses look like 20 ms (pwrdrvr/lambda-dispatch#246)."""
MOST_VCPUS = 6.0
COLD = 0.1
"""More CPU time where a smaller quota interrupts it, as caches go cold: 0 to 20 % in benchmarks/size.py."""
USED_UP = 0.9
"""Share of the quota from which on the quota is what an invocation waited for."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PredictedRange:
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Invocations:
    """What was seen at one memory size: duration and CPU time in ms (NaN if not known), and how many invocations had
    these."""

    size: float
    """MiB."""
    duration_ms: Floats
    cpu_ms: Floats
    count: NDArray[np.int64]

    @classmethod
    def of(cls, size: float, pairs: Sequence[tuple[float, float]]) -> Invocations:
        """Single ones: duration and CPU time of each, in ms."""
        durations, cpu = np.array(pairs, float).reshape(-1, 2).T
        return cls(size, durations, cpu, np.ones(len(pairs), np.int64))

    @property
    def known(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.cpu_ms)

    @property
    def missing(self) -> str:
        """Why nothing can be predicted, in words. Empty if enough is known."""
        known, everything = int(self.count[self.known].sum()), int(self.count.sum())
        if not known:
            return "the lines have no `cpuMs`"
        if known < CPU_INVOCATIONS_NEEDED:
            return f"{counted(known, 'invocation')} with `cpuMs` are too few, {CPU_INVOCATIONS_NEEDED} are needed"
        billed = np.ceil(self.duration_ms) * self.count
        time = float(billed[~self.known].sum() / billed.sum())
        if max(1 - known / everything, time) <= MOST_UNKNOWN:
            return ""
        few = f"{everything - known:,} of {everything:,} invocations"
        return f"CPU time is not known of {few}, {time:.0%} of the billed time"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Invocations at another memory size, beside what they are now. Durations in ms, costs in USD per million
    invocations without requests, init phases and log lines."""

    size: int
    p50: PredictedRange
    p99: PredictedRange
    slowest: PredictedRange
    """The longest duration: of a report's bins, which may be 5 % less than the longest one in it."""
    cost: PredictedRange
    p50_now: float
    p99_now: float
    slowest_now: float
    cost_now: float
    computing: float
    """CPU time, as a share of the duration. More than 1: several threads or processes."""

    @property
    def is_cheaper(self) -> bool:
        """True if it costs less or the same wherever in the interval the truth is."""
        return self.cost.high <= self.cost_now

    @property
    def is_slow(self) -> bool:
        """True if p99 may become several times what it is now: the saving is not worth that unasked."""
        return self.p99.high > SLOWER * self.p99_now


def predict(seen: Invocations, size: int, gb_second: float) -> Prediction | None:
    """Predict durations and costs at `size` MiB. `gb_second`: price (`prices.GB_SECOND`). None if too few are known
    (`Invocations.missing`)."""
    if seen.missing:
        return None
    known = replace(
        seen, duration_ms=seen.duration_ms[seen.known], cpu_ms=seen.cpu_ms[seen.known], count=seen.count[seen.known]
    )
    share = float((known.cpu_ms * known.count).sum() / (known.duration_ms * known.count).sum())
    # the few without CPU time: as if they waited all the time, and as if they computed all the time
    shares = (0.0, min(seen.size / VCPU_MIB, MOST_VCPUS))
    low, high = (
        _durations(replace(seen, cpu_ms=np.where(seen.known, seen.cpu_ms, each * seen.duration_ms)), size)[at]
        for at, each in enumerate(shares if size <= seen.size else reversed(shares))
    )
    now = _cost(seen.size, seen.duration_ms, seen.count, gb_second)
    return Prediction(
        size=size,
        p50=PredictedRange(*(percentile(each, seen.count, 0.5) for each in (low, high))),
        p99=PredictedRange(*(percentile(each, seen.count, 0.99) for each in (low, high))),
        slowest=PredictedRange(float(low.max()), float(high.max())),
        cost=PredictedRange(*(_cost(size, each, seen.count, gb_second) for each in (low, high))),
        p50_now=percentile(seen.duration_ms, seen.count, 0.5),
        p99_now=percentile(seen.duration_ms, seen.count, 0.99),
        slowest_now=float(seen.duration_ms.max()),
        cost_now=now,
        computing=share,
    )


def percentile(values: Floats, count: NDArray[np.int64], share: float) -> float:
    """The nearest-rank percentile of values that occurred so often."""
    order = np.argsort(values)
    upto = np.cumsum(count[order])
    return float(values[order][np.searchsorted(upto, share * upto[-1])])


def _cost(size: float, duration_ms: Floats, count: NDArray[np.int64], gb_second: float) -> float:
    billed = float((np.ceil(duration_ms) * count).sum() / count.sum())
    return MILLION * computing(size, billed, gb_second)


def _durations(seen: Invocations, size: int) -> tuple[Floats, Floats]:
    """The shortest and the longest duration of each at `size`."""
    duration, cpu = seen.duration_ms, seen.cpu_ms
    now, then = (min(each / VCPU_MIB, MOST_VCPUS) for each in (seen.size, size))
    if size == seen.size:
        return duration, duration
    is_limited = _used_up(duration, cpu, now)
    in_turn = cpu / min(then, 1.0)
    if then < now:
        in_turn *= 1.0 + (COLD if then < 1 else 0.0)
        # Threads that computed at once leave more of the duration for waiting, and so does a burst without a pause.
        waited = duration - np.where(is_limited, _shortest(cpu, now), cpu / max(now, 1.0))
        longest = np.maximum(0, waited) + in_turn
        return np.maximum(duration, _shortest(cpu, then)), np.maximum(duration, longest)
    shortest = np.maximum(0, duration - cpu / now) + _shortest(cpu, then)
    waited = np.maximum(0, duration - _shortest(cpu, now))
    longest = np.where(is_limited & (now < 1), waited + in_turn, duration)
    return np.minimum(duration, shortest), np.minimum(duration, longest)


def _used_up(duration: Floats, cpu: Floats, vcpus: float) -> NDArray[np.bool_]:
    return cpu >= USED_UP * duration * vcpus


def _shortest(cpu: Floats, vcpus: float) -> Floats:
    """The shortest time in which a quota of the longest period permits so much computing by several threads: they can
    begin where a whole slice of a period is left, and the next slice follows at once."""
    threads = max(2.0, math.ceil(vcpus))
    return np.maximum(cpu / threads, cpu / vcpus - 2 * LONGEST_PERIOD_MS * (1 - vcpus / threads))
