"""What kinds of objects there are, and how long containers are: asked by their type's built-in base alone."""

from __future__ import annotations

import functools
import gc
import itertools
import operator
import sys
import types
from collections import deque
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

SIZED_KINDS = (list, dict, set, deque)
CACHE: type = functools._lru_cache_wrapper
HOLDERS = (dict, list, tuple, types.CellType)
"""Kinds, beside classes that are written in Python, whose items may be dicts that the collector does not know."""
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
OBJECTS_TOGETHER = 2000
"""Objects that are looked at together."""
MOST_FOUND = 300
"""Growing containers, or values, whose items are looked into."""
TEXTS = {id(kind) for kind in (str, bytes, bytearray, getattr(sys.modules.get("array"), "array", bytes))}
"""Ids of the kinds that the collector does not know."""


def _of_type(name: str) -> Callable[[type], Any]:
    """Reads this of a class, whatever its metaclass makes of the name."""
    return type.__dict__[name].__get__  # type: ignore[no-any-return]


FLAGS, MRO, NAMESPACE = _of_type("__flags__"), _of_type("__mro__"), _of_type("__dict__")
MODULE = _of_type("__module__")
"""Reads the module of a type that is written in C, and has none in its namespace."""


def is_one(kind: type, kinds: Sequence[type]) -> bool:
    """Is it in there? Not by `in`: a metaclass may have an `__eq__` of its own."""
    return any(kind is each for each in kinds)


def base_of(kind: type) -> type | None:
    """The built-in container that it is, or is a subclass of."""
    return CACHE if kind is CACHE else next((each for each in SIZED_KINDS if is_one(each, MRO(kind))), None)


def measure_of(kind: type) -> Callable[[Any], int] | None:
    """Reads the length of what is of this kind. None for what is no container, and no cache."""
    base = base_of(kind)
    return None if base is None else _cached if base is CACHE else NAMESPACE(base)["__len__"]


def measured(container: Any) -> Callable[[], int]:
    """Reads the length of this one."""
    return partial(measure_of(type(container)) or len, container)


def _cached(cache: Any) -> int:
    return int(cache.cache_info().currsize)


def bound_of(container: Any) -> int | None:
    """The length that it can have at most. None if it has no bound."""
    kind = type(container)
    bound = container.cache_info().maxsize if kind is CACHE else None
    if issubclass(kind, deque):
        bound = deque.__dict__["maxlen"].__get__(container)
    return bound if type(bound) is int else None


def attributes_of(each: Any) -> Any:
    """The dict of an object's attributes. Empty if it has none, or one that is not Python's own."""
    for kind in MRO(type(each)):
        found = NAMESPACE(kind).get("__dict__")
        if found is not None:
            attributes = found.__get__(each) if type(found) is types.GetSetDescriptorType else None
            return attributes if type(attributes) is dict else {}
    return {}


def kinds_of(objects: list[Any]) -> dict[int, type]:
    return dict(zip(map(id, map(type, objects)), map(type, objects)))  # noqa: B905 - twice as fast without


def containers(objects: list[Any], look: Callable[[list[Any], set[int]], None]) -> Iterator[tuple[Any, int]]:
    """The objects that have a length, and the dicts that the collector does not know: of numbers, texts and bytes
    alone.

    `look` is called with some of the objects, and the ids of kinds that have values under a name: dicts, instances,
    cells. What is done with each of the objects is done by built-in functions: there may be a million.
    """
    kinds = kinds_of(objects)
    measures = {place: found for place, kind in kinds.items() if (found := measure_of(kind)) is not None}
    holders = {place for place, kind in kinds.items() if is_one(kind, HOLDERS) or FLAGS(kind) & HEAP_TYPE}
    naming = {place for place in holders if not is_one(kinds[place], (list, tuple))}
    met: set[int] = set()
    for start in range(0, len(objects), OBJECTS_TOGETHER):
        chunk = objects[start : start + OBJECTS_TOGETHER]
        places = list(map(id, map(type, chunk)))
        for each in itertools.compress(chunk, map(measures.__contains__, places)):
            yield each, measures[id(type(each))](each)
        items = gc.get_referents(*itertools.compress(chunk, map(holders.__contains__, places)))
        dicts = itertools.compress(items, map(operator.is_, map(type, items), itertools.repeat(dict)))
        untracked = {id(each): each for each in itertools.filterfalse(gc.is_tracked, dicts) if id(each) not in met}
        met.update(untracked)
        for each in untracked.values():
            yield each, len(each)
        look([*chunk, *untracked.values()], naming)
