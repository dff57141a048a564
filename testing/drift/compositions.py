"""Curves of memory, composed at random from parts, each labelled from its parts. They judge the verdict on drift.

A composition is one life of an environment: a base, what is loaded at first, noise, and up to three parts beside, with
or without a leak. Which parts, and how large and how fast each is, is drawn by the seed from `RANGES`, log-uniform and
wide: they were written before any verdict on these curves was seen. Seeds are split: thresholds may be chosen by those
in `TUNING`, and those in `SEALED` only judge.

What a composition is depends on how many of its invocations are judged (`Composition.group`):

- `alone`: a leak, and hardly anything beside it; `beside`: a leak beside parts that may move by more;
- `bounded`: no leak, and what fills has stopped; `filling`: no leak, but something still fills, ever more slowly;
- `alike`: no leak, but something fills as fast as at first, such as a cache that is far from full. Until it slows down
  no curve tells it from a leak: nothing is promised, and its share is shown;
- none, if the leak began in the second half of what is judged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # its parts are imported when they are used: signal takes a second
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.floating]

MIB = 1024.0
PAGE_KIB = 4
LIFE = 4096
"""Invocations in a composition."""

TUNING = range(8000)
SEALED = range(1_000_000, 1_002_000)
"""Seeds. No threshold may be chosen by those that are sealed."""

ALONE, BESIDE, BOUNDED, FILLING, ALIKE = "alone", "beside", "bounded", "filling", "alike"
GROUPS = (ALONE, BESIDE, BOUNDED, FILLING)
LEAKS = (ALONE, BESIDE)

STILL_KIB = 0.5
"""It still fills if its last third brings so much per invocation."""
SLOWED = 0.5
"""It has slowed down if that is at most this part of what its first third brings."""

RANGES: dict[str, tuple[float, float]] = {
    "base": (16 * MIB, 512 * MIB),
    "gap ms": (20, 20_000),
    # at first
    "import": (0.25 * MIB, 64 * MIB),
    "import invocations": (0.3, 10),
    # noise, standard deviation and colour (exponent of the spectrum: 0 white, 1 pink, 2 red)
    "noise alone": (4, 128),
    "noise beside": (4, 2048),
    "heavy tail": (1.3, 6),
    # what comes and goes
    "saw": (0.5 * MIB, 64 * MIB),
    "saw invocations": (4, 400),
    "generations": (4, 30),
    "wave": (0.25 * MIB, 32 * MIB),
    "wave invocations": (16, 1024),
    "burst": (0.5 * MIB, 64 * MIB),
    "burst invocations": (1, 60),
    "burst every": (20, 500),
    "swap": (1 * MIB, 128 * MIB),
    "swap invocations": (4, 300),
    "traffic": (0.25 * MIB, 16 * MIB),
    "traffic invocations": (5, 200),
    "reclaimed": (1 * MIB, 64 * MIB),
    "reclaimed invocations": (10, 300),
    # what fills
    "keys": (32, 65_536),
    "item": (1, 512),
    "zipf": (0.6, 1.4),
    "room": (0.05, 1),
    "loads": (1, 40),
    "load": (64, 8 * MIB),
    "load invocations": (4, 2000),
    "curing": (0.5 * MIB, 64 * MIB),
    "curing invocations": (8, 3000),
    "arenas": (1, 24),
    "arena": (0.25 * MIB, 16 * MIB),
    "pool": (1, 64),
    "connection": (16, 2048),
    "connection invocations": (1, 500),
    # the leak
    "leak": (1, 60),
    "leak every": (1, 150),
    "leak step": (64, 4 * MIB),
    "leak onset": (16, 2048),
    "leak size sigma": (0.1, 1.5),
}
"""From and to, of a log-uniform draw. KiB where nothing else is said."""


class Part(NamedTuple):
    """Memory of one cause."""

    held: Floats
    """KiB after each invocation."""
    filled: Floats | None = None
    """How much of it is filled for good, KiB; None of what comes and goes."""


class Composition(NamedTuple):
    """One life of an environment, as its lines would tell it."""

    seed: int
    parts: tuple[str, ...]
    """Names of its parts, without the base; the leak's kind is last."""
    time_ms: Floats
    """Begin of each invocation."""
    current: Floats
    """CurrentRSS after each invocation, KiB, and its peak."""
    peak: Floats
    filled: Floats
    """What fills for good and is no leak, KiB."""
    rate: float
    """KiB per invocation that leak in the mean over the life; 0 where nothing does."""
    onset: int
    """Invocations before the leak begins."""
    is_alone: bool

    def group(self, count: int) -> str | None:
        """What it is, if so many invocations are judged: see the module."""
        if self.rate:
            return None if self.onset > count / 2 else ALONE if self.is_alone else BESIDE
        third = count // 3
        # the first invocations import: every curve slows down after them
        begin = max(2, count // 24)
        first = (self.filled[third] - self.filled[begin]) / (third - begin)
        last = (self.filled[count - 1] - self.filled[count - 1 - third]) / third
        if last < STILL_KIB:
            return BOUNDED
        return FILLING if last <= SLOWED * first else ALIKE

    def true_rate(self, count: int) -> float | None:
        """KiB per invocation that it grows by in the long run; None where that has no one answer yet."""
        begin = max(2, count // 6)
        filling = (self.filled[count - 1] - self.filled[begin]) / (count - begin)
        if filling >= STILL_KIB / 2 or (self.rate and self.onset > begin):
            return None
        return self.rate


def compose(seed: int, count: int = LIFE) -> Composition:
    """The composition of that seed, of `count` invocations. Another count is another composition."""
    random = np.random.default_rng([seed, count])
    leaks, is_alone = bool(random.random() < 0.5), bool(random.random() < 0.5)
    names: list[str] = []
    filled = np.zeros(count)
    held = np.full(count, spread(random, "base"))
    others = 0 if leaks and is_alone else int(random.integers(1, 4))
    chosen: list[tuple[str, Make]] = [("import", _import)]
    for _ in range(others):
        # Much of what does not leak fills, so that both of its groups are large enough.
        fills = random.random() < (0.5 if leaks else 0.75 if is_alone else 0.25)
        table = FILLERS if fills else MOVERS
        name = list(table)[random.integers(len(table))]
        chosen.append((name, table[name]))
    for name, make in chosen:
        part = make(random, count)
        names.append(name)
        held += part.held
        if part.filled is not None:
            filled += part.filled
    held += noise(random, count, "noise alone" if leaks and is_alone else "noise beside")
    rate, onset = 0.0, 0
    if leaks:
        rate = spread(random, "leak")
        onset = int(spread(random, "leak onset")) if random.random() < 0.3 else 0
        name = list(LEAK_KINDS)[random.integers(len(LEAK_KINDS))]
        held[onset:] += rate * LEAK_KINDS[name](random, count - onset, rate)
        names.append(name)
    current = np.maximum(np.round(held / PAGE_KIB), 1) * PAGE_KIB
    need = random.lognormal(np.log(random.uniform(50, 2000)), 0.7, count)
    gap = spread(random, "gap ms")
    time_ms = np.cumsum(random.lognormal(np.log(gap), 0.7, count))
    peak = current + np.round(need / PAGE_KIB) * PAGE_KIB
    return Composition(seed, tuple(names), time_ms, current, peak, filled, rate, onset, is_alone)


def spread(random: Generator, name: str) -> float:
    """One draw from a range, log-uniform."""
    low, high = RANGES[name]
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


# --- noise ------------------------------------------------------------------------------------------------------------


def noise(random: Generator, count: int, size: str) -> Floats:
    """Noise of any colour and tail, with outliers that only add."""
    tail = spread(random, "heavy tail")
    pushes = random.standard_t(tail, count) if random.random() < 0.3 else random.normal(size=count)
    made: Floats = coloured(np.clip(pushes, -50, 50), random.uniform(0, 2)) * spread(random, size)
    made += np.where(random.random(count) < random.uniform(0, 0.03), np.abs(made) * random.pareto(1.5, count) * 4, 0)
    capped: Floats = np.minimum(made, 20 * MIB)
    return capped


def coloured(white: Floats, exponent: float) -> Floats:
    """White noise with a spectrum of 1 / frequency ** exponent, and a standard deviation of 1."""
    spectrum = np.fft.rfft(white)
    spectrum[1:] *= np.arange(1, len(spectrum)) ** (-exponent / 2)
    spectrum[0] = 0
    made: Floats = np.fft.irfft(spectrum, len(white))
    scaled: Floats = made / max(float(made.std()), 1e-9)
    return scaled


# --- what comes and goes ----------------------------------------------------------------------------------------------


def _saw(random: Generator, count: int) -> Part:
    """Garbage until a collector runs; half of the heaps have an older generation with a longer saw."""
    height, length = spread(random, "saw"), spread(random, "saw invocations")
    held = _teeth(random, count, height, length, random.uniform(0, 0.3))
    if random.random() < 0.5:
        longer = length * spread(random, "generations")
        held += _teeth(random, count, height * random.uniform(0.2, 2), longer, random.uniform(0, 0.3))
    return Part(held)


def _teeth(random: Generator, count: int, height: float, length: float, left: float) -> Floats:
    """Rises to `height` in about `length` invocations; each collection leaves up to the part `left` of it."""
    sigma, regular = random.uniform(0.1, 1), random.random() < 0.7
    made = random.lognormal(-(sigma**2) / 2, sigma, count) * height / length
    total, held, base = float(random.random()) * height, [], 0.0
    for each, chance in zip(made.tolist(), random.random(count).tolist(), strict=True):
        total += each
        if (base + total > height) if regular else chance < 1 / length:
            base, total = height * left * random.random(), 0.0
        held.append(base + total)
    return np.array(held)


def _waves(random: Generator, count: int) -> Part:
    """Load that comes and goes with one to three periods, even or with a steep side."""
    held = np.zeros(count)
    for _ in range(random.integers(1, 4)):
        phase = np.arange(count) / spread(random, "wave invocations") + random.random()
        skew = random.uniform(0.15, 0.85)
        turn = phase % 1
        even = np.where(turn < skew, turn / skew, (1 - turn) / (1 - skew))
        held += (1 - np.cos(np.pi * even)) / 2 * spread(random, "wave")
    return Part(held)


def _bursts(random: Generator, count: int) -> Part:
    """Single requests, or some in a row, that leave much behind for a while."""
    held, size = np.zeros(count), spread(random, "burst")
    every, length = spread(random, "burst every"), spread(random, "burst invocations")
    for begin in np.flatnonzero(random.random(count) < 1 / every):
        held[begin : begin + 1 + int(random.exponential(length))] += min(size * (0.2 + random.pareto(2)), 256 * MIB)
    return Part(held)


def _swaps(random: Generator, count: int) -> Part:
    """Room for one of several models."""
    sizes = np.array([spread(random, "swap") for _ in range(random.integers(2, 6))])
    switched = np.cumsum(random.random(count) < 1 / spread(random, "swap invocations"))
    return Part(sizes[random.integers(len(sizes), size=count + 1)[switched]])


def _traffic(random: Generator, count: int) -> Part:
    """What is held follows a load that wanders and returns."""
    keep = float(np.exp(-1 / spread(random, "traffic invocations")))
    walk = scipy.signal.lfilter([np.sqrt(1 - keep**2)], [1, -keep], random.normal(size=count + 2000))[2000:]
    return Part(np.abs(walk + random.uniform(0, 3)) * spread(random, "traffic"))


def _reclaimed(random: Generator, count: int) -> Part:
    """An allocator or a kernel that gives parts back now and then; they return as they are used."""
    whole, length = spread(random, "reclaimed"), spread(random, "reclaimed invocations")
    taken = np.where(random.random(count) < 1 / length, random.random(count), 0)
    keep = float(np.exp(-1 / random.uniform(1, length)))
    return Part(whole * (1 - np.minimum(scipy.signal.lfilter([1], [1, -keep], taken), 1)))


# --- what fills -------------------------------------------------------------------------------------------------------


def _import(random: Generator, count: int) -> Part:
    """What the first invocations import and connect."""
    held = spread(random, "import") * -np.expm1(-np.arange(count) / spread(random, "import invocations"))
    return Part(held, held)


def _cache(random: Generator, count: int) -> Part:
    """Items by key: any key, Zipf's law, or one after the other; most caches are bounded, and drop the oldest."""
    keys, item = int(spread(random, "keys")), spread(random, "item")
    kind = random.integers(3)
    if kind == 0:
        wanted = random.integers(keys, size=count)
    elif kind == 1:
        weights = np.arange(1, keys + 1) ** -spread(random, "zipf")
        wanted = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(count))
    else:
        wanted = np.cumsum(random.random(count) < random.uniform(0.1, 1)) % keys
    room = max(1, int(keys * spread(random, "room"))) if random.random() < 0.7 else keys
    sigma = random.uniform(0, 1)
    sizes = random.lognormal(-(sigma**2) / 2, sigma, count) * item
    cache: OrderedDict[int, float] = OrderedDict()
    total, held, number = 0.0, [], []
    for key, size in zip(wanted.tolist(), sizes.tolist(), strict=True):
        if key in cache:
            cache.move_to_end(key)
        else:
            cache[key] = size
            total += size
            if len(cache) > room:
                total -= cache.popitem(last=False)[1]
        held.append(total)
        number.append(len(cache))
    return Part(np.array(held), np.array(number) * item)


def _loads(random: Generator, count: int) -> Part:
    """Modules, models and routes that are loaded when they are first needed."""
    loads, held = int(spread(random, "loads")), np.zeros(count)
    length = spread(random, "load invocations")
    for begin in random.exponential(length, loads).astype(int):
        held[begin:] += spread(random, "load") / loads**0.5
    return Part(held, held)


def _curing(random: Generator, count: int) -> Part:
    """Compiled code, interned strings, tables: ever more slowly, to a bound."""
    held = spread(random, "curing") * -np.expm1(-np.arange(count) / spread(random, "curing invocations"))
    return Part(held, held)


def _arenas(random: Generator, count: int) -> Part:
    """Each of some arenas keeps the most that a request ever put into it."""
    arenas, size = int(spread(random, "arenas")), spread(random, "arena")
    shape = random.uniform(1, 8)
    asked = np.minimum(random.gamma(shape, 1 / shape, count), 4) * size
    if random.random() < 0.5:  # requests of a few sizes
        asked = np.ceil(asked / size * 3) / 3 * size
    where, held = random.integers(arenas, size=count), np.zeros(count)
    for arena in range(arenas):
        held += np.maximum.accumulate(np.where(where == arena, asked, 0))
    return Part(held, held)


def _pool(random: Generator, count: int) -> Part:
    """Connections, threads and buffers, each opened when it is first needed and kept."""
    size, length = int(spread(random, "pool")), spread(random, "connection invocations")
    opened = np.cumsum(random.exponential(length, size)).astype(int)
    held = np.searchsorted(opened, np.arange(count), side="right") * spread(random, "connection")
    return Part(held, held)


# --- leaks, of 1 KiB per invocation in the mean -----------------------------------------------------------------------


def _constant(random: Generator, count: int, rate: float) -> Floats:
    return np.arange(1.0, count + 1)


def _by_size(random: Generator, count: int, rate: float) -> Floats:
    """As large as the request was."""
    sigma = spread(random, "leak size sigma")
    return np.cumsum(random.lognormal(-(sigma**2) / 2, sigma, count))


def _by_chance(random: Generator, count: int, rate: float) -> Floats:
    """All of it in one invocation of many."""
    every = spread(random, "leak every")
    return np.cumsum(random.random(count) < 1 / every) * every


def _by_step(random: Generator, count: int, rate: float) -> Floats:
    """A constant leak, for which the allocator takes larger pieces from the kernel."""
    step = spread(random, "leak step") / rate
    return np.floor(np.arange(1, count + 1) / step + random.random()) * step


Make = Callable[[Generator, int], Part]
MOVERS: dict[str, Make] = {
    "saw": _saw,
    "waves": _waves,
    "bursts": _bursts,
    "swaps": _swaps,
    "traffic": _traffic,
    "reclaimed": _reclaimed,
}
FILLERS: dict[str, Make] = {"cache": _cache, "loads": _loads, "curing": _curing, "arenas": _arenas, "pool": _pool}
LEAK_KINDS = {"constant": _constant, "by size": _by_size, "by chance": _by_chance, "by step": _by_step}
