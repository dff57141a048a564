"""What has leaked by each invocation, for a mean of 1 KiB per invocation: curves of `third_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import Floats
from truemem_workbench.testing.drift.parts import leaks_late, spread


def items(random: Generator, at: Floats) -> Floats:
    """An entry for each record of a batch."""
    mean = spread(random, 1, 10)
    return np.cumsum(random.poisson(mean, len(at)) / mean)


def errors(random: Generator, at: Floats) -> Floats:
    """A traceback with each error, which come one by one."""
    chance = random.uniform(0.08, 0.5)
    return np.cumsum((random.random(len(at)) < chance) / chance)


def spells(random: Generator, at: Floats) -> Floats:
    """Much at times of one kind of traffic, little in between."""
    count, stay = len(at), spread(random, 5, 60)
    state = (np.cumsum(random.random(count) < 1 / stay) + random.integers(2)) % 2
    low = random.uniform(0, 0.4)
    return np.cumsum(np.where(state == 1, 2 - low, low))


def two_sizes(random: Generator, at: Floats) -> Floats:
    """Little with most requests, and much with some."""
    chance, little = random.uniform(0.05, 0.3), random.uniform(0.1, 0.8)
    much = (1 - little * (1 - chance)) / chance
    return np.cumsum(np.where(random.random(len(at)) < chance, much, little))


def clock(random: Generator, at: Floats) -> Floats:
    """A timer's, by the second, as long as the environment runs."""
    run = np.minimum(np.diff(at, prepend=0), 30_000)
    held: Floats = run.cumsum() * (len(at) / run.sum())
    return held


def heavy(random: Generator, at: Floats) -> Floats:
    """Buffers of very different sizes."""
    shape = random.uniform(0.15, 0.5)
    return np.cumsum(random.gamma(shape, 1 / shape, len(at)))


def begins(random: Generator, at: Floats) -> Floats:
    """Nothing until a feature is switched on, and then the same in each invocation."""
    return leaks_late(random, at, (50, 350), (0.15, 0.4))


def cubic(random: Generator, at: Floats) -> Floats:
    """More and more: each invocation also copies a part of what is there."""
    count = len(at)
    share = np.arange(1, count + 1) / count
    part = random.uniform(0.2, 0.7)
    return np.asarray(count * ((1 - part) * share + part * share**3), dtype=np.float64)
