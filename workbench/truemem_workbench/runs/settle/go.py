"""Settles a program in Go from outside, and reads what is live in it: the program and its settings stay as they are.

A thread of each program in Go, sysmon, begins a collection when the last one is older than the variable
`runtime.forcegcperiod`, two minutes (runtime: proc.go, mgc.go; the same in Go 1.19 to 1.27). Written through
/proc/PID/mem, it is made shorter for a moment. While the program is idle sysmon sleeps for half of that period: so it
is made shorter before an invocation, which wakes sysmon, and once more after it. Where the variables lie is in the
program's own debug information. A program without it (built with `-ldflags=-w` or `-s`) cannot be settled.
"""

from __future__ import annotations

import math
import os
import struct
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...target.go_program import is_go_file
from .go_variables import member, offset, opened, size
from .mappings import mappings

OWN_NS, SOON_NS, AT_ONCE_NS = 120_000_000_000, 100_000_000, 5_000_000
"""`runtime.forcegcperiod`: Go's own; in the last invocation of a pass, in which a collection may then begin ten times a
second; and after its answer."""
COLLECTIONS = 4
"""The first may have begun before. What a finalizer lets go of, or a sync.Pool, the next ones free."""
ANSWERS_S, LOOK_S = 5.0, 0.002
"""So long one collection may take; between two looks."""
ENDED = 6
"""Status of a goroutine that has ended, and is there to be used again (`_Gdead`, runtime2.go)."""
MOST_GOROUTINES = 1_000_000
MOST_SPANS = 200_000
"""Spans whose objects are counted: a heap of 1.6 GiB, 0.5 s."""
IN_USE = 1
"""State of a span with objects (`mSpanInUse`, mheap.go)."""
HEAP_BEGINS = (0xC000000000, 0x4000000000)
"""Where the runtime asks for its heap on amd64 and arm64 (malloc.go, mallocinit)."""
HEAP_SPAN = 1 << 36
"""Bytes from there in which the heap is looked for."""
WITHOUT_SCAN = 0xFFF
"""Bits of the status without the one that a collector sets (`_Gscan`)."""


class Places(NamedTuple):
    """Where a program has its variables: bytes behind its begin."""

    period: int
    """`runtime.forcegcperiod`, int64, ns."""
    percent: int
    """`runtime.gcController.gcPercent`, int32: GOGC. Negative: nothing is collected."""
    heap: int
    """`runtime.gcController.heapLive`, uint64: bytes that were live in the last collection or came since."""
    marked: int
    """`runtime.gcController.heapMarked`, uint64: bytes of live objects in the last collection. One with a finalizer
    counts twice: it is scanned as a root too (mgcmark.go, markrootSpans and scanobject)."""
    goal: int
    """`runtime.gcController.gcPercentHeapGoal`, uint64: bytes of the heap at which garbage is collected, by GOGC."""
    limit: int
    """`runtime.gcController.memoryLimit`, int64: GOMEMLIMIT, bytes."""
    collected: int
    """`runtime.memstats.numgc`, uint32: collections that have ended."""
    last: int
    """`runtime.memstats.last_gc_nanotime`, uint64: when the last one ended. None begins for its age while it is 0."""
    goroutines: int
    """`runtime.allgs`: address and number of pointers to all goroutines, each of which begins with the bounds of its
    stack."""
    has_c: int
    """`runtime.iscgo`, bool: C is linked in, which has its malloc."""
    spans: int
    """`runtime.mheap_.allspans`: address and number of pointers to all spans of the heap, in which objects lie."""
    status: int
    """`runtime.g.atomicstatus`, uint32: its place in a goroutine."""
    span: tuple[int, int, int, int]
    """`runtime.mspan`: places in it of `state`, uint8; `allocCount`, uint16, how many objects are in it, and
    `elemsize`, uint64, bytes of each; and its size."""


class Live(NamedTuple):
    """What a program in Go keeps."""

    objects_kib: float
    stacks_kib: float
    goroutines: int
    goal_kib: float
    """Size of the heap at which its garbage is collected."""
    has_c: bool
    """C is linked in, which has its malloc."""


class Process:
    """A process that runs a program in Go."""

    def __init__(self, pid: int) -> None:
        """Raises OSError if it has ended, ValueError if it is none, or has no debug information."""
        program = Path(f"/proc/{pid}/exe")
        places = _places(program, program.stat().st_ino)
        if places is None:
            raise ValueError("no debug information of a program in Go")
        start = begin(pid, program.readlink())
        self.pid = pid
        moved = {name: start + place for name, place in places._asdict().items() if name not in ("status", "span")}
        self.places = places._replace(**moved)

    def hurry(self) -> float:
        """Let garbage be collected often in the next invocation, and return the size of the heap until now, KiB: live
        objects and garbage. Raises OSError, ValueError where that is not possible: nothing is changed then."""
        with self._memory() as memory:
            if _number(memory, self.places.percent, "<i") < 0:
                raise ValueError("GOGC=off")
            heap = _number(memory, self.places.heap) / 1024
            _replace(memory, self.places.period, (OWN_NS, SOON_NS), SOON_NS)
            with suppress(ValueError):
                _replace(memory, self.places.last, (0,), 1)
            return heap

    def collect(self) -> None:
        """Have the garbage collected, after `hurry` and an invocation. The process must run. In the end the period is
        Go's own again. Raises OSError, ValueError if it was not collected."""
        with self._memory() as memory:
            period = self.places.period
            try:
                _replace(memory, period, (SOON_NS,), AT_ONCE_NS)
                for _ in range(COLLECTIONS):
                    self._wait_for_collection(memory)
            finally:
                _replace(memory, period, (OWN_NS, SOON_NS, AT_ONCE_NS), OWN_NS)

    def _wait_for_collection(self, memory: int) -> None:
        before, until = _number(memory, self.places.collected, "<I"), time.monotonic() + ANSWERS_S
        while _number(memory, self.places.collected, "<I") == before:
            if time.monotonic() > until:
                raise TimeoutError("the garbage is not collected")
            time.sleep(LOOK_S)

    def live(self) -> Live:
        """What was live in the last collection: 4 µs for each goroutine, 3 µs for each span. The process should not
        run meanwhile. Raises OSError, ValueError where that cannot be read."""
        stack_and_status = f"<QQ{self.places.status - 16}xI"
        with self._memory() as memory:
            first, count = (_number(memory, self.places.goroutines + at) for at in (0, 8))
            if count > MOST_GOROUTINES:
                raise ValueError("too many goroutines")
            goroutines, stacks = 0, 0
            for (at,) in struct.iter_unpack("<Q", _read(memory, first, 8 * count)):
                low, high, status = struct.unpack(stack_and_status, _read(memory, at, self.places.status + 4))
                if status & WITHOUT_SCAN != ENDED:
                    goroutines, stacks = goroutines + 1, stacks + high - low
            goal = min(_number(memory, self.places.goal), _number(memory, self.places.limit))
            return Live(
                objects_kib=min(_number(memory, self.places.marked), self._in_spans(memory)) / 1024,
                stacks_kib=stacks / 1024,
                goroutines=goroutines,
                goal_kib=goal / 1024,
                has_c=bool(_number(memory, self.places.has_c, "<B")),
            )

    def _in_spans(self, memory: int) -> float:
        """Bytes of all objects that lie in spans: the live ones, and the few that are garbage since the collection
        before the last one. Infinite where there are too many."""
        first, count = (_number(memory, self.places.spans + at) for at in (0, 8))
        if count > MOST_SPANS:
            return math.inf
        state, allocated, size_of_each, size = self.places.span
        total = 0
        for (at,) in struct.iter_unpack("<Q", _read(memory, first, 8 * count)):
            span = _read(memory, at, size)
            if span[state] == IN_USE:
                (objects,), (each,) = (
                    struct.unpack_from("<H", span, allocated),
                    struct.unpack_from("<Q", span, size_of_each),
                )
                total += objects * each
        return total

    @contextmanager
    def _memory(self) -> Iterator[int]:
        memory = os.open(f"/proc/{self.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            yield memory
        finally:
            os.close(memory)


def beside_heap_kib(pid: int) -> float:
    """Resident KiB of all mappings that are neither the runtime's heap nor a program's or a library's file. Raises
    OSError if the process has ended."""
    own = str(Path(f"/proc/{pid}/exe").resolve())
    others = (each for each in mappings(pid) if each.path != own and ".so" not in each.path)
    return sum(
        each.rss_kib for each in others if not any(begin <= each.begin < begin + HEAP_SPAN for begin in HEAP_BEGINS)
    )


def _read(memory: int, at: int, size: int) -> bytes:
    """So many bytes from there. Raises OSError."""
    try:
        found = os.pread(memory, size, at)
    except OverflowError as error:
        raise OSError("not an address") from error
    if len(found) != size:
        raise OSError("there is no memory")
    return found


def _number(memory: int, at: int, kind: str = "<Q") -> int:
    """The number there. Raises OSError."""
    (number,) = struct.unpack(kind, _read(memory, at, struct.calcsize(kind)))
    return int(number)


def _replace(memory: int, at: int, expected: Collection[int], new: int) -> None:
    """Write a number of eight bytes where one of these is. Raises ValueError if it is another, OSError."""
    if _number(memory, at) not in expected:
        raise ValueError("a variable is not as expected")
    os.pwrite(memory, struct.pack("<Q", new), at)


def begin(pid: int, program: Path) -> int:
    """Where its program lies. Raises OSError, ValueError."""
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        place, _, shift, *_, path = line.split(maxsplit=5)
        if path == str(program) and int(shift, 16) == 0:
            return int(place.partition("-")[0], 16)
    raise ValueError("the program is not mapped")


@cache
def _places(program: Path, file_number: int) -> Places | None:
    """Where the variables of this program lie, looked up once: 0.1 s for 9 MB. None if unknown. Raises OSError."""
    if not is_go_file(program, file_number):
        return None
    try:
        with opened(program) as variables:
            span = variables.type("runtime.mspan")
            return Places(
                period=variables.place("runtime.forcegcperiod"),
                percent=variables.place("runtime.gcController", "gcPercent"),
                heap=variables.place("runtime.gcController", "heapLive"),
                marked=variables.place("runtime.gcController", "heapMarked"),
                goal=variables.place("runtime.gcController", "gcPercentHeapGoal"),
                limit=variables.place("runtime.gcController", "memoryLimit"),
                collected=variables.place("runtime.memstats", "numgc"),
                last=variables.place("runtime.memstats", "last_gc_nanotime"),
                goroutines=variables.place("runtime.allgs"),
                has_c=variables.place("runtime.iscgo"),
                spans=variables.place("runtime.mheap_", "allspans"),
                status=offset(member(variables.entry("runtime.allgs"), "array"), "atomicstatus"),
                span=(offset(span, "state"), offset(span, "allocCount"), offset(span, "elemsize"), size(span)),
            )
    except LookupError:
        return None
