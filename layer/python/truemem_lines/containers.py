"""A container that grows, and what its newest items take."""

from __future__ import annotations

import gc
import itertools
import types
from collections import Counter, deque
from contextlib import suppress
from itertools import islice

from .objects import CACHE, FLAGS, HEAP_TYPE, MODULE, MRO, NAMESPACE, TEXTS, attributes_of, base_of, bound_of
from .rising import LEAST_LOOKS, STEADY_SHARE
from .users import names_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from .users import Line, Stack, Users

SAMPLED_ITEMS, OBJECTS_REACHED, MOST_REACHED = 4, 20_000, 300_000
"""Newest items that are looked into, objects below each, and in all."""
MOST_SAMPLE, FEW_REACHED = 20, 500
"""Newest items that are looked into while so few objects were below them: some requests keep far more than others."""
SMALL_BLOCK_BYTES = 512
"""Largest block of Python's own allocator (cpython, Objects/obmalloc.c). Larger ones are malloc's."""
REACHED_BYTES = 200
"""Memory of the search for each object that is reached, for a moment."""
MOST_ADDED = 100
"""Lines in a row, by their stacks, that are known to have added to a container in an invocation."""
OTHERS = ("", 0, "")
"""The line of what other threads have added."""
NOT_FOLLOWED = (types.ModuleType, type)
NO_KINDS: dict[int, type] = {}


class Container:
    """A container that grows, and what is known of it."""

    def __init__(
        self,
        each: Any,
        measure: Callable[[], int],
        names: set[str],
        items: float,
        at: int,
        sizes: tuple[float, float, bool],
        bound: int | None = None,
    ) -> None:
        """`items`: by how many it grows with an invocation, until now, which is that of number `at`. `names`: if they
        were found out already. `sizes`: of an item."""
        self.each = each
        self.measure = measure
        self._names = names
        self._items, self._at = items, at
        self.length = self._before = self.measure()
        self.grew: Counter[Stack] = Counter()
        """Items that each stack has added and that were there at the end of the invocation."""
        self.times = 0
        """Invocations at whose end there were such items."""
        self._added: list[tuple[Stack, int]] = []
        """What was added in this invocation and not taken out: the newest last."""
        self._more: Counter[Stack] = Counter()
        """What was added after MOST_ADDED of these."""
        self._newest = 0
        self._is_unclear = False
        """True if something was taken out in this invocation, and it is not known who had added it."""
        size, large, self.is_opaque = sizes
        self.rate = items * size
        """Bytes per invocation."""
        self.large_rate = items * large
        """Bytes per invocation that malloc gives."""
        self.most_bytes = (bound - self.length) * size if bound is not None else None
        """Bytes that it will still take. None if it has no bound."""

    def begin(self) -> None:
        """An invocation begins."""
        self.length = self.measure()
        self._added, self._more, self._is_unclear = [], Counter(), False

    def changed(self, size: int, stack: Stack) -> None:
        """Note the container's length, after the line of this stack. Empty: it is not known after which."""
        more, self.length = size - self.length, size
        if more < 0:
            self._shrank(-more)
            return
        if self._added and self._added[-1][0] == stack:
            more += self._added.pop()[1]
        if len(self._added) < MOST_ADDED:
            self._added.append((stack, more))
        else:
            self._more[stack] += more
        self._newest = _newest_id(self.each)

    def _shrank(self, less: int) -> None:
        """What was added last is taken out first, unless what is newest is still there."""
        has_one_line = all(stack[:1] == self._added[-1][0][:1] for stack, _ in self._added)
        if self._more or (not has_one_line and _newest_id(self.each) == self._newest):
            self._is_unclear = True
            return
        while less and self._added:
            stack, more = self._added.pop()
            if more > less:
                self._added.append((stack, more - less))
            less -= min(less, more)
        self._is_unclear |= less > 0
        self._newest = _newest_id(self.each)

    def end(self) -> None:
        """The invocation is over. What has stayed is noted, if it can be told whose it is."""
        if self.measure() < self.length:  # after the last line that was seen
            self.changed(self.measure(), ())
        added = [*self._added, *self._more.items()]
        if self._is_unclear and (self._more or len({stack[:1] for stack, _ in added}) > 1):
            return
        for stack, more in added:
            if stack:
                self.grew[stack] += more
        self.times += any(stack for stack, _ in added)

    def still_grows(self, at: int, bound_bytes: int) -> bool:
        """False for a cache that was full soon after the looks, or will be before it takes so much more."""
        if self.most_bytes is not None and self.most_bytes < bound_bytes:
            return False
        later = self.part_since(at)
        return later >= STEADY_SHARE or (later > 0 and at - self._at < LEAST_LOOKS)

    def part_since(self, at: int) -> float:
        """How fast it has grown since the looks, as a share of before."""
        return max(0.0, (self.measure() - self._before) / max(1, at - self._at) / self._items)

    def line(self, users: Users) -> Line | None:
        """Where a cached function is defined, or the line after which it was longer. If that was not seen, because the
        function ran too many lines or another thread did it: the only line that adds to what has its name. Else None.
        """
        wrapped = attributes_of(self.each).get("__wrapped__") if type(self.each) is CACHE else None
        code = wrapped.__code__ if type(wrapped) is types.FunctionType else None
        if code is not None and users.has(code.co_filename):
            return code.co_filename, code.co_firstlineno, code.co_name
        lines: Counter[Line] = Counter()
        for stack, items in self.grew.items():
            lines[stack[0]] += items
        most = max(lines, key=lines.__getitem__, default=OTHERS)
        return most if most != OTHERS else users.line_by_name(self._names or names_of(self.each))

    def stack(self, line: Line) -> Stack:
        known = [stack for stack, _ in self.grew.most_common() if stack[0] == line]
        above = () if (OTHERS,) in self.grew else next(iter(self.grew), ())
        return known[0] if known else (line, *above)


SLOT_BYTES: dict[Any, int] = {list: 9, deque: 9, dict: 60, set: 40, CACHE: 120}
"""Bytes of a container's own for each item, about."""


class Sizes:
    """Bytes that the newest items of containers have."""

    def __init__(self, ignored: set[int], most_bytes: int) -> None:
        """`ignored`: ids of objects that are no item's."""
        self._reached = min(OBJECTS_REACHED, most_bytes // (SAMPLED_ITEMS * REACHED_BYTES))
        self._ignored = ignored
        self._left = MOST_REACHED

    def of(self, container: Any) -> tuple[float, float, bool]:
        """Bytes of a new item and of all that it alone has; of these, in large blocks; may C keep more than it says?

        What several of the newest items lead to is not theirs.
        """
        if id(type(container)) in TEXTS:
            entry = _size(container) / max(1, len(container))
            return entry, entry, False
        entry = float(SLOT_BYTES.get(base_of(type(container)), 0))
        items: list[tuple[Any, ...]] = []
        with suppress(RuntimeError, IndexError):  # another thread has changed it just now
            items = newest(container)
        if not items or self._left <= 0:
            return entry, entry, False
        size, large, is_opaque = self.alone(items)
        return size + entry, large + entry, is_opaque

    def alone(self, items: Sequence[tuple[Any, ...]], stops: dict[int, type] = NO_KINDS) -> tuple[float, float, bool]:
        """The same of any items, each with what it alone leads to. Other objects of the kinds in `stops`, by their id,
        are not followed."""
        below: list[list[Any]] = []
        for item in items:
            if len(below) >= SAMPLED_ITEMS and sum(map(len, below)) > FEW_REACHED:
                break
            below.append(list(self._below(item, stops)))
        times = Counter(itertools.chain.from_iterable(map(id, of) for of in below))
        alone = [each for of in below for each in of if times[id(each)] == 1]
        sizes, count = list(map(_size, alone)), max(1, len(below))
        large = sum(size for size in sizes if size > SMALL_BLOCK_BYTES)
        return sum(sizes) / count, large / count, any(map(_is_opaque, map(type, alone)))

    def _below(self, parts: Sequence[Any], stops: dict[int, type]) -> Iterator[Any]:
        """These objects and what they refer to, but no module, class, module's variables or growing container, nor
        further objects of the kinds in `stops`."""
        waiting, met = deque(parts), {*map(id, parts), *self._ignored}
        for _ in range(min(self._reached, self._left)):
            if not waiting:
                return
            each = waiting.popleft()
            self._left -= 1
            if not issubclass(type(each), NOT_FOLLOWED) and not _is_globals(each):
                yield each
                for further in gc.get_referents(each):
                    if id(further) not in met and id(type(further)) not in stops:
                        met.add(id(further))
                        waiting.append(further)


def _newest_id(container: Any) -> int:
    """Id of the item, or the key, that was added last. 0 if there is none, or no order."""
    base = base_of(type(container))
    with suppress(IndexError, RuntimeError, StopIteration):
        if base is dict:
            return id(next(dict.__reversed__(container)))
        if base in (list, deque):
            return id(base.__getitem__(container, -1))
    return 0


def newest(container: Any) -> list[tuple[Any, ...]]:
    """Some items: the newest, where the container has an order. Of a dict, key and value."""
    base = base_of(type(container))
    if base is CACHE:
        parts = gc.get_referents(container)
        table = next((each for each in parts if type(each) is dict and each is not attributes_of(container)), {})
        if bound_of(container) is None:
            return list(islice(reversed(dict.items(table)), MOST_SAMPLE))
        keys = list(islice(reversed(dict.keys(table)), MOST_SAMPLE))
        places = {id(part): place for place, part in enumerate(parts)}
        return [(key, *parts[places[id(key)] + 1 :][:1]) for key in keys if id(key) in places]  # the result is next
    if base is dict:
        return list(islice(reversed(dict.items(container)), MOST_SAMPLE))
    if base in (list, deque):
        last = base.__len__(container) - 1
        return [(base.__getitem__(container, last - place),) for place in range(min(MOST_SAMPLE, last + 1))]
    return [(each,) for each in islice(set.__iter__(container), MOST_SAMPLE)]


def _is_globals(each: Any) -> bool:
    return type(each) is dict and "__name__" in each and "__builtins__" in each


def _size(each: Any) -> int:
    """Bytes of an object, without a `__sizeof__` that is written in Python."""
    kind = next(
        each for each in MRO(type(each)) if type(NAMESPACE(each).get("__sizeof__")) is types.MethodDescriptorType
    )
    try:
        size = int(NAMESPACE(kind)["__sizeof__"](each)) + (16 if gc.is_tracked(each) else 0)
    except Exception:
        return 0
    return size if size > SMALL_BLOCK_BYTES else -(-size // 16) * 16


def _is_opaque(kind: type) -> bool:
    """Is it an extension's? Then it may have memory that `__sizeof__` leaves out."""
    names = NAMESPACE(kind)
    module = names.get("__module__", "builtins") if FLAGS(kind) & HEAP_TYPE else MODULE(kind)
    if "__dict__" in names or "__slots__" in names or type(module) is not str or module in PLAIN_MODULES:
        return False
    return not any(type(names.get(name)) is types.FunctionType for name in ("__init__", "__new__", "__call__"))


PLAIN_MODULES = {
    "array",
    "builtins",
    "collections",
    "datetime",
    "decimal",
    "functools",
    "itertools",
    "re",
    "types",
    "weakref",
}
PLAIN_MODULES |= {"_asyncio", "_contextvars", "_io", "_thread", "_weakref"}
"""Modules whose classes say what they take."""
