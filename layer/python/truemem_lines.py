"""Names the line that keeps: which containers get longer over some invocations, and after which line of the user's.

truemem_heap loads it when the sidecar asks (docs/heap.md), and calls it after the answer of each invocation was sent.
First, looks at the objects that the collector knows find the containers that grow steadily: this costs an invocation
nothing. Then, in a few invocations, their lengths are compared at each line of the user's code. tracemalloc is not
used: it takes 3 to 80 times the CPU in code that makes objects, by Python's version and the depth of the stack.

Nothing of it stays when it is over. It uses only the standard library, of Python 3.10 or newer, and runs none of the
function's code: objects are asked by their type's built-in base alone.
"""

from __future__ import annotations

import functools
import gc
import itertools
import json
import operator
import os
import posix
import re
import sys
import time
import types
from collections import Counter, deque
from contextlib import suppress
from functools import partial
from itertools import islice
from threading import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    Line = tuple[str, int, str]  # file, line and function
    Stack = tuple[Line, ...]  # the user's frames, the innermost first

LOOKS, LEAST_LOOKS = 6, 4
"""The first two are two steps apart: what is as long at the second is forgotten, and that is nearly all."""
LOOKED = 0.6
"""Share of the invocations over which the looks are spread. The rest may be watched, line by line."""
WATCHED, ENOUGH = 24, 2
"""Invocations that are watched at most, and times that a container was seen to get longer, which are enough."""
HOT = 100
"""Times that a line is seen in an invocation before it is left alone."""
FREE_CPU_NS = 10_000_000
"""More CPU for an invocation that is allowed at any rate: some of a short one is not worth giving up for."""
LINE_NS, CONTAINER_NS, CALL_NS = 1_500, 150, 400
"""CPU for each line of the user's that is seen, for each container that is compared then, and for a library's call."""
MOST_LOOK_NS = 1_000_000_000
"""Time of a look, with its collection: the function's timeout goes on. One that would take longer is not begun, and
after one that did there is no other."""
OBJECT_NS, VCPU_MIB = 500, 1769
"""Time of a look for each object that the collector knows (measured: 350), where the memory size buys a whole vCPU."""
OBJECT_BYTES, CONTAINER_BYTES = 8, 72
"""Memory of the first look, for a moment, for each object of the process and for each container."""
LEAST_KIB, LEAST_SHARE = 0.2, 0.05
"""Growth per invocation that is not reported, in KiB and as a share of the first line's: a library keeps as much."""
MOST_LINES, MOST_FRAMES, MOST_LIBRARIES, LONGEST = 10, 20, 10, 200
MOST_BYTES = 16 * 1024
BLOCK_BYTES = 80
"""Of a block of Python's own allocator, on average."""
NATIVE_KIB, NATIVE_SHARE = 1.0, 0.1
"""Growth that no line explains, from which the native libraries are named."""


class Ask:
    """What the sidecar asks for. Raises ValueError."""

    def __init__(self, text: str) -> None:
        words = text.split()
        if len(words) != 4 or words[0] != "truemem-lines-1":
            raise ValueError
        self.invocations, self.cpu_percent, self.memory_kib = map(int, words[1:])
        if not (2 * LOOKS <= self.invocations <= 10_000 and self.cpu_percent > 0 and self.memory_kib > 0):
            raise ValueError


class Profile:
    """One profile: it begins when it is made. `after` is called after each invocation until it returns False."""

    def __init__(self, ask: Ask, answer: str, before_ns: Sequence[int], in_use: Callable[[], int] | None) -> None:
        """`before_ns`: CPU of invocations without a profile. `in_use`: bytes that malloc has given out."""
        self._ask, self._answer = ask, answer
        self._before_ns = _middle(before_ns)
        self._watched_ns: list[int] = []
        self._count = 0
        self._gave_up = ""
        self._look_ns = 0
        self._most_bytes = 0
        self._users = Users()
        self._growth = Growth(in_use)
        self._looked_until = int(ask.invocations * LOOKED)
        self._watch: Watch | None = None
        self._watches = False
        size = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
        share = min(1.0, int(size) / VCPU_MIB) if size.isdecimal() and int(size) else 1.0
        if len(gc.get_objects()) * OBJECT_NS / share > MOST_LOOK_NS:
            self._gave_up = "looks"
        else:
            self._timed(self._look)
        if self._gave_up:
            self._write([], 0.0)

    @property
    def is_over(self) -> bool:
        """True if it gave up before it began."""
        return self._count == 0 and bool(self._gave_up)

    def after(self, cpu_ns: int) -> bool:
        """Count an invocation, which took so much CPU. False if the profile is over."""
        try:
            return self._after(cpu_ns)
        except Exception:
            self.stop()
            self._gave_up = "error"
            self._write([], 0.0)
            raise

    def _after(self, cpu_ns: int) -> bool:
        self._count += 1
        if self._watch is None:
            return self._looked()
        self._watch.forget_dropped()
        if self._watches:
            self._watches = False
            self._watch.stop()
            self._watched_ns.append(cpu_ns)
            if _middle(self._watched_ns) - self._before_ns > self._most_ns:
                self._gave_up = "cpu"
        if self._count >= self._ask.invocations:
            self._timed(partial(self._conclude, self._watch))
            return False
        self._watch_next(self._watch)
        return True

    def stop(self) -> None:
        """End it, and write nothing."""
        if self._watch is not None:
            self._watch.stop()

    def _looked(self) -> bool:
        """Look if it is time. False if that is all."""
        if self._count * LOOKS >= (len(self._growth.at) + 1) * self._looked_until:
            self._timed(self._look)
        if not self._gave_up and self._count < self._looked_until:
            return True
        if len(self._growth.at) < LEAST_LOOKS:
            self._write([], 0.0)
            return False
        self._timed(self._choose)
        return True

    def _look(self) -> None:
        needs = self._growth.look(self._count, self._ask.memory_kib * 1024)
        self._most_bytes = max(self._most_bytes, needs)
        if needs > self._ask.memory_kib * 1024:
            self._gave_up = "memory"

    def _choose(self) -> None:
        self._watch = Watch(self._growth.growing(self._ask.memory_kib * 1024), self._users)
        self._watch_next(self._watch)

    def _watch_next(self, watch: Watch) -> None:
        if self._gave_up or len(self._watched_ns) >= WATCHED or not watch.is_wanted:
            return
        self._gave_up = tracing()
        self._watches = not self._gave_up
        if self._watches:
            watch.start(int(self._most_ns))

    @property
    def _most_ns(self) -> float:
        """More CPU that a watched invocation may take."""
        return max(FREE_CPU_NS, self._before_ns * self._ask.cpu_percent / 100)

    def _timed(self, step: Callable[[], None]) -> None:
        """Do it without garbage, and without a collection that our own objects start."""
        collects = gc.isenabled()
        began, moment = time.thread_time_ns(), time.monotonic_ns()
        if collects:
            gc.collect()  # where the user has switched it off, cycles are the leak
        gc.disable()
        try:
            step()
        finally:
            if collects:
                gc.enable()
        self._look_ns += time.thread_time_ns() - began
        if time.monotonic_ns() - moment > MOST_LOOK_NS and self._watch is None:
            self._gave_up = "looks"

    def _conclude(self, watch: Watch) -> None:
        """Name the lines, and write them."""
        rates: dict[Line, float] = {}
        large = cached = cached_large = 0.0  # what a cache takes is no line's, and not native
        stacks: dict[Line, tuple[float, Stack]] = {}
        opaque: dict[Line, float] = {}
        for each in watch.containers:
            if not each.still_grows(self._count, self._ask.memory_kib * 1024):
                part = each.part_since(self._count)
                cached += each.rate * part
                cached_large += each.large_rate * part
                continue
            line = each.line(self._users)
            if line is None:
                continue
            rates[line] = rates.get(line, 0.0) + each.rate
            large += each.large_rate
            if each.is_opaque:
                opaque[line] = opaque.get(line, 0.0) + each.rate
            if each.rate > stacks.get(line, (-1.0, ()))[0]:
                stacks[line] = each.rate, each.stack(line)
        rest = max(0.0, self._growth.of_malloc(self._count) - large - cached_large)
        if rest > 1024 * NATIVE_KIB and opaque:
            most = max(opaque, key=lambda line: opaque[line])
            rates[most] += rest  # an extension's objects may have memory that Python does not know of
            rest = 0.0
        small = self._growth.of_blocks(self._count)
        explained = sum(rates.values()) - large + cached - cached_large
        if small > 2 * explained + 1024 * NATIVE_KIB:  # objects that are in no container: a chain
            rest += small - explained
        everything = sum(rates.values()) + rest
        least = max(LEAST_KIB * 1024, LEAST_SHARE * max(rates.values(), default=0.0))
        lines = [
            {
                "file": self._users.short(line[0]),
                "line": line[1],
                "function": line[2][:LONGEST],
                "perInvocationKiB": round(rate / 1024, 1),
                "share": round(rate / everything, 2),
                "stack": [self._described(frame) for frame in reversed(stacks[line][1][:MOST_FRAMES])],
            }
            for line, rate in sorted(rates.items(), key=lambda pair: -pair[1])[:MOST_LINES]
            if rate >= least
        ]
        self._write(lines, rest / 1024)

    def _described(self, frame: Line) -> str:
        return f"{self._users.short(frame[0])}:{frame[1]} {frame[2]}"[-LONGEST:]

    def _write(self, lines: list[dict[str, Any]], rest_kib: float) -> None:
        more = sum(self._watched_ns) - len(self._watched_ns) * self._before_ns
        all_ns = self._count * self._before_ns
        document: dict[str, Any] = {
            "runtime": "python",
            "invocations": self._count,
            "looks": len(self._growth.at),
            "cpuPercent": round(100 * max(0.0, more) / all_ns, 1) if all_ns else 0.0,
            "memoryKiB": self._most_bytes // 1024,
            "lookMs": self._look_ns // 1_000_000,
            "gaveUp": self._gave_up,
            "lines": lines,
            "restKiB": round(rest_kib, 1),
        }
        if rest_kib >= max(NATIVE_KIB, NATIVE_SHARE * sum(each["perInvocationKiB"] for each in lines)):
            document["libraries"] = libraries(self._users)
        text = json.dumps(document).encode()
        while len(text) > MOST_BYTES and lines:
            lines.pop()
            text = json.dumps(document).encode()
        write(self._answer, text)


def write(path: str, content: bytes) -> None:
    """Write a file whole, or not at all: /tmp may be full. Raises OSError."""
    partial = f"{path}.new"
    with suppress(FileNotFoundError):
        posix.unlink(partial)
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
    descriptor = posix.open(partial, flags, 0o600)
    try:
        if posix.write(descriptor, content) == len(content):
            posix.rename(partial, path)
    finally:
        posix.close(descriptor)
        with suppress(FileNotFoundError):
            posix.unlink(partial)


def _middle(values: Sequence[int]) -> float:
    """Median; 0 without values."""
    ordered = sorted(values)
    return float(ordered[len(ordered) // 2]) if ordered else 0.0


# The user's code


INSTALLED = re.compile(r"(?:.*/)?(?:site-packages|dist-packages)/")


_ADDERS = "append|appendleft|add|extend|insert|setdefault|update|put|push|register"
ADDS = rf"(?:\[[^]]*\])*(?:\.(?:{_ADDERS})\(|\[[^]]*\]\s*=[^=]|\s*\+=)"
"""What follows the name of a container where something is added to it."""
MOST_NAMES = 1000


class Users:
    """The code below the task root, but not the libraries that lie there (`sam build`, `pip install --target`)."""

    def __init__(self) -> None:
        self.root = os.environ.get("LAMBDA_TASK_ROOT", posix.getcwd()).rstrip("/") + "/"
        self._foreign = set(self._beside())
        self._known: dict[str, bool] = {}

    def has(self, file: str) -> bool:
        known = self._known.get(file)
        if known is None:
            inside = file[len(self.root) :]
            is_foreign = INSTALLED.match(inside) or inside.partition("/")[0] in self._foreign
            known = self._known[file] = file.startswith(self.root) and not is_foreign
        return known

    def short(self, file: str) -> str:
        return file.removeprefix(self.root)[-LONGEST:]

    def codes(self) -> list[types.CodeType]:
        """The code of the user's functions, with that of functions inside them."""
        found: dict[int, types.CodeType] = {}
        waiting = [each.__code__ for each in gc.get_objects() if type(each) is types.FunctionType]
        while waiting:
            code = waiting.pop()
            if id(code) not in found and self.has(code.co_filename):
                found[id(code)] = code
                waiting.extend(each for each in code.co_consts if type(each) is types.CodeType)
        return list(found.values())

    def line_by_name(self, names: set[str]) -> Line | None:
        """The only line of the user's code that adds to what has one of these names. None if there are more."""
        names = set(filter(str.isidentifier, names))
        if not names:
            return None
        adds = re.compile(rf"\b(?:{'|'.join(names)})\b{ADDS}")
        codes = self.codes()
        found = []
        for file in {code.co_filename for code in codes}:
            with suppress(OSError), open(file, encoding="utf-8", errors="replace") as source:  # noqa: PTH123
                found += [(file, number) for number, text in enumerate(source, 1) if adds.search(text)]
        if len(found) != 1:
            return None
        ((file, line),) = found
        inside = [code for code in codes if code.co_filename == file and line in {each[2] for each in code.co_lines()}]
        return file, line, max(inside, key=lambda code: code.co_firstlineno).co_name if inside else ""

    def _beside(self) -> Iterator[str]:
        """Folders and files of installed distributions: their RECORD lists them."""
        with suppress(OSError):
            for name in posix.listdir(self.root):
                if name.endswith(".dist-info"):
                    path = f"{self.root}{name}/RECORD"
                    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                        yield from {line.split(",")[0].partition("/")[0] for line in file} - {"", ".", ".."}


def names_of(container: Any) -> set[str]:
    """The names that a container has in dicts: of modules, of attributes."""
    above = [each for each in gc.get_referrers(container) if type(each) is dict and len(each) <= MOST_NAMES]
    return {key for each in above for key, value in list(each.items()) if value is container and type(key) is str}


def libraries(users: Users) -> list[str]:
    """Names of the native libraries that are mapped, and are the user's, a layer's, or installed."""
    found: dict[str, None] = {}
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        for line in file:
            path = line[max(0, line.find("/")) :].rstrip("\n")
            name = path.rpartition("/")[2]
            if ".so" in name and (path.startswith((users.root, "/opt/")) or INSTALLED.match(path)):
                found[name[:LONGEST]] = None
    return list(found)[:MOST_LIBRARIES]


# Containers


SIZED = (list, dict, set, deque)
CACHE: type = functools._lru_cache_wrapper
HOLDERS = (dict, list, tuple, types.CellType)
"""Kinds, beside classes that are written in Python, whose items may be dicts that the collector does not know."""
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
CHUNK = 2000
"""Objects that are looked at together."""
MOST_CONTAINERS, MOST_FOUND = 100, 300


def _of_type(name: str) -> Callable[[type], Any]:
    """Reads this of a class, whatever its metaclass makes of the name."""
    return type.__dict__[name].__get__  # type: ignore[no-any-return]


FLAGS, MRO, NAMESPACE = _of_type("__flags__"), _of_type("__mro__"), _of_type("__dict__")
MODULE = _of_type("__module__")
"""Of a type that is written in C, and has none in its namespace."""


def is_one(kind: type, kinds: Sequence[type]) -> bool:
    """Is it in there? Not by `in`: a metaclass may have an `__eq__` of its own."""
    return any(kind is each for each in kinds)


def base_of(kind: type) -> type | None:
    """The built-in container that it is, or is a subclass of."""
    return CACHE if kind is CACHE else next((each for each in SIZED if is_one(each, MRO(kind))), None)


def measure_of(kind: type) -> Callable[[Any], int] | None:
    """Reads the length of what is of this kind. None for what is no container, and no cache."""
    base = base_of(kind)
    return None if base is None else _cached if base is CACHE else NAMESPACE(base)["__len__"]


def measured(container: Any) -> Callable[[], int]:
    """Reads the length of this one."""
    return partial(measure_of(type(container)) or len, container)


def _cached(cache: Any) -> int:
    return int(cache.cache_info().currsize)


class Growth:
    """The containers that are as long as at the look before, or longer."""

    def __init__(self, in_use: Callable[[], int] | None) -> None:
        self.at: list[int] = []
        """Number of each look's invocation."""
        self._malloc: list[int] = []
        self._blocks: list[int] = []
        self._in_use = in_use
        self._first: dict[int, int] = {}
        """By id: the length at the first look, until the second."""
        self._lengths: dict[int, tuple[int, ...]] = {}
        """By id: the length at each look."""
        self._values = Values()

    def look(self, at: int, most_bytes: int) -> int:
        """Note the lengths. Returns the bytes that this takes: more than `most_bytes` if it was not done."""
        in_use, blocks = self._malloc_now(), sys.getallocatedblocks()
        objects = gc.get_objects()
        kinds = {place for place, kind in _kinds(objects).items() if base_of(kind) is not None}
        known = self._first or self._lengths
        noted = len(known) if self.at else sum(map(kinds.__contains__, map(id, map(type, objects))))
        needs = OBJECT_BYTES * len(objects) + CONTAINER_BYTES * noted
        if needs > most_bytes:
            return needs
        before = self._lengths
        found: dict[int, tuple[int, ...]] = {}
        own = {
            id(objects),
            id(self.at),
            id(self._malloc),
            id(self._blocks),
            id(self.__dict__),
            id(before),
            id(found),
            id(self._first),
        }
        if not self.at:
            self._first = {id(each): size for each, size in containers(objects, self._values.look)}
        for each, size in containers(objects, self._values.look) if self.at else ():
            place = id(each)
            lengths = before.get(place)
            if lengths is not None:
                if size > lengths[0]:
                    found[place] = (*lengths, size)
            elif len(self.at) == 1 and size != (first := self._first.get(place, 0)):
                found[place] = (first, size)
        if self.at:
            self._first = {}
        for place in own:
            found.pop(place, None)
        self._lengths = found
        self._values.looked()
        self.at.append(at)
        self._malloc.append(in_use)
        self._blocks.append(blocks)
        return needs

    def of_malloc(self, at: int) -> float:
        """Bytes per invocation by which grows what malloc has given out, until invocation `at`, which is now."""
        return rising([*self.at, at], [*self._malloc, self._malloc_now()])

    def of_blocks(self, at: int) -> float:
        """The same, of the blocks of Python's own allocator, about."""
        return BLOCK_BYTES * rising([*self.at, at], [*self._blocks, sys.getallocatedblocks()])

    def _malloc_now(self) -> int:
        return self._in_use() if self._in_use is not None else _resident()

    def growing(self, most_bytes: int) -> list[Container]:
        """The containers that get longer steadily, that with most first. Forgets the lengths."""
        rates = {place: rising(self.at, lengths) for place, lengths in self._lengths.items()}
        rates = {place: rate for place, rate in rates.items() if rate > 0}
        own = {id(self._lengths), id(rates), id(self.__dict__)}
        self._lengths = {}
        self._values.choose(self.at)
        everything = containers(gc.get_objects(), self._values.find)
        found = [each for each, _ in everything if id(each) in rates and id(each) not in own]
        inside = {id(each) for cache in found if type(cache) is CACHE for each in gc.get_referents(cache)}
        found = [each for each in found if id(each) not in inside]
        found.sort(key=lambda each: -rates[id(each)])
        del found[MOST_FOUND:]
        sizes = Sizes({id(found), id(rates), id(inside), *map(id, found)}, most_bytes)
        made = self._values.containers(self.at[-1], sizes)
        for each in found:
            if id(each) not in made:
                rate = rates[id(each)]
                made[id(each)] = Container(
                    each, measured(each), set(), rate, self.at[-1], sizes.of(each), bound_of(each)
                )
        return sorted(made.values(), key=lambda each: -each.rate)[:MOST_CONTAINERS]


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


def _kinds(objects: list[Any]) -> dict[int, type]:
    return dict(zip(map(id, map(type, objects)), map(type, objects)))  # noqa: B905 - twice as fast without


def containers(objects: list[Any], look: Callable[[list[Any]], None]) -> Iterator[tuple[Any, int]]:
    """Those that have a length, and the dicts that the collector does not know: of numbers, texts and bytes alone.

    `look` is called with some objects that have values under a name: dicts, instances, cells. What is done with each of
    the objects is done by built-in functions: there may be a million.
    """
    kinds = _kinds(objects)
    measures = {place: found for place, kind in kinds.items() if (found := measure_of(kind)) is not None}
    holders = {place for place, kind in kinds.items() if is_one(kind, HOLDERS) or FLAGS(kind) & HEAP_TYPE}
    naming = {place for place in holders if not is_one(kinds[place], (list, tuple))}
    met: set[int] = set()
    for start in range(0, len(objects), CHUNK):
        chunk = objects[start : start + CHUNK]
        places = list(map(id, map(type, chunk)))
        for each in itertools.compress(chunk, map(measures.__contains__, places)):
            yield each, measures[id(type(each))](each)
        items = gc.get_referents(*itertools.compress(chunk, map(holders.__contains__, places)))
        dicts = itertools.compress(items, map(operator.is_, map(type, items), itertools.repeat(dict)))
        untracked = {id(each): each for each in itertools.filterfalse(gc.is_tracked, dicts) if id(each) not in met}
        met.update(untracked)
        for each in untracked.values():
            yield each, len(each)
        look([*itertools.compress(chunk, map(naming.__contains__, places)), *untracked.values()])


LEAST_TEXT, LEAST_LIST = 4096, 16
"""Lengths from which texts and bytes, and lists, are looked at: the sidecar asks when memory has grown for long."""
TEXTS = {id(kind) for kind in (str, bytes, bytearray, getattr(sys.modules.get("array"), "array", bytes))}
VALUES = {*TEXTS, id(list)}
KEYS = (str, int, bytes)
"""Kinds of keys whose `__eq__` and `__hash__` are Python's."""


class Values:
    """Texts, bytes and lists that grow under a name, though the object may be another each time: `text += more`."""

    def __init__(self) -> None:
        self._looks = 0
        self._known: dict[int, int] = {}
        """By id: the length of each large value at the look before."""
        self._known_now: dict[int, int] = {}
        self._places: dict[tuple[int, int], tuple[int, ...]] = {}
        """By the holder's id, and the place among what it refers to: the length at each look but the first."""
        self._places_now: dict[tuple[int, int], tuple[int, ...]] = {}
        self._there: set[int] = set()
        """Ids of the values at these places at the look before."""
        self._there_now: set[int] = set()
        self._rates: dict[int, dict[int, float]] = {}
        """Of those that grow, by the holder's id and the place."""
        self._holders: list[Any] = []

    def look(self, holders: list[Any]) -> None:
        """Note the large values of some objects."""
        items = gc.get_referents(*holders)
        kinds = list(map(id, map(type, items)))
        texts = list(itertools.compress(items, map(TEXTS.__contains__, kinds)))
        texts = list(itertools.compress(texts, map(LEAST_TEXT.__le__, map(len, texts))))
        lists = list(itertools.compress(items, map(id(list).__eq__, kinds)))
        lists = list(itertools.compress(lists, map(LEAST_LIST.__le__, map(len, lists))))
        large = {id(each): len(each) for each in (*texts, *lists)}
        self._known_now.update(large)
        if not self._looks:
            return
        changed = {each for each, size in large.items() if self._known.get(each) != size or each in self._there}
        for holder in holders if changed else ():
            values = gc.get_referents(holder)
            if not changed.isdisjoint(map(id, values)):
                self._note(id(holder), values, changed)

    def _note(self, holder: int, values: list[Any], changed: set[int]) -> None:
        for place, each in enumerate(values):
            before = self._places.get((holder, place), () if self._looks == 1 else None)
            if id(each) in changed and before is not None and len(each) >= max(before, default=0):
                self._places_now[holder, place] = (*before, len(each))
                self._there_now.add(id(each))

    def looked(self) -> None:
        """All objects were looked at."""
        self._known, self._known_now = self._known_now, {}
        self._places, self._places_now = self._places_now, {}
        self._there, self._there_now = self._there_now, set()
        self._looks += 1

    def choose(self, at: Sequence[int]) -> None:
        """Take those that get longer steadily, and most. Forgets the lengths."""
        rates = {place: rising(at, (*lengths[:1], *lengths)) for place, lengths in self._places.items()}
        for rate, (holder, place) in sorted(((rate, place) for place, rate in rates.items()), reverse=True)[
            :MOST_FOUND
        ]:
            if rate > 0:
                self._rates.setdefault(holder, {})[place] = rate
        self._known, self._places = {}, {}

    def find(self, holders: list[Any]) -> None:
        """Find the holders of these again, among some objects."""
        self._holders += [each for each in holders if id(each) in self._rates]

    def containers(self, at: int, sizes: Sizes) -> dict[int, Container]:
        """What was found, as containers of letters, bytes or items, by the value's id."""
        made: dict[int, Container] = {}
        for holder in self._holders:
            values = dict(enumerate(gc.get_referents(holder)))
            found = [(values[place], rate) for place, rate in self._rates[id(holder)].items() if place in values]
            names = holder if type(holder) is dict else _attributes(holder)
            keys = {id(value): key for key, value in list(dict.items(names)) if is_one(type(key), KEYS)}
            for value, rate in found:
                if id(type(value)) in VALUES:
                    key = keys.get(id(value))
                    each, measure = (
                        (holder, _at(holder, value)) if key is None else (names, partial(_under, names, key))
                    )
                    known_as = {key} if type(key) is str else set()
                    made[id(value)] = Container(each, measure, known_as, rate, at, sizes.of(value))
        return made


def _at(holder: Any, value: Any) -> Callable[[], int]:
    """Reads the length of the value that is where this one is. A dict of attributes may be there only now."""
    places = [place for place, held in enumerate(gc.get_referents(holder)) if held is value]
    return partial(_length_at, holder, places[0] if places else sys.maxsize)


def _under(names: dict[Any, Any], key: Any) -> int:
    return _length(names.get(key))


def _length_at(holder: Any, place: int) -> int:
    return _length(next(iter(gc.get_referents(holder)[place : place + 1]), None))


def _length(value: Any) -> int:
    return len(value) if id(type(value)) in VALUES else 0


SKIPPED, RISING, IN_EACH_HALF, STEADY, FALL = 0.25, 0.6, 2, 0.5, 0.5
"""As in the workbench's explain/attribution.py, which says what they mean."""


def rising(at: Sequence[int], values: Sequence[int]) -> float:
    """Growth per invocation, if it is steady; else 0."""
    if len(values) < len(at):
        return 0.0
    begin = min(int(len(at) * SKIPPED), max(0, len(at) - LEAST_LOOKS))
    places, levels = at[begin:], values[begin:]
    if len(levels) < LEAST_LOOKS:
        return 0.0
    steps = [after - before for before, after in itertools.pairwise(levels)]
    half = len(levels) // 2
    halves = (steps[:half], steps[half:])
    in_steps = min(steps) >= 0 and min(sum(step > 0 for step in of) for of in halves) >= IN_EACH_HALF
    if sum(step > 0 for step in steps) < RISING * len(steps) and not in_steps:
        return 0.0
    highest = itertools.accumulate(levels, max)
    if max(map(operator.sub, highest, levels)) > FALL * (levels[-1] - levels[0]):
        return 0.0
    pairs = itertools.combinations(zip(places, levels), 2)  # noqa: B905
    slopes = sorted((last[1] - first[1]) / (last[0] - first[0]) for first, last in pairs)
    middle = len(slopes) // 2
    rate = (slopes[middle] + slopes[~middle]) / 2  # Theil-Sen
    if in_steps and rate == 0:
        rate = (levels[-1] - levels[0]) / (places[-1] - places[0])
    later = (levels[-1] - levels[half]) / (places[-1] - places[half])
    return rate if later > STEADY * rate else 0.0


SAMPLE, REACHED, MOST_REACHED = 4, 20_000, 300_000
"""Newest items that are looked into, objects below each, and in all."""
MOST_SAMPLE, FEW_REACHED = 20, 500
"""Newest items that are looked into while so few objects were below them: some requests keep far more than others."""
SMALL = 512
"""Largest block of Python's own allocator (cpython, Objects/obmalloc.c). Larger ones are malloc's."""
REACHED_BYTES = 200
"""Memory of the search for each object that is reached, for a moment."""
NOT_FOLLOWED = (types.ModuleType, type)


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
        size, large, self.is_opaque = sizes
        self.rate = items * size
        """Bytes per invocation."""
        self.large_rate = items * large
        """Of them, from malloc."""
        self.most_bytes = (bound - self.length) * size if bound is not None else None
        """Bytes that it will still take. None if it has no bound."""

    @property
    def times(self) -> int:
        """How often it was seen to get longer."""
        return self.grew.total() if hasattr(self.grew, "total") else sum(self.grew.values())

    def still_grows(self, at: int, bound_bytes: int) -> bool:
        """False for a cache that was full soon after the looks, or will be before it takes so much more."""
        if self.most_bytes is not None and self.most_bytes < bound_bytes:
            return False
        later = self.part_since(at)
        return later >= STEADY or (later > 0 and at - self._at < LEAST_LOOKS)

    def part_since(self, at: int) -> float:
        """How fast it has grown since the looks, as a share of before."""
        return max(0.0, (self.measure() - self._before) / max(1, at - self._at) / self._items)

    def line(self, users: Users) -> Line | None:
        """Where a cached function is defined, or the line after which it was longer. If that was not seen, because the
        function ran too many lines: the only line that adds to what has its name. Else None."""
        wrapped = _attributes(self.each).get("__wrapped__") if type(self.each) is CACHE else None
        code = wrapped.__code__ if type(wrapped) is types.FunctionType else None
        if code is not None and users.has(code.co_filename):
            return code.co_filename, code.co_firstlineno, code.co_name
        lines: Counter[Line] = Counter()
        for stack, times in self.grew.items():
            lines[stack[0]] += times
        return lines.most_common(1)[0][0] if lines else users.line_by_name(self._names or names_of(self.each))

    def stack(self, line: Line) -> Stack:
        known = [stack for stack, _ in self.grew.most_common() if stack[0] == line]
        return known[0] if known else (line, *next(iter(self.grew), ()))


SLOTS: dict[Any, int] = {list: 9, deque: 9, dict: 60, set: 40, CACHE: 120}
"""Bytes of a container's own for each item, about."""


class Sizes:
    """Bytes that the newest items of containers have."""

    def __init__(self, ignored: set[int], most_bytes: int) -> None:
        """`ignored`: ids of objects that are no item's."""
        self._reached = min(REACHED, most_bytes // (SAMPLE * REACHED_BYTES))
        self._ignored = ignored
        self._left = MOST_REACHED

    def of(self, container: Any) -> tuple[float, float, bool]:
        """Bytes of a new item and of all that it alone has; of these, in large blocks; may C keep more than it says?

        What several of the newest items lead to is not theirs.
        """
        if id(type(container)) in TEXTS:
            entry = _size(container) / max(1, len(container))
            return entry, entry, False
        entry = float(SLOTS.get(base_of(type(container)), 0))
        items: list[tuple[Any, ...]] = []
        with suppress(RuntimeError, IndexError):  # another thread has changed it just now
            items = newest(container)
        if not items or self._left <= 0:
            return entry, entry, False
        below: list[list[Any]] = []
        for item in items:
            if len(below) >= SAMPLE and sum(map(len, below)) > FEW_REACHED:
                break
            below.append(list(self._below(item)))
        times = Counter(itertools.chain.from_iterable(map(id, of) for of in below))
        alone = [each for of in below for each in of if times[id(each)] == 1]
        sizes = list(map(_size, alone))
        large = sum(size for size in sizes if size > SMALL)
        return sum(sizes) / len(below) + entry, large / len(below) + entry, any(map(_is_opaque, map(type, alone)))

    def _below(self, parts: Sequence[Any]) -> Iterator[Any]:
        """These and what they refer to, but no module, class, module's variables or growing container."""
        waiting, met = deque(parts), {*map(id, parts), *self._ignored}
        for _ in range(min(self._reached, self._left)):
            if not waiting:
                return
            each = waiting.popleft()
            self._left -= 1
            if not issubclass(type(each), NOT_FOLLOWED) and not _is_globals(each):
                yield each
                for further in gc.get_referents(each):
                    if id(further) not in met:
                        met.add(id(further))
                        waiting.append(further)


def newest(container: Any) -> list[tuple[Any, ...]]:
    """Some items: the newest, where the container has an order. Of a dict, key and value."""
    base = base_of(type(container))
    if base is CACHE:
        parts = gc.get_referents(container)
        table = next((each for each in parts if type(each) is dict and each is not _attributes(container)), {})
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


def bound_of(container: Any) -> int | None:
    """The length that it can have at most. None if it has no bound."""
    kind = type(container)
    bound = container.cache_info().maxsize if kind is CACHE else None
    if issubclass(kind, deque):
        bound = deque.__dict__["maxlen"].__get__(container)
    return bound if type(bound) is int else None


def _is_globals(each: Any) -> bool:
    return type(each) is dict and "__name__" in each and "__builtins__" in each


def _size(each: Any) -> int:
    """Bytes of an object, without a `__sizeof__` that is written in Python."""
    kind = next(
        each for each in MRO(type(each)) if type(NAMESPACE(each).get("__sizeof__")) is types.MethodDescriptorType
    )
    try:
        return int(NAMESPACE(kind)["__sizeof__"](each)) + (16 if gc.is_tracked(each) else 0)
    except Exception:
        return 0


def _is_opaque(kind: type) -> bool:
    """Is it an extension's? Then it may have memory that `__sizeof__` leaves out."""
    names = NAMESPACE(kind)
    module = names.get("__module__", "builtins") if FLAGS(kind) & HEAP_TYPE else MODULE(kind)
    if "__dict__" in names or "__slots__" in names or type(module) is not str or module in PLAIN:
        return False
    return not any(type(names.get(name)) is types.FunctionType for name in ("__init__", "__new__", "__call__"))


PLAIN = {"array", "builtins", "collections", "datetime", "decimal", "functools", "itertools", "re", "types", "weakref"}
PLAIN |= {"_asyncio", "_contextvars", "_io", "_thread", "_weakref"}
"""Modules whose classes say what they take."""


def _attributes(each: Any) -> Any:
    """The dict of an object's attributes. Empty if it has none, or one that is not Python's own."""
    for kind in MRO(type(each)):
        found = NAMESPACE(kind).get("__dict__")
        if found is not None:
            attributes = found.__get__(each) if type(found) is types.GetSetDescriptorType else None
            return attributes if type(attributes) is dict else {}
    return {}


# Lines


MONITORING: Any = getattr(sys, "monitoring", None)
"""From Python 3.12 on: only the user's code is slower. Before it, each call is seen."""
TOOL, TOOLS = 5, range(6)
"""Identifier of sys.monitoring that we take, of all. It is for optimizers, of which none is known to use it: who looks
for a free one finds those that are for tools."""


def tracing() -> str:
    """What already sees the function's lines: a debugger, a profiler or coverage uses it. Empty if nothing does."""
    if sys.gettrace() is not None:
        return "sys.settrace is in use"
    if sys.getprofile() is not None:
        return "sys.setprofile is in use"
    is_monitored = MONITORING is not None and any(MONITORING.get_tool(tool) is not None for tool in TOOLS)
    return "sys.monitoring is in use" if is_monitored else ""


MOST_TIMES_WITHOUT = 4
OWN_REFERENCES = 3
"""To a container: by `each`, `measure`, and the call that counts them."""


class Watch:
    """Sees after which line of the user's code a container is longer."""

    def __init__(self, containers: list[Container], users: Users) -> None:
        self.containers = containers
        self._users = users
        self._codes = users.codes() if MONITORING is not None and containers else []
        self._known: dict[int, tuple[bool, types.CodeType]] = {}
        """By its id, because the hash of a code reads all of it: is it the user's?"""
        self._is_on = False
        """Is our tool of sys.monitoring registered?"""
        self._last: dict[int, tuple[types.CodeType, int] | None] = {}
        """By thread: the line of the user's code that runs."""
        self._left_ns = 0
        self._times_without = 0
        """Invocations that had no CPU left for all of it."""
        self._step_ns = LINE_NS + CONTAINER_NS * len(containers)
        self._has_disabled = False
        """Are there events that are off because one invocation had no CPU left for them?"""
        self._hits: Counter[tuple[int, int]] = Counter()
        """How often each line, or end, was seen in this invocation. By the code's id."""
        self._main = 0

    @property
    def is_wanted(self) -> bool:
        least = LEAST_SHARE * max((each.rate for each in self.containers), default=0.0)
        has_unseen = any(each.times < ENOUGH and each.rate >= least for each in self.containers)
        return has_unseen and self._times_without < MOST_TIMES_WITHOUT

    def forget_dropped(self) -> None:
        """Forget the containers that only we refer to: the function has put others in their place."""
        self.containers = [each for each in self.containers if sys.getrefcount(each.each) > OWN_REFERENCES]

    def start(self, most_ns: int) -> None:
        """Watch the next invocation, for so much CPU of ours."""
        self._times_without += self._left_ns < 0
        self._last.clear()
        self._hits.clear()
        self._left_ns = most_ns
        self._main = get_ident()
        for each in self.containers:
            each.length = each.measure()
        if MONITORING is None:
            sys.settrace(self._enter)
            return
        MONITORING.use_tool_id(TOOL, "truemem")
        self._is_on = True
        for event, seen in self._callbacks().items():
            MONITORING.register_callback(TOOL, event, seen)
        for code in self._codes:
            MONITORING.set_local_events(TOOL, code, sum(self._callbacks()))
        if self._has_disabled:
            MONITORING.restart_events()
            self._has_disabled = False

    def stop(self) -> None:
        """Watch no more. Without a call of `start` it does nothing."""
        if MONITORING is None:
            if sys.gettrace() == self._enter:
                sys.settrace(None)
            return
        if self._is_on:
            self._is_on = False
            for code in self._codes:
                MONITORING.set_local_events(TOOL, code, 0)
            for event in self._callbacks():
                MONITORING.register_callback(TOOL, event, None)
            MONITORING.free_tool_id(TOOL)

    # By sys.monitoring

    def _callbacks(self) -> dict[int, Callable[..., Any]]:
        """By the event. A function's first line is not always one: that of a lambda is none, from Python 3.13 on."""
        events = MONITORING.events
        begins, ends = (events.PY_START, events.PY_RESUME), (events.PY_RETURN, events.PY_YIELD)
        return {events.LINE: self._line, **dict.fromkeys(begins, self._begin), **dict.fromkeys(ends, self._end)}

    def _begin(self, code: types.CodeType, offset: int) -> Any:
        try:
            frame = sys._getframe(1)
            self._stepped(frame, (code, frame.f_lineno))
            return self._unless_hot(code, -offset)
        except Exception as error:
            return self._failed(error)

    def _line(self, code: types.CodeType, line: int) -> Any:
        try:
            self._stepped(sys._getframe(1), (code, line))
            return self._unless_hot(code, line)
        except Exception as error:
            return self._failed(error)

    def _end(self, code: types.CodeType, offset: int, _value: object) -> Any:
        try:
            frame = sys._getframe(1)
            self._stepped(frame, self._above(frame))
            return self._unless_hot(code, -offset)
        except Exception as error:
            return self._failed(error)

    def _unless_hot(self, code: types.CodeType, place: int) -> Any:
        """What Python is told after an event: no more of them if there were many, or if there is no CPU left."""
        self._hits[id(code), place] += 1
        self._has_disabled |= self._left_ns < 0
        return MONITORING.DISABLE if self._hits[id(code), place] > HOT or self._left_ns < 0 else None

    # By sys.settrace

    def _enter(self, frame: types.FrameType, _event: str, _: Any) -> Any:
        """Python calls it for each new frame: the frames of libraries are not followed."""
        try:
            self._left_ns -= CALL_NS
            if self._left_ns < 0:
                self.stop()
                return None
            if not self._is_users(frame.f_code):
                return None
            self._hits[id(frame.f_code), 0] += 1
            if self._hits[id(frame.f_code), 0] > HOT:
                self._last[get_ident()] = None  # what gets longer in it is not the caller's
                return None
            self._stepped(frame, (frame.f_code, frame.f_lineno) if self._last.get(get_ident()) is not None else None)
            return self._step
        except Exception as error:
            return self._failed(error)

    def _step(self, frame: types.FrameType, event: str, _: Any) -> Any:
        try:
            self._stepped(frame, self._above(frame) if event == "return" else (frame.f_code, frame.f_lineno))
            if self._left_ns < 0:
                self.stop()  # not by None alone: Python calls it for each further line of this frame
            return self._step
        except Exception as error:
            return self._failed(error)

    # By both

    def _stepped(self, frame: types.FrameType, now: tuple[types.CodeType, int] | None) -> None:
        """A line begins, or a function ends: what got longer since, did so in the line before."""
        thread = get_ident()
        if thread in self._last or thread == self._main:
            last = self._last.get(thread)
        else:  # a thread that begins did not do it: the line that started it did
            last = self._last.get(self._main)
            frame = sys._current_frames().get(self._main, frame)
        self._last[thread] = now
        self._left_ns -= self._step_ns
        for each in self.containers:
            size = each.measure()
            if size != each.length:
                if size > each.length and last is not None:
                    each.grew[self._stack(frame, last)] += 1
                each.length = size

    def _stack(self, frame: types.FrameType | None, last: tuple[types.CodeType, int]) -> Stack:
        """The user's frames, from that of the line that has run."""
        code, line = last
        above: list[Line] = []
        begun = False
        while frame is not None and len(above) < MOST_FRAMES:
            if begun and self._is_users(frame.f_code):
                above.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
            begun = begun or frame.f_code is code
            frame = frame.f_back
        return ((code.co_filename, line, code.co_name), *above)

    def _above(self, frame: types.FrameType) -> tuple[types.CodeType, int] | None:
        """The line of the user's code that called."""
        above = frame.f_back
        while above is not None and not self._is_users(above.f_code):
            above = above.f_back
        return (above.f_code, above.f_lineno) if above is not None else None

    def _is_users(self, code: types.CodeType) -> bool:
        known = self._known.get(id(code))
        if known is None:
            known = self._known[id(code)] = self._users.has(code.co_filename), code
        return known[0]

    def _failed(self, error: Exception) -> None:
        """Our own error ends the watch. One of the function's, from a signal that came just now, is the function's."""
        self._left_ns = -1
        if MONITORING is None:
            self.stop()
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        if place is not None and place.tb_frame.f_code.co_filename != __file__:
            raise error


def begin(folder: str, asked: str, before_ns: Sequence[int], in_use: Callable[[], int] | None) -> Profile:
    """Begin what was asked for. Raises ValueError, OSError."""
    return Profile(Ask(asked), f"{folder}/.truemem-lines-{posix.getpid()}.json", before_ns, in_use)
