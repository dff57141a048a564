"""The plan of a run, local or remote: warm up, invoke as often as asked, then go on until it is decided."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..support.bad_input import BadInput
from ..support.failed_answer import way_of
from ..support.terminal import Progress
from ..target.events import text_of

if TYPE_CHECKING:  # numpy is for the run itself, not for every `truemem --help`
    from .measurement import Measurement


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
ALIKE = 10
"""Invocations in a row that may end in the same way, after one that succeeded, before it gives up."""

NEW_PASSES, NEW_IN_A_PASS, LEAST_NEW = 5, 10, 12
"""Passes of events that the function has not seen, so many events in each at most, and so many in all at least."""
KINDS, IN_A_KIND = 8, 10
"""Most events that are asked for one by one, and invocations with each kind of events."""
APART = 2
"""Events are small and large if those of the larger half have so many times the characters of the others."""


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


class Decision:
    """What is asked of a run, and whether it is decided. Here nothing is asked: it ends with the least invocations."""

    errors_percent: float = 0.0
    """How many of 100 invocations may fail."""
    allowed: Collection[str] = ()
    """Causes that may grow."""
    full_by: int = 0
    """A leak is told from so many invocations on: before, a cache may be filling."""
    needs_all: bool = False
    """True if each record may change the answer."""
    asks_peaks: bool = False
    """True if it is asked how much memory is needed at most."""
    until: int | None = None
    """Number of the last invocation of the look that decided; None if none did."""
    given_up: str = ""
    """Why the run has ended before the least invocations, in a few words; empty if it has not."""

    def why(self, measurement: Measurement) -> str:
        """Why more invocations are needed, in a few words; empty if they are not."""
        return ""


class Invoker(Protocol):
    """A run, here or in AWS."""

    def invoke(self, event: object) -> object: ...

    def settled(self) -> bool:
        """True if the warm-up is over, by the records so far."""

    def begin_passes(self, invocations: int) -> None:
        """The warm-up is over: passes of so many invocations begin."""

    def so_far(self, warm_up: int) -> Measurement:
        """What was measured so far, without the last records."""

    @property
    def errors(self) -> Sequence[str]:
        """What each invocation so far has said; empty where it succeeded."""


def hopeless(errors: Sequence[str], events: Sequence[str], may_fail: float = 0.0) -> str:
    """Why more invocations would say no more, in a few words; empty if they might. `errors`: what each said so far,
    empty where it succeeded; `events`: theirs, as text; `may_fail`: so many may fail.

    All have failed; or so did the last ALIKE in the same way, and one of them with an event that had succeeded before:
    a function may fail by its event."""
    row = [*itertools.takewhile(bool, reversed(errors))]
    if len(row) == len(errors) >= HOPELESS:
        return f"all {len(row)} failed"
    if len(row) < ALIKE or len({*map(way_of, row)}) > 1 or sum(map(bool, errors)) <= may_fail:
        return ""
    succeeded = {event for event, error in zip(events, errors, strict=True) if not error}
    if succeeded.isdisjoint(events[-len(row) :]):
        return ""
    return f"the last {len(row)} failed in the same way ({way_of(row[0])})"


def invoke_until_decided(
    run: Invoker,
    events: Sequence[object],
    plan: Plan,
    decision: Decision,
    progress: Progress,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Make the invocations of a run. Returns how many the warm-up took. Stops early where more are `hopeless`.
    `clock` tells seconds."""
    upcoming, sent = itertools.cycle(events), list[str]()
    taken, began = 0, clock()

    def invoke() -> bool:
        """Once more, unless that is hopeless."""
        decision.given_up = hopeless(run.errors, sent, decision.errors_percent / 100 * plan.invocations)
        if not decision.given_up:
            event = next(upcoming)
            sent.append(text_of(event))
            run.invoke(event)
        return not decision.given_up

    while taken < plan.warm_up and not (taken and taken % BLOCK == 0 and run.settled()):
        if not invoke():
            return taken
        taken += 1
        progress("warming up", taken, plan.warm_up)
    run.begin_passes(plan.in_a_pass(len(events)))
    done, until, doing = 0, plan.invocations, "measuring"
    while done < until:
        if not invoke():
            return taken
        done += 1
        progress(doing, done, until if doing == "measuring" else plan.bound)
        patient = plan.most is not None or clock() - began < PATIENCE_S
        if done == until and done < plan.bound and patient and (why := decision.why(run.so_far(taken))):
            until, doing = min(done + plan.step, plan.bound), f"going on: {why}"
    return taken


def held_back(events: Sequence[object]) -> tuple[list[object], list[object]]:
    """The events to go on with, and those that the function is to see last, to learn whether it keeps something of each
    that is new: of three different ones the third, in whole passes. None where that are too few."""
    by_text = {text_of(each): each for each in events}
    thirds = [*by_text][2::3]
    if len(thirds) < LEAST_NEW:
        return [*events], []
    in_a_pass = min(len(thirds) // NEW_PASSES, NEW_IN_A_PASS)
    new = {text: by_text[text] for text in thirds[: NEW_PASSES * in_a_pass]}
    return [each for each in events if text_of(each) not in new], [*new.values()]


def kinds(events: Sequence[object], failed: Collection[str]) -> dict[str, list[object]]:
    """The different events, each by itself under its first place; if they are more than KINDS, those that `failed` (by
    `text_of`) and the others, the small ones and the large. Empty where all are alike."""
    by_text = {text_of(each): each for each in events}
    if len(by_text) <= KINDS:
        places = {text_of(each): place for place, each in reversed([*enumerate(events, 1)])}
        return {f"event {places[text]}": [event] for text, event in by_text.items()} if len(by_text) > 1 else {}
    found: dict[str, list[object]] = {}
    if failing := [event for text, event in by_text.items() if text in failed]:
        found["events that fail"] = failing
        found["events that succeed"] = [event for text, event in by_text.items() if text not in failed]
    by_size = sorted(by_text, key=len)
    small, large = by_size[: len(by_size) // 2], by_size[len(by_size) // 2 :]
    if len(large[len(large) // 2]) >= APART * len(small[len(small) // 2]):
        found[f"events of up to {len(small[-1]):,} characters"] = [by_text[each] for each in small]
        found["larger events"] = [by_text[each] for each in large]
    return {name: some for name, some in found.items() if some}
