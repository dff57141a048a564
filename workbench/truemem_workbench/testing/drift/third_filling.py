"""Memory that grows ever more slowly, to a bound, or is there after a warm-up: curves of `third_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import MIB, Floats
from truemem_workbench.testing.drift.parts import amounts, rates, reverting, seen, shares, size, spread


def universe(random: Generator, at: Floats) -> Floats:
    """One entry for each of finitely many keys, all wanted alike."""
    things = int(spread(random, 150, 2500))
    first = random.geometric(1 / things, things).astype(np.float64)
    return seen(first, shares(random, things, size(random, 6, 110)), len(at))


def combinations(random: Generator, at: Floats) -> Floats:
    """Templates by route and language, some far more often asked for than others."""
    routes, languages = int(random.integers(8, 60)), int(random.integers(2, 25))
    often = np.outer(random.dirichlet(np.full(routes, 1.5)), random.dirichlet(np.full(languages, 1.5))).ravel()
    often = np.maximum(often, 1 / spread(random, 600, 2500))
    return seen(random.exponential(1 / often), shares(random, len(often), size(random, 5, 60)), len(at))


def series(random: Generator, at: Floats) -> Floats:
    """Counters of a metrics library, one for each set of labels, with a limit of sets."""
    things = int(spread(random, 800, 9000))
    known = seen(random.exponential(1 / rates(random, things, spread(random, 800, 3000))), np.ones(things), len(at))
    held: Floats = np.minimum(known, things * random.uniform(0.4, 1.2)) * random.uniform(2, 14)
    return held


def widest(random: Generator, at: Floats) -> Floats:
    """A pool as wide as the largest number of calls at once so far, with the most that each needed."""
    count, most = len(at), int(random.integers(4, 40))
    wide = np.maximum.accumulate(random.binomial(most, random.uniform(0.1, 0.5), count))
    need = np.maximum.accumulate(random.beta(2, 5, count))
    held: Floats = wide / most * size(random, 8, 100) * (0.5 + need / 2)
    return held


def bytes_bound(random: Generator, at: Floats) -> Floats:
    """A cache bound in bytes: misses fill it, fewer of them as more is there."""
    count, bound = len(at), size(random, 6, 110)
    full = spread(random, 100, 1500)
    miss = random.uniform(0.1, 0.6)
    value, held = 0.0, []
    for more in (amounts(random, count) * bound / full).tolist():
        share = value / bound
        value = min(bound, value + more * (1 - (1 - miss) * share))
        held.append(value)
    return np.array(held)


def touched(random: Generator, at: Floats) -> Floats:
    """Pages of a restored heap, touched for the first time by ever rarer paths."""
    total, page = size(random, 8, 120), 64.0
    count = int(total / page)
    slow = spread(random, 30, 500) * random.lognormal(0, random.uniform(0.5, 1.1), count)
    return seen(random.exponential(np.minimum(slow, 2200)), np.full(count, page), len(at))


def sketches(random: Generator, at: Floats) -> Floats:
    """Histograms that get a bucket for each new range of values, one histogram an endpoint."""
    endpoints = int(random.integers(10, 150))
    buckets = int(spread(random, 20, 120))
    far = np.abs(random.normal(0, 1, endpoints * buckets))
    often = np.exp(-(far**2) / 2) / spread(random, 50, 400)
    each = random.uniform(0.3, 1.2) * 4096 / 1024
    return seen(random.exponential(1 / np.maximum(often, 1 / 2500)), np.full(len(far), each), len(at))


def doubling(random: Generator, at: Floats) -> Floats:
    """A hash table of what is known, doubled when it is two thirds full."""
    things = int(spread(random, 3000, 50_000))
    wanted = random.uniform(1, 20)
    slow = things / wanted * random.uniform(0.8, 2)
    known = things * -np.expm1(-np.arange(1, len(at) + 1) / min(slow, 1500))
    slots = 2 ** np.ceil(np.log2(np.maximum(known, 8) * 1.5))
    held: Floats = known * random.uniform(0.3, 2.5) + slots * random.choice([24, 48, 104]) / 1024
    return held


def lanes(random: Generator, at: Floats) -> Floats:
    """Buffers of some lanes, each enlarged to what its largest record needs, and small change beside them."""
    count, lanes_ = len(at), int(random.integers(3, 30))
    lane = random.choice(lanes_, count, p=random.dirichlet(np.full(lanes_, 3)))
    needs = 2 ** np.round(random.beta(2, 3, count) * 6)
    held = np.zeros(count)
    for one in range(lanes_):
        held += np.maximum.accumulate(np.where(lane == one, needs, 0))
    walk = (1 + 0.5 * reverting(random, count, spread(random, 3, 40))).clip(0) * random.uniform(50, 500)
    return held / (64 * lanes_) * size(random, 8, 90) + walk


def two_stages(random: Generator, at: Floats) -> Floats:
    """A start that loads modules, and then a model at the first request that needs it."""
    number = np.arange(1, len(at) + 1)
    start = size(random, 2, 25) * -np.expm1(-number / spread(random, 3, 30))
    held: Floats = start + (number > random.integers(2, 60)) * size(random, 5, 80)
    return held


def scratch(random: Generator, at: Floats) -> Floats:
    """What the last request left: little, of varying size."""
    return random.uniform(0.05, 0.5) * MIB * amounts(random, len(at)).clip(0, 8)
