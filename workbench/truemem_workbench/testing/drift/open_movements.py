"""Memory that comes and goes for ever, for `open_kinds`: no life of it, however long, has a trend."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .corpus import MIB, Floats

Integers = NDArray[np.int64]


def between(random: Generator, least: float, most: float) -> float:
    """Log-uniformly."""
    return float(np.exp(random.uniform(np.log(least), np.log(most))))


def zipf(random: Generator, keys: int, exponent: float, size: int) -> Integers:
    weights = np.arange(1, keys + 1, dtype=float) ** -exponent
    return random.choice(keys, size, p=weights / weights.sum())


def drifting(random: Generator, count: int, length: float) -> Floats:
    """A level of mean 0 and variance 1 that forgets itself within about so many invocations."""
    memory = float(np.exp(-1 / length))
    level, made = float(random.normal()), np.empty(count)
    for number, fresh in enumerate(random.normal(0, np.sqrt(1 - memory**2), count).tolist()):
        level = memory * level + fresh
        made[number] = level
    return made


def cycles(random: Generator, count: int, length: float, spread: float) -> tuple[Integers, Floats]:
    """The number of the cycle at each invocation, and the share of it that has passed. A life begins within one."""
    lengths = np.maximum(length * random.lognormal(0, spread, 8 + int(4 * count / length)), 2)
    ends = np.cumsum(lengths) - random.random() * lengths[0]
    number = np.searchsorted(ends, np.arange(count), "right")
    return number, 1 - (ends[number] - np.arange(count)) / lengths[number]


def generations(random: Generator, at: Floats) -> Floats:
    """Garbage of three generations, each emptied into the next when it is full, and the last one out of memory."""
    each, kept = between(random, 0.1, 0.3) * MIB, random.uniform(0.2, 0.4)
    nursery, old_room = each * random.uniform(2, 15), each * kept**2 * between(random, 100, 1500)
    young = middle = 0.0
    old, collections = random.random() * old_room, 0
    made = np.empty(len(at))
    for number, new in enumerate((each * random.lognormal(0, 0.5, len(at))).tolist()):
        young += new
        if young > nursery:
            middle, young, collections = middle + young * kept, 0.0, collections + 1
            if collections % 5 == 0:
                old, middle = old + middle * kept, 0.0
        if old > old_room:
            old = 0.0
        made[number] = young + middle + old
    return made


def full_collections(random: Generator, at: Floats) -> Floats:
    """A JVM's heap: small teeth upon an old generation that rises until a full collection some hundred invocations
    later."""
    full, risen = cycles(random, len(at), between(random, 200, 1500), random.uniform(0.02, 0.4))
    _, young = cycles(random, len(at), between(random, 4, 40), 0.3)
    height = between(random, 4, 80) * MIB
    floors = random.uniform(0, 0.15, full[-1] + 1)
    tooth: Floats = height * (floors[full] + (1 - floors[full]) * risen) + height * random.uniform(0.05, 0.5) * young
    return tooth


def go_heap(random: Generator, at: Floats) -> Floats:
    """A heap collected at twice what lives, whose free pages go back to the kernel bit by bit."""
    size = between(random, 2, 20) * MIB
    live = size * np.clip(1 + 0.3 * drifting(random, len(at), between(random, 5, 200)), 0.2, 2)
    new = size / between(random, 2, 300) * random.lognormal(0, 0.5, len(at))
    back = 1 / between(random, 2, 60)
    heap = resident = float(live[0])
    made = np.empty(len(at))
    for number, (lives, fresh) in enumerate(zip(live.tolist(), new.tolist(), strict=True)):
        heap = lives if heap + fresh > 2 * lives else heap + fresh
        resident = max(heap, resident - (resident - heap) * back)
        made[number] = resident
    return made


def _swing(phase: Floats, sharpness: float) -> Floats:
    """From 0 to 1 and back, once in each 1 of `phase`; sharp ones have short peaks."""
    made: Floats = ((1 + np.sin(2 * np.pi * phase)) / 2) ** sharpness
    return made


def wave(random: Generator, at: Floats) -> Floats:
    """A load with a period of 50 to 3000 invocations."""
    phase = np.arange(len(at)) / between(random, 50, 3000) + random.random()
    unrest = random.lognormal(0, random.uniform(0.01, 0.2), len(at))
    return between(random, 2, 60) * MIB * _swing(phase, between(random, 0.5, 3)) * unrest


def two_waves(random: Generator, at: Floats) -> Floats:
    """One load by the count of invocations and another by the clock, which interfere."""
    period = between(random, 50, 1500)
    first = np.arange(len(at)) / period + random.random()
    second = at / (period * 6500 * random.uniform(0.3, 1.7)) + random.random()
    size = between(random, 2, 40) * MIB
    return size * _swing(first, 1) + size * random.uniform(0.3, 1) * _swing(second, between(random, 0.7, 2))


def traffic(random: Generator, at: Floats) -> Floats:
    """What is held follows a load that drifts up and down at random and always comes back."""
    level = drifting(random, len(at), between(random, 10, 300))
    return between(random, 0.5, 10) * MIB * np.maximum(level + 3, 0)


def swaps(random: Generator, at: Floats) -> Floats:
    """One of two to six models at a time, each for some while."""
    models = int(random.integers(2, 7))
    stay = np.cumsum(random.random(len(at)) < 1 / between(random, 10, 400))
    step = random.integers(1, models, stay[-1] + 1)
    which = (np.cumsum(step) + random.integers(models)) % models
    sizes = random.uniform(2, 80, models) * MIB
    held: Floats = sizes[which[stay]]
    return held


def quick_lru(random: Generator, at: Floats) -> Floats:
    """A cache with room for so many items, full after some dozen invocations; the least recently used one goes."""
    room, each = int(random.integers(20, 200)), int(random.integers(2, 6))
    keys = room * int(random.integers(5, 30))
    sizes = random.lognormal(np.log(between(random, 8, 200)), random.uniform(0.5, 1.2), keys).tolist()
    cached: dict[int, None] = {}
    held, made = 0.0, np.empty(len(at))
    for number, chosen in enumerate(
        zipf(random, keys, random.uniform(0.3, 1), each * len(at)).reshape(-1, each).tolist()
    ):
        for key in chosen:
            if key in cached:
                del cached[key]
            else:
                held += sizes[key]
            cached[key] = None
            if len(cached) > room:
                gone = next(iter(cached))
                del cached[gone]
                held -= sizes[gone]
        made[number] = max(held, 0)
    return made


def cleared_when_full(random: Generator, at: Floats) -> Floats:
    """A cache that grows with each miss and is thrown away when full, every 200 to 2000 invocations."""
    length = between(random, 200, 2000)
    total = np.cumsum(random.gamma(between(random, 0.1, 3), 1, len(at)))
    room = length * float(total[-1]) / len(total)
    share: Floats = (total + random.random() * room) % room / room
    return between(random, 4, 80) * MIB * share


def hoard(random: Generator, at: Floats) -> Floats:
    """An allocator that keeps what the largest requests needed, and trims it by and by."""
    decay, most = float(np.exp(-1 / between(random, 10, 200))), between(random, 5, 60) * MIB
    need = np.minimum(random.lognormal(np.log(most / 20), random.uniform(0.7, 1.3), len(at)), most)
    held, made = 0.0, np.empty(len(at))
    for number, needed in enumerate(need.tolist()):
        held = max(needed, held * decay)
        made[number] = held
    return made


def pool(random: Generator, at: Floats) -> Floats:
    """Workers, opened when they are needed and closed when idle for long."""
    load = between(random, 2, 10) * np.exp(0.4 * drifting(random, len(at), between(random, 5, 100)))
    wanted = np.minimum(1 + random.poisson(load), 40)
    idle = int(random.integers(5, 150))
    before = np.concatenate([np.ones(idle - 1, dtype=int), wanted])
    opened: Floats = np.lib.stride_tricks.sliding_window_view(before, idle).max(axis=1) * between(random, 60, 1500)
    return opened


def reclaimed(random: Generator, at: Floats) -> Floats:
    """Mapped files, some pages of which the kernel takes away, and which come back as they are used."""
    whole, slowness = between(random, 8, 100) * MIB, between(random, 5, 80)
    taken = random.random(len(at)) < 1 / between(random, 50, 600)
    left = np.where(taken, random.uniform(0.1, 0.95, len(at)), 1)
    held, made = whole * random.random(), np.empty(len(at))
    for number, share in enumerate(left.tolist()):
        held = (held + (whole - held) / slowness) * share
        made[number] = held
    return made


def heavy_tails(random: Generator, at: Floats) -> Floats:
    """Answers of very unequal sizes, each of which waits for some invocations until it is sent."""
    tail, lasting = random.uniform(1.1, 2), int(random.integers(1, 12))
    sizes = np.minimum(random.pareto(tail, len(at)) * between(random, 64, 1024), random.uniform(10, 60) * MIB)
    return np.convolve(sizes, np.ones(lasting))[: len(at)]


def sessions(random: Generator, at: Floats) -> Floats:
    """Sessions that come at random, and end some dozen invocations later."""
    begun = np.repeat(np.arange(len(at)), random.poisson(between(random, 0.05, 0.5), len(at)))
    lasting = random.lognormal(np.log(between(random, 10, 80)), 0.8, len(begun)).astype(int)
    sizes = random.lognormal(np.log(between(random, 100, 1500)), 0.8, len(begun))
    ended = begun + np.clip(lasting, 1, 300)
    change = np.bincount(begun, sizes, len(at) + 301) - np.bincount(ended, sizes, len(at) + 301)
    return np.maximum(np.cumsum(change)[: len(at)], 0)
