"""Texts, bytes and lists that grow under a name."""

from __future__ import annotations

import gc
import itertools
import sys
from functools import partial

from .containers import Container
from .objects import MOST_FOUND, TEXTS, attributes_of, is_one
from .rising import rising

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .containers import Sizes

LEAST_TEXT, LEAST_LIST = 4096, 16
"""Lengths from which texts and bytes, and lists, are looked at: the sidecar asks when memory has grown for long."""
LISTS = {id(list)}
VALUES = TEXTS | LISTS
KEYS = (str, int, bytes)
"""Kinds of keys whose `__eq__` and `__hash__` are Python's."""


class Values:
    """Texts, bytes and lists that grow under a name, though the object may be another each time: `text += more`."""

    def __init__(self) -> None:
        self._lengths: dict[int, dict[int, tuple[int, ...]]] = {}
        """Length at each look, by the holder's id and the place among what it refers to."""
        self._now: dict[int, dict[int, tuple[int, ...]]] = {}
        """Lengths by holder's id and place, with the look that goes on."""
        self._looks = 0
        self._rates: dict[int, dict[int, float]] = {}
        """Growth of the values that grow, by holder's id and place."""
        self._holders: list[Any] = []

    def __len__(self) -> int:
        """How many are known."""
        return sum(map(len, self._lengths.values()))

    def look(self, objects: list[Any], holding: set[int]) -> None:
        """Note the lengths of the values of some objects: of those whose kind's id is in `holding`."""
        if self._looks == 0:
            self._find_large(list(itertools.compress(objects, map(holding.__contains__, map(id, map(type, objects))))))
            return
        for holder in itertools.compress(objects, map(self._lengths.__contains__, map(id, objects))):
            values = dict(enumerate(gc.get_referents(holder)))
            for place, lengths in self._lengths[id(holder)].items():
                size = _length(values.get(place))
                if size > lengths[0]:
                    self._now.setdefault(id(holder), {})[place] = (*lengths, size)

    def _find_large(self, holders: list[Any]) -> None:
        items = gc.get_referents(*holders)
        large: set[int] = set()
        for kinds, least in ((TEXTS, LEAST_TEXT), (LISTS, LEAST_LIST)):
            values = list(itertools.compress(items, map(kinds.__contains__, map(id, map(type, items)))))
            large.update(map(id, itertools.compress(values, map(least.__le__, map(len, values)))))
        for holder in holders if large else ():
            values = gc.get_referents(holder)
            if not large.isdisjoint(map(id, values)):
                self._now[id(holder)] = {place: (len(each),) for place, each in enumerate(values) if id(each) in large}

    def looked(self) -> None:
        """All objects were looked at."""
        self._lengths, self._now = self._now, {}
        self._looks += 1

    def choose(self, at: Sequence[int]) -> None:
        """Take those that get longer steadily, and most. Forgets the lengths."""
        rates = [
            (rising(at, lengths), holder, place)
            for holder, places in self._lengths.items()
            for place, lengths in places.items()
        ]
        rates.sort(reverse=True)
        for rate, holder, place in rates[:MOST_FOUND]:
            if rate > 0:
                self._rates.setdefault(holder, {})[place] = rate
        self._lengths = {}

    def find(self, objects: list[Any], _holding: set[int]) -> None:
        """Find the holders of these again, among some objects."""
        self._holders += itertools.compress(objects, map(self._rates.__contains__, map(id, objects)))

    def containers(self, at: int, sizes: Sizes) -> dict[int, Container]:
        """What was found, as containers of letters, bytes or items, by the value's id."""
        made: dict[int, Container] = {}
        for holder in self._holders:
            values = dict(enumerate(gc.get_referents(holder)))
            found = [(values[place], rate) for place, rate in self._rates[id(holder)].items() if place in values]
            names = holder if type(holder) is dict else attributes_of(holder)
            keys = {id(value): key for key, value in list(dict.items(names)) if is_one(type(key), KEYS)}
            for value, rate in found:
                key = keys.get(id(value))
                if id(type(value)) in VALUES and key is None:
                    made[id(value)] = Container(holder, _at(holder, value), set(), rate, at, sizes.of(value))
                elif id(type(value)) in VALUES:
                    known_as = {key} if type(key) is str else set()
                    made[id(value)] = Container(names, partial(_under, names, key), known_as, rate, at, sizes.of(value))
        self._holders = []
        return made


def _at(holder: Any, value: Any) -> Callable[[], int]:
    """Reads the length of the value that is where this one is. A dict of attributes may be there only now."""
    places = [place for place, held in enumerate(gc.get_referents(holder)) if held is value]
    return partial(_length_at, holder, places[0] if places else sys.maxsize)


def _under(names: dict[Any, Any], key: Any) -> int:
    return _length(names.get(key))


def _length_at(holder: Any, place: int) -> int:
    return _length(next(iter(gc.get_referents(holder)[place : place + 1]), None))


def _length(value: Any) -> int:
    return len(value) if id(type(value)) in VALUES else 0
