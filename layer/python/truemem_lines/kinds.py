"""Objects in no container, such as a chain: of which kinds there are more after each invocation, and what is known of
them. Python does not tell which line has made an object: a traceback has its line, a function and a generator theirs,
and of any other object the class is named."""

from __future__ import annotations

import gc
import types
from collections import Counter
from itertools import islice

from .objects import FLAGS, HEAP_TYPE, NAMESPACE, is_one, kinds_of
from .rising import STEADY_SHARE, rising

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from .containers import Sizes
    from .users import Line, Stack, Users

KIND_BYTES = 120
"""Memory of the counts, for each kind."""
MOST_KINDS, MOST_LOOKED = 20, 20
"""Kinds that are looked into, and the newest objects of each."""
MOST_TRACEBACKS = 100
"""Steps of a traceback that are followed."""
PARTS = (list, dict, set, frozenset, tuple, types.CellType, types.FrameType)
"""Kinds that have what others keep: they are no kind of their own."""


class GrowingKinds:
    """How many objects there are of each kind, at each look."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, ...]] = {}
        self._at: Sequence[int] = ()
        self._rates: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def look(self, objects: list[Any]) -> None:
        """Note them. Kinds of which there are not more than at first are forgotten."""
        now = Counter(map(id, map(type, objects)))
        before = self._counts
        if not before:
            self._counts = {place: (count,) for place, count in now.items()}
            return
        looks = max(map(len, before.values()))
        if looks == 1:  # the first objects of a kind may have come since
            before = {**dict.fromkeys(now, (0,)), **before}
        self._counts = {
            place: (*counts, now[place]) for place, counts in before.items() if now.get(place, 0) > counts[0]
        }

    def choose(self, at: Sequence[int]) -> None:
        """Take those of which there are steadily more."""
        self._at = at[:]
        rates = ((rising(at, counts), place) for place, counts in self._counts.items())
        self._rates = {place: rate for rate, place in sorted(rates, reverse=True)[:MOST_KINDS] if rate > 0}
        self._counts = {place: self._counts[place] for place in self._rates}

    def found(self, at: int, users: Users, sizes: Sizes) -> Iterator[Found]:
        """What is known of those of which there are still more in invocation `at`, which is now: lines come first."""
        objects = gc.get_objects()
        kinds = kinds_of(objects)
        counts = Counter(map(id, map(type, objects)))
        growing = {place: kinds[place] for place in self._rates if place in kinds and not is_one(kinds[place], PARTS)}
        later = max(1, at - self._at[-1])
        made: list[Found] = []
        for place, kind in growing.items():
            rate = self._rates[place]
            if (counts[place] - self._counts[place][-1]) / later < STEADY_SHARE * rate:
                continue
            newest = list(islice((each for each in reversed(objects) if type(each) is kind), MOST_LOOKED))
            size, large, _ = sizes.alone([(each,) for each in newest], growing)
            stacks = Counter(filter(None, (_stack(each, users) for each in newest)))
            made += [Found(rate * times / len(newest), size - large, large, stack) for stack, times in stacks.items()]
            if not stacks and FLAGS(kind) & HEAP_TYPE:
                made.append(Found(rate, size - large, large, (), _named(kind)))
        made.sort(key=lambda each: (not each.stack, -each.small - each.large))
        yield from made


class Found:
    """Objects of which there are more."""

    def __init__(self, objects: float, small: float, large: float, stack: Stack, name: str = "") -> None:
        self.objects = objects
        """So many in each invocation."""
        self.small, self.large = objects * small, objects * large
        """Bytes in each invocation, with what they alone have: Python's own allocator's, and malloc's."""
        self.stack = stack
        """Lines of the code that has made them, the innermost first. Empty if no line is known."""
        self.name = name
        """Name of the class, where no line is known."""


def _stack(each: Any, users: Users) -> Stack | None:
    """The user's lines that an object tells: of the error that it belongs to, or of its own code."""
    lines: list[Line] = []
    if type(each) is types.TracebackType:
        place: types.TracebackType | None = each
        for _ in range(MOST_TRACEBACKS):
            if place is None:
                break
            lines.append((place.tb_frame.f_code.co_filename, place.tb_lineno, place.tb_frame.f_code.co_name))
            place = place.tb_next
    elif (read := READ.get(id(type(each)))) is not None:  # a metaclass may have a `__hash__` of its own
        code, frame = read(each)
        lines.append((code.co_filename, frame.f_lineno if frame is not None else code.co_firstlineno, code.co_name))
    return tuple(line for line in reversed(lines) if users.has(line[0])) or None


READ: dict[int, Callable[[Any], Any]] = {
    id(types.FunctionType): lambda each: (each.__code__, None),
    id(types.GeneratorType): lambda each: (each.gi_code, each.gi_frame),
    id(types.CoroutineType): lambda each: (each.cr_code, each.cr_frame),
    id(types.AsyncGeneratorType): lambda each: (each.ag_code, each.ag_frame),
}
"""Code and frame of what has some, by the kind's id."""


def _named(kind: type) -> str:
    module, name = NAMESPACE(kind).get("__module__"), type.__dict__["__qualname__"].__get__(kind)
    return ".".join(each for each in (module, name) if type(each) is str)
