"""Labelled curves that no threshold was chosen by: other kinds, noise and rates than in `synthetic`.

They were written before the verdict was run on them. If you tune the verdict with them, make others: KINDS were held
out from the first verdict, and have been looked at since; AGAIN from the second.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from ...analysis.drift import Point
from .corpus import gaps, noise
from .held_out_again import AGAIN
from .held_out_kinds import BOUNDED, KINDS, LEAK, WARMING, Kind
from .synthetic import MIB, PAGE_KIB, Floats

__all__ = ["AGAIN", "BOUNDED", "GROUPS", "GROUPS_AGAIN", "KINDS", "LEAK", "WARMING", "Kind", "make"]

PROMISED_KIB = 4
"""Smallest leak that is promised to be found, in KiB."""


def _names(chosen: Callable[[Kind], bool], kinds: dict[str, Kind]) -> list[str]:
    return [name for name, kind in kinds.items() if chosen(kind)]


def _promised(kind: Kind) -> bool:
    return kind.kib is not None and kind.kib[0] >= PROMISED_KIB


def _groups(kinds: dict[str, Kind]) -> dict[str, list[str]]:
    return {
        "full, or comes and goes: false alarms": _names(lambda kind: kind.truth == BOUNDED, kinds),
        "filling: false alarms": _names(lambda kind: kind.truth == WARMING, kinds),
        "leak alone: found": _names(lambda kind: _promised(kind) and not kind.beside, kinds),
        "leak beside what moves by more: found": _names(lambda kind: _promised(kind) and kind.beside, kinds),
    }


GROUPS = _groups(KINDS)
GROUPS_AGAIN = _groups(AGAIN)


def make(kind: str, seed: int, count: int) -> list[Point]:
    """The curve of one environment: one life, unless something kills it."""
    random = np.random.default_rng([seed, *kind.encode()])
    about = {**KINDS, **AGAIN}[kind]
    at = np.cumsum(gaps(random, count))
    base = random.uniform(16, 300) * MIB
    moved, began, died = _moved(random, about, at)
    held = base + moved + noise(random, count)
    current = np.maximum(np.round(held / PAGE_KIB), 1) * PAGE_KIB
    peak = current + np.round(random.lognormal(np.log(random.uniform(50, 2000)), 0.7, count) / PAGE_KIB) * PAGE_KIB
    rows = zip(at.tolist(), current.tolist(), peak.tolist(), strict=True)
    return [
        Point(number, time, left, most, begins=number - 1 in began, died=number - 1 in died)
        for number, (time, left, most) in enumerate(rows, 1)
    ]


def _moved(random: Generator, kind: Kind, at: Floats) -> tuple[Floats, set[int], set[int]]:
    """The curve, and the invocations at which the processes are new or were killed."""
    if kind.room_mib is None:
        return kind.curve(random, at), set(), set()
    room = random.uniform(*kind.room_mib) * MIB
    began, died, first = set[int](), set[int](), 0
    made = np.empty(len(at))
    while first < len(at):
        began.add(first)
        held = kind.curve(random, at[first:])
        spike = np.flatnonzero(random.random(len(held)) < kind.killed)
        full = np.flatnonzero(held >= room)
        last = int(min([len(held) - 1, *spike[:1], *full[:1]]))
        held[last] = min(held[last], room)
        if last in spike:  # what was seen last, on the way up
            held[last] += random.random() * (room - held[last])
        made[first : first + last + 1] = held[: last + 1]
        first += last + 1
        if last in spike or last in full:
            died.add(first - 1)
    return made, began, died
