"""Open kinds of curves: the verdict may be tuned by these. Another set is sealed, and only judges."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from . import open_fillings as fills
from . import open_movements as moves
from .corpus import BOUNDED, FILLING, LEAK, MIB, Curve, Floats, Kind
from .open_movements import between

AWAKE_MS = 10_000
"""For so long after an invocation began the environment is not frozen, and a timer runs."""
MEAN_AWAKE_MS = 3011.6
"""Of `corpus.make`'s times between invocations, each at most AWAKE_MS."""


def _alike(random: Generator, at: Floats) -> Floats:
    """Each invocation leaks the same."""
    return np.arange(1, len(at) + 1, dtype=float)


def _by_size(random: Generator, at: Floats) -> Floats:
    """As large as the request was: most are small."""
    sigma = random.uniform(0.8, 1.8)
    return np.cumsum(random.lognormal(-(sigma**2) / 2, sigma, len(at)))


def _one_in_some(random: Generator, at: Floats) -> Floats:
    """One path, taken by one in 3 to 50, leaks."""
    every = between(random, 3, 50)
    return np.cumsum(np.where(random.random(len(at)) < 1 / every, every * random.lognormal(-0.125, 0.5, len(at)), 0))


def _per_time(random: Generator, at: Floats) -> Floats:
    """A timer leaks, not a request; it stands still with the environment."""
    awake: Floats = np.minimum(np.diff(at, prepend=at[0] - MEAN_AWAKE_MS), AWAKE_MS)
    return np.cumsum(awake) / MEAN_AWAKE_MS


def _uneven(random: Generator, at: Floats) -> Floats:
    """Each invocation leaks a little more or less than the last."""
    shape = between(random, 0.5, 5)
    return np.cumsum(random.gamma(shape, 1 / shape, len(at)))


def _late(random: Generator, at: Floats) -> Floats:
    """A path that is new after 100 to 300 invocations."""
    leaked: Floats = np.maximum(np.arange(len(at), dtype=float) - int(random.integers(100, 301)), 0)
    return leaked


def _ever_more(random: Generator, at: Floats) -> Floats:
    """Each handler that leaks makes later invocations leak more; 1 KiB in the 200th."""
    power = random.uniform(0.3, 0.8)
    return np.cumsum((np.arange(len(at)) / 200) ** power)


def _in_bursts(random: Generator, at: Floats) -> Floats:
    """One tenant's requests leak: those come together."""
    here, away = between(random, 3, 40), between(random, 5, 120)
    both = 2 * len(at) + 2
    lengths = np.where(np.arange(both) % 2, random.geometric(1 / away, both), random.geometric(1 / here, both))
    first = int(random.random() < away / (here + away))
    lengths = lengths[first:]
    number = np.searchsorted(np.cumsum(lengths), np.arange(len(at)), "right")
    return np.cumsum(np.where((number + first) % 2, 0, (here + away) / here))


def _two_loads(random: Generator, at: Floats) -> Floats:
    """Two models, each loaded by the first request for it and kept."""
    loaded = np.arange(len(at))[:, None] >= random.integers(5, 300, 2)
    held: Floats = (loaded * random.uniform(3, 50, 2) * MIB).sum(axis=1)
    return held


def _small_warm_up(random: Generator, at: Floats) -> Floats:
    """Imports and connections of the first dozen invocations."""
    return between(random, 0.5, 8) * MIB * -np.expm1(-np.arange(len(at)) / between(random, 2, 40))


def _jitter(random: Generator, at: Floats) -> Floats:
    """Buffers of the last few requests."""
    return between(random, 20, 120) * np.maximum(moves.drifting(random, len(at), between(random, 1, 10)) + 3, 0)


def _leak(least: float, most: float, curve: Curve, other: Curve | None = None) -> Kind:
    return Kind(LEAK, other, curve, (least, most))


def _beside(least: float, most: float, curve: Curve, other: Curve) -> Kind:
    return Kind(LEAK, other, curve, (least, most), beside=True)


KINDS: dict[str, Kind] = {
    "three generations": Kind(BOUNDED, moves.generations),
    "full collections": Kind(BOUNDED, moves.full_collections),
    "Go heap": Kind(BOUNDED, moves.go_heap),
    "wave": Kind(BOUNDED, moves.wave),
    "two waves": Kind(BOUNDED, moves.two_waves),
    "traffic": Kind(BOUNDED, moves.traffic),
    "swaps": Kind(BOUNDED, moves.swaps),
    "quick LRU": Kind(BOUNDED, moves.quick_lru),
    "cleared when full": Kind(BOUNDED, moves.cleared_when_full),
    "hoard": Kind(BOUNDED, moves.hoard),
    "pool that shrinks": Kind(BOUNDED, moves.pool),
    "reclaimed files": Kind(BOUNDED, moves.reclaimed),
    "large answers": Kind(BOUNDED, moves.heavy_tails),
    "sessions": Kind(BOUNDED, moves.sessions),
    "cache by user": Kind(FILLING, fills.user_cache),
    "lru_cache fills": Kind(FILLING, fills.lru_fills),
    "imports": Kind(FILLING, fills.routes),
    "hot and cold weights": Kind(FILLING, fills.weights),
    "compiled code": Kind(FILLING, fills.compiled),
    "holes": Kind(FILLING, fills.fragments),
    "record arenas": Kind(FILLING, fills.arenas),
    "doubling tables": Kind(FILLING, fills.tables),
    "leak": _leak(4, 64, _alike),
    "leak by request": _leak(4, 64, _by_size),
    "leak in 1 of some": _leak(4, 32, _one_in_some),
    "leak by the clock": _leak(4, 64, _per_time),
    "leak in large steps": _leak(8, 64, _alike)._replace(step_kib=(1 * MIB, 8 * MIB)),
    "leak in small steps": _leak(4, 32, _uneven)._replace(step_kib=(128, 1 * MIB)),
    "small leak, jitter": _leak(4, 8, _uneven, _jitter),
    "late leak": _leak(8, 64, _late)._replace(steady=False),
    "leak, ever faster": _leak(4, 16, _ever_more)._replace(steady=False),
    "leak by tenant": _leak(4, 64, _in_bursts),
    "leak, two loads": _leak(4, 64, _alike, _two_loads),
    "leak, small warm-up": _leak(4, 64, _uneven, _small_warm_up),
    "leak beside generations": _beside(8, 64, _alike, moves.generations),
    "leak beside collections": _beside(8, 64, _uneven, moves.full_collections),
    "leak beside Go heap": _beside(8, 64, _by_size, moves.go_heap),
    "leak beside wave": _beside(8, 64, _alike, moves.wave),
    "leak beside two waves": _beside(8, 64, _one_in_some, moves.two_waves),
    "leak beside traffic": _beside(8, 64, _alike, moves.traffic),
    "leak beside swaps": _beside(8, 64, _uneven, moves.swaps),
    "leak beside hoard": _beside(8, 64, _by_size, moves.hoard),
    "leak beside lru_cache": _beside(8, 64, _alike, fills.lru_fills),
    "leak beside weights": _beside(8, 64, _per_time, fills.weights),
    "leak beside answers": _beside(8, 64, _alike, moves.heavy_tails),
    "leak beside sessions": _beside(8, 64, _in_bursts, moves.sessions),
}
