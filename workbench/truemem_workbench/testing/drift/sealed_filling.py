"""Memory that grows ever more slowly, to a bound, or is there after a warm-up: curves of `sealed_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import MIB, Floats
from truemem_workbench.testing.drift.parts import amounts, rates, seen, shares, size, spread


def statements(random: Generator, at: Floats) -> Floats:
    """Prepared statements, one for each query of the code, some of them rare."""
    things = int(spread(random, 60, 800))
    often = rates(random, things, spread(random, 200, 2000))
    return seen(random.exponential(1 / often), shares(random, things, size(random, 3, 40)), len(at))


def patterns(random: Generator, at: Floats) -> Floats:
    """Compiled patterns, which are all thrown away once, and then kept."""
    things = int(spread(random, 100, 600))
    first = random.exponential(spread(random, 20, 500), things)
    return seen(first, shares(random, things, size(random, 4, 30)), len(at))


def tiers(random: Generator, at: Floats) -> Floats:
    """Compiled code: each function is compiled when it was called often enough, in two tiers."""
    things = int(spread(random, 300, 4000))
    often = rates(random, things, spread(random, 5, 60))
    first, second = spread(random, 3, 10), spread(random, 15, 40)
    weights = shares(random, things, size(random, 4, 30))
    plain = seen(random.gamma(first, 1 / first, things) * first / often, weights, len(at))
    return plain + seen(random.gamma(second, 1 / second, things) * second / often, 2 * weights, len(at))


def quota(random: Generator, at: Floats) -> Floats:
    """A cache of files by name, until its quota is full: what comes later is not kept."""
    things = int(spread(random, 300, 3000))
    first = random.exponential(spread(random, 200, 1500), things)
    total = size(random, 10, 120)
    held: Floats = np.minimum(seen(first, shares(random, things, total), len(at)), total * random.uniform(0.5, 0.9))
    return held


def stacks(random: Generator, at: Floats) -> Floats:
    """Stacks of some threads, each as deep as its deepest call so far."""
    held = np.zeros(len(at))
    for _ in range(int(random.integers(2, 24))):
        depth = np.minimum(random.gumbel(0, 1, len(at)), spread(random, 3, 7))
        held += np.maximum.accumulate(np.maximum(depth, 0)) * size(random, 0.2, 1.5)
    return held


def sizes(random: Generator, at: Floats) -> Floats:
    """An inference arena: a block for each length of input that was new, rounded to powers of two."""
    lengths = int(spread(random, 8, 200))
    often = random.dirichlet(np.full(lengths, 0.8)).clip(1 / 2000)
    blocks = 2 ** np.round(random.uniform(0, 5, lengths))
    return seen(random.exponential(1 / often), blocks / blocks.sum() * size(random, 8, 110), len(at))


def sessions(random: Generator, at: Floats) -> Floats:
    """TLS sessions to some hosts, some for each, as many as were open at once."""
    hosts, count = int(random.integers(2, 30)), len(at)
    most = np.maximum.accumulate(random.poisson(random.uniform(1, 6), (hosts, count)), axis=1).clip(0, 12)
    held: Floats = most.sum(axis=0) / hosts * size(random, 1, 8)
    return held


def lazy(random: Generator, at: Floats) -> Floats:
    """Rarely used modules and their data, each loaded by the first request that needs it."""
    things = int(random.integers(6, 60))
    first = spread(random, 30, 600) * random.weibull(random.uniform(0.7, 1.2), things)
    return seen(first.clip(0, 2500), shares(random, things, size(random, 10, 100)), len(at))


def interned(random: Generator, at: Floats) -> Floats:
    """Names that are interned, from a language with a finite number of them, in a table with room to spare."""
    things = int(spread(random, 5_000, 60_000))
    known = things * -np.expm1(-np.arange(1, len(at) + 1) / spread(random, 50, 1300))
    table = 4 ** np.ceil(np.log(np.maximum(known, 64)) / np.log(4))
    held: Floats = known * random.uniform(0.1, 0.6) + table * 8 / 1024
    return held


def started(random: Generator, at: Floats) -> Floats:
    """A client that is built by the first request, and pools that are full after some."""
    number = np.arange(1, len(at) + 1)
    held: Floats = size(random, 3, 30) + size(random, 1, 20) * np.minimum(1, number / spread(random, 5, 80))
    return held


def answers(random: Generator, at: Floats) -> Floats:
    """The last answer, which is kept until the next."""
    return amounts(random, len(at)).clip(0, 6) * spread(random, 64, 700) + MIB
