"""Containers that get longer from look to look, and who owns them. Runs in the function's own process."""

import functools
import gc
import itertools
import types
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from truemem_workbench.explain.line_watch import Watch

KINDS = (list, dict, set, deque)
"""Kinds with a length; their subclasses as well."""
HOLDERS = (dict, list, tuple, types.CellType)
"""Kinds whose items may be dicts that the collector does not know."""
HEAP_TYPE = 1 << 9
"""Flag of a class that Python code has made (Py_TPFLAGS_HEAPTYPE)."""
CACHE: type = functools._lru_cache_wrapper
MOST = 30
"""Containers that are told of, and watched."""
LATEST = 2
"""Look at which a container must be there: what grows without end is there early."""
LEVEL = 4
"""Look from which a container that has not become longer is forgotten."""
DEPTH = 8
"""References from a container to the module that owns it, at most."""
SAMPLE = 8
"""Newest items that are looked into."""
REACHED = 300
"""Objects below an item that are looked at."""
Line = tuple[str, int]


class Containers:
    """The containers of the process that are as long as at the look before, or longer."""

    def __init__(self, own: tuple[Any, ...]) -> None:
        """`own` are the tracer's containers, which are none of the user's."""
        self._own = {id(each) for each in own}
        self._looks = 0
        self._lengths: dict[int, list[int]] = {}
        """By the container's id: its length at each look since it was there."""

    def look(self) -> None:
        """Note the length of each container, and forget those that are shorter, or as long as at the first look."""
        before, self._lengths = self._lengths, {}
        self._looks += 1
        begins = self._looks <= LATEST
        own = {id(before), id(self._lengths), *self._own}
        for each in objects():
            known = before.get(id(each))
            if (known is None and not begins) or (size := length(each)) is None or id(each) in own:
                continue
            if known is None or size < known[-1]:
                known = []
            if known and self._looks > LEVEL and size == known[0]:
                continue
            if known or begins:
                self._lengths[id(each)] = [*known, size]

    def growing(self) -> list[Any]:
        """The containers that are longer at most of the looks."""
        found = []
        for each in objects():
            lengths = self._lengths.get(id(each), [])
            if len(lengths) > self._looks - LATEST and length(each) is not None and _rises(lengths):
                found.append(each)
        found.sort(key=lambda each: self._lengths[id(each)][0] - self._lengths[id(each)][-1])
        return found[:MOST]

    def told(self, watch: "Watch") -> list[dict[str, Any]]:
        """What is known of each growing container."""
        return [
            {
                "type": type(each).__name__,
                "lengths": self._lengths[id(each)],
                "owner": seen.owner,
                "items": seen.items,
                "allocatedAt": seen.allocated_at,
                "definedAt": seen.defined_at,
                "grewAt": [[*line, count] for line, count in seen.grew_at.items()],
            }
            for each, seen in watch.seen
            if id(each) in self._lengths
        ]


def objects() -> Iterator[Any]:
    """All that the collector knows, and the dicts that it does not: those of numbers, texts and bytes alone.

    CPython begins to track a dict with its first key or value that is tracked itself (gc.is_tracked).
    """
    known = gc.get_objects()
    yield from known
    holders = [each for each in known if type(each) in HOLDERS or type(each).__flags__ & HEAP_TYPE]
    met = set()
    for each in gc.get_referents(*holders):
        if type(each) is dict and not gc.is_tracked(each) and id(each) not in met:
            met.add(id(each))
            yield each


def length(each: Any) -> int | None:
    """The length of a container; None for anything else. It runs no code of the user's."""
    kind = type(each)
    for known in KINDS:
        if kind is known:
            return len(each)
        if issubclass(kind, known):
            return known.__len__(each)
    return each.cache_info().currsize if kind is CACHE else None


def _rises(lengths: list[int]) -> bool:
    steps = len(lengths) - 1
    return sum(after > before for before, after in itertools.pairwise(lengths)) * 3 >= steps * 2


def newest(container: Any) -> list[Any]:
    """Some items: the newest, where the container has an order."""
    kind = type(container)
    if issubclass(kind, dict):
        found = []
        for key in dict.__reversed__(container):
            found += [key, dict.__getitem__(container, key)]
            if len(found) >= 2 * SAMPLE:
                break
        return found
    if kind is CACHE:
        return gc.get_referents(container)
    if issubclass(kind, list | deque):
        return [container[-1 - place] for place in range(min(SAMPLE, len(container)))]
    return [each for each, _ in zip(container, range(SAMPLE), strict=False)]


def below(item: Any, stop: set[int]) -> Iterator[Any]:
    """The item and what it refers to, but no module, class, module's variables or container in `stop`."""
    waiting, met = deque([item]), {id(item), *stop}
    for _ in range(REACHED):
        if not waiting:
            return
        each = waiting.popleft()
        yield each
        for further in gc.get_referents(each):
            if id(further) not in met and not isinstance(further, types.ModuleType | type) and not _is_globals(further):
                met.add(id(further))
                waiting.append(further)


def _is_globals(each: Any) -> bool:
    return type(each) is dict and "__name__" in each and "__builtins__" in each


def owner(held: list[Any], ignored: set[int]) -> str:
    """The way to one of these objects from a module, as Python writes it: `app.STATE["orders"]`. Empty if none."""
    ways = dict.fromkeys(map(id, held), "")
    level, kept = held, []
    met = {*map(id, held), *ignored}
    for _ in range(DEPTH):
        above = gc.get_referrers(*level)
        following: list[Any] = []
        met |= {id(level), id(above), id(following), id(ways), id(kept)}
        for each in above:
            if id(each) in met or isinstance(each, types.FrameType):
                continue
            met.add(id(each))
            part = next((further for further in gc.get_referents(each) if id(further) in ways), None)
            if part is None:
                continue
            way = ways[id(part)]
            if _is_globals(each):
                found = _key(each, part)
                if found is not None:
                    return f"{each['__name__']}.{found}{way}"
                continue
            ways[id(each)] = f"{_step(each, part)}{way}"
            following.append(each)
        kept.append(level)  # what is known by its id has to live
        level = following
        if not level:
            break
    return ""


def _key(each: dict[Any, Any], part: Any) -> Any:
    return next((key for key, value in each.items() if value is part), None)


def _step(each: Any, part: Any) -> str:
    """How `part` is reached from `each`."""
    if type(each) is dict:
        key = _key(each, part)
        if any(getattr(above, "__dict__", None) is each for above in gc.get_referrers(each)):
            return f".{key}"
        return "" if key is None else f"[{key!r:.40}]"
    if isinstance(each, list | tuple):
        return f"[{next((place for place, value in enumerate(each) if value is part), 0)}]"
    if isinstance(each, types.CellType):
        return ""
    if isinstance(each, types.FunctionType):
        return ".<closure>"
    if type(part) is dict and getattr(each, "__dict__", None) is part:
        return ""
    names = (*getattr(type(each), "__slots__", ()), *getattr(each, "__dict__", ()))
    found = next((name for name in names if isinstance(name, str) and _value(each, name) is part), None)
    return f".{found}" if found else ""


def _value(each: Any, name: str) -> Any:
    try:
        return object.__getattribute__(each, name)
    except AttributeError:
        return None


def defined_at(container: Any) -> Line | None:
    """Where a function with a cache is defined: its first decorator's line."""
    code = getattr(getattr(container, "__wrapped__", None), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else None
