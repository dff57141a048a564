"""More held-out kinds: written before the second verdict was tried on any of them."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from .held_out_kinds import BOUNDED, WARMING, Kind, by_size, first_uses, leak, slowly, with_each, zipf
from .synthetic import MIB, Floats


def _lru(random: Generator, at: Floats) -> Floats:
    """A cache with Zipf keys and this much room. The least recently used item is dropped."""
    keys, each = int(random.integers(500, 5000)), int(random.integers(2, 8))
    room = int(random.integers(40, 300))
    sizes = random.lognormal(np.log(16), 0.6, keys)
    cached: dict[int, float] = {}
    made = np.empty(len(at))
    for number, chosen in enumerate(zipf(random, keys, random.uniform(0.8, 1.3), each * len(at)).reshape(-1, each)):
        for key in chosen.tolist():
            cached.pop(key, None)
            cached[key] = float(sizes[key])
            if len(cached) > room:
                del cached[next(iter(cached))]
        made[number] = sum(cached.values())
    return made


def _some_models(random: Generator, at: Floats) -> Floats:
    """Room for three of eight models. The least recently used one is dropped."""
    sizes = random.uniform(5, 60, 8) * MIB
    cached: list[int] = []
    made = np.empty(len(at))
    for number, model in enumerate(zipf(random, 8, random.uniform(0.8, 2), len(at)).tolist()):
        cached = [*(other for other in cached if other != model), model][-3:]
        made[number] = sizes[cached].sum()
    return made


def _first_loads(random: Generator, at: Floats) -> Floats:
    """One model for each of a few tenants, loaded with its first request; they all stay."""
    models = int(random.integers(4, 10))
    return first_uses(zipf(random, models, 1.5, len(at)), random.uniform(5, 60, models) * MIB, len(at))


def _pooled_arenas(random: Generator, at: Floats) -> Floats:
    """A pool that starts a thread when none is idle; each has an arena, as large as the largest request it had."""
    most, size = int(random.integers(8, 33)), random.uniform(200, 1500)
    arenas = np.zeros(most)
    threads, made = 1, np.empty(len(at))
    for number in range(len(at)):
        busy = min(int(random.geometric(0.4)), most)
        threads = max(threads, busy)
        for thread in random.choice(threads, busy, replace=False).tolist():
            arenas[thread] = max(arenas[thread], size * random.lognormal(0, 0.5))
        made[number] = arenas.sum()
    return made


def _long_wave(random: Generator, at: Floats) -> Floats:
    """A day's load, of which a life may see a part."""
    return _wave(random, len(at), random.uniform(400, 1500), random.uniform(2, 10))


def _short_wave(random: Generator, at: Floats) -> Floats:
    return _wave(random, len(at), random.uniform(60, 250), random.uniform(2, 10))


def _wave(random: Generator, count: int, period: float, most_mib: float) -> Floats:
    made: Floats = 1 + np.sin(2 * np.pi * (np.arange(count) / period + random.random()))
    return made * most_mib / 2 * MIB


def _seldom_collected(random: Generator, at: Floats) -> Floats:
    """A collector that waits until its heap is full."""
    length, most = int(random.integers(120, 400)), random.uniform(4, 40) * MIB
    made: Floats = (np.arange(len(at)) + random.integers(length)) % length / length * most
    return made


def _jitter(random: Generator, at: Floats) -> Floats:
    """Requests of very different sizes, whose answers wait to be sent."""
    memory, size = random.uniform(0, 0.9), random.uniform(128, 1024)
    level, made = 0.0, np.empty(len(at))
    for number, fresh in enumerate(random.normal(0, size * np.sqrt(1 - memory**2), len(at))):
        level = memory * level + fresh
        made[number] = level
    return made + 6 * size


def _swapped(random: Generator, at: Floats) -> Floats:
    """A second model comes for some while, and goes."""
    here, length = np.arange(len(at)) // int(random.integers(20, 60)) % 2, random.uniform(15, 60)
    return here * length * MIB


def _three_loads(random: Generator, at: Floats) -> Floats:
    loads = np.zeros(max(220, len(at)))
    loads[random.integers(20, 220, 3)] = random.uniform(5, 40, 3) * MIB
    return np.cumsum(loads)[: len(at)]


def _children(random: Generator, at: Floats) -> Floats:
    """One process of thirty does not end."""
    return np.cumsum(np.where(random.random(len(at)) < 1 / 30, 30.0, 0.0))


def _warm(random: Generator, at: Floats) -> Floats:
    """Imports and a small cache: full after some invocations."""
    return slowly(random, at, random.uniform(5, 30), 31) if random.random() < 0.5 else np.minimum(at - at[0], 20_000)


AGAIN = {
    "LRU, Zipf keys": Kind(WARMING, _lru),
    "a model each": Kind(WARMING, _first_loads),
    "pool with arenas": Kind(WARMING, _pooled_arenas),
    "3 of 8 models": Kind(BOUNDED, _some_models),
    "load over the window": Kind(BOUNDED, _long_wave),
    "seldom collected": Kind(BOUNDED, _seldom_collected),
    "jitter": Kind(BOUNDED, _jitter),
    "killed by spikes": Kind(BOUNDED, _warm, room_mib=(60, 400), killed=1 / 30),
    "leak and swaps": leak(32, 128, with_each, _swapped),
    "leak and three loads": leak(4, 16, with_each, _three_loads),
    "leak below a load": leak(16, 64, with_each, _short_wave),
    "leak and jitter": leak(8, 32, with_each, _jitter),
    "leak of processes": leak(32, 128, _children),
    "leak of 1 MiB, killed": leak(512, 2048, with_each)._replace(room_mib=(60, 400)),
    "leak, killed early": leak(2048, 8192, by_size)._replace(room_mib=(40, 100)),
}
