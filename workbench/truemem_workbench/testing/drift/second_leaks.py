"""What has leaked by each invocation, for a mean of 1 KiB per invocation: curves of `second_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import Floats
from truemem_workbench.testing.drift.parts import amounts, leaks_late, spread


def uneven(random: Generator, at: Floats) -> Floats:
    """A little more in one invocation than in another."""
    return np.cumsum(amounts(random, len(at)))


def by_size(random: Generator, at: Floats) -> Floats:
    """As much as the request is large."""
    sigma = random.uniform(0.3, 1.2)
    return np.cumsum(random.lognormal(-(sigma**2) / 2, sigma, len(at)))


def seldom(random: Generator, at: Floats) -> Floats:
    """In one invocation of some."""
    every = spread(random, 2, 20)
    return np.cumsum((random.random(len(at)) < 1 / every) * every)


def by_time(random: Generator, at: Floats) -> Floats:
    """A background task's, by the second."""
    held: Floats = at * (len(at) / at[-1])
    return held


def by_route(random: Generator, at: Floats) -> Floats:
    """Each route leaks its own amount, and some leak nothing."""
    routes = int(random.integers(3, 9))
    often = random.dirichlet(np.full(routes, 2))
    leaks = random.lognormal(0, 0.8, routes) * (np.arange(routes) < random.integers(1, routes))
    return np.cumsum((leaks / float(often @ leaks))[random.choice(routes, len(at), p=often)])


def bursts(random: Generator, at: Floats) -> Floats:
    """In runs of failing invocations, with none between them."""
    count = len(at)
    run, rest = spread(random, 3, 20), spread(random, 8, 80)
    lengths = np.empty(2 * count, np.intp)
    lengths[0::2], lengths[1::2] = random.geometric(1 / rest, count), random.geometric(1 / run, count)
    fails = np.repeat(np.tile([False, True], count), np.minimum(lengths, count))
    begin = int(random.integers(0, len(fails) - count + 1)) if len(fails) > count else 0
    return np.cumsum(fails[begin : begin + count] * ((run + rest) / run))


def late(random: Generator, at: Floats) -> Floats:
    """None at first, then the same in each invocation; a short life has a short begin."""
    return leaks_late(random, at, (100, 300), (0.2, 0.4))


def faster(random: Generator, at: Floats) -> Floats:
    """Ever more, as what was kept is kept again."""
    count = len(at)
    power = random.uniform(1.3, 2)
    return np.asarray(count * (np.arange(1, count + 1) / count) ** power, dtype=np.float64)
