"""What keeps the objects that Flight Recorder has sampled, by their ways from a root. Pure.

A way is read from its root: static field or thread, fields of the user's objects, then a container. Where what that
container has does not become more from look to look, what grows is further on, in a container of one of its items.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from .attribution import rising
from .flight_recording import JavaFrame, OldObject, Step

MIRROR, TEXT, THREAD_CLASS, LOADER = "java.lang.Class", "java.lang.String", "java.lang.Thread", "java.lang.ClassLoader"
OF_THE_JDK = ("java.", "javax.", "jdk.", "sun.", "com.sun.")
COLLECTION = re.compile(
    r"java\.util\.(?:concurrent\.)?\w*(?:Map|Set|List|Queue|Deque|Vector|Stack|Hashtable|Properties|Collections|Arrays)"
    r"(?:\$|$)|java\.lang\.ThreadLocal"
)
THREAD, THREAD_LOCALS = "Thread Name: ", ("threadLocals", "inheritableThreadLocals")
NUMBER = re.compile(r"\d+")
"""What differs between the names of threads of one kind."""
PART, ITEM, BELOW, NESTED = 0, 1, 2, 3
"""`Kept.depth`: a part of the container that has the items; an item; what an item has; a part of a container around
that one, and of a new one that is empty yet."""

Stack = tuple[JavaFrame, ...]


class Kept(NamedTuple):
    """What keeps an object, and what the object is for it."""

    owner: str
    """`com.acme.Orders.SEEN`, `in a ThreadLocal of thread pool-*-thread-*`; empty if it is not known."""
    container: str
    """The class of the object there. Empty: the owner refers to the item itself."""
    item: str
    """The class of what that has, as the JVM writes it; empty for a part of the container."""
    depth: int
    level: int = 0
    """How many containers are around the one that the item, or the part, is in: 1 in a map's list."""


def kept(way: Sequence[Step], root: str, grows: Callable[[int], bool] = lambda _: True) -> Kept:
    """What keeps the object at the end of this way from a root: a static field, or a thread, where it has one. `root`:
    what the JVM says of that. `grows`: do the objects at this place of the way become more?"""
    if not way:
        return Kept("", "", "", PART)
    if way[-1].said.startswith(THREAD) and owner_at(way) == len(way) - 1:
        return Kept(named(way[-1].said), "", way[-1].of, ITEM)
    owner, at = _owner(way, root)
    while True:
        path = [*way[at:]]
        while len(path) > 1 and not (path[0].of.startswith(OF_THE_JDK) or is_array(path[0].of) or is_array(path[1].of)):
            if path[0].of == path[1].of:  # a chain of them
                return Kept(owner, "", path[0].of, ITEM if path[-1].of == path[0].of else BELOW)
            owner, path, at = f"{owner}.{path[0].by}", path[1:], at + 1
        if not path or (len(path) == 1 and not _is_part(path[0].of)):
            return Kept(owner, "", path[0].of if path else "", ITEM)
        within = f"{path[0].of}$" if path[0].of.startswith(OF_THE_JDK) else "-"
        inner = next((place for place, each in enumerate(path) if place and not _is_within(each.of, within)), 0)
        later = range(at + inner + 1, len(way))
        if not inner or not later or grows(at + inner) or not any(map(grows, later)):
            break  # else they stay as many, and one of them has what grows
        owner += "[]" if any(is_array(each.of) for each in path[:inner]) else ""
        owner, at = f"{owner}.{path[inner].by}", at + inner + 1
    level = _level(path[: inner or -1])
    depth = ITEM if inner == len(path) - 1 else BELOW
    return Kept(owner, short(path[0].of), path[inner].of if inner else "", depth if inner else PART, level)


def _owner(way: Sequence[Step], root: str) -> tuple[str, int]:
    """What it is called, and where on the way comes what it has."""
    at = owner_at(way)
    first = way[at]
    if first.of == MIRROR and first.by:
        return f"{_said(first.said)}.{first.by}", at + 1
    if not (first.said.startswith(THREAD) and _is_owner(way, at)):
        return f"in a local variable of thread {named(root)}" if root.startswith(THREAD) else "", at
    if first.by not in THREAD_LOCALS:
        return f"in thread {named(first.said)}", at + 1
    value = next((place for place in range(at + 1, len(way)) if way[place].by == "value"), at)
    return f"in a ThreadLocal of thread {named(first.said)}", value + 1


def owner_at(way: Sequence[Step]) -> int:
    """Where the way's owner is: the last static field or thread, else the begin."""
    return next((at for at in reversed(range(len(way) - 1)) if _is_owner(way, at)), 0)


def _level(path: Sequence[Step]) -> int:
    """A set refers to its map itself: that is one container. A map's list is reached by a node."""
    return sum(
        _is_part(each.of) and not (is_array(each.of) or "$" in each.of) and (is_array(before.of) or "$" in before.of)
        for before, each in itertools.pairwise(path)
    )


def _said(text: str) -> str:
    return text.partition(": ")[2]


def named(text: str) -> str:
    """A thread, or all of the same name but for numbers."""
    return NUMBER.sub("*", _said(text))


def _is_owner(way: Sequence[Step], at: int) -> bool:
    """A static field, what a thread has in a ThreadLocal, or a thread that is a root itself: it runs."""
    step = way[at]
    if step.said.startswith(THREAD):
        return at == 0 or step.by in THREAD_LOCALS
    return step.of == MIRROR and bool(step.by) and bool(step.said)


def is_array(of: str) -> bool:
    """Is it one of objects?"""
    return of.startswith(("[L", "[["))


def _is_part(of: str) -> bool:
    """Is it an array of objects, or of a collection of the JDK's?"""
    return is_array(of) or COLLECTION.match(of) is not None


def _is_within(of: str, within: str) -> bool:
    return _is_part(of) or within in of


NAMES = dict(zip("BCDFIJSZ", ("byte", "char", "double", "float", "int", "long", "short", "boolean"), strict=True))


def short(of: str) -> str:
    """`byte[]` for `[B`, `Orders$Order` for `com.acme.Orders$Order`."""
    return shown(of).rpartition(".")[2]


def shown(of: str) -> str:
    """`byte[]` for `[B`, `com.acme.Order[]` for `[Lcom.acme.Order;`."""
    element = of.lstrip("[")
    depth = len(of) - len(element)
    if depth:
        element = NAMES.get(element) or element.removeprefix("L").removesuffix(";")
    return element + "[]" * depth


@dataclass
class _Place:
    """The samples at the end of one way, or of ways that differ in the length of a chain."""

    way: tuple[Step, ...] = ()
    """The longest."""
    nodes: tuple[int, ...] = ()
    """The numbers of its steps."""
    root: str = ""
    thread: str = ""
    """What the JVM says of its thread, but for numbers."""
    sizes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Bytes of each class at each look."""
    now: Counter[Stack] = field(default_factory=Counter)
    """Bytes by the stack that allocated them, at the last look."""
    ever: Counter[Stack] = field(default_factory=Counter)
    """The same at all looks."""


@dataclass
class _Keeper:
    sizes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    items: Counter[str] = field(default_factory=Counter)
    levels: Counter[int] = field(default_factory=Counter)
    stacks: Counter[Stack] = field(default_factory=Counter)
    lines: dict[int, Counter[Stack]] = field(default_factory=lambda: defaultdict(Counter))
    parts: list[tuple[int, Counter[Stack]]] = field(default_factory=list)
    """Parts of a container by their level."""
    threads: list[float] = field(default_factory=list)


class Keepers:
    """The samples of all looks, by what keeps them."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, str, str, str], int] = {}
        """A number for each step, by the number of the one before it, its field, its class, and what is said of it."""
        self._counts: dict[int, list[float]] = defaultdict(list)
        """How many objects were seen at this step, at each look."""
        self._places: dict[tuple[int, str, str], _Place] = defaultdict(_Place)
        self._threads: dict[str, list[float]] = defaultdict(list)
        """How many threads of one kind were seen, at each look."""

    def add(self, look: int, samples: Sequence[tuple[OldObject, float]], from_ns: float) -> None:
        """Those of a look, from 0, with their bytes. What was allocated before `from_ns` names no line."""
        seen: dict[int, set[int]] = defaultdict(set)
        threads: dict[str, set[str]] = defaultdict(set)
        for place in self._places.values():
            place.now.clear()
        for each, weight in samples:
            begin = owner_at(each.way)
            first = each.way[begin].said if each.way else ""
            thread = next((text for text in (first, each.root) if text.startswith(THREAD)), "")
            loader, frames = ("", each.frames) if len(each.way) > 1 or each.root else loader_of(each.frames)
            nodes = self._numbers(each.way[begin:])
            for node, step in zip(nodes, each.way[begin:], strict=True):
                seen[node].add(step.place)
            if thread:
                threads[named(thread)].add(thread)
            place = self._places[nodes[-1] if nodes else -1, named(thread) if thread else "", loader]
            if len(each.way) > len(place.way):
                place.way, place.nodes = each.way, (*[-1] * begin, *nodes)
            place.root, place.thread = each.root, named(thread) if thread else ""
            at_look(place.sizes[each.of], look, weight)
            if each.allocated_ns >= from_ns:
                place.now[frames] += int(weight)
                place.ever[frames] += int(weight)
        for node, places in seen.items():
            at_look(self._counts[node], look, len(places))
        for name, texts in threads.items():
            at_look(self._threads[name], look, len(texts))

    def _numbers(self, way: Sequence[Step]) -> list[int]:
        """A number for each step; those of a chain of one class have the same."""
        found: list[int] = []
        before = Step("", "", "")
        for step in way:
            if not found or step.of != before.of or is_array(step.of) or step.of == MIRROR:
                said = step.said if step.of == MIRROR else ""
                key = (found[-1] if found else -1, before.by, step.of, said)
                found.append(self._nodes.setdefault(key, len(self._nodes)))
            else:
                found.append(found[-1])
            before = step
        return found

    def document(self, at: Sequence[int], threads_grow: bool) -> list[dict[str, Any]]:
        """Each keeper, after looks at these invocations. `threads_grow`: does the JVM have more and more of them?"""
        looks = len(at)

        @cache
        def grows(node: int) -> bool:
            return rising(at, whole(self._counts[node], looks)) > 0

        more = {name for name, counts in self._threads.items() if threads_grow and rising(at, whole(counts, looks)) > 0}
        keepers: dict[tuple[str, str, str], _Keeper] = defaultdict(_Keeper)
        for (_, _, loader), place in self._places.items():
            if loader:
                about = Kept("", "", "", BELOW) if loader == LOADER else Kept("", "", loader, ITEM)
            elif place.thread in more:
                is_itself = len(place.way) - owner_at(place.way) == 1 and place.way[-1].said.startswith(THREAD)
                about = Kept(place.thread, "", THREAD_CLASS, ITEM if is_itself else BELOW)
            else:
                nodes = place.nodes
                about = kept(place.way, place.root, lambda step, nodes=nodes: grows(nodes[step]))  # type: ignore[misc]
            item = LOADER if loader else about.item
            keeper = keepers[about.owner, about.container, "" if about.owner else item]
            if place.thread in more:
                keeper.threads = self._threads[place.thread]
            _join(keeper, place, about, looks)
        return [
            {
                "owner": owner,
                "container": container,
                "item": max(keeper.items, key=keeper.items.__getitem__, default=item),
                "bytes": dict(keeper.sizes),
                "threads": whole(keeper.threads, looks),
                "isLoader": item == LOADER,
                "stacks": dict(keeper.stacks),
                "lines": _lines(keeper),
            }
            for (owner, container, item), keeper in keepers.items()
        ]


def _join(keeper: _Keeper, place: _Place, about: Kept, looks: int) -> None:
    last = 0.0
    for name, sizes in place.sizes.items():
        for look, size in enumerate(whole(sizes, looks)):
            at_look(keeper.sizes[name], look, size)
        last += whole(sizes, looks)[-1]
    if about.item and last:
        keeper.items[about.item] += int(last)
        keeper.levels[about.level] += int(last)
    keeper.stacks.update(place.now)
    if about.depth == PART:  # at all looks: an array is exchanged for a longer one
        keeper.parts.append((about.level, place.ever))
    elif about.depth == BELOW:
        for frames, size in place.now.items():
            made = _made(frames, about.item)
            keeper.lines[ITEM if made else BELOW][made or frames] += size
    else:
        keeper.lines[about.depth].update(place.now)


def _lines(keeper: _Keeper) -> dict[int, dict[Stack, int]]:
    level = max(keeper.levels, key=keeper.levels.__getitem__, default=max((at for at, _ in keeper.parts), default=0))
    for at, stacks in keeper.parts:
        for frames, size in stacks.items():
            is_new = level > 0 and _is_new(frames)
            keeper.lines[PART if at == level and not is_new else NESTED][frames] += size
    return {depth: dict(stacks) for depth, stacks in keeper.lines.items()}


def _is_new(frames: Stack) -> bool:
    """Was it allocated in the constructor of a collection? Then nothing is in it yet."""
    inner = next((at for at, frame in enumerate(frames) if not frame.of.startswith(OF_THE_JDK)), len(frames))
    return any(frame.method == "<init>" and COLLECTION.match(frame.of) for frame in frames[:inner])


def _made(frames: Stack, item: str) -> Stack:
    """The stack of the constructor of such an item, if it is in this one."""
    at = [place for place, frame in enumerate(frames) if frame.of == item and frame.method == "<init>"]
    return frames[at[-1] + 1 :] if at else ()


def loader_of(frames: Stack) -> tuple[str, Stack]:
    """The class loader that this stack makes, and the stack that makes it; LOADER for one that defines a class. Empty
    if there is none. Flight Recorder knows no way from an object to its class and so to its loader: what a loader has
    is seen without a way."""
    for at, frame in enumerate(frames):
        if frame.of == LOADER and frame.method == "<init>":
            last = at
            while last + 1 < len(frames) and frames[last + 1].method == "<init>":
                last += 1
            return frames[last].of, frames[last + 1 :]
        if frame.of == LOADER and frame.method == "defineClass":
            return LOADER, frames
    return "", frames


def at_look(values: list[float], look: int, more: float) -> None:
    """Add to what was at this look."""
    values += [0.0] * (look + 1 - len(values))
    values[look] += more


def whole(values: Sequence[float], looks: int) -> list[float]:
    """A value for each look: nothing at those that had none."""
    return [*values, *[0.0] * (looks - len(values))]
