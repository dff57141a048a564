"""How a run goes, here and there: invoke until it has settled, then as often as was asked, then until it is decided."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..support.bad_input import BadInput

BLOCK = 10
"""Invocations between two looks at whether it has settled; between two whether it is decided, at least."""
INVOCATIONS = 200
WARM_UP = 100
"""Most invocations that a warm-up takes, if nobody says otherwise."""
MOST_TIMES, MOST_LEAST = 4, 400
"""As many times the invocations that were asked for, and not fewer than that, may be needed to decide."""
HOPELESS = 5
"""Invocations that may all have failed before it is given up: an init that fails takes its time with each of them."""

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""
Undecided = Callable[[int], str]
"""Why more invocations are needed after a warm-up of so many; empty if they are not."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many invocations there are. Construction raises BadInput."""

    invocations: int = INVOCATIONS
    """To judge, at least."""
    most: int | None = None
    """To judge, while nothing is decided."""
    warm_up: int = WARM_UP
    """Before them, at most."""

    def __post_init__(self) -> None:
        if self.most is not None and self.most < self.invocations:
            raise BadInput(f"--most {self.most} is below --invocations {self.invocations}. Try --most {self.bound}")

    @property
    def bound(self) -> int:
        usual = max(MOST_TIMES * self.invocations, MOST_LEAST)
        return usual if self.most is None or self.most < self.invocations else self.most

    @property
    def step(self) -> int:
        """Invocations between two looks at whether it is decided."""
        return max(BLOCK, self.invocations // 10)


class Run(Protocol):
    def invoke(self, event: object) -> object: ...

    def settled(self) -> bool:
        """Is the warm-up over, as far as the records say that have come?"""

    @property
    def failing(self) -> int:
        """How many invocations there were, if every one of them failed; else 0."""


def invoke_until_decided(
    run: Run, events: Sequence[object], plan: Plan, undecided: Undecided, progress: Progress
) -> int:
    """Returns how many invocations the warm-up took. Ends early where everything fails."""
    upcoming = itertools.cycle(events)
    taken = 0
    while taken < plan.warm_up and not (taken and taken % BLOCK == 0 and run.settled()):
        if run.failing >= HOPELESS:
            return taken
        run.invoke(next(upcoming))
        taken += 1
        progress("warming up", taken, plan.warm_up)
    done, until, doing = 0, plan.invocations, "measuring"
    while done < until:
        if run.failing >= HOPELESS:
            return taken
        run.invoke(next(upcoming))
        done += 1
        progress(doing, done, until if doing == "measuring" else plan.bound)
        if done == until and done < plan.bound and (why := undecided(taken)):
            until, doing = min(done + plan.step, plan.bound), f"going on: {why}"
    return taken
