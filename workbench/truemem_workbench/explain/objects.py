"""All objects of the process at one moment, by kind. Runs in the function's own process.

There may be millions: what is done with each of them is done by built-in functions.
"""

import functools
import gc
import itertools
import operator
import types
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

KINDS = (list, dict, set, deque)
"""Kinds with a length; their subclasses as well."""
HOLDERS = (dict, list, tuple, types.CellType)
"""Kinds whose items may be dicts that the collector does not know."""
HEAP_TYPE = 1 << 9
"""Flag of a class that Python code has made (Py_TPFLAGS_HEAPTYPE)."""
CACHE: type = functools._lru_cache_wrapper


class Objects:
    """The objects that the garbage collector knows."""

    def __init__(self) -> None:
        self.known = gc.get_objects()
        self._kinds = list(map(type, self.known))
        self.counts = Counter(self._kinds)

    def of(self, kinds: set[type]) -> Iterator[Any]:
        """Those of exactly these kinds."""
        return itertools.compress(self.known, map(kinds.__contains__, self._kinds))

    def with_length(self) -> Iterator[Any]:
        """Those that have a length, and the dicts that the collector does not know: of numbers, texts and bytes alone.

        CPython begins to track a dict with its first key or value that is tracked itself (gc.is_tracked).
        """
        return itertools.chain(self._built_in(), self._others())

    def lengths(self) -> dict[int, int]:
        """The length of each of these, by its id."""
        built_in = list(self._built_in())
        found = dict(zip(map(id, built_in), map(len, built_in), strict=True))
        found.update((id(each), length(each)) for each in self._others())
        return found

    def _built_in(self) -> Iterator[Any]:
        yield from self.of(set(KINDS))
        holders = self.of({kind for kind in self.counts if kind in HOLDERS or kind.__flags__ & HEAP_TYPE})
        items = gc.get_referents(*holders)
        dicts = itertools.compress(items, map(operator.is_, map(type, items), itertools.repeat(dict)))
        untracked = list(itertools.filterfalse(gc.is_tracked, dicts))
        yield from dict(zip(map(id, untracked), untracked, strict=True)).values()

    def _others(self) -> Iterator[Any]:
        """Caches of functions, and what is of a subclass."""
        return self.of(
            {kind for kind in self.counts if kind is CACHE or (kind not in KINDS and issubclass(kind, KINDS))}
        )


def length(each: Any) -> int:
    """The length of one of `with_length`. It runs no code of the user's."""
    kind = type(each)
    if kind is CACHE:
        size: int = each.cache_info().currsize
        return size
    return next(known.__len__(each) for known in KINDS if issubclass(kind, known))
