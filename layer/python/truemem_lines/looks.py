"""Looks at the objects that the collector knows: which containers get longer?"""

from __future__ import annotations

import gc
import sys

from .containers import Container, Sizes
from .kinds import KIND_BYTES, GrowingKinds
from .objects import CACHE, MOST_FOUND, base_of, bound_of, containers, kinds_of, measured
from .rising import rising
from .values import Values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

OBJECT_BYTES, CONTAINER_BYTES = 8, 72
"""Memory of the first look, for a moment, for each object of the process and for each container."""
BLOCK_BYTES = 80
"""Bytes of a block of Python's own allocator, on average, where its bytes are not known."""
FIRST_BYTES, LENGTHS_BYTES, VALUE_BYTES, COUNTS_BYTES = 32, 112, 240, 112
"""Bytes of small objects that our tables have for a length of the first look, a container, a value and a kind."""
MOST_CONTAINERS = 100


class GrowingContainers:
    """The containers that are as long as at the look before, or longer."""

    def __init__(self, in_use: Callable[[], int] | None, small: Callable[[], int] | None) -> None:
        self.at: list[int] = []
        """Number of each look's invocation."""
        self._malloc: list[int] = []
        self._smalls: list[int] = []
        self._own_malloc = 0
        """What our looks have taken and not given back."""
        self._in_use, self._small = in_use, small
        self._first: dict[int, int] = {}
        """Length of each container at the first look, by id, until the second."""
        self._lengths: dict[int, tuple[int, ...]] = {}
        """Length of each container at each look, by id."""
        self._values = Values()
        self.kinds = GrowingKinds()

    def look(self, at: int, most_bytes: int) -> int:
        """Note the lengths. Returns the bytes that this takes: more than `most_bytes` if it was not done."""
        in_use, small = self._malloc_now(), self._small_now()
        needs = self._note(most_bytes)
        if needs <= most_bytes:
            self.at.append(at)
            self._malloc.append(in_use)
            self._smalls.append(small)
        self._own_malloc += self._malloc_now() - in_use if self._in_use is not None else 0
        return needs

    def _note(self, most_bytes: int) -> int:
        objects = gc.get_objects()
        kinds = {place for place, kind in kinds_of(objects).items() if base_of(kind) is not None}
        known = self._first or self._lengths
        noted = len(known) if self.at else sum(map(kinds.__contains__, map(id, map(type, objects))))
        needs = OBJECT_BYTES * len(objects) + CONTAINER_BYTES * (noted + len(self._values))
        needs += KIND_BYTES * len(self.kinds)
        if needs > most_bytes:
            return needs
        self.kinds.look(objects)
        before = self._lengths
        found: dict[int, tuple[int, ...]] = {}
        own = {
            id(objects),
            id(self.at),
            id(self._malloc),
            id(self._smalls),
            id(self.__dict__),
            id(before),
            id(found),
            id(self._first),
        }
        if not self.at:
            self._first = {id(each): size for each, size in containers(objects, self._values.look)}
        for each, size in containers(objects, self._values.look) if self.at else ():
            place = id(each)
            lengths = before.get(place)
            if lengths is not None:
                if size > lengths[0]:
                    found[place] = (*lengths, size)
            elif len(self.at) == 1 and size != (first := self._first.get(place, 0)):
                found[place] = (first, size)
        if self.at:
            self._first = {}
        for place in own:
            found.pop(place, None)
        self._lengths = found
        self._values.looked()
        return needs

    def of_malloc(self, at: int) -> float:
        """Bytes per invocation by which grows what malloc has given out, until invocation `at`, which is now."""
        return rising([*self.at, at], [*self._malloc, self._malloc_now()])

    def of_small(self) -> float:
        """Bytes per invocation by which what Python's own allocator has given out grew until the last look: later the
        watch has objects of its own."""
        return rising(self.at, self._smalls)

    def _malloc_now(self) -> int:
        return (self._in_use() if self._in_use is not None else _resident()) - self._own_malloc

    def _small_now(self) -> int:
        """Bytes of Python's own allocator without our tables.

        The difference over a look would have what is in Python's free lists, until the next collection.
        """
        first, lengths = len(self._first), len(self._lengths)
        values, kinds = len(self._values), len(self.kinds)
        if self._small is None:
            return BLOCK_BYTES * (sys.getallocatedblocks() - first - 2 * (lengths + kinds) - 5 * values)
        own = FIRST_BYTES * first + LENGTHS_BYTES * lengths + VALUE_BYTES * values + COUNTS_BYTES * kinds
        return self._small() - own

    def growing(self, most_bytes: int) -> list[Container]:
        """The containers that get longer steadily, that with most first. Forgets the lengths."""
        rates = {place: rising(self.at, lengths) for place, lengths in self._lengths.items()}
        rates = {place: rate for place, rate in rates.items() if rate > 0}
        own = {id(self._lengths), id(rates), id(self.__dict__)}
        self._lengths = {}
        self._values.choose(self.at)
        self.kinds.choose(self.at)
        everything = containers(gc.get_objects(), self._values.find)
        found = [each for each, _ in everything if id(each) in rates and id(each) not in own]
        inside = {id(each) for cache in found if type(cache) is CACHE for each in gc.get_referents(cache)}
        found = [each for each in found if id(each) not in inside]
        found.sort(key=lambda each: -rates[id(each)])
        del found[MOST_FOUND:]
        sizes = Sizes({id(found), id(rates), id(inside), *map(id, found)}, most_bytes)
        made = self._values.containers(self.at[-1], sizes)
        for each in found:
            if id(each) not in made:
                rate = rates[id(each)]
                made[id(each)] = Container(
                    each, measured(each), set(), rate, self.at[-1], sizes.of(each), bound_of(each)
                )
        return sorted(made.values(), key=lambda each: -each.rate)[:MOST_CONTAINERS]


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096
