"""How a run goes, here and there: invoke until it has settled, then as often as was asked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Protocol

BLOCK = 10
"""Invocations between two looks at whether it has settled."""
WARM_UP = 100
"""Most invocations that a warm-up takes, if nobody says otherwise."""
HOPELESS = 5
"""Invocations that may all have failed before it is given up: an init that fails takes its time with each of them."""

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""


class Run(Protocol):
    def invoke(self, event: object) -> object: ...

    def settled(self) -> bool:
        """Is the warm-up over, as far as the records say that have come?"""

    @property
    def failing(self) -> int:
        """How many invocations there were, if every one of them failed; else 0."""


def drive(run: Run, events: Sequence[object], *, invocations: int, warm_up: int, progress: Progress) -> int:
    """Returns how many invocations the warm-up took, `warm_up` at most. Ends early where everything fails."""
    upcoming = itertools.cycle(events)
    taken = 0
    while taken < warm_up and not (taken and taken % BLOCK == 0 and run.settled()):
        if run.failing >= HOPELESS:
            return taken
        run.invoke(next(upcoming))
        taken += 1
        progress("warming up", taken, warm_up)
    for done in range(invocations):
        if run.failing >= HOPELESS:
            return taken
        run.invoke(next(upcoming))
        progress("measuring", done + 1, invocations)
    return taken
