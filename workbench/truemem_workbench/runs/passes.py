"""The plan of a run, local or remote: warm up, invoke as often as asked, then go on until it is decided."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..support.bad_input import BadInput
from ..support.terminal import Progress

BLOCK = 10  # invocations between two checks for the end of the warm-up, and at least between two for a decision
INVOCATIONS = 200
PASSES = 8
"""Passes of the invocations that are asked for; what is kept is read after each."""
MOST_IN_A_PASS = 2
"""A pass is longer by this, at most, so that all events are in it."""
FULL_BY = 380
"""Invocations before a leak is told, twice as many as were asked for at most: caches of a few hundred entries are full
then."""
WARM_UP = 80  # default of the most invocations for the warm-up
MOST_TIMES, MOST_LEAST = 10, 2000
"""Default of the most invocations: this multiple of those asked for, and at least this number,"""
PATIENCE_S = 120.0
"""and no more than those asked for after so many seconds: a minute or two of CI cost less than a wrong answer."""
HOPELESS = 5
"""Invocations that may all fail before the run gives up. An init that fails takes its time with each of them."""

Undecided = Callable[[int], str]
"""Called with the length of the warm-up. Returns why more invocations are needed; empty if they are not."""


def full_by(invocations: int) -> int:
    """Invocations before a leak is told, where so many were asked for."""
    return min(FULL_BY, 2 * invocations)


def in_a_pass(invocations: int) -> int:
    """Invocations in a pass, where so many are made."""
    return max(BLOCK, invocations // PASSES)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The numbers of invocations. Construction raises BadInput."""

    invocations: int = INVOCATIONS
    """Least number of judged invocations."""
    most: int | None = None
    """Most judged invocations, while the result is undecided. None: those of two minutes."""
    warm_up: int = WARM_UP
    """Most invocations before the judged ones."""

    def __post_init__(self) -> None:
        if self.most is not None and self.most < self.invocations:
            raise BadInput(f"--most {self.most} is below --invocations {self.invocations}. Try --most {self.bound}")

    @property
    def bound(self) -> int:
        usual = max(MOST_TIMES * self.invocations, MOST_LEAST)
        return usual if self.most is None or self.most < self.invocations else self.most

    @property
    def step(self) -> int:
        """Invocations between two checks whether the result is decided."""
        return max(BLOCK, self.invocations // 10)

    def in_a_pass(self, events: int) -> int:
        """Invocations in a pass: all of these different events in each, if they are few enough."""
        least = in_a_pass(self.invocations)
        return -(-least // events) * events if events <= MOST_IN_A_PASS * least else least


class Invoker(Protocol):
    def invoke(self, event: object) -> object: ...

    def settled(self) -> bool:
        """True if the warm-up is over, by the records so far."""

    def begin_passes(self, invocations: int) -> None:
        """The warm-up is over: passes of so many invocations begin."""

    @property
    def failing(self) -> int:
        """The number of invocations if all of them failed; else 0."""


def invoke_until_decided(
    run: Invoker,
    events: Sequence[object],
    plan: Plan,
    undecided: Undecided,
    progress: Progress,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Make the invocations of a run. Returns how many the warm-up took. Stops early if every invocation fails.
    `clock` tells seconds."""
    upcoming = itertools.cycle(events)
    taken, began = 0, clock()
    while taken < plan.warm_up and not (taken and taken % BLOCK == 0 and run.settled()):
        if run.failing >= HOPELESS:
            return taken
        run.invoke(next(upcoming))
        taken += 1
        progress("warming up", taken, plan.warm_up)
    run.begin_passes(plan.in_a_pass(len(events)))
    done, until, doing = 0, plan.invocations, "measuring"
    while done < until:
        if run.failing >= HOPELESS:
            return taken
        run.invoke(next(upcoming))
        done += 1
        progress(doing, done, until if doing == "measuring" else plan.bound)
        patient = plan.most is not None or clock() - began < PATIENCE_S
        if done == until and done < plan.bound and patient and (why := undecided(taken)):
            until, doing = min(done + plan.step, plan.bound), f"going on: {why}"
    return taken
