"""What the curves of `second_kinds`, `third_kinds` and `sealed_kinds` are made of."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import MIB, Floats


def spread(random: Generator, low: float, high: float) -> float:
    """One draw, log-uniform."""
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


def size(random: Generator, low: float = 4, high: float = 80) -> float:
    """How far something moves: MiB from `low` to `high`, as KiB."""
    return spread(random, low, high) * MIB


def since_last(at: Floats) -> Floats:
    """ms since the invocation before; for the first one, since the start."""
    return np.diff(at, prepend=0)


def amounts(random: Generator, count: int) -> Floats:
    """What requests need, with a mean of 1: some services are even, others are not."""
    shape = spread(random, 0.6, 12)
    return random.gamma(shape, 1 / shape, count)


def reverting(random: Generator, count: int, memory: float) -> Floats:
    """A walk that returns to 0 within about `memory` invocations, with a variance of 1."""
    keep = float(np.exp(-1 / memory))
    pushes = (random.normal(0, np.sqrt(1 - keep**2), count)).tolist()
    value, walk = float(random.normal()), []
    for push in pushes:
        value = value * keep + push
        walk.append(value)
    return np.array(walk)


def rates(random: Generator, things: int, slowest: float) -> Floats:
    """How often each thing is wanted per invocation: Zipf's law, the rarest once in `slowest` invocations."""
    return (np.arange(1, things + 1) / things) ** -random.uniform(0.6, 1.3) / slowest


def seen(first: Floats, weights: Floats, count: int) -> Floats:
    """KiB of the things that were first wanted at or before each invocation."""
    within = first < count
    return np.bincount(first[within].astype(np.intp), weights[within], count).cumsum()


def shares(random: Generator, things: int, total: float) -> Floats:
    """KiB of each of some things, some far larger than others, that are about `total` together."""
    sigma = random.uniform(0.1, 1.2)
    return random.lognormal(-(sigma**2) / 2, sigma, things) * total / things


def constant(random: Generator, at: Floats) -> Floats:
    """The same leaks in each invocation."""
    return np.arange(1.0, len(at) + 1)


def leaks_late(random: Generator, at: Floats, within: tuple[float, float], share: tuple[float, float]) -> Floats:
    """Nothing leaks at first, then the same in each invocation. It begins within so many of them, and in a short life
    within this share of it."""
    count = len(at)
    begin = min(random.uniform(*within), random.uniform(*share) * count)
    return (np.arange(1, count + 1) - begin).clip(0) * (count / (count - begin))
