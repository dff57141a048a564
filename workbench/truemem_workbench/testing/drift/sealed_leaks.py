"""What has leaked by each invocation, for a mean of 1 KiB per invocation: curves of `sealed_kinds`."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from truemem_workbench.testing.drift.corpus import Floats
from truemem_workbench.testing.drift.parts import amounts, leaks_late, spread


def bodies(random: Generator, at: Floats) -> Floats:
    """The body of each request, as large as it was."""
    return amounts(random, len(at)).cumsum()


def retried(random: Generator, at: Floats) -> Floats:
    """A future for each attempt: most calls have one, some have several."""
    again = random.uniform(0.05, 0.4)
    return (random.geometric(1 - again, len(at)) * (1 - again)).cumsum()


def timeouts(random: Generator, at: Floats) -> Floats:
    """A socket with each call that times out: one in some dozen."""
    each = spread(random, 5, 50)
    return (random.random(len(at)) < 1 / each).cumsum() * each


def users(random: Generator, at: Floats) -> Floats:
    """An entry for each new user, who come with a rate that differs by the quarter of an hour."""
    quarter = (at // 900_000).astype(np.intp)
    busy = random.gamma(6, 1 / 6, quarter[-1] + 1)[quarter]
    entries: Floats = random.poisson(busy * 3).cumsum() / 3.0
    return entries


def flushes(random: Generator, at: Floats) -> Floats:
    """A batch that is kept with each flush of a buffer, every few dozen invocations."""
    every = int(random.integers(4, 40))
    return (np.arange(1, len(at) + 1) // every) * float(every)


def released(random: Generator, at: Floats) -> Floats:
    """Nothing, until a new version of a setting is read."""
    return leaks_late(random, at, (20, 400), (0.1, 0.35))


def copied(random: Generator, at: Floats) -> Floats:
    """A list that is kept by each request, and has one member more each time."""
    part = np.arange(1, len(at) + 1) / len(at)
    share = random.uniform(0.3, 0.9)
    grown: Floats = len(at) * ((1 - share) * part + share * part**2)
    return grown


def watched(random: Generator, at: Floats) -> Floats:
    """A watcher's event, by the second, and twice as many by day."""
    day = 1 + random.uniform(0, 0.5) * np.sin(at / spread(random, 200_000, 3_000_000) + random.uniform(0, 6))
    grown = (np.diff(at, prepend=0) * day).cumsum()
    scaled: Floats = grown / grown[-1] * len(at)
    return scaled
