"""All objects of the process at one moment, by kind. Runs in the function's own process, and none of its code.

There may be millions: what is done with each of them is done by built-in functions. A class is known by its id: its
metaclass may have an `__eq__` or a `__hash__` of its own.
"""

import functools
import gc
import itertools
import operator
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

KINDS = (list, dict, set, deque)
"""Kinds with a length; their subclasses as well."""
HOLDERS = (dict, list, tuple, types.CellType)
"""Kinds whose items may be dicts that the collector does not know."""
HEAP_TYPE = 1 << 9
"""Flag of a class that Python code has made (Py_TPFLAGS_HEAPTYPE)."""
CACHE: type = functools._lru_cache_wrapper


def _of_type(name: str) -> Callable[[type], Any]:
    """Reads this of a class, whatever its metaclass makes of the name."""
    return type.__dict__[name].__get__  # type: ignore[no-any-return]


FLAGS, MRO, NAMESPACE = _of_type("__flags__"), _of_type("__mro__"), _of_type("__dict__")
_NAME, _QUALNAME, _MODULE = _of_type("__name__"), _of_type("__qualname__"), _of_type("__module__")


def kind_name(kind: type) -> str:
    """Its name: `Link`."""
    return str.__str__(_NAME(kind))


def named(kind: type) -> str:
    """Module and name: `app.Link`."""
    module = _MODULE(kind)
    return f"{module if type(module) is str else '?'}.{str.__str__(_QUALNAME(kind))}"


class Objects:
    """The objects that the garbage collector knows."""

    def __init__(self) -> None:
        self.known = gc.get_objects()
        self._kinds = list(map(id, map(type, self.known)))
        self.counts = Counter(self._kinds)
        """Objects of each kind, by the kind's id."""
        self.kinds = dict(zip(self._kinds, map(type, self.known), strict=True))
        """The kinds by their id."""

    def of(self, wanted: Callable[[type], bool]) -> Iterator[Any]:
        """Those of these kinds."""
        kinds = {each for each, kind in self.kinds.items() if wanted(kind)}
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
        yield from self.of(lambda kind: _is_one(kind, KINDS))
        holders = self.of(lambda kind: _is_one(kind, HOLDERS) or bool(FLAGS(kind) & HEAP_TYPE))
        items = gc.get_referents(*holders)
        dicts = itertools.compress(items, map(operator.is_, map(type, items), itertools.repeat(dict)))
        untracked = list(itertools.filterfalse(gc.is_tracked, dicts))
        yield from dict(zip(map(id, untracked), untracked, strict=True)).values()

    def _others(self) -> Iterator[Any]:
        """Caches of functions, and what is of a subclass."""
        return self.of(lambda kind: kind is CACHE or (issubclass(kind, KINDS) and not _is_one(kind, KINDS)))


def _is_one(kind: type, kinds: tuple[type, ...]) -> bool:
    return any(kind is each for each in kinds)


def length(each: Any) -> int:
    """The length of one of `with_length`."""
    kind = type(each)
    if kind is CACHE:
        size: int = each.cache_info().currsize
        return size
    return next(known.__len__(each) for known in KINDS if issubclass(kind, known))
