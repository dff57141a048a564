"""Types of which there are more objects from look to look, and who owns them. Runs in the function's own process.

It sees what grows in no container: a chain of objects, a tree.
"""

import gc
import itertools
import tracemalloc
from collections import Counter
from typing import Any

from truemem_workbench.explain.objects import FLAGS, HEAP_TYPE, Objects, named
from truemem_workbench.explain.owners import below, owner

MOST = 3
"""Types that are told of."""
MOST_OBJECTS = 1000
"""Objects of a type among which its owner is looked for."""
SAMPLE = 8
"""Objects of a type that are looked into."""


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

    def told(self, objects: Objects, ignored: set[int]) -> list[dict[str, Any]]:
        """What is known of the types that grow most: their numbers, where objects were made, who owns them.

        `ignored` are ids of the tracer's own objects, which own none of the user's.
        """
        growing = [name for name, counts in self._counts.items() if _rises(counts)]
        growing.sort(key=lambda name: self._counts[name][0] - self._counts[name][-1])
        for name in growing[:MOST]:
            if name not in self._known:
                self._known[name] = _described(name, objects, {*ignored, id(self._known)})
        return [{**self._known[name], "counts": self._counts[name]} for name in growing[:MOST]]


def _described(name: str, objects: Objects, ignored: set[int]) -> dict[str, Any]:
    held = list(itertools.islice(objects.of(lambda kind: named(kind) == name), MOST_OBJECTS))
    ignored = {*ignored, id(held)}
    ends = _not_below(held)
    inside = itertools.chain.from_iterable(below(each, ignored) for each in held[-SAMPLE:])
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
    return [each for each in held if id(each) not in below_one][:SAMPLE]


def _rises(counts: list[int]) -> bool:
    return sum(after > before for before, after in itertools.pairwise(counts)) * 3 >= 2 * len(counts)
