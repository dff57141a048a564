"""The handler of the run that explains: the user's own handler, and after some invocations a look at what is held.

It is imported in the function's own process, before the user's code, and perhaps by another interpreter than ours:
standard library alone, Python 3.10 and newer. A fault of its own never reaches the function: it is a word in `missing`.
"""

import gc
import importlib
import json
import os
import sys
import threading
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from types import FrameType
from typing import Any

from truemem_workbench.explain.containers import Containers
from truemem_workbench.explain.line_watch import Watch
from truemem_workbench.explain.objects import Objects
from truemem_workbench.explain.type_growth import TypeGrowth

FOLDER = os.environ["TRUEMEM_EXPLAIN"]
AT = frozenset(map(int, os.environ["TRUEMEM_EXPLAIN_LOOKS"].split(",")))
"""Invocations after which there is a look."""
FRAMES = 25
"""Frames of a stack, the innermost ones."""
LEAST_LOOKS = 4
"""Looks before anything can be said to grow."""
MOST_STACKS = 200
PID = os.getpid()

Raw = tuple[tuple[str, int], ...]
"""A stack: file and line of each frame, the innermost first."""


def held() -> dict[Raw, tuple[int, int]]:
    """Bytes and blocks by stack.

    `Snapshot.statistics` hashes the stack of each block, and takes ten times as long. The traces of one snapshot share
    the stacks (cpython, Modules/_tracemalloc.c), so most are told apart by their address.
    """
    stacks: dict[int, Raw] = {}
    sizes: defaultdict[int, list[int]] = defaultdict(list)
    for trace in tracemalloc.take_snapshot().traces._traces:  # type: ignore[attr-defined]
        stack = trace[2]
        place = id(stack)  # nothing else is made here: each block that we ask for is traced too
        stacks[place] = stack
        sizes[place].append(trace[1])
    found: dict[Raw, tuple[int, int]] = {}
    for place, stack in stacks.items():
        size, count = found.get(stack, (0, 0))
        found[stack] = (size + sum(sizes[place]), count + len(sizes[place]))
    return found


class Tracer:
    """What is held after the invocations in AT, by stack and by container."""

    def __init__(self) -> None:
        self.invocations: list[int] = []
        """Number of each look's invocation."""
        self.stacks: list[dict[Raw, tuple[int, int]]] = []
        """Bytes and blocks by stack, for each look."""
        self.threads: list[int] = []
        self.missing: list[str] = []
        self.containers = Containers((self.invocations, self.stacks, self.threads, self.missing))
        self.watch = Watch()
        self.types = TypeGrowth()
        self.types_told: list[dict[str, Any]] = []
        self.count = 0

    def before(self) -> None:
        if self.watch.wanted:
            self.watch.start()

    def after(self) -> None:
        """Count an invocation, and look after those in AT."""
        watched = self.watch.wanted
        self.watch.stop()
        self.count += 1
        if self.count not in AT:
            if watched and not self.watch.wanted:
                self.write()
            return
        objects = self.look()
        if len(self.invocations) >= LEAST_LOOKS:
            ignored = {*self.frames(), *map(id, vars(objects).values()), id(vars(objects))}
            self.watch.containers(self.containers.growing(objects), ignored)
            self.types_told = self.types.told(objects, ignored)
        self.write()

    def look(self) -> Objects:
        if gc.isenabled():  # where the user has switched it off, cycles are the leak
            gc.collect()
        collects = gc.isenabled()
        gc.disable()  # else our own work starts the collector over and over
        try:
            now = held()
            first = self.stacks[0] if self.stacks else {}
            self.stacks.append({stack: each for stack, each in now.items() if each > first.get(stack, (0, 0))})
            self.threads.append(threading.active_count())
            objects = Objects()
            self.containers.look(objects)
            self.types.look(objects)
            self.invocations.append(self.count)
            return objects
        finally:
            if collects:
                gc.enable()

    @staticmethod
    def frames() -> set[int]:
        """Ids of our own frames, which refer to what we look at."""
        found: set[int] = set()
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            found.add(id(frame))
            frame = frame.f_back
        return found

    def grown(self) -> list[Raw]:
        """The stacks that hold more than at the first look, most of it first."""
        first, last = self.stacks[0], self.stacks[-1]
        gains = {stack: size - first.get(stack, (0, 0))[0] for stack, (size, _) in last.items()}
        users = (stack for stack, gain in gains.items() if gain > 0 and not any(map(_is_own, stack)))
        return sorted(users, key=lambda stack: -gains[stack])

    def write(self) -> None:
        """Write all that was found so far: what is there when the process is killed is a partial answer."""
        none = (0, 0)
        document = {
            "python": sys.version.split()[0],
            "invocations": self.invocations,
            "threads": self.threads,
            "stacks": [
                {
                    "frames": stack[::-1],
                    "bytes": [look.get(stack, none)[0] for look in self.stacks],
                    "blocks": [look.get(stack, none)[1] for look in self.stacks],
                }
                for stack in self.grown()[:MOST_STACKS]
            ],
            "containers": self.containers.told(self.watch),
            "types": self.types_told,
            "collector": gc.isenabled(),
            "missing": self.missing,
        }
        path = os.path.join(FOLDER, f"found-{PID}.json")  # noqa: PTH118
        with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(document, file)
        os.replace(f"{path}.new", path)  # noqa: PTH105


def _is_own(frame: tuple[str, int]) -> bool:
    """True for all of our lines but the one that calls the user's handler."""
    return frame[0] == tracemalloc.__file__ or (frame[0] == __file__ and frame[1] != CALL)


def guarded(step: Callable[[], None]) -> None:
    """Do a step of ours. In a child process (fork) it is not done."""
    if os.getpid() != PID:
        return
    try:
        step()
    except Exception as error:
        tracer.missing.append(f"{type(error).__name__}: {error}")


tracer = Tracer()
os.environ["_HANDLER"] = os.environ["TRUEMEM_EXPLAIN_HANDLER"]
module, _, name = os.environ["_HANDLER"].rpartition(".")
user = getattr(importlib.import_module(module.replace("/", ".")), name)
tracemalloc.start(FRAMES)  # not before: what an import makes is most of all blocks, and does not grow


def handler(event: Any, context: Any) -> Any:
    guarded(tracer.before)
    try:
        return user(event, context)
    finally:
        guarded(tracer.after)


CALL = handler.__code__.co_firstlineno + 3
"""The line that calls the user's handler."""
