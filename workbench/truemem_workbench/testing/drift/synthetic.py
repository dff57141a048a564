"""Makes labelled curves from a seed: what an environment holds after each invocation, in KiB, and its peaks.

Each has the noise of real ones: whole pages, autocorrelated jitter, and an outlier now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.floating]

INVOCATIONS = 300
MIB = 1024.0
PAGE_KIB = 4


class Series(NamedTuple):
    """One life of an environment."""

    kind: str
    label: str
    """The right verdict."""
    current: Floats
    peak: Floats


class Kind(NamedTuple):
    """A way for memory to behave."""

    label: str
    curve: Callable[[Generator, int], Floats]
    """Memory beside the base."""
    spikes: Callable[[Generator, int], Floats] | None = None
    """Memory that an invocation takes for a moment."""


def _flat(_: Generator, count: int) -> Floats:
    return np.zeros(count)


def _step(random: Generator, count: int) -> Floats:
    """Something is loaded once, somewhere in the middle third, and stays."""
    at = random.integers(count // 6, count * 3 // 5)
    return np.where(np.arange(count) < at, 0.0, random.uniform(4, 60) * MIB)


def _swap(random: Generator, count: int) -> Floats:
    """Two or three models of different sizes by turns: there is room for one."""
    sizes = random.uniform(5, 80, random.integers(2, 4)) * MIB
    held = np.empty(count)
    at, model = 0, 0
    while at < count:
        until = at + int(random.integers(8, max(9, count // 8)))
        held[at:until] = sizes[model]
        at, model = until, (model + 1) % len(sizes)
    return held


def _full(random: Generator, count: int) -> Floats:
    """An lru_cache of items by random key: fills, more and more slowly, and is full by the middle."""
    keys = int(random.integers(count // 10, count // 6))
    return _cached(random, count, keys, round(keys * random.uniform(0.5, 0.8)))


def _filling(random: Generator, count: int) -> Floats:
    """The same with so many keys that it still fills at the end, though ever more slowly."""
    keys = int(random.integers(count // 4, count * 2 // 5))
    return _cached(random, count, keys, keys)


def _cached(random: Generator, count: int, keys: int, room: int) -> Floats:
    size = random.uniform(0.2, 6) * MIB
    seen: set[int] = set()
    held = []
    for key in random.integers(0, keys, count):
        seen.add(int(key))
        held.append(min(len(seen), room) * size)
    return np.array(held)


def _hoard(random: Generator, count: int) -> Floats:
    """Arenas: each keeps the most that its thread ever freed into it, and requests come in a few sizes."""
    sizes = random.uniform(1, 24, random.integers(2, 5)) * MIB
    return _arenas(random, count, int(random.integers(6, 11)), lambda: random.choice(sizes))


def _creep(random: Generator, count: int) -> Floats:
    """A hoard in which no request is like another: larger ones come, less and less often."""
    most = random.uniform(4, 24) * MIB
    return _arenas(random, count, int(random.integers(4, 9)), lambda: most * random.beta(5, 2))


def _arenas(random: Generator, count: int, threads: int, request: Callable[[], float]) -> Floats:
    arenas = np.zeros(threads)
    held = []
    for _ in range(count):
        thread = random.integers(threads)
        arenas[thread] = max(arenas[thread], request())
        held.append(arenas.sum())
    return np.array(held)


def _sawtooth(random: Generator, count: int) -> Floats:
    """A garbage collector: memory rises until it runs, and falls to where it was."""
    height, held, made = random.uniform(1, 60) * MIB, 0.0, []
    rise = height / random.uniform(4, count / 8)
    for _ in range(count):
        held += rise * random.uniform(0.5, 1.5)
        if held > height:
            held = height * random.uniform(0, 0.1)
        made.append(held)
    return np.array(made)


def _wave(random: Generator, count: int) -> Floats:
    """The load of a day: sessions, buffers, connections come and go. At least one whole day is seen."""
    phase, days = random.uniform(0, 2 * np.pi), random.uniform(1.1, 5)
    day = np.sin(phase + np.arange(count) / count * 2 * np.pi * days)
    return day * random.uniform(0.5, 20) * MIB


def _settling(random: Generator, count: int) -> Floats:
    """The first invocations import and connect."""
    return random.uniform(1, 20) * MIB * (1 - np.exp(-np.arange(count) / random.uniform(0.5, 3)))


def _leak(kib: float) -> Callable[[Generator, int], Floats]:
    return lambda random, count: np.arange(count) * kib


def _now_and_then(kib: float) -> Callable[[Generator, int], Floats]:
    """All of it in one invocation of ten."""
    return lambda random, count: np.cumsum(np.where(random.random(count) < 0.1, kib * 10, 0.0))


def _both(*curves: Callable[[Generator, int], Floats]) -> Callable[[Generator, int], Floats]:
    def curve(random: Generator, count: int) -> Floats:
        return sum((each(random, count) for each in curves), np.zeros(count))

    return curve


def _small(curve: Callable[[Generator, int], Floats], kib: float) -> Callable[[Generator, int], Floats]:
    """Scaled to so much from its lowest to its highest."""

    def scaled(random: Generator, count: int) -> Floats:
        made = curve(random, count)
        return made * (kib / max(1.0, float(np.ptp(made))))

    return scaled


def _one_spike(random: Generator, count: int) -> Floats:
    made = np.zeros(count)
    made[random.integers(count // 10, count * 9 // 10)] = random.uniform(60, 400) * MIB
    return made


def _spikes(random: Generator, count: int) -> Floats:
    """Two copies of a model, at each load of one."""
    return np.where(random.random(count) < 0.1, random.uniform(60, 400, count) * MIB, 0.0)


LEAK_FREE = {
    "steady": Kind("stable", _flat),
    "settling": Kind("stable", _settling),
    "sawtooth": Kind("stable", _sawtooth),
    "wave": Kind("stable", _wave),
    "model swap": Kind("stable", _swap),
    "one step": Kind("plateau", _step),
    "cache, full": Kind("plateau", _full),
    "arenas": Kind("plateau", _hoard),
    "arenas, creeping": Kind("warming", _creep),
    "cache, filling": Kind("warming", _filling),
    "one spike": Kind("spiky", _flat, _one_spike),
    "spikes": Kind("spiky", _settling, _spikes),
}
LEAKS = {
    "4 KiB": Kind("growing", _leak(4)),
    "4 KiB, settling": Kind("growing", _both(_leak(4), _settling)),
    "4 KiB, one step": Kind("growing", _both(_leak(4), _step)),
    "4 KiB, sawtooth": Kind("growing", _both(_leak(4), _small(_sawtooth, 600))),
    "4 KiB, spikes": Kind("growing", _leak(4), _spikes),
    "40 KiB in 1 of 10": Kind("growing", _now_and_then(4)),
    "8 KiB": Kind("growing", _leak(8)),
    "64 KiB": Kind("growing", _leak(64)),
    "1 MiB": Kind("growing", _leak(1024)),
}
HARD = ("4 KiB, one step", "4 KiB, sawtooth", "40 KiB in 1 of 10")
STEADY_LEAKS = {name: kind for name, kind in LEAKS.items() if name not in HARD}
"""Leaks without other memory of the same size. They have to be found within INVOCATIONS."""
KINDS = {**LEAK_FREE, **LEAKS}


def make(kind: str, seed: int, count: int = INVOCATIONS) -> Series:
    """One curve of that kind."""
    random = np.random.default_rng([seed, *kind.encode()])
    base = random.uniform(30, 250) * MIB
    held = base + KINDS[kind].curve(random, count) + _noise(random, count)
    spikes = KINDS[kind].spikes
    extra = random.exponential(random.uniform(20, 1500), count) + (spikes(random, count) if spikes else 0)
    current = np.maximum(np.round(held / PAGE_KIB) * PAGE_KIB, PAGE_KIB)
    return Series(kind, KINDS[kind].label, current, current + np.round(extra / PAGE_KIB) * PAGE_KIB)


def corpus(kinds: dict[str, Kind], count: int) -> Iterator[Series]:
    """This number of series, of all kinds in turn."""
    names = list(kinds)
    for seed in range(count):
        yield make(names[seed % len(names)], seed)


def _noise(random: Generator, count: int) -> Floats:
    """Jitter of 4 to 96 KiB that remembers half of itself, and one invocation in fifty that is far off."""
    sigma = random.uniform(4, 96)
    remembered, made = 0.0, np.empty(count)
    for at, fresh in enumerate(random.normal(0, sigma, count)):
        remembered = 0.5 * remembered + fresh
        made[at] = remembered
    return made + np.where(random.random(count) < 0.02, random.normal(0, 10 * sigma, count), 0.0)
