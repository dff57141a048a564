"""Memory that grows ever more slowly, to a bound, for `open_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from .corpus import MIB, Floats
from .open_movements import Integers, between, cycles, zipf


def _first_uses(chosen: Integers, sizes: Floats, count: int) -> Floats:
    """Each key takes its size when it first comes; each invocation uses the same number of keys."""
    keys, first = np.unique(chosen, return_index=True)
    return np.cumsum(np.bincount(first * count // len(chosen), sizes[keys], count))


def _unequal(random: Generator, parts: int, whole: float, sigma: float) -> Floats:
    """Parts of very different sizes, which make up the whole."""
    sizes = random.lognormal(0, sigma, parts)
    made: Floats = sizes / sizes.sum() * whole
    return made


def user_cache(random: Generator, at: Floats) -> Floats:
    """A dictionary by user without a bound of its own, and a finite number of users."""
    users, each = int(between(random, 100, 3000)), int(random.integers(2, 7))
    chosen = zipf(random, users, random.uniform(0.5, 1.1), each * len(at))
    return _first_uses(chosen, _unequal(random, users, between(random, 4, 80) * MIB, random.uniform(0, 1)), len(at))


def lru_fills(random: Generator, at: Floats) -> Floats:
    """An lru_cache that fills nearly evenly over 300 to 3000 invocations, and then turns over."""
    length, whole = between(random, 300, 3000), between(random, 4, 80) * MIB
    misses = np.cumsum(random.gamma(between(random, 0.1, 2), 1, len(at)))
    even = misses * (len(at) / float(misses[-1]) / length)
    bend = between(random, 0.02, 0.4)
    filled: Floats = np.minimum(np.expm1(-even * bend) / np.expm1(-bend), 1)
    _, turned = cycles(random, len(at), between(random, 20, 200), 0.5)
    return whole * filled * (1 - random.uniform(0, 0.02) * turned)


def routes(random: Generator, at: Floats) -> Floats:
    """Modules that each route imports when it is first used."""
    number = int(random.integers(10, 80))
    sizes = random.lognormal(np.log(between(random, 300, 2000)), random.uniform(0.5, 1.2), number)
    return _first_uses(zipf(random, number, random.uniform(0.7, 1.4), len(at)), sizes, len(at))


def weights(random: Generator, at: Floats) -> Floats:
    """A mapped model, whose pages are read when first touched: some by all requests, others by few."""
    number, hot = np.arange(len(at)), random.uniform(0.3, 0.9)
    soon = hot * -np.expm1(-number / between(random, 3, 100))
    late = (1 - hot) * -np.expm1(-number / between(random, 150, 1500))
    return between(random, 10, 150) * MIB * (soon + late)


def compiled(random: Generator, at: Floats) -> Floats:
    """Functions that a JIT compiles after enough calls, the often called ones first."""
    functions = int(between(random, 100, 3000))
    when = random.lognormal(np.log(between(random, 20, 400)), random.uniform(0.7, 1.5), functions)
    sizes = _unequal(random, functions, between(random, 3, 50) * MIB, 1)
    done = np.searchsorted(np.sort(when), np.arange(len(at)), "right")
    held: Floats = np.cumsum(np.append(0.0, sizes))[done]
    return held


def fragments(random: Generator, at: Floats) -> Floats:
    """Holes between blocks: in lumps, and ever more rarely, as more blocks find a hole that fits."""
    slowness = between(random, 60, 1500)
    less = np.exp(-np.arange(len(at)) / slowness) / slowness
    lumpy = between(random, 0.05, 1)
    return between(random, 4, 60) * MIB * np.cumsum(less * random.gamma(lumpy, 1 / lumpy, len(at)))


def arenas(random: Generator, at: Floats) -> Floats:
    """Threads with an arena each, as large as the largest request it had; no request is larger than some size."""
    threads, size = int(random.integers(2, 33)), between(random, 64, 600)
    sigma = random.uniform(0.4, 1.2)
    need = np.minimum(random.lognormal(np.log(size), sigma, len(at)), size * np.exp(2.5 * sigma))
    thread = random.integers(threads, size=len(at))
    held = np.zeros(len(at))
    for one in range(threads):
        own = np.where(thread == one, need, 0)
        held += np.maximum.accumulate(own)
    return held


def tables(random: Generator, at: Floats) -> Floats:
    """A few hash tables of finite contents, each of which doubles its room when that is full."""
    held = np.zeros(len(at))
    for _ in range(random.integers(1, 6)):
        keys = int(between(random, 2000, 60_000))
        filled = keys * -np.expm1(-np.arange(1, len(at) + 1) / between(random, 50, 1500))
        held += 2 ** np.ceil(np.log2(np.maximum(filled, 8) * 1.5)) * 0.1
    return held
