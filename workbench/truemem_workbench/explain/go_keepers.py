"""What keeps the objects of a program in Go: the way to each from a variable or a goroutine, by the words in memory
that are addresses of objects. Conservative: a word may be an address by chance, or be no longer in use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .go_heap import Memory, Running, Span, Whole

NOT_IN_USE = -1
"""Stands for an address that is no object."""
ROOTED = -2
"""Keeper of an object that a root leads to."""


MOST = 4_000_000
"""Addresses, and places of objects, that are followed: that takes 0.5 GiB."""


class Root(NamedTuple):
    """Where a way begins."""

    name: str
    """The variable. Empty for a goroutine, and where no name is known."""
    words: Whole
    goroutine: Running | None = None


def variables(sections: Sequence[tuple[int, Whole]], symbols: Sequence[tuple[str, int, int]]) -> list[Root]:
    """The words of each variable, with those of what has no name and lies in the same sections: `&store{}` of `var s =
    &store{}`. It is that of the first variable that leads to it. All other words come last, without a name.

    `sections`: address and words of each. `symbols`: name, begin and end of variables in them."""
    found, rest = [], []
    owners = [np.full(len(words), len(symbols), np.int64) for _, words in sections]
    places = [(begin, begin + 8 * len(words)) for begin, words in sections]

    def place(at: int) -> tuple[int, int] | None:
        """The section and the word there."""
        for number, (begin, end) in enumerate(places):
            if begin <= at < end:
                return number, (at - begin) // 8
        return None

    for number, (_, begin, end) in enumerate(symbols):
        if (at := place(begin)) is not None:
            owners[at[0]][at[1] : at[1] + (end - begin + 7) // 8] = number
    ends = [np.unique(np.concatenate([(w[(w >= b) & (w < e)] - b) // 8 for _, w in sections])) for b, e in places]
    for number, (name, begin, end) in enumerate(symbols):
        at = place(begin)
        if at is None:
            continue
        words = [sections[at[0]][1][at[1] : at[1] + (end - begin) // 8]]
        for part in words:  # it grows meanwhile
            for word in part[part > 0].tolist():
                to = place(word)
                if to is None or owners[to[0]][to[1]] != len(symbols):
                    continue
                of, first = to
                until = int(np.searchsorted(ends[of], first, side="right"))
                last = int(ends[of][until]) if until < len(ends[of]) else len(owners[of])
                owned = np.flatnonzero(owners[of][first:last] != len(symbols))
                last = first + int(owned[0]) if len(owned) else last
                owners[of][first:last] = number
                words.append(sections[of][1][first:last])
        found.append(Root(name, np.concatenate(words)))
    rest = [words[of == len(symbols)] for (_, words), of in zip(sections, owners, strict=True)]
    return [*found, Root("", np.concatenate(rest))] if rest else found


class Slots:
    """Numbers for the places of a heap that an object can be at, by address."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._begins = np.array([each.begin for each in spans], np.int64)
        self._ends = np.array([each.end for each in spans], np.int64)
        self._sizes = np.array([each.size for each in spans], np.int64)
        counts = (self._ends - self._begins) // np.maximum(self._sizes, 1)
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.count = int(self._first[-1])

    def of(self, words: npt.NDArray[np.int64]) -> Whole:
        """The number of the place that each word is an address in. NOT_IN_USE: it is none."""
        if not len(self._begins):
            return np.full(len(words), NOT_IN_USE, np.int64)
        span = np.searchsorted(self._begins, words, side="right") - 1
        inside = np.maximum(words - self._begins[span], 0) // self._sizes[span]
        place = self._first[span] + inside
        is_one = (span >= 0) & (words < self._ends[span]) & (place < self._first[span + 1])
        return np.where(is_one, place, NOT_IN_USE)


class Ways:
    """The shortest way to each object from the roots that come first in their order."""

    def __init__(self, memory: Memory, spans: Sequence[Span], roots: Sequence[Sequence[Root]], ignored: Iterable[int]):
        """`roots`: in groups; what one of an earlier group leads to is no other's. `ignored`: addresses of objects
        that lead to nothing. Raises OSError."""
        self.slots = Slots(spans)
        self.roots = [each for group in roots for each in group]
        begins, ends = self._edges(memory, spans)
        kept = ~np.isin(begins, self.slots.of(np.array(list(ignored), np.int64)))
        begins, ends = begins[kept], ends[kept]
        if max(len(ends), self.slots.count) > MOST:
            raise OSError("the heap is too large to follow its addresses")
        first = np.searchsorted(begins, np.arange(self.slots.count + 1)).tolist()
        to = ends.tolist()
        self._above = [NOT_IN_USE] * self.slots.count
        self._root: dict[int, int] = {}
        """Roots of the objects that they lead to at once."""
        number = 0
        for group in roots:
            order: list[int] = []
            for each in group:
                for slot in np.unique(self.slots.of(each.words)).tolist():
                    if slot >= 0 and self._above[slot] == NOT_IN_USE:
                        self._above[slot] = ROOTED
                        self._root[slot] = number
                        order.append(slot)
                number += 1
            for slot in order:  # it grows meanwhile
                for end in to[first[slot] : first[slot + 1]]:
                    if self._above[end] == NOT_IN_USE:
                        self._above[end] = slot
                        order.append(end)

    def way(self, slot: int) -> tuple[Root | None, list[int]]:
        """The root that keeps an object, and the objects on the way to it, itself last. None if no root leads to it."""
        found = [slot]
        while (above := self._above[slot]) >= 0:
            slot = above
            found.append(slot)
        return self.roots[self._root[slot]] if above == ROOTED else None, found[::-1]

    def _edges(self, memory: Memory, spans: Sequence[Span]) -> tuple[Whole, Whole]:
        begins, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for span, words in _words(memory, spans):
            to = self.slots.of(words)
            at = np.flatnonzero(to >= 0)
            of = self.slots.of(span.begin + 8 * at)
            begins.append(of[of >= 0])
            ends.append(to[at][of >= 0])
        whole, targets = np.concatenate(begins), np.concatenate(ends)
        order = np.argsort(whole, kind="stable")
        return whole[order], targets[order]


def _words(memory: Memory, spans: Sequence[Span]) -> Iterator[tuple[Span, npt.NDArray[np.int64]]]:
    for span in spans:
        if span.has_pointers:
            yield span, np.frombuffer(memory.read(span.begin, span.end - span.begin), "<i8")
