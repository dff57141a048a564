"""Containers that get longer from look to look, and types of which there are more objects: a chain, a tree.

Runs in the function's own process.
"""

import gc
import itertools
import tracemalloc
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from truemem_workbench.explain.objects import FLAGS, HEAP_TYPE, Objects, below, kind_name, named, owner

if TYPE_CHECKING:
    from truemem_workbench.explain.line_watch import ContainerWatch

MOST_TYPES = 3  # types that are described
MOST_OBJECTS = 1000  # objects of a type among which its owner is looked for
SAMPLED_OBJECTS = 8  # objects of a type that are looked into


class TypeGrowth:
    """How many objects there are of each class that is written in Python, at each look."""

    def __init__(self) -> None:
        self._looks = 0
        self._counts: dict[str, list[int]] = {}
        self._known: dict[str, dict[str, Any]] = {}
        """What is known of a type, beside its numbers: it is looked for once."""

    def look(self, objects: Objects) -> None:
        """Count the objects of each class; forget those of which there are fewer than before, or none at first."""
        now: Counter[str] = Counter()
        for kind, count in objects.counts.items():
            if FLAGS(objects.kinds[kind]) & HEAP_TYPE:
                now[named(objects.kinds[kind])] += count
        before = self._counts
        self._counts = {
            name: [*before.get(name, ()), count]
            for name, count in now.items()
            if not self._looks or (name in before and count >= before[name][-1])
        }
        self._looks += 1

    def described(self, objects: Objects, ignored: set[int]) -> list[dict[str, Any]]:
        """What is known of the types that grow most: their numbers, where objects were made, who owns them.

        `ignored` are ids of the tracer's own objects, which own none of the user's.
        """
        growing = [name for name, counts in self._counts.items() if _counts_rise(counts)]
        growing.sort(key=lambda name: self._counts[name][0] - self._counts[name][-1])
        for name in growing[:MOST_TYPES]:
            if name not in self._known:
                self._known[name] = _described(name, objects, {*ignored, id(self._known)})
        return [{**self._known[name], "counts": self._counts[name]} for name in growing[:MOST_TYPES]]


def _described(name: str, objects: Objects, ignored: set[int]) -> dict[str, Any]:
    held = list(itertools.islice(objects.of(lambda kind: named(kind) == name), MOST_OBJECTS))
    ignored = {*ignored, id(held)}
    ends = _not_below(held)
    inside = itertools.chain.from_iterable(below(each, ignored) for each in held[-SAMPLED_OBJECTS:])
    stacks = dict.fromkeys(filter(None, map(tracemalloc.get_object_traceback, inside)))
    return {
        "type": name,
        "owner": owner(ends, {*ignored, *map(id, held)} - {*map(id, ends)} | {id(ends)}),
        "allocatedAt": [[[frame.filename, frame.lineno] for frame in stack] for stack in stacks],
    }


def _not_below(held: list[Any]) -> list[Any]:
    """Some of these objects to which no other of them refers: of a chain its end, of a tree its root."""
    parts = [part for each in held for part in gc.get_referents(each)]
    below_one = {*map(id, parts), *(id(part) for each in parts if type(each) is dict for part in each.values())}
    return [each for each in held if id(each) not in below_one][:SAMPLED_OBJECTS]


def _counts_rise(counts: list[int]) -> bool:
    return sum(after > before for before, after in itertools.pairwise(counts)) * 3 >= 2 * len(counts)


MOST_CONTAINERS = 30  # containers that are described and watched
LATEST_LOOK = 2  # look at which a container must be there: what grows without end is there early
LEVEL = 3  # look from which a container that has not become longer is forgotten
ABSENT = -1  # length at a look before it was there


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
        if self._looks <= LATEST_LOOK:
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
        return found[:MOST_CONTAINERS]

    def described(self, watch: "ContainerWatch") -> list[dict[str, Any]]:
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
