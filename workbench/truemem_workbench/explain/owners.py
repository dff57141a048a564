"""What a container has in it, and who owns it. Runs in the function's own process, and none of the function's code.

So an object is never asked for an attribute, its length or an item: only its type's built-in base is.
"""

import gc
import types
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from truemem_workbench.explain.objects import CACHE, MRO, NAMESPACE, kind_name

DEPTH = 8
"""References from a container to the module that owns it, at most."""
SAMPLE = 8
"""Newest items that are looked into."""
REACHED = 300
"""Objects below an item that are looked at."""
MODULES_AND_CLASSES = (types.ModuleType, type)
SHOWN = (str, int, bytes)
"""Kinds of keys that are shown."""
LONGEST = 40
Line = tuple[str, int]


def newest(container: Any) -> list[Any]:
    """Some items: the newest, where the container has an order."""
    kind = type(container)
    if issubclass(kind, dict):
        return [part for pair in islice(reversed(dict.items(container)), SAMPLE) for part in pair]
    if kind is CACHE:
        return gc.get_referents(container)
    for base in (list, deque):
        if issubclass(kind, base):
            last = base.__len__(container) - 1
            return [base.__getitem__(container, last - place) for place in range(min(SAMPLE, last + 1))]
    return list(islice(set.__iter__(container), SAMPLE))


def below(item: Any, stop: set[int]) -> Iterator[Any]:
    """The item and what it refers to, but no module, class, module's variables or container in `stop`."""
    waiting, met = deque([item]), {id(item), *stop}
    for _ in range(REACHED):
        if not waiting:
            return
        each = waiting.popleft()
        yield each
        for further in gc.get_referents(each):
            is_told = not issubclass(type(further), MODULES_AND_CLASSES) and not _is_globals(further)
            if id(further) not in met and is_told:
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
    return f"{key!r:.{LONGEST}}" if type(key) in SHOWN else f"<{kind_name(type(key))}>"


def defined_at(container: Any) -> Line | None:
    """Where a function with a cache is defined: its first decorator's line."""
    wrapped = (_attributes(container) or {}).get("__wrapped__") if type(container) is CACHE else None
    if type(wrapped) is not types.FunctionType:
        return None
    code = wrapped.__code__
    return code.co_filename, code.co_firstlineno
