"""All objects of the process at one moment, what containers hold, and who owns them.

Runs in the function's own process, and none of the function's code: an object is never asked for an attribute, its
length or an item; only its type's built-in base is. There may be millions: what is done with each of them is done by
built-in functions. A class is known by its id: its metaclass may have an `__eq__` or a `__hash__` of its own.
"""

import functools
import gc
import itertools
import operator
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

SIZED_KINDS = (list, dict, set, deque)  # kinds with a length; their subclasses as well
HOLDERS = (dict, list, tuple, types.CellType)  # kinds whose items may be dicts that the collector does not know
HEAP_TYPE = 1 << 9  # flag of a class that Python code has made (Py_TPFLAGS_HEAPTYPE)
CACHE: type = functools._lru_cache_wrapper


def _of_type(name: str) -> Callable[[type], Any]:
    """Reads this of a class, whatever its metaclass makes of the name."""
    return type.__dict__[name].__get__  # type: ignore[no-any-return]


FLAGS, MRO, NAMESPACE = _of_type("__flags__"), _of_type("__mro__"), _of_type("__dict__")
_NAME, _QUALNAME, _MODULE = _of_type("__name__"), _of_type("__qualname__"), _of_type("__module__")


def kind_name(kind: type) -> str:
    """The name of a class: `Link`."""
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
        """The objects whose class is `wanted`."""
        kinds = {each for each, kind in self.kinds.items() if wanted(kind)}
        return itertools.compress(self.known, map(kinds.__contains__, self._kinds))

    def with_length(self) -> Iterator[Any]:
        """The objects that have a length, and the dicts that the collector does not know: of numbers, texts and bytes
        alone.

        CPython begins to track a dict with its first key or value that is tracked itself (gc.is_tracked).
        """
        return itertools.chain(self._built_in(), self._others())

    def lengths(self) -> dict[int, int]:
        """The length of each of these, by its id."""
        built_in = list(self._built_in())
        found = dict(zip(map(id, built_in), map(len, built_in), strict=True))
        lengths = {id(kind): _length_of(kind) for kind in self.kinds.values() if _is_other(kind)}
        found.update((id(each), lengths[id(type(each))](each)) for each in self._others())
        return found

    def _built_in(self) -> Iterator[Any]:
        yield from self.of(lambda kind: _is_one(kind, SIZED_KINDS))
        holders = self.of(lambda kind: _is_one(kind, HOLDERS) or bool(FLAGS(kind) & HEAP_TYPE))
        items = gc.get_referents(*holders)
        dicts = itertools.compress(items, map(operator.is_, map(type, items), itertools.repeat(dict)))
        untracked = list(itertools.filterfalse(gc.is_tracked, dicts))
        yield from dict(zip(map(id, untracked), untracked, strict=True)).values()

    def _others(self) -> Iterator[Any]:
        """Caches of functions, and what is of a subclass."""
        return self.of(_is_other)


def _is_one(kind: type, kinds: tuple[type, ...]) -> bool:
    return any(kind is each for each in kinds)


def _is_other(kind: type) -> bool:
    return kind is CACHE or (issubclass(kind, SIZED_KINDS) and not _is_one(kind, SIZED_KINDS))


def _length_of(kind: type) -> Callable[[Any], int]:
    if kind is CACHE:
        return lambda each: each.cache_info().currsize
    return next(known.__len__ for known in SIZED_KINDS if issubclass(kind, known))


def length(each: Any) -> int:
    """The length of one of `with_length`."""
    return _length_of(type(each))(each)


DEPTH = 8  # references from a container to the module that owns it, at most
SAMPLED_ITEMS = 8  # newest items that are looked into
OBJECTS_REACHED = 300  # objects below an item that are looked at
MODULES_AND_CLASSES = (types.ModuleType, type)
SHOWN_KEY_KINDS = (str, int, bytes)  # kinds of keys that are shown
MOST_KEY_CHARS = 40
Line = tuple[str, int]


def newest(container: Any) -> list[Any]:
    """Some items: the newest, where the container has an order."""
    kind = type(container)
    if issubclass(kind, dict):
        return [part for pair in islice(reversed(dict.items(container)), SAMPLED_ITEMS) for part in pair]
    if kind is CACHE:
        return gc.get_referents(container)
    for base in (list, deque):
        if issubclass(kind, base):
            last = base.__len__(container) - 1
            return [base.__getitem__(container, last - place) for place in range(min(SAMPLED_ITEMS, last + 1))]
    return list(islice(set.__iter__(container), SAMPLED_ITEMS))


def below(item: Any, stop: set[int]) -> Iterator[Any]:
    """The item and what it refers to, but no module, class, module's variables or container in `stop`."""
    waiting, met = deque([item]), {id(item), *stop}
    for _ in range(OBJECTS_REACHED):
        if not waiting:
            return
        each = waiting.popleft()
        yield each
        for further in gc.get_referents(each):
            is_followed = not issubclass(type(further), MODULES_AND_CLASSES) and not _is_globals(further)
            if id(further) not in met and is_followed:
                met.add(id(further))
                waiting.append(further)


def _is_globals(each: Any) -> bool:
    return type(each) is dict and "__name__" in each and "__builtins__" in each


def owner(held: list[Any], ignored: set[int]) -> str:
    """The way to one of these objects from a module, as Python writes it: `app.STATE["orders"]`. Empty if none."""
    ways = dict.fromkeys(map(id, held), "")
    level = held
    kept: list[list[Any]] = []
    met = {*map(id, held), *ignored}
    for _ in range(DEPTH):
        above = gc.get_referrers(*level)
        following: list[Any] = []
        met |= {id(level), id(above), id(following), id(ways), id(kept)}
        for each in above:
            if id(each) in met or type(each) is types.FrameType:
                continue
            met.add(id(each))
            part = next((further for further in gc.get_referents(each) if id(further) in ways), None)
            if part is None:
                continue
            way = ways[id(part)]
            if _is_globals(each):
                name = _name_of(each, part)
                if name:
                    return f"{_name(each['__name__'])}.{name}{way}"
                continue
            ways[id(each)] = f"{_step(each, part)}{way}"
            following.append(each)
        kept.append(level)  # what is known by its id has to live
        level = following
        if not level:
            break
    return ""


def _name(key: Any) -> str:
    return key if type(key) is str else ""


def _name_of(names: Any, part: Any) -> str:
    """The name of this value in a namespace; empty if it is not there."""
    return next((_name(key) for key, value in names.items() if value is part), "")


def _step(each: Any, part: Any) -> str:
    """How `part` is reached from `each`."""
    kind = type(each)
    if kind is dict:
        if any(_is_namespace_of(each, above) for above in gc.get_referrers(each)):
            return f".{_name_of(each, part)}"
        return next((f"[{_shown(key)}]" for key, value in each.items() if value is part), "")
    for base in (list, tuple):
        if issubclass(kind, base):
            items = base.__iter__(each)
            return f"[{next((place for place, value in enumerate(items) if value is part), 0)}]"
    if kind is types.FunctionType:
        return ".<closure>"
    if kind is types.CellType or _is_namespace_of(part, each):
        return ""
    name = _name_of(_attributes(each) or {}, part) or _slot(each, part)
    return f".{name}" if name else ""


def _is_namespace_of(names: Any, each: Any) -> bool:
    """Is this the dict of an object's attributes, or of a class's?"""
    return type(names) is dict and (issubclass(type(each), type) or _attributes(each) is names)


def _attributes(each: Any) -> Any:
    """The dict of an object's attributes. None if it has none, or one that is not Python's own."""
    for kind in MRO(type(each)):
        found = NAMESPACE(kind).get("__dict__")
        if found is not None:
            attributes = found.__get__(each) if type(found) is types.GetSetDescriptorType else None
            return attributes if type(attributes) is dict else None
    return None


def _slot(each: Any, part: Any) -> str:
    """The name in `__slots__` that this value has; empty if none has it."""
    for kind in MRO(type(each)):
        for name, found in NAMESPACE(kind).items():
            if type(found) is types.MemberDescriptorType:
                try:
                    if found.__get__(each) is part:
                        return _name(name)
                except AttributeError:
                    continue
    return ""


def _shown(key: Any) -> str:
    return f"{key!r:.{MOST_KEY_CHARS}}" if type(key) in SHOWN_KEY_KINDS else f"<{kind_name(type(key))}>"


def defined_at(container: Any) -> Line | None:
    """Where a function with a cache is defined: its first decorator's line."""
    wrapped = (_attributes(container) or {}).get("__wrapped__") if type(container) is CACHE else None
    if type(wrapped) is not types.FunctionType:
        return None
    code = wrapped.__code__
    return code.co_filename, code.co_firstlineno
