"""What a container has in it, and who owns it. Runs in the function's own process."""

import gc
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from truemem_workbench.explain.objects import CACHE

DEPTH = 8
"""References from a container to the module that owns it, at most."""
SAMPLE = 8
"""Newest items that are looked into."""
REACHED = 300
"""Objects below an item that are looked at."""
Line = tuple[str, int]


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
    level = held
    kept: list[list[Any]] = []
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
