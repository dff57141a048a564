"""Memory that is at its level soon, or comes and goes: curves of `second_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import MIB, Floats
from truemem_workbench.testing.drift.parts import amounts, reverting, shares, since_last, size, spread


def generations(random: Generator, at: Floats) -> Floats:
    """Objects fill a young space, and what outlives it fills an old one, which is swept at its limit."""
    count = len(at)
    young, scavenge = size(random, 1, 16), spread(random, 1.5, 30)
    limit, cycle = size(random, 6, 70), spread(random, 20, 350)
    new, old, held = 0.0, 0.0, []
    left = (random.beta(2, 12, count) * limit).tolist()
    promoted = (amounts(random, count) * limit * scavenge / cycle).tolist()
    for made, moved, live in zip((amounts(random, count) * young / scavenge).tolist(), promoted, left, strict=True):
        new += made
        if new >= young:
            new = 0.1 * min(made, young)
            old += moved
            if old >= limit:
                old = live
        held.append(new + old)
    return np.array(held)


def committed(random: Generator, at: Floats) -> Floats:
    """A heap whose touched pages stay with the process until it is idle, when some of them are returned."""
    count = len(at)
    limit, idle = size(random), random.uniform(1, 4) * 60_000
    keep = random.uniform(0.2, 0.8, count).tolist()
    made = (amounts(random, count) * limit / spread(random, 5, 120)).tolist()
    tenured = (1 + reverting(random, count, spread(random, 5, 60))).clip(0) * limit * random.uniform(0.01, 0.1)
    touched, held = 0.0, []
    for gap, kept, more in zip(since_last(at).tolist(), keep, made, strict=True):
        if gap > idle:
            touched *= kept
        touched = min(limit, touched + more)
        held.append(touched)
    return np.array(held) + tenured


def paced(random: Generator, at: Floats) -> Floats:
    """A heap that is collected when it has grown by a share of what lived, and returned to the kernel by the second."""
    count = len(at)
    mean, growth = size(random, 3, 25), random.uniform(0.5, 2)
    lives = mean * np.exp(random.uniform(0.05, 0.3) * reverting(random, count, spread(random, 5, 100)).clip(-3, 3))
    made = amounts(random, count) * mean * growth / spread(random, 1.5, 60)
    returned = 1 - np.exp(-since_last(at) / spread(random, 10_000, 600_000))
    garbage, goal, resident, held = 0.0, mean * (1 + growth), 0.0, []
    for live, more, share in zip(lives.tolist(), made.tolist(), returned.tolist(), strict=True):
        garbage += more
        if live + garbage >= goal:
            garbage, goal = min(more, 0.2 * live), live * (1 + growth)
        resident = max(live + garbage, resident - (resident - live - garbage) * share)
        held.append(resident)
    return np.array(held)


def sessions(random: Generator, at: Floats) -> Floats:
    """Sessions that are forgotten some minutes after they began, more of them at times of load."""
    count = len(at)
    life, often = spread(random, 30_000, 900_000), spread(random, 0.2, 5)
    period, depth = spread(random, 300_000, 4_000_000), random.uniform(0.1, 0.9)
    load = 1 + depth * np.sin(2 * np.pi * (at / period + random.random()))
    begun = random.poisson(often * load)
    each = size(random, 4, 60) / max(4, often * life / 3300)
    total = np.append(0, np.cumsum(begun * each * amounts(random, count)))
    held: Floats = total[1:] - total[np.searchsorted(at, at - life, side="right")]
    return held


def waves(random: Generator, at: Floats) -> Floats:
    """Two waves of load with periods of some minutes, that meet and part."""
    first = spread(random, 120_000, 1_200_000)
    second = first * random.uniform(1.3, 4.5)
    high, sharp = size(random), random.uniform(0.7, 3)
    one = (0.5 + 0.5 * np.sin(2 * np.pi * (at / first + random.random()))) ** sharp
    two = (0.5 + 0.5 * np.sin(2 * np.pi * (at / second + random.random()))) ** sharp
    part = random.uniform(0.3, 0.7)
    held: Floats = high * (part * one + (1 - part) * two) * (1 + 0.2 * (amounts(random, len(at)) - 1).clip(-1, 3))
    return held


def hours(random: Generator, at: Floats) -> Floats:
    """A wave of an hour or more, with traffic that wanders about it."""
    wave = 0.5 + 0.5 * np.sin(2 * np.pi * (at / spread(random, 3_000_000, 9_000_000) + random.random()))
    wander = random.uniform(0.05, 0.25) * reverting(random, len(at), spread(random, 3, 60))
    held: Floats = size(random, 8) * (0.3 + wave + wander).clip(0)
    return held


def traffic(random: Generator, at: Floats) -> Floats:
    """Memory of a load that wanders, and returns to its mean."""
    walk = reverting(random, len(at), spread(random, 8, 150)).clip(-3, 3)
    return size(random, 3, 40) * np.exp(random.uniform(0.2, 0.6) * walk)


def buffers(random: Generator, at: Floats) -> Floats:
    """Buffers of powers of two for requests of all sizes, dropped when two collections found them unused."""
    count, cycle = len(at), spread(random, 5, 120)
    each, tail = spread(random, 24, 240), random.uniform(1, 3)
    wanted = np.minimum(random.exponential(tail, count), 7).astype(np.intp).tolist()
    fresh: set[int] = set()
    unused: set[int] = set()
    held = []
    for number, collected in zip(wanted, (random.random(count) < 1 / cycle).tolist(), strict=True):
        if collected:
            fresh, unused = set(), fresh
        fresh.add(number)
        held.append(each * sum(2**one for one in fresh | unused))
    return np.array(held)


def swaps(random: Generator, at: Floats) -> Floats:
    """Models that make room for each other, each wanted for a while."""
    count, models = len(at), int(random.integers(3, 8))
    slots = int(random.integers(1, models))
    dwell = spread(random, 3, 100 / slots)
    sizes = [size(random, 3, 60) / slots**0.5 for _ in range(models)]
    loaded: list[int] = []
    held = np.zeros(count)
    begin = 0
    while begin < count:
        wanted = int(random.integers(models))
        loaded = [one for one in loaded if one != wanted][-(slots - 1) :] if slots > 1 else []
        loaded.append(wanted)
        end = begin + int(random.geometric(1 / dwell))
        held[begin:end] = sum(sizes[one] for one in loaded)
        begin = end
    return held + 256 * amounts(random, count)


def turnover(random: Generator, at: Floats) -> Floats:
    """A cache that is full soon, in which each new entry replaces the oldest."""
    count, chance = len(at), random.uniform(0.1, 1)
    entries = max(4, int(spread(random, 30, 280) * chance))
    missed = np.cumsum(random.random(count) < chance)
    total = np.append(0, np.cumsum(shares(random, count, size(random) * count / entries)))
    held: Floats = total[missed] - total[np.maximum(missed - entries, 0)]
    return held


def cleared(random: Generator, at: Floats) -> Floats:
    """A cache that is emptied when it is full, with some holes that stay until the next time."""
    count, limit = len(at), size(random)
    added = (amounts(random, count) * limit / spread(random, 25, 350)).tolist()
    stays = (random.uniform(0, random.uniform(0.02, 0.35), count) * limit).tolist()
    value, held = float(random.random() * limit * 0.2), []
    for more, hole in zip(added, stays, strict=True):
        value += more
        if value > limit:
            value = hole
        held.append(value)
    return np.array(held)


def trimmed(random: Generator, at: Floats) -> Floats:
    """An allocator that keeps what was freed, and trims its top when that is large and nothing lies above it."""
    count, high = len(at), size(random)
    base = 0.25 * (1 + 0.5 * reverting(random, count, spread(random, 3, 60))).clip(0, 2)
    spikes = np.where(random.random(count) < 1 / spread(random, 4, 60), random.beta(1.5, 2.5, count), 0)
    threshold, pad = random.uniform(0.1, 0.5) * high, random.uniform(128, 1024)
    free = (random.random(count) < spread(random, 0.03, 0.6)).tolist()
    top, held = 0.0, []
    for used, unpinned in zip((high * np.maximum(base, spikes)).tolist(), free, strict=True):
        top = max(top, used)
        if unpinned and top - used > threshold:
            top = used + pad
        held.append(top)
    return np.array(held)


def mapped(random: Generator, at: Floats) -> Floats:
    """Pages of a mapped file, which the kernel takes back now and then."""
    count = len(at)
    faulted = (amounts(random, count) / spread(random, 5, 80)).clip(0, 1).tolist()
    taken = (random.random(count) < 1 / spread(random, 30, 300)).tolist()
    share, held = 0.0, []
    for touch, back, rest in zip(faulted, taken, random.uniform(0.05, 0.7, count).tolist(), strict=True):
        share += (1 - share) * touch
        if back:
            share *= rest
        held.append(share)
    return size(random) * np.array(held)


def threads(random: Generator, at: Floats) -> Floats:
    """Threads for the work at hand, which end when they have been idle for their time."""
    count, most = len(at), int(spread(random, 6, 64))
    wave = 0.4 + 0.25 * reverting(random, count, spread(random, 3, 80)) + 0.1 * random.normal(size=count)
    wanted = np.round(most * wave.clip(0.05, 1)).astype(np.intp).tolist()
    idle = 1 - np.exp(-since_last(at) / spread(random, 15_000, 180_000))
    number, held = 0, []
    for want, share, luck in zip(wanted, idle.tolist(), random.random(count).tolist(), strict=True):
        number = max(want, number - int((number - want) * share + luck)) if number > want else want
        held.append(number)
    return np.array(held) * size(random, 8, 60) / most


def connections(random: Generator, at: Floats) -> Floats:
    """A pool of connections, each with its buffers; the far end closes those that are idle or old."""
    count, most = len(at), int(spread(random, 8, 120))
    opened = random.binomial(most, 1 / spread(random, 3, 50), count).tolist()
    closes, timeout = spread(random, 0.02, 0.15), random.uniform(50, 350) * 1000
    old = random.binomial(1, closes, count) * random.uniform(0.1, 0.8, count)
    number, held = 0, []
    for gap, more, share in zip(since_last(at).tolist(), opened, old.tolist(), strict=True):
        kept = 0 if gap > timeout else number - int(number * share)
        number = min(most, kept + more)
        held.append(number)
    return np.array(held) * size(random, 6, 60) / most + random.uniform(0, 300) * amounts(random, count)


def tails(random: Generator, at: Floats) -> Floats:
    """Requests of a heavy tail, whose memory is returned bit by bit."""
    count, most = len(at), size(random, 20)
    big = random.random(count) < 1 / spread(random, 3, 60)
    jumps = np.where(big, (random.pareto(random.uniform(1.1, 2), count) + 1) * random.uniform(1, 4) * MIB, 0)
    keep = 1 - 1 / spread(random, 1.5, 30)
    value, held = 0.0, []
    for jump in jumps.tolist():
        value = min(most, value * keep + jump)
        held.append(value)
    return np.array(held)
