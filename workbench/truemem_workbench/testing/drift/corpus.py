"""Labelled curves of any length: kinds of memory, each with its truth and, for a leak, its rate.

A corpus is a dictionary of kinds. Which corpora may be looked at when the verdict is tuned is said where they are:
`held_out`, `open_kinds`, `second_kinds` and `third_kinds` may, `sealed_kinds` may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

MIB = 1024.0
PAGE_KIB = 4

Floats = NDArray[np.floating]
Curve = Callable[[Generator, Floats], Floats]
"""KiB at invocations that begin at these times in ms."""

LEAK, FILLING, BOUNDED = "leak", "filling", "bounded"


class Kind(NamedTuple):
    """A way for memory to behave."""

    truth: str
    """LEAK; FILLING: it grows ever more slowly, to a bound; or BOUNDED: it is at its level soon, or comes and goes.
    Only a leak may be called growing."""
    other: Curve | None = None
    """Memory that does not leak, KiB."""
    leak: Curve | None = None
    """What has leaked by each invocation, for a mean of 1 KiB per invocation."""
    kib: tuple[float, float] = (0, 0)
    """Range of the leak's mean growth per invocation, KiB. A series draws its own, log-uniformly."""
    beside: bool = False
    """A leak's: `other` moves by more than the leak adds in some hundred invocations."""
    steady: bool = True
    """A leak's: its mean rate is the same over all of its life, so that an interval of the slope has a truth."""
    step_kib: tuple[float, float] = (0, 0)
    """Range of the step in which the allocator takes memory from the kernel; (0, 0): page by page."""


ALONE = (4.0, 64.0)
BESIDE = (8.0, 64.0)
"""Ranges of a leak's rate, KiB per invocation."""
STEPS = (MIB, 8 * MIB)
"""Range of an allocator's large steps, KiB."""


def leak_beside(other: Curve, leak: Curve, step_kib: tuple[float, float] = (0, 0)) -> Kind:
    """A leak beside something that moves more."""
    return Kind(LEAK, other, leak, BESIDE, beside=True, step_kib=step_kib)


class Series(NamedTuple):
    """One life of an environment, as its lines would tell it."""

    kind: str
    truth: str
    beside: bool
    time_ms: Floats
    """Begin of each invocation."""
    current: Floats
    """CurrentRSS after each invocation, KiB, and its peak."""
    peak: Floats
    rate: float | None
    """KiB per invocation that leak in the mean; 0 where nothing does, None where it has no constant one."""


def make(kinds: Mapping[str, Kind], name: str, seed: int, count: int) -> Series:
    """The curve of that kind and seed, of `count` invocations. A longer one is another curve."""
    kind = kinds[name]
    random = np.random.default_rng([seed, count, *name.encode()])
    at = np.cumsum(gaps(random, count))
    held = random.uniform(16, 300) * MIB + noise(random, count)
    if kind.other is not None:
        held = held + kind.other(random, at)
    rate: float | None = 0.0 if kind.truth == BOUNDED else None
    if kind.leak is not None:
        drawn = float(np.exp(random.uniform(*np.log(kind.kib))))
        leaked = drawn * kind.leak(random, at)
        if kind.step_kib[1]:
            step = random.uniform(*kind.step_kib)
            leaked = np.ceil((leaked + random.random() * step) / step) * step
        held = held + leaked
        rate = drawn if kind.steady else None
    current = np.maximum(np.round(held / PAGE_KIB), 1) * PAGE_KIB
    need = random.lognormal(np.log(random.uniform(50, 2000)), 0.7, count)
    return Series(name, kind.truth, kind.beside, at, current, current + np.round(need / PAGE_KIB) * PAGE_KIB, rate)


def gaps(random: Generator, count: int) -> Floats:
    """Times between invocations in ms: 2 s at the median, and some minutes without any now and then."""
    pause = np.where(random.random(count) < 0.01, random.uniform(1, 10, count) * 60_000, 0)
    return random.lognormal(np.log(2000), 1, count) + pause


def noise(random: Generator, count: int) -> Floats:
    """Noise that only adds: log-normal jitter, and one invocation in fifty that leaves far more behind, for up to
    five."""
    sigma = float(np.exp(random.uniform(np.log(4), np.log(64))))
    made = random.lognormal(0, 0.8, count) * sigma
    for number in np.flatnonzero(random.random(count) < 0.02):
        made[number : number + random.integers(1, 6)] += min(random.pareto(1.5) * 4 * sigma, 20 * MIB)
    return made
