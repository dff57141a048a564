"""Makes fleets from a seed: what each environment of one function holds after each invocation, in KiB.

A fleet has 20 to 200 environments of 60 to 400 invocations. Each environment has its own base, its own settling, and
the noise of real ones: log-normal jitter, and now and then an invocation that leaves far more behind for a while.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from truemem_workbench.judge.drift import Point

Floats = NDArray[np.float64]
Kind = Callable[[Generator, int, int], Floats]
"""Memory beside base, settling and noise: a row for each environment, a column for each invocation."""

MIB = 1024.0
PRINTED_KIB = 10.24
"""A line has MiB with two decimals."""


def _flat(_: Generator, environments: int, count: int) -> Floats:
    return np.zeros((environments, count))


def _exponential(random: Generator, environments: int, count: int) -> Floats:
    """A warm-up that may still fill at the end, ever more slowly."""
    usual = random.uniform(10, 0.75 * count)
    slowness = usual * random.uniform(0.7, 1.3, (environments, 1))
    most = random.uniform(0.25, 40) * MIB * random.uniform(0.7, 1.3, (environments, 1))
    made: Floats = most * -np.expm1(-np.arange(count) / slowness)
    return made


def _teeth(random: Generator, environments: int, count: int, period: float) -> Floats:
    """A collector: memory rises from the cold start until it runs, and falls to where it was."""
    each = period * random.uniform(0.7, 1.3, (environments, 1))
    clock = np.cumsum(random.uniform(0.5, 1.5, (environments, count)), axis=1) / each
    made: Floats = random.uniform(0.2, 60) * MIB * (clock % 1)
    return made


def _sawtooth(random: Generator, environments: int, count: int) -> Floats:
    return _teeth(random, environments, count, random.uniform(4, count / 3))


def _slow_sawtooth(random: Generator, environments: int, count: int) -> Floats:
    """A collector that has run once or twice in each environment."""
    return _teeth(random, environments, count, random.uniform(count / 3, count * 0.7))


def _wave(random: Generator, environments: int, count: int) -> Floats:
    """A wave in phase with the invocation number, the same in all environments."""
    turns, phase = random.uniform(1.1, 5), random.uniform(0, 2 * np.pi)
    made: Floats = np.sin(phase + np.arange(count) / count * 2 * np.pi * turns) * random.uniform(0.1, 20) * MIB
    return np.broadcast_to(made, (environments, count))


def _step(random: Generator, environments: int, count: int) -> Floats:
    """Something is loaded once, at any place, and stays."""
    at = random.uniform(0, count, (environments, 1))
    return np.where(np.arange(count) < at, 0.0, random.uniform(0.3, 60) * MIB)


def _steps(random: Generator, environments: int, count: int) -> Floats:
    """Some loads at any places."""
    return sum((_step(random, environments, count) for _ in range(int(random.integers(2, 7)))), np.zeros(()))


def _cached(random: Generator, environments: int, count: int, weights: Floats) -> Floats:
    """Each key takes its size when it first comes."""
    keys = len(weights)
    made = np.zeros((environments, count))
    size = np.exp(random.uniform(np.log(0.5), np.log(2000)))
    for row, chosen in zip(made, random.choice(keys, (environments, count), p=weights / weights.sum()), strict=True):
        row[np.unique(chosen, return_index=True)[1]] = size
    return np.cumsum(made, axis=1)


def _cache(random: Generator, environments: int, count: int) -> Floats:
    """A cache of items by random key, which may still fill at the end."""
    return _cached(random, environments, count, np.ones(int(random.integers(5, max(6, count * 3 // 5)))))


def _zipf_cache(random: Generator, environments: int, count: int) -> Floats:
    """The same with frequent keys and rare ones."""
    ranks: Floats = np.arange(1.0, int(random.integers(6, max(7, count // 2))))
    weights: Floats = ranks ** -random.uniform(0.7, 1.2)
    return _cached(random, environments, count, weights)


def _swap(random: Generator, environments: int, count: int) -> Floats:
    """Two or three models of different sizes by turns: there is room for one."""
    sizes = random.uniform(5, 80, int(random.integers(2, 4))) * MIB
    swapped = random.random((environments, count)) < random.uniform(0.01, 0.1)
    return np.asarray(sizes[np.cumsum(swapped, axis=1) % len(sizes)])


def _arenas(random: Generator, environments: int, count: int) -> Floats:
    """Each arena keeps the most that its thread ever freed into it."""
    threads, most = int(random.integers(2, 9)), random.uniform(0.5, 24) * MIB
    freed = most * random.beta(5, 2, (threads, environments, count))
    used = random.integers(0, threads, (environments, count)) == np.arange(threads)[:, None, None]
    kept: Floats = np.maximum.accumulate(np.where(used, freed, 0.0), axis=2)
    return np.asarray(kept.sum(axis=0))


def _wandering(random: Generator, environments: int, count: int) -> Floats:
    """Memory that goes up and down at random, and is drawn back to its middle."""
    made, pull = np.zeros((environments, count)), 1 / random.uniform(3, count / 4)
    pushes = random.normal(0, random.uniform(4, 400), (environments, count))
    for number in range(1, count):
        made[:, number] = made[:, number - 1] * (1 - pull) + pushes[:, number]
    return made


def _tilted(random: Generator, environments: int, count: int) -> Floats:
    """Each environment has a trend of its own, up or down: together none."""
    return random.normal(0, random.uniform(0.1, 20), (environments, 1)) * np.arange(count)


QUIET: dict[str, Kind] = {
    "noise": _flat,
    "exponential": _exponential,
    "sawtooth": _sawtooth,
    "sawtooth, slow": _slow_sawtooth,
    "wave in phase": _wave,
    "one step": _step,
    "steps": _steps,
    "cache": _cache,
    "cache, Zipf": _zipf_cache,
    "model swap": _swap,
    "arenas": _arenas,
    "wandering": _wandering,
    "tilted": _tilted,
}
"""Fleets without a leak."""


def quiet(kind: str, seed: int) -> list[list[Point]]:
    """A fleet of that kind."""
    random = np.random.default_rng([seed, *kind.encode()])
    environments, count = int(random.integers(20, 201)), int(random.integers(60, 401))
    held = QUIET[kind](random, environments, count)
    if random.random() < 0.2:  # two things at once
        held = held + QUIET[list(QUIET)[random.integers(len(QUIET))]](random, environments, count)
    shortest = random.uniform(0.4, 1)
    return _fleet(random, held, (count * random.uniform(shortest, 1, environments)).astype(int))


def leaking(kib: float, seed: int, environments: int = 100, count: int = 200) -> list[list[Point]]:
    """A fleet that leaks so much with each invocation."""
    random = np.random.default_rng([seed, int(kib * 1000)])
    return _fleet(random, np.tile(np.arange(count) * kib, (environments, 1)), np.full(environments, count))


def _fleet(random: Generator, held: Floats, counts: NDArray[np.int64]) -> list[list[Point]]:
    environments, count = held.shape
    base = random.uniform(30, 250) * MIB + random.uniform(0, 8, (environments, 1)) * MIB
    settling = random.uniform(1, 20, (environments, 1)) * MIB
    settling = settling * -np.expm1(-np.arange(count) / random.uniform(0.5, 3, (environments, 1)))
    made = np.maximum(base + settling + held + _noise(random, environments, count), 0)
    made = np.round(made / PRINTED_KIB) * PRINTED_KIB
    return [
        [Point(number, 0.0, level, None) for number, level in enumerate(levels[:known].tolist(), 1)]
        for levels, known in zip(made, counts, strict=True)
    ]


def _noise(random: Generator, environments: int, count: int) -> Floats:
    """Jitter of 4 to 64 KiB that remembers a part of itself, and what a burst leaves behind for up to five."""
    sigma = np.exp(random.uniform(np.log(4), np.log(64)))
    made: Floats = random.lognormal(0, 0.8, (environments, count)) * sigma
    remembered = random.uniform(0, 0.5)
    made[:, 1:] = (1 - remembered) * made[:, 1:] + remembered * made[:, :-1]
    rows, columns = np.nonzero(random.random((environments, count)) < 0.02)
    far = np.minimum(random.pareto(1.5, len(rows)) * 4 * sigma, 20 * MIB)
    for row, column, length, more in zip(rows, columns, random.integers(1, 6, len(rows)), far, strict=True):
        made[row, column : column + length] += more
    return made
