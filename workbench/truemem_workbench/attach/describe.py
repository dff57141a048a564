"""A plan as text: the same change of many functions is said once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from ..support.plural import counted, some
from .change import Change
from .plan import Left, Plan
from .rollout import Outcome

NAMES = 12
"""Names of one group that are listed; a pattern can have hundreds."""


def described(plans: Iterable[Plan | Left]) -> Iterator[str]:
    """Lines of the plan, like a diff: functions with the same change together, then those that are left as they are."""
    plans = list(plans)
    made = [(tuple(_differences(each.change)), each) for each in plans if isinstance(each, Plan)]
    for differences, group in groupby(
        sorted(made, key=lambda pair: (pair[0], pair[1].state.name)), lambda each: each[0]
    ):
        states = [(plan.state.name, plan.notes) for _, plan in group]
        yield _named([name for name, _ in states])
        yield from (f"  {line}" for line in differences or ("nothing to do: it is so already",))
        yield from _noted(states)
    for each in plans:
        if isinstance(each, Left):
            yield each.name
            yield f"  left as it is: {each.reason}"


def _differences(change: Change) -> Iterator[str]:
    before, after = change.layers
    for arn in before:
        if arn not in after:
            yield f"- layer {arn}"
    for arn in after:
        if arn not in before:
            yield f"+ layer {arn}"
    if {*before} == {*after} and before != after:
        yield f"~ order of layers: {', '.join(after)}"
    for name, (old, new) in sorted(change.variables.items()):
        if new is None:
            yield f"- {name}={old}"
        else:
            yield f"+ {name}={new}" if old is None else f"~ {name}={new} (was {old})"


def _named(names: list[str]) -> str:
    listed = some(names, NAMES)
    return f"{counted(len(names), 'function')}: {listed}" if len(names) > 1 else listed


def _noted(states: list[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """Each note once, with the functions that it is about if it is not about all of them."""
    notes: dict[str, list[str]] = {}
    for name, texts in states:
        for text in texts:
            notes.setdefault(text, []).append(name)
    for text, names in notes.items():
        yield f"  ! {text}" if len(names) == len(states) else f"  ! {_named(names)}: {text}"


def document(outcome: Outcome) -> dict[str, Any]:
    """One function for machines."""
    reason: dict[str, Any] = {"reason": outcome.reason} if outcome.reason else {}
    if outcome.notes:
        reason["notes"] = [*outcome.notes]
    change = outcome.change.document() if outcome.change else {}
    return {"function": outcome.name, "status": outcome.status, **reason, **change}
