"""Held-out kinds of curves, written before the first verdict's results on them were known."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .synthetic import MIB, Floats

Integers = NDArray[np.int64]
Curve = Callable[[Generator, Floats], Floats]
"""Memory beside the base in KiB, at invocations that begin at these times in ms."""
LEAK, WARMING, BOUNDED = "leak", "warming", "bounded"


class Kind(NamedTuple):
    """A way for memory to behave."""

    truth: str
    """The truth. Only a leak may be called growing."""
    curve: Curve
    kib: tuple[float, float] | None = None
    """Range of a leak's mean growth per invocation."""
    beside: bool = False
    """True if other memory beside the leak moves by more."""
    room_mib: tuple[float, float] | None = None
    """Range of the room between the first level and the memory limit, at which it is killed and starts again."""
    killed: float = 0
    """Share of invocations that a spike kills at any level."""


def zipf(random: Generator, keys: int, exponent: float, size: int) -> Integers:
    weights = np.arange(1, keys + 1, dtype=float) ** -exponent
    return random.choice(keys, size, p=weights / weights.sum())


def first_uses(chosen: Integers, sizes: Floats, count: int) -> Floats:
    """Each key takes its size when it first comes. Each invocation draws the same number of keys."""
    keys, first = np.unique(chosen, return_index=True)
    new = np.bincount(first * count // len(chosen), sizes[keys], count)
    return np.cumsum(new)


def _zipf_cache(random: Generator, at: Floats) -> Floats:
    """A dictionary by user: the frequent ones soon have come, the rare ones go on coming."""
    keys, each = int(random.integers(500, 5000)), int(random.integers(2, 8))
    chosen = zipf(random, keys, random.uniform(1, 1.3), each * len(at))
    return first_uses(chosen, random.lognormal(np.log(8), 0.6, keys), len(at))


def _routes(random: Generator, at: Floats) -> Floats:
    """Modules that a route imports when it is first used."""
    routes = int(random.integers(8, 40))
    return first_uses(zipf(random, routes, 1, len(at)), random.lognormal(np.log(1200), 0.8, routes), len(at))


def _ttl(random: Generator, at: Floats) -> Floats:
    """Items that live for so long, under a day's load: as many as came within that time."""
    count = len(at)
    day = random.uniform(60, 200)
    rate = 3 * (1 + 0.8 * np.sin(2 * np.pi * (np.arange(count) / day + random.random())))
    arrived = random.poisson(rate) * random.uniform(4, 32)
    return np.convolve(arrived, np.ones(random.integers(20, 60)))[:count]


def _pool(random: Generator, at: Floats) -> Floats:
    """Connections: one more whenever more are needed at once than ever before, up to a bound."""
    wanted = random.geometric(1 / random.uniform(2, 6), len(at))
    opened = np.minimum(np.maximum.accumulate(wanted), random.integers(8, 33))
    return opened * random.uniform(60, 400)


def _log_buffer(random: Generator, at: Floats) -> Floats:
    """Records wait until there are so many of them, and are sent."""
    number = np.arange(len(at))
    batch = int(random.integers(20, 100))
    total = np.cumsum(random.lognormal(np.log(random.uniform(4, 40)), 0.8, len(at)))
    sent = number // batch * batch
    return total - total[sent]


def _jit(random: Generator, at: Floats) -> Floats:
    """Compiled code is added bit by bit. A wrong guess removes a part of it."""
    code, made = 0.0, np.empty(len(at))
    room, slowness = random.uniform(5, 40) * MIB, random.uniform(20, 60)
    for number in range(len(at)):
        code += (room - code) / slowness
        if random.random() < 0.01:
            code *= random.uniform(0.6, 0.95)
        made[number] = code
    return made


def slowly(random: Generator, at: Floats, most_mib: float, slowest: float) -> Floats:
    """Fills up, by ever less."""
    missing: Floats = np.exp(-np.arange(len(at)) / random.uniform(30, slowest))
    return most_mib * MIB * (1 - missing)


def _weights(random: Generator, at: Floats) -> Floats:
    """A mapped model, whose pages become resident when a request first touches them."""
    return slowly(random, at, random.uniform(20, 150), 150)


def _huge_pages(random: Generator, at: Floats) -> Floats:
    """A heap that fills up, by 2 MiB at a time."""
    return _whole(slowly(random, at, random.uniform(12, 40), 120), 2 * MIB)


def _whole(held: Floats, step_kib: float) -> Floats:
    made: Floats = np.ceil(held / step_kib) * step_kib
    return made


def _fragments(random: Generator, at: Floats) -> Floats:
    """Holes between blocks of many sizes: in lumps, until the next block finds a hole that fits."""
    steps = np.diff(slowly(random, at, random.uniform(4, 30), 150), prepend=0)
    return np.cumsum(steps * random.gamma(0.2, 5, len(at)))


def _two_models(random: Generator, at: Floats) -> Floats:
    """One or the other, as requests come, for some while each."""
    switched = random.random(len(at)) < 1 / random.uniform(10, 40)
    return np.where(np.cumsum(switched) % 2, random.uniform(20, 200), random.uniform(20, 200)) * MIB


def _trims(random: Generator, at: Floats) -> Floats:
    """An allocator that keeps what is freed, and gives it back now and then."""
    return _teeth(random, len(at), random.uniform(20, 200), random.uniform(25, 60), 0.05)


def _collected(random: Generator, at: Floats) -> Floats:
    """Garbage of a frequent collector."""
    return _teeth(random, len(at), random.uniform(200, 600), random.uniform(15, 40), 0.1)


def _teeth(random: Generator, count: int, kib: float, length: float, left: float) -> Floats:
    held, made = 0.0, np.empty(count)
    for number in range(count):
        held += random.lognormal(np.log(kib), 0.8)
        if random.random() < 1 / length:
            held *= random.uniform(0, left)
        made[number] = held
    return made


def _generations(random: Generator, at: Floats) -> Floats:
    """A nursery, emptied often; what survives gets old, and is collected when the heap is twice what lives."""
    count = len(at)
    alive = random.uniform(4, 20) * MIB * -np.expm1(-np.arange(count) / random.uniform(10, 60))
    nursery, promoted = random.uniform(2, 16) * MIB, random.uniform(0.1, 0.3)
    each = random.uniform(0.2, 1.2) * MIB
    young = old = 0.0
    made = np.empty(count)
    for number in range(count):
        young += each * random.lognormal(0, 0.3)
        if young > nursery:
            old += young * promoted
            young = 0
        if old > alive[number] + 4 * MIB:
            old = 0
        made[number] = alive[number] + young + old
    return made


def _traffic(random: Generator, at: Floats) -> Floats:
    """What is held follows a load that drifts up and down, without a period, and always comes back."""
    memory = float(np.exp(-1 / random.uniform(15, 50)))
    level, size = 0.0, random.uniform(1, 8) * MIB
    made = np.empty(len(at))
    for number, fresh in enumerate(random.normal(0, size * np.sqrt(1 - memory**2), len(at))):
        level = memory * level + fresh
        made[number] = level
    return made + 4 * size


def _reclaimed(random: Generator, at: Floats) -> Floats:
    """The kernel takes mapped pages of files away, and they come back as they are used."""
    whole, slowness = random.uniform(10, 60) * MIB, random.uniform(15, 60)
    held, made = whole, np.empty(len(at))
    for number in range(len(at)):
        held += (whole - held) / slowness
        if random.random() < 0.008:
            held *= random.uniform(0.4, 0.9)
        made[number] = held
    return made


def _heavy(random: Generator, at: Floats) -> Floats:
    """Leaks whose size has nearly infinite variance."""
    return np.clip(random.standard_t(1.5, len(at)) * random.uniform(50, 300), -10 * MIB, 20 * MIB) + 10 * MIB


def _one_in_twenty(random: Generator, at: Floats) -> Floats:
    """One path of many leaks."""
    return np.cumsum(np.where(random.random(len(at)) < 0.05, random.lognormal(0, 0.5, len(at)) * 17.6, 0))


def with_each(random: Generator, at: Floats) -> Floats:
    """A leak, the same for each."""
    return np.arange(len(at), dtype=float)


def by_size(random: Generator, at: Floats) -> Floats:
    """As large as the request was: most are small."""
    return np.cumsum(random.lognormal(-(1.5**2) / 2, 1.5, len(at)))


def _late(random: Generator, at: Floats) -> Floats:
    """A path that is new after 150 invocations."""
    return np.cumsum(np.arange(len(at)) > 150, dtype=float)


def _per_minute(random: Generator, at: Floats) -> Floats:
    """A timer leaks, not a request; it stands still with the environment, and catches up for at most a minute."""
    return np.cumsum(np.minimum(np.diff(at, prepend=0), 60_000)) / 2000


def _in_bursts(random: Generator, at: Floats) -> Floats:
    """One tenant's requests leak: those come together."""
    here, made = False, np.empty(len(at))
    for number in range(len(at)):
        here ^= random.random() < (1 / 30 if here else 1 / 90)
        made[number] = 4.0 if here else 0.0
    return np.cumsum(made)


def _ever_more(random: Generator, at: Floats) -> Floats:
    """One more log handler in each invocation, each of which keeps every line."""
    return np.arange(len(at)) ** 2 / (2 * 150.0)


def leak(least: float, most: float, curve: Curve, beside: Curve | None = None, step_kib: float = 0) -> Kind:
    """`curve` is that of 1 KiB per invocation."""

    def made(random: Generator, at: Floats) -> Floats:
        kept = curve(random, at) * random.uniform(least, most)
        if step_kib:
            kept = _whole(kept + random.random() * step_kib, step_kib)
        return kept + beside(random, at) if beside else kept

    return Kind(LEAK, made, (least, most), beside is not None)


KINDS = {
    "TTL and daily waves": Kind(BOUNDED, _ttl),
    "pool to a bound": Kind(BOUNDED, _pool),
    "log buffer": Kind(BOUNDED, _log_buffer),
    "JIT with deopts": Kind(BOUNDED, _jit),
    "two models": Kind(BOUNDED, _two_models),
    "allocator trims": Kind(BOUNDED, _trims),
    "generations": Kind(BOUNDED, _generations),
    "traffic drifts": Kind(BOUNDED, _traffic),
    "reclaimed by the kernel": Kind(BOUNDED, _reclaimed),
    "heavy tails": Kind(BOUNDED, _heavy),
    "cache, Zipf keys": Kind(WARMING, _zipf_cache),
    "imports by route": Kind(WARMING, _routes),
    "mapped weights": Kind(WARMING, _weights),
    "huge pages": Kind(WARMING, _huge_pages),
    "fragmentation": Kind(WARMING, _fragments),
    "leak of 1 KiB": leak(0.8, 1.2, with_each),
    "leak by size": leak(6, 24, by_size),
    "leak in 1 of 20": leak(4, 20, _one_in_twenty),
    "leak after 150": leak(8, 64, _late),
    "leak per minute": leak(4, 20, _per_minute),
    "leak in bursts": leak(8, 32, _in_bursts),
    "leak, ever more": leak(4, 16, _ever_more),
    "leak in 2 MiB": leak(16, 64, with_each, step_kib=2 * MIB),
    "leak and GC": leak(8, 32, with_each, _collected),
    "leak and trims": leak(8, 32, with_each, _trims),
    "leak and waves": leak(8, 32, with_each, _ttl),
    "leak and warm-up": leak(8, 32, with_each, _weights),
    "leak and two models": leak(16, 64, with_each, _two_models),
}
