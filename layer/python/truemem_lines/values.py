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
VALUES = {*TEXTS, id(list)}
KEYS = (str, int, bytes)
"""Kinds of keys whose `__eq__` and `__hash__` are Python's."""


class Values:
    """Texts, bytes and lists that grow under a name, though the object may be another each time: `text += more`."""

    def __init__(self) -> None:
        self._looks = 0
        self._known: dict[int, int] = {}
        """By id: the length of each large value at the look before."""
        self._known_now: dict[int, int] = {}
        self._places: dict[tuple[int, int], tuple[int, ...]] = {}
        """By the holder's id, and the place among what it refers to: the length at each look but the first."""
        self._places_now: dict[tuple[int, int], tuple[int, ...]] = {}
        self._there: set[int] = set()
        """Ids of the values at these places at the look before."""
        self._there_now: set[int] = set()
        self._rates: dict[int, dict[int, float]] = {}
        """Of those that grow, by the holder's id and the place."""
        self._holders: list[Any] = []

    def __len__(self) -> int:
        """Large values at the look before."""
        return len(self._known)

    def look(self, holders: list[Any]) -> None:
        """Note the large values of some objects."""
        items = gc.get_referents(*holders)
        kinds = list(map(id, map(type, items)))
        texts = list(itertools.compress(items, map(TEXTS.__contains__, kinds)))
        texts = list(itertools.compress(texts, map(LEAST_TEXT.__le__, map(len, texts))))
        lists = list(itertools.compress(items, map(id(list).__eq__, kinds)))
        lists = list(itertools.compress(lists, map(LEAST_LIST.__le__, map(len, lists))))
        large = {id(each): len(each) for each in (*texts, *lists)}
        self._known_now.update(large)
        if not self._looks:
            return
        changed = {each for each, size in large.items() if self._known.get(each) != size or each in self._there}
        for holder in holders if changed else ():
            values = gc.get_referents(holder)
            if not changed.isdisjoint(map(id, values)):
                self._note(id(holder), values, changed)

    def _note(self, holder: int, values: list[Any], changed: set[int]) -> None:
        for place, each in enumerate(values):
            before = self._places.get((holder, place), () if self._looks == 1 else None)
            if id(each) in changed and before is not None and len(each) >= max(before, default=0):
                self._places_now[holder, place] = (*before, len(each))
                self._there_now.add(id(each))

    def looked(self) -> None:
        """All objects were looked at."""
        self._known, self._known_now = self._known_now, {}
        self._places, self._places_now = self._places_now, {}
        self._there, self._there_now = self._there_now, set()
        self._looks += 1

    def choose(self, at: Sequence[int]) -> None:
        """Take those that get longer steadily, and most. Forgets the lengths."""
        rates = [(rising(at, (*lengths[:1], *lengths)), *where) for where, lengths in self._places.items()]
        rates.sort(reverse=True)
        for rate, holder, place in rates[:MOST_FOUND]:
            if rate > 0:
                self._rates.setdefault(holder, {})[place] = rate
        self._known, self._places = {}, {}

    def find(self, holders: list[Any]) -> None:
        """Find the holders of these again, among some objects."""
        self._holders += [each for each in holders if id(each) in self._rates]

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
