"""Memory that is at its level soon, or comes and goes: curves of `sealed_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import MIB, Floats
from truemem_workbench.testing.drift.parts import amounts, reverting, shares, since_last, size, spread


def nursery(random: Generator, at: Floats) -> Floats:
    """A young space of fixed size that is emptied when it is full, and a walk of what lives on."""
    count, space = len(at), size(random, 4, 60)
    made = (amounts(random, count) * space / spread(random, 3, 70)).cumsum() % space
    lives = (1 + 0.5 * reverting(random, count, spread(random, 5, 80))).clip(0) * space * random.uniform(0.05, 0.4)
    held: Floats = made + lives
    return held


def scavenged(random: Generator, at: Floats) -> Floats:
    """Free pages of a heap, of which a part goes back to the kernel each second, and more when it is idle."""
    count = len(at)
    base = size(random, 6, 70)
    keep = np.exp(-since_last(at) / spread(random, 5_000, 90_000)).tolist()
    needs = (base * random.beta(1.5, random.uniform(3, 9), count)).tolist()
    free, held = 0.0, []
    for need, stay in zip(needs, keep, strict=True):
        free = max(free * stay, need)
        held.append(free)
    return np.array(held)


def cached(random: Generator, at: Floats) -> Floats:
    """Blocks of an accelerator library's cache on the host: emptied when a large request finds no block."""
    count, most = len(at), size(random, 15, 110)
    wanted = (most * random.beta(1.2, 8, count)).tolist()
    held, made = 0.0, []
    for want in wanted:
        if want > 0.35 * most or held > most:
            held = 0.0
        held = max(held, want) + 0.02 * want
        made.append(held)
    return np.array(made)


def leases(random: Generator, at: Floats) -> Floats:
    """Locks and leases that end by themselves after a time; taken more often while a queue is long."""
    count = len(at)
    lives = random.uniform(20, 400) * 1000
    taken = random.poisson(3 * (1 + 0.6 * reverting(random, count, spread(random, 10, 90))).clip(0.05), count)
    total = np.concatenate([[0], taken.cumsum()])
    left = total[np.searchsorted(at, at - lives)]
    usual = max(1.0, float(np.median(total[1:] - left)))
    held: Floats = (total[1:] - left) / usual * size(random, 3, 25)
    return held


def frequent(random: Generator, at: Floats) -> Floats:
    """A small cache by frequency, full after some dozen requests, whose entries differ in size."""
    count, slots = len(at), int(random.integers(8, 48))
    entry = size(random, 8, 80) / slots
    sizes = (entry * random.lognormal(-0.4, 0.9, count)).clip(0, 6 * entry).tolist()
    place = random.integers(slots, size=count)
    place[:slots] = np.arange(slots)[:count]
    new = (random.random(count) < random.uniform(0.1, 0.7)).tolist()
    have, total, held = [0.0] * slots, 0.0, []
    for number, (one, slot, is_new) in enumerate(zip(sizes, place.tolist(), new, strict=True)):
        if is_new or number < slots:
            total += one - have[slot]
            have[slot] = one
        held.append(total)
    return np.array(held)


def uploads(random: Generator, at: Floats) -> Floats:
    """Parts of uploads that are open: each grows part by part, and is gone when it is complete."""
    count, places = len(at), int(random.integers(2, 9))
    each = size(random, 6, 60) / places
    parts = random.integers(5, 60, places).tolist()
    have = [float(random.uniform(0, one)) for one in parts]
    held = []
    for one in random.integers(places, size=count).tolist():
        have[one] += 1
        if have[one] >= parts[one]:
            have[one], parts[one] = 0.0, int(random.integers(5, 60))
        held.append(sum(have) / 30 * each)
    return np.array(held)


def canary(random: Generator, at: Floats) -> Floats:
    """Two versions of a setting that take turns, for some hundred invocations each at most."""
    count = len(at)
    lengths = random.geometric(1 / spread(random, 10, 180), count)
    turns = np.repeat(np.arange(count) % 2, lengths)[:count]
    held: Floats = turns * size(random, 4, 40) + reverting(random, count, 20).clip(-2, 2) * 300 + 700
    return held


def workers(random: Generator, at: Floats) -> Floats:
    """Worker processes that are replaced after a number of requests, each a bit larger by then."""
    count, number = len(at), int(random.integers(2, 8))
    most = random.integers(40, 220, number)
    grows = size(random, 8, 60) / number
    held = np.zeros(count)
    for one in range(number):
        done = (np.arange(count) + random.integers(most[one])) // number * random.uniform(0.9, 1.1) + random.random()
        age = done % most[one] / most[one]
        held += grows * age ** random.uniform(0.3, 1)
    return held


def pages(random: Generator, at: Floats) -> Floats:
    """Page cache of scratch files, written back and dropped by the minute."""
    count = len(at)
    written = random.lognormal(0, 1, count)
    stay = np.exp(-since_last(at) / spread(random, 10_000, 120_000)).tolist()
    value, held = 0.0, []
    for more, kept in zip(written.tolist(), stay, strict=True):
        value = value * kept + more
        held.append(value)
    made = np.array(held)
    most = float(np.quantile(made, 0.95))
    limited: Floats = made.clip(0, 2 * most) / most * size(random, 4, 50)
    return limited


def locales(random: Generator, at: Floats) -> Floats:
    """Data of one language at a time, of very different sizes; which one is wanted follows the sun."""
    count, number = len(at), int(random.integers(3, 9))
    period = spread(random, 300_000, 1_500_000)
    noon = (at / period + 0.08 * reverting(random, count, 6)) % 1
    weights = shares(random, number, size(random, 10, 80) * number / 2)
    held: Floats = weights.clip(0, 120 * MIB)[(noon * number).astype(np.intp) % number]
    return held


def frames(random: Generator, at: Floats) -> Floats:
    """Tables of the last requests, kept until a collector has seen them twice: a sawtooth of random height."""
    count, mean = len(at), size(random, 1, 8)
    every = spread(random, 6, 60)
    runs = random.random(count) < 1 / every
    made = (mean * amounts(random, count).clip(0, 5)).tolist()
    young, old, held = 0.0, 0.0, []
    for more, swept in zip(made, runs.tolist(), strict=True):
        young += more / every * 6
        if swept:
            young, old = 0.0, young
        held.append(young + old)
    return np.array(held).clip(0, 30 * mean)


def fragments(random: Generator, at: Floats) -> Floats:
    """Holes between blocks of mixed lives: they grow for a while, and close when a long-lived block goes."""
    count = len(at)
    walk = np.abs(reverting(random, count, spread(random, 15, 120)))
    held: Floats = walk.clip(0, 3) * size(random, 2, 20) + random.exponential(200, count)
    return held


def deferred(random: Generator, at: Floats) -> Floats:
    """Work that is put off until the next quiet moment: it heaps up while requests come fast."""
    count = len(at)
    most, value, held = size(random, 5, 60), 0.0, []
    quiet = spread(random, 4_000, 15_000)
    needs = (amounts(random, count) * most / spread(random, 15, 120)).tolist()
    for gap, more in zip(since_last(at).tolist(), needs, strict=True):
        value = more if gap > quiet else min(most, value + more)
        held.append(value)
    return np.array(held)
