"""Containers that get longer from look to look. Runs in the function's own process."""

import itertools
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from truemem_workbench.explain.objects import Objects, kind_name

if TYPE_CHECKING:
    from truemem_workbench.explain.line_watch import Watch

MOST = 30
"""Containers that are told of, and watched."""
LATEST = 2
"""Look at which a container must be there: what grows without end is there early."""
LEVEL = 3
"""Look from which a container that has not become longer is forgotten."""
ABSENT = -1
"""Length at a look before it was there."""


class Containers:
    """The containers of the process that are as long as at the look before, or longer.

    Ids and lengths are in arrays: each int of a list is a block that the tracer would trace.
    """

    def __init__(self, own: tuple[Any, ...]) -> None:
        """`own` are the tracer's containers, which are none of the user's."""
        self._own = {id(each) for each in own}
        self._looks = 0
        self._ids = array("Q")
        self._lengths: list[array[int]] = []
        """For each look the length of each of these."""

    def look(self, objects: Objects) -> None:
        """Note the length of each container, and forget those that are shorter, or as long as at the first look."""
        self._looks += 1
        now = objects.lengths()
        for own in self._own:
            now.pop(own, None)
        ids = array("Q")
        lengths = [array("q") for _ in range(self._looks)]
        for each, *before in zip(self._ids, *self._lengths, strict=True):
            size = now.get(each, ABSENT)
            if size < before[-1]:
                continue
            if self._looks > LEVEL and size == next(number for number in before if number != ABSENT):
                continue
            ids.append(each)
            for column, number in zip(lengths, (*before, size), strict=True):
                column.append(number)
        if self._looks <= LATEST:
            new = now.keys() - set(ids)
            ids.extend(new)
            for column in lengths[:-1]:
                column.extend(itertools.repeat(ABSENT, len(new)))
            lengths[-1].extend(map(now.__getitem__, new))
        self._ids, self._lengths = ids, lengths

    def growing(self, objects: Objects) -> list[Any]:
        """The containers that are longer at most of the looks, that with the largest growth first."""
        gains = {
            each: lengths[-1] - lengths[0]
            for each, *column in zip(self._ids, *self._lengths, strict=True)
            if _rises(lengths := _known(column))
        }
        found = [each for each in objects.with_length() if id(each) in gains]
        found.sort(key=lambda each: -gains[id(each)])
        return found[:MOST]

    def told(self, watch: "Watch") -> list[dict[str, Any]]:
        """What is known of each growing container."""
        places = {each: place for place, each in enumerate(self._ids)}
        return [
            {
                "type": kind_name(type(each)),
                "lengths": _known([column[places[id(each)]] for column in self._lengths]),
                "owner": seen.owner,
                "items": seen.items,
                "allocatedAt": seen.allocated_at,
                "definedAt": seen.defined_at,
                "othersRan": seen.others_ran,
                "grewAt": [[*line, count] for line, count in seen.grew_at.items()],
            }
            for each, seen in watch.seen
            if id(each) in places
        ]


def _known(lengths: Sequence[int]) -> list[int]:
    return [each for each in lengths if each != ABSENT]


def _rises(lengths: list[int]) -> bool:
    steps = len(lengths) - 1
    return sum(after > before for before, after in itertools.pairwise(lengths)) * 3 >= steps * 2
