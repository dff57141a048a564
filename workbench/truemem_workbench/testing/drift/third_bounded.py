"""Memory that is at its level soon, or comes and goes: curves of `third_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import MIB, Floats
from truemem_workbench.testing.drift.parts import amounts, reverting, shares, since_last, size, spread


def decayed(random: Generator, at: Floats) -> Floats:
    """Arenas, one for each worker, whose freed pages go back to the kernel by the second."""
    count, arenas = len(at), int(random.integers(2, 9))
    high, sigma = size(random, 10, 70) / arenas, random.uniform(0.4, 1.1)
    stays = np.exp(-since_last(at) / spread(random, 3_000, 120_000)).tolist()
    needs = (high * random.lognormal(-1, sigma, count)).clip(0, 3 * high).tolist()
    dirty, held = [0.0] * arenas, []
    for arena, need, stay in zip(random.integers(arenas, size=count).tolist(), needs, stays, strict=True):
        dirty = [one * stay for one in dirty]
        dirty[arena] = max(dirty[arena], need)
        held.append(sum(dirty))
    return np.array(held)


def queue(random: Generator, at: Floats) -> Floats:
    """Tasks that wait for a slower service: they come in groups, and are worked off one after the other."""
    count, each = len(at), spread(random, 100, 900)
    load = random.uniform(0.4, 0.75)
    group = spread(random, 3, 25)
    come = np.where(random.random(count) < load / group, random.geometric(1 / group, count), 0)
    waiting, held = 0, []
    for more in come.tolist():
        waiting = max(0, min(waiting + more - 1, 250))
        held.append(waiting)
    return np.array(held) * each


def expiring(random: Generator, at: Floats) -> Floats:
    """A cache by key, each entry with its own time to live, renewed by each use."""
    count, keys = len(at), int(spread(random, 50, 1500))
    popular = np.arange(1, keys + 1) ** -random.uniform(0.5, 1.2)
    wanted = random.choice(keys, count, p=popular / popular.sum())
    life = spread(random, 20_000, 900_000)
    sizes = shares(random, keys, size(random, 8, 110))
    change = np.zeros(count + 1)
    for key in range(keys):
        used = np.flatnonzero(wanted == key)
        if len(used):
            ends = np.searchsorted(at, at[used] + life, side="right")
            begins = used[np.append(True, used[1:] >= ends[:-1])]
            stops = ends[np.append(used[1:] >= ends[:-1], True)]
            np.add.at(change, begins, sizes[key])
            np.add.at(change, stops, -sizes[key])
    held: Floats = change.cumsum()[:count].clip(0)
    return held


def batches(random: Generator, at: Floats) -> Floats:
    """A buffer of records that is sent when it is large or old."""
    count, most, age = len(at), size(random, 2, 50), spread(random, 60_000, 900_000)
    made = (amounts(random, count) * most / spread(random, 10, 300)).tolist()
    buffer, begun, held = 0.0, 0.0, []
    for time, more in zip(at.tolist(), made, strict=True):
        if buffer + more > most or time - begun > age:
            buffer, begun = 0.0, time
        buffer = min(most, buffer + more)
        held.append(buffer)
    return np.array(held)


def outages(random: Generator, at: Floats) -> Floats:
    """What waits for a retry while another service is away; it is given up after some attempts."""
    count = len(at)
    away, well = spread(random, 5, 60), spread(random, 10, 120)
    each, most = spread(random, 50, 1500), int(spread(random, 20, 150))
    down, waiting, held = False, 0, []
    for luck, drained in zip(random.random(count).tolist(), random.integers(1, 12, count).tolist(), strict=True):
        down = luck > 1 / away if down else luck < 1 / well
        waiting = min(most, waiting + 1) if down else max(0, waiting - drained)
        held.append(waiting)
    return np.array(held) * each


def largest(random: Generator, at: Floats) -> Floats:
    """An allocator that keeps the most of the last requests, until its pool is dropped."""
    count, high = len(at), size(random, 6, 90)
    needs = (random.beta(1.2, random.uniform(3, 9), count) * high).tolist()
    drops = (random.random(count) < 1 / spread(random, 8, 150)).tolist()
    kept, held = 0.0, []
    for need, dropped in zip(needs, drops, strict=True):
        kept = need if dropped else max(kept, need)
        held.append(kept)
    return np.array(held)


def tenants(random: Generator, at: Floats) -> Floats:
    """Data of the last few tenants; a tenant's calls come in a row."""
    count, slots, tenants_ = len(at), int(random.integers(1, 7)), int(random.integers(8, 60))
    data = random.lognormal(0, random.uniform(0.3, 1), tenants_) * size(random, 3, 30) / slots**0.5
    dwell = spread(random, 2, 60 / slots**0.5)
    kept: list[int] = []
    held: list[float] = []
    while len(held) < count:
        tenant = int(random.integers(tenants_))
        kept = [*(one for one in kept if one != tenant), tenant][-slots:]
        held += [float(data[kept].sum())] * int(random.geometric(1 / dwell))
    return np.array(held[:count])


def regimes(random: Generator, at: Floats) -> Floats:
    """A few kinds of traffic that take turns, each with its own level."""
    count, levels = len(at), random.uniform(0.05, 1, int(random.integers(2, 6))) * size(random, 6, 80)
    stay = spread(random, 10, 180)
    changes = np.cumsum(random.random(count) < 1 / stay)
    order = random.integers(len(levels), size=int(changes[-1]) + 1)
    slow = spread(random, 1, 12)
    value, held = 0.0, []
    for level in levels[order[changes]].tolist():
        value += (level - value) / slow
        held.append(value)
    return np.array(held)


def cycles(random: Generator, at: Floats) -> Floats:
    """Objects in reference cycles, freed when a collector of three generations gets to them."""
    count, high = len(at), size(random, 16, 120)
    every = [spread(random, 2, 12)]
    every += [every[0] * random.uniform(3, 8)]
    every += [every[1] * random.uniform(3, 8)]
    lives = [0.6, 0.25, 0.0]
    made = (amounts(random, count) * high / every[2]).tolist()
    young, since, held = [0.0, 0.0, 0.0], [0, 0, 0], []
    for more, luck in zip(made, random.uniform(0.85, 1.15, count).tolist(), strict=True):
        young[0] += more
        for one in range(3):
            since[one] += 1
            if since[one] > every[one] * luck:
                if one < 2:
                    young[one + 1] += young[one] * lives[one]
                young[one], since[one] = 0.0, 0
        held.append(sum(young))
    return np.array(held)


def ring(random: Generator, at: Floats) -> Floats:
    """The last so many answers, of very different sizes."""
    count, last = len(at), int(spread(random, 12, 200))
    total = np.append(0, np.cumsum(shares(random, count, size(random, 4, 40) * count / last)))
    number = np.arange(1, count + 1)
    held: Floats = total[number] - total[np.maximum(number - last, 0)]
    return held


def compacted(random: Generator, at: Floats) -> Floats:
    """A store in memory that is written at one end, and compacted when too much of it is dead."""
    count, live = len(at), size(random, 2, 25)
    ratio, dead, held = random.uniform(0.3, 2), 0.0, []
    written = (amounts(random, count) * live * ratio / spread(random, 15, 300)).tolist()
    sizes = live * (1 + random.uniform(0.02, 0.3) * reverting(random, count, spread(random, 5, 80))).clip(0.2)
    for more, now in zip(written, sizes.tolist(), strict=True):
        dead = 0.0 if dead > ratio * now else dead + more
        held.append(now + dead)
    return np.array(held)


def resident(random: Generator, at: Floats) -> Floats:
    """Mapped files of some parts: those that were not read for a while are taken back by the kernel."""
    count, parts = len(at), int(random.integers(4, 40))
    sizes = shares(random, parts, size(random, 8, 100))
    often = random.dirichlet(np.full(parts, 0.8))
    wanted = random.choice(parts, count, p=often)
    idle = int(spread(random, 10, 150))
    read = np.zeros((parts, count))
    read[wanted, np.arange(count)] = 1
    sums = np.append(np.zeros((parts, 1)), read.cumsum(axis=1), axis=1)
    number = np.arange(1, count + 1)
    lately = sums[:, number] - sums[:, np.maximum(number - idle, 0)] > 0
    held: Floats = sizes @ lately
    return held


def flushed(random: Generator, at: Floats) -> Floats:
    """Compiled code in a space of fixed size: when it is full, half of it or all of it goes."""
    count, space = len(at), size(random, 3, 60)
    made = (amounts(random, count) * space / spread(random, 30, 300)).tolist()
    keeps = (random.random(count) < random.random()).tolist()
    code, held = space * float(random.random()), []
    for more, half in zip(made, keeps, strict=True):
        code += more
        if code > space:
            code = space / 2 if half else 0.0
        held.append(code)
    return np.array(held)


def shifts(random: Generator, at: Floats) -> Floats:
    """Work that follows the hour, with a rush now and then."""
    period = spread(random, 400_000, 3_000_000)
    phase = (at / period + random.random()) % 1
    begin, length = random.random(), random.uniform(0.15, 0.6)
    busy = ((phase - begin) % 1 < length).astype(float)
    rush = random.random(len(at)) < 1 / spread(random, 10, 100)
    noise = 0.1 * reverting(random, len(at), spread(random, 2, 30))
    held: Floats = size(random, 4, 60) * (0.2 + 0.6 * busy + 0.5 * rush * random.random(len(at)) + noise).clip(0)
    return held


def blocks(random: Generator, at: Floats) -> Floats:
    """Large blocks that live for a few invocations each, some of them for many."""
    count = len(at)
    often = spread(random, 0.05, 0.8)
    lives = random.lognormal(np.log(spread(random, 2, 30)), random.uniform(0.3, 1), count).clip(1, 250).astype(np.intp)
    sizes = np.where(random.random(count) < often, random.gamma(1.5, size(random, 0.5, 5), count), 0).clip(0, 12 * MIB)
    change = np.zeros(count + 1)
    np.add.at(change, np.arange(count), sizes)
    np.add.at(change, np.minimum(np.arange(count) + lives, count), -sizes)
    scale = min(1.0, 150 * MIB / max(1.0, float(change.cumsum().max())))
    held: Floats = scale * change.cumsum()[:count].clip(0)
    return held
