"""Memory that grows ever more slowly, to a bound, or is there after a warm-up: curves of `second_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import MIB, Floats
from truemem_workbench.testing.drift.parts import amounts, rates, reverting, seen, shares, size, spread


def keys(random: Generator, at: Floats) -> Floats:
    """Results by key, of finitely many keys: some are wanted often, others seldom."""
    things = int(spread(random, 300, 12_000))
    often = rates(random, things, spread(random, 500, 3500))
    return seen(random.exponential(1 / often), shares(random, things, size(random, 8, 100)), len(at))


def lru(random: Generator, at: Floats) -> Floats:
    """A cache of the last so many results, full after some hundred to some thousand invocations."""
    count, entries = len(at), int(spread(random, 200, 1400))
    things = int(entries * random.uniform(1.5, 5))
    popular = np.arange(1, things + 1) ** -random.uniform(0.3, 0.9)
    wanted = random.choice(things, count, p=popular / popular.sum()).tolist()
    sizes = shares(random, things, size(random, 8) * things / entries).tolist()
    cache: dict[int, None] = {}
    value, held = 0.0, []
    for key in wanted:
        if key in cache:
            del cache[key]
        else:
            value += sizes[key]
            if len(cache) >= entries:
                oldest = next(iter(cache))
                del cache[oldest]
                value -= sizes[oldest]
        cache[key] = None
        held.append(value)
    return np.array(held)


def imports(random: Generator, at: Floats) -> Floats:
    """Modules that each route imports when it is first asked for; the later ones find many there."""
    routes = int(spread(random, 8, 80))
    first = np.sort(random.exponential(1 / rates(random, routes, spread(random, 300, 2500))))
    fresh = 1 / (1 + np.arange(routes) / random.uniform(3, 40))
    return seen(first, shares(random, routes, size(random, 10)) * fresh, len(at))


def weights(random: Generator, at: Floats) -> Floats:
    """Weights of a mapped model, of which some layers or rows are touched by few inputs."""
    total, chunk = size(random, 8, 120), float(random.choice([16, 64, 128]))
    parts = int(random.integers(2, 6))
    slow = np.array([spread(random, 15, 2500) for _ in range(parts)])
    chunks = int(total / chunk)
    part = random.choice(parts, chunks, p=random.dirichlet(np.full(parts, 2)))
    return seen(random.exponential(slow[part]), np.full(chunks, chunk), len(at))


def code(random: Generator, at: Floats) -> Floats:
    """Compiled functions: each is compiled when it has been called often, and again, larger, when very often."""
    functions = int(spread(random, 200, 4000))
    quick = spread(random, 8, 80) * random.lognormal(0, random.uniform(0.5, 0.95), functions)
    small = shares(random, functions, size(random, 2, 15))
    large = small * random.uniform(1, 4)
    held = seen(quick, small, len(at)) + seen(quick * random.uniform(3, 12), large, len(at))
    return np.minimum(held, random.uniform(0.8, 1.3) * float(small.sum() + large.sum()))


def fragments(random: Generator, at: Floats) -> Floats:
    """Holes between blocks, which come until as many are filled as are made."""
    count, bound = len(at), size(random, 5, 60)
    slow = spread(random, 120, 2200)
    share = -np.expm1(-np.cumsum(amounts(random, count)) / slow)
    wander = 1 + random.uniform(0.01, 0.06) * reverting(random, count, spread(random, 5, 80))
    held: Floats = bound * share * wander
    return held


def records(random: Generator, at: Floats) -> Floats:
    """Arenas that each keep the most that a request needed there; requests have a largest size."""
    count, arenas = len(at), int(random.integers(2, 17))
    needs = random.beta(random.uniform(0.7, 2), random.uniform(2, 6), count)
    used = random.integers(arenas, size=count)
    largest = size(random, 12, 120) / arenas
    held: Floats = np.sum(
        [largest * np.maximum.accumulate(np.where(used == one, needs, 0)) for one in range(arenas)], axis=0
    )
    return held


def words(random: Generator, at: Floats) -> Floats:
    """Strings that are interned, of a large vocabulary; its table doubles now and then."""
    things = int(spread(random, 5000, 60_000))
    often = rates(random, things, spread(random, 1000, 4000))
    known = seen(random.exponential(1 / often), np.ones(things), len(at))
    table = 2 ** np.ceil(np.log2(1.5 * known + 64))
    held: Floats = (known * random.uniform(60, 1200) + table * random.choice([8, 16, 24])) / 1024
    return held


def peers(random: Generator, at: Floats) -> Floats:
    """Names and sessions of the hosts that were called, up to the cache's bound, and answers that expire."""
    count, hosts = len(at), int(spread(random, 60, 2500))
    often = rates(random, hosts, spread(random, 400, 3000))
    each = random.uniform(12, 120)
    known = seen(random.exponential(1 / often), each * random.uniform(0.6, 1.4, hosts), count)
    answers = (1 + 0.5 * reverting(random, count, spread(random, 3, 40))).clip(0) * random.uniform(50, 600)
    return np.minimum(known, each * hosts * random.uniform(0.5, 1.05)) + answers


def loads(random: Generator, at: Floats) -> Floats:
    """Two models that are loaded early and stay."""
    number = np.arange(len(at))
    first, second = random.integers(1, 15), random.integers(15, 45)
    return (number >= first) * size(random, 5, 70) + (number >= second) * size(random, 5, 70)


def warm(random: Generator, at: Floats) -> Floats:
    """A small warm-up of some invocations."""
    return size(random, 1, 12) * -np.expm1(-np.arange(1, len(at) + 1) / spread(random, 2, 35))


def jitter(random: Generator, at: Floats) -> Floats:
    """What the last requests left, a few hundred KiB."""
    walk = reverting(random, len(at), spread(random, 0.3, 8))
    return random.uniform(0.05, 0.6) * MIB * np.exp(0.5 * walk.clip(-3, 3))
