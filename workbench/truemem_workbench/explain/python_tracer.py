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
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from truemem_workbench.explain.containers import Containers, TypeGrowth
from truemem_workbench.explain.line_watch import ContainerWatch, is_users
from truemem_workbench.explain.looks import Looks
from truemem_workbench.explain.objects import Objects, kind_name

FOLDER = os.environ["TRUEMEM_EXPLAIN"]
FRAMES = 40  # frames of a stack, the innermost ones
LEAST_LOOKS = 4  # looks before anything can be said to grow
MOST_STACKS = 200
PID = os.getpid()
WAITS, WAIT_S = 20, 0.001  # before each fork, at most: native threads stay

Raw = tuple[tuple[str, int], ...]  # a stack: file and line of each frame, the innermost first


NO_BLOCKS = (0, 0)


def rounded(size: int) -> int:
    """Bytes that a block of this size takes: a small one has a place of whole 16 bytes (cpython, Objects/obmalloc.c:
    ALIGNMENT, SMALL_REQUEST_THRESHOLD)."""
    return (size + 15) & ~15 if size <= 512 else size


class Held:
    """Bytes and blocks at each look, by the user's lines on the way to the allocation.

    What a library keeps lies at many places of it below one line of the user's: only their sum is seen to grow. Where
    no line is the user's, each stack counts for itself.
    """

    def __init__(self) -> None:
        self.looks: list[dict[Raw, tuple[int, int]]] = []
        self.largest: dict[Raw, Raw] = {}
        """The stack that holds most at the last look, by its lines."""

    def look(self) -> None:
        """Note what is held now.

        `Snapshot.statistics` hashes the stack of each block, and takes ten times as long. The traces of one snapshot
        share the stacks (cpython, Modules/_tracemalloc.c), so most are distinguished by their address.
        """
        stacks: dict[int, Raw] = {}
        sizes: defaultdict[int, list[int]] = defaultdict(list)
        for trace in tracemalloc.take_snapshot().traces._traces:  # type: ignore[attr-defined]
            stack = trace[2]
            place = id(stack)  # nothing else is made here: each block that we ask for is traced too
            stacks[place] = stack
            sizes[place].append(trace[1])
        found: dict[Raw, tuple[int, int]] = {}
        most: dict[Raw, int] = {}
        for place, stack in stacks.items():
            if any(map(_is_own, stack)):
                continue
            way = tuple(frame for frame in stack if is_users(frame[0])) or stack
            size, count = found.get(way, NO_BLOCKS)
            added = sum(map(rounded, sizes[place]))
            found[way] = (size + added, count + len(sizes[place]))
            if added > most.get(way, 0):
                most[way] = added
                self.largest[way] = stack
        self.looks.append(found)

    def grown(self) -> list[dict[str, Any]]:
        """What holds more than at the first look, most of it first."""
        first, last = self.looks[0], self.looks[-1]
        gains = {way: size - first.get(way, NO_BLOCKS)[0] for way, (size, _) in last.items()}
        ways = sorted((way for way, gain in gains.items() if gain > 0), key=lambda way: -gains[way])
        return [
            {
                "frames": self.largest[way][::-1],
                "bytes": [look.get(way, NO_BLOCKS)[0] for look in self.looks],
                "blocks": [look.get(way, NO_BLOCKS)[1] for look in self.looks],
            }
            for way in ways[:MOST_STACKS]
        ]


class Tracer:
    """What is held at each look, by stack and by container."""

    def __init__(self) -> None:
        self.invocations: list[int] = []
        """Number of each look's invocation."""
        self.held = Held()
        self.threads: list[int] = []
        self.missing: list[str] = []
        self.containers = Containers((self.invocations, self.held.looks, self.held.largest, self.threads, self.missing))
        self.watch = ContainerWatch()
        self.types = TypeGrowth()
        self.types_described: list[dict[str, Any]] = []
        self.looks = Looks.of_process()
        self.lines_written = 0
        """Containers whose line was known when it was written last."""
        self.has_begun = False
        """Not before the first invocation is over: what imports and a client's first use make is most of all blocks,
        does not grow, and may take a hundred times as long while it is traced."""

    def before(self) -> None:
        if self.watch.wanted:
            self.watch.start()

    def after(self) -> None:
        """Count an invocation, and look if it is time."""
        if not self.has_begun:
            self.has_begun = True
            tracemalloc.start(FRAMES)
        self.watch.stop()
        if self.watch.refused:
            self.miss("The function traces itself (sys.settrace): no line was seen that keeps.")
        if self.looks.due():
            self.look()
            self.write()
        elif self.watch.lines > self.lines_written:
            self.write()

    def look(self) -> None:
        """Note what is held. What cannot be noted is a word in `missing`, and the rest is noted all the same."""
        if gc.isenabled():  # where the user has switched it off, cycles are the leak
            gc.collect()
        collects = gc.isenabled()
        gc.disable()  # else our own work starts the collector over and over
        try:
            self.invocations.append(self.looks.count)
            self.threads.append(threading.active_count())
            self.guarded(self._note_stacks)
            self.guarded(self._note_objects)
        finally:
            if collects:
                gc.enable()

    def _note_stacks(self) -> None:
        if not tracemalloc.is_tracing():
            self.miss("The function has stopped tracemalloc: Python's blocks were not seen any more.")
            self.held.looks.append({})
            return
        self.held.look()

    def _note_objects(self) -> None:
        objects = Objects()
        ignored = {*map(id, vars(objects).values()), id(vars(objects))}
        self.guarded(lambda: self._note_containers(objects, ignored))
        self.guarded(lambda: self._note_types(objects, ignored))

    def _note_containers(self, objects: Objects, ignored: set[int]) -> None:
        self.containers.look(objects)
        if len(self.invocations) >= LEAST_LOOKS:
            self.watch.containers(self.containers.growing(objects), ignored)

    def _note_types(self, objects: Objects, ignored: set[int]) -> None:
        self.types.look(objects)
        if len(self.invocations) >= LEAST_LOOKS:
            self.types_described = self.types.described(objects, ignored)

    def guarded(self, step: Callable[[], None]) -> None:
        """Do a step of ours. No text of the error: that may be the user's code, and run it."""
        try:
            step()
        except Exception as error:
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            line = place.tb_lineno if place is not None else 0
            self.miss(f"{kind_name(type(error))} in the tracer, line {line}: what it looked at is missing.")

    def miss(self, sentence: str) -> None:
        if sentence not in self.missing:
            self.missing.append(sentence)

    def write(self) -> None:
        """Write all that was found so far: what is there when the process is killed is a partial answer."""
        self.lines_written = self.watch.lines
        document = {
            "python": sys.version.split()[0],
            "invocations": self.invocations,
            "threads": self.threads,
            "stacks": self.held.grown(),
            "containers": self.containers.described(self.watch),
            "types": self.types_described,
            "collector": gc.isenabled(),
            "missing": self.missing,
        }
        path = os.path.join(FOLDER, f"found-{PID}.json")  # noqa: PTH118
        with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(document, file)
        os.replace(f"{path}.new", path)  # noqa: PTH105


def _is_own(frame: tuple[str, int]) -> bool:
    """True for all of our lines but the one that calls the user's handler."""
    return frame[0] in OWN or (frame[0] == __file__ and frame[1] != CALL)


def ours(step: Callable[[], None]) -> None:
    """Do a step of ours. In a child process (fork) it is not done."""
    if os.getpid() == PID:
        tracer.guarded(step)


def alone() -> None:
    """Wait until threads that have returned are gone: while one ends it may have tracemalloc's lock, which a child
    process would wait for without end. AWS's client ends one as the handler begins, from Python 3.12 on."""
    for _ in range(WAITS):
        if len(os.listdir("/proc/self/task")) <= threading.active_count():  # noqa: PTH208
            return
        time.sleep(WAIT_S)


OWN = {tracemalloc.__file__, *(sys.modules[each.__module__].__file__ for each in (ContainerWatch, Containers, Objects))}
os.register_at_fork(before=alone)
tracer = Tracer()
os.environ["_HANDLER"] = os.environ["TRUEMEM_EXPLAIN_HANDLER"]
module, _, name = os.environ["_HANDLER"].rpartition(".")
user = getattr(importlib.import_module(module.replace("/", ".")), name)


def handler(event: Any, context: Any) -> Any:
    ours(tracer.before)
    try:
        return user(event, context)
    finally:
        ours(tracer.after)


CALL = handler.__code__.co_firstlineno + 3  # the line that calls the user's handler
