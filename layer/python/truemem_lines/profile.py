"""One profile: when to look, when to watch, and what to answer."""

from __future__ import annotations

import gc
import json
import os
import posix
import time
from contextlib import suppress
from functools import partial

from .containers import Sizes
from .looks import GrowingContainers
from .rising import LEAST_LOOKS
from .users import MOST_FRAMES, MOST_NAME_CHARS, Users, libraries
from .watch import LEAST_GROWTH_SHARE, ContainerWatch, tracing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .kinds import Found
    from .users import Line, Stack

LOOKS = 6
"""The first two are two steps apart: what is as long at the second is forgotten, and that is nearly all."""
LOOKED_SHARE = 0.6
"""Share of the invocations over which the looks are spread. The rest may be watched, line by line."""
MOST_WATCHED = 24
"""Invocations that are watched at most."""
FREE_CPU_NS, LEAST_FREE = 10_000_000, 0.2
"""More CPU for an invocation that is allowed at any rate: some of a short one is not worth giving up for. With a part
of a vCPU lines are watched for that part of it, because the caller waits as many times longer; for this at least."""
MOST_LOOK_NS = 1_000_000_000
"""Time of a look, with its collection: the function's timeout goes on. One that would take longer is not begun, and
after one that did there is no other."""
OBJECT_NS, VCPU_MIB = 500, 1769
"""Time of a look for each object that the collector knows (measured: 350), where the memory size buys a whole vCPU."""
LEAST_GROWTH_KIB = 0.2
"""Growth per invocation that is not reported: a library keeps as much."""
MOST_LINES = 10
MOST_ANSWER_BYTES = 16 * 1024
NATIVE_KIB, NATIVE_SHARE = 1.0, 0.1
"""Growth that no line explains, from which the native libraries are named."""
SMALL_SHARE = 0.25
"""Part of what containers have by which small objects may grow more: what a container's own tables take is a guess."""


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

    def __init__(
        self,
        ask: Ask,
        answer: str,
        before_ns: Sequence[int],
        in_use: Callable[[], int] | None,
        small: Callable[[], int] | None,
    ) -> None:
        """`before_ns`: CPU of invocations without a profile. `in_use`, `small`: bytes that malloc and Python's own
        allocator have given out."""
        self._ask, self._answer = ask, answer
        self._before_ns = _middle(before_ns)
        self._watched_ns: list[int] = []
        self._count = 0
        self._gave_up = ""
        self._look_ns = 0
        self._most_bytes = 0
        self._users = Users()
        self._growth = GrowingContainers(in_use, small)
        self._looked_until = int(ask.invocations * LOOKED_SHARE)
        self._watch: ContainerWatch | None = None
        self._watches = False
        size = os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "")
        share = min(1.0, int(size) / VCPU_MIB) if size.isdecimal() and int(size) else 1.0
        self._free_ns = FREE_CPU_NS * max(share, LEAST_FREE)
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
            self._watch.end()
            self._watched_ns.append(cpu_ns)
            if _middle(self._watched_ns) - self._before_ns > self._most_ns(FREE_CPU_NS):
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
        self._watch = ContainerWatch(self._growth.growing(self._ask.memory_kib * 1024), self._users)
        self._watch_next(self._watch)

    def _watch_next(self, watch: ContainerWatch) -> None:
        if self._gave_up or len(self._watched_ns) >= MOST_WATCHED or not watch.is_wanted:
            return
        self._gave_up = tracing()
        self._watches = not self._gave_up
        if self._watches:
            watch.start(int(self._most_ns(self._free_ns)))

    def _most_ns(self, free_ns: float) -> float:
        """More CPU that a watched invocation may take."""
        return max(free_ns, self._before_ns * self._ask.cpu_percent / 100)

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

    def _conclude(self, watch: ContainerWatch) -> None:
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
        explained = sum(rates.values()) - large + cached - cached_large
        rest = max(0.0, self._growth.of_malloc(self._count) - large - cached_large)
        if rest > 1024 * NATIVE_KIB and opaque:
            most = max(opaque, key=lambda line: opaque[line])
            rates[most] += rest  # an extension's objects may have memory that Python does not know of
            rest = 0.0
        small = max(0.0, self._growth.of_small() - explained)
        small = small if small > SMALL_SHARE * explained + 1024 * NATIVE_KIB else 0.0
        classes: list[dict[str, Any]] = []
        everything = sum(rates.values()) + rest + small
        for found in self._growth.kinds.found(self._count, self._users, Sizes(set(), self._ask.memory_kib * 1024)):
            of_malloc, of_small = min(found.large, rest), min(found.small, small)
            if (taken := of_malloc + of_small) < 1024 * NATIVE_KIB:
                continue
            rest, small = rest - of_malloc, small - of_small
            if not found.stack:
                classes.append(_of_class(found, taken, everything))
                continue
            line = found.stack[0]
            rates[line] = rates.get(line, 0.0) + taken
            if taken > stacks.get(line, (-1.0, ()))[0]:
                stacks[line] = taken, found.stack
        least = max(LEAST_GROWTH_KIB * 1024, LEAST_GROWTH_SHARE * max(rates.values(), default=0.0))
        lines = [
            {
                "file": self._users.short(line[0]),
                "line": line[1],
                "function": line[2][:MOST_NAME_CHARS],
                "perInvocationKiB": round(rate / 1024, 1),
                "share": round(rate / everything, 2),
                "stack": [self._described(frame) for frame in reversed(stacks[line][1][:MOST_FRAMES])],
            }
            for line, rate in sorted(rates.items(), key=lambda pair: -pair[1])[:MOST_LINES]
            if rate >= least
        ]
        self._write([*lines, *classes][:MOST_LINES], (rest + small) / 1024)

    def _described(self, frame: Line) -> str:
        return f"{self._users.short(frame[0])}:{frame[1]} {frame[2]}"[-MOST_NAME_CHARS:]

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
        while len(text) > MOST_ANSWER_BYTES and lines:
            lines.pop()
            text = json.dumps(document).encode()
        write(self._answer, text)


def _of_class(found: Found, taken: float, everything: float) -> dict[str, Any]:
    """A class as the answer has it."""
    return {
        "class": found.name[-MOST_NAME_CHARS:],
        "perInvocationKiB": round(taken / 1024, 1),
        "perInvocationObjects": round(found.objects, 1),
        "share": round(taken / everything, 2),
    }


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
