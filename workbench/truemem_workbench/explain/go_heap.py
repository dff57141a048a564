"""Reads what a program in Go holds, from outside: the allocations that are live by the stack that made them, and its
goroutines by the stacks that created them. The program is frozen meanwhile.

While the variable `runtime.MemProfileRate` is 1 the runtime notes the stack of each allocation, and in the object's
span which one it was (runtime: mprof.go, mheap.go). It is written through /proc/PID/mem: what GODEBUG says of it the
runtime forgets when its variables are made. With GODEBUG=tracebackancestors=N each goroutine notes the stacks of those
that created it (proc.go, saveAncestors). That is so in Go 1.19 to 1.27; where the fields lie is read in the program's
own debug information.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..runs.settle.go import ENDED, MOST_GOROUTINES, WITHOUT_SCAN
from ..runs.settle.go_variables import Variables, address, member, offset, size, width

ANCESTORS = 10
"""Goroutines that created the one that created a goroutine: so many of their stacks are noted."""
BLOCK = 1 << 16
"""Bytes that are read at once where pointers are followed."""
MOST_FRAMES = 256
MOST_BUCKETS, MOST_SPANS, MOST_OBJECTS = 2_000_000, 4_000_000, 4_000_000
"""More are not read: a list that is damaged may have no end."""
SPAN = ("startAddr", "npages", "elemsize", "spanclass", "state", "specials")
"""Members of `runtime.mspan` that are read."""
PAGE = 8192
"""Bytes of a page of a span (`pageSize`)."""
IN_USE = 1
"""State of a span with objects (`mSpanInUse`)."""
Pcs = tuple[int, ...]
"""Places to which functions return, innermost first, as the program was linked."""
Whole = npt.NDArray[np.int64]


class Goroutine(NamedTuple):
    """How a goroutine came to be."""

    created: int
    """The place after the `go` statement."""
    starts: int
    """The begin of its function."""
    ancestors: tuple[Pcs, ...]
    """The stack of the goroutine that created it, then that of the one that created that one."""


class Running(NamedTuple):
    """A goroutine at one moment."""

    origin: Goroutine
    at: int
    """Its own structure."""
    low: int
    """From here on its stack is in use, up to `high`."""
    high: int
    stack_bytes: int
    waits: str
    """Why it does not run: `chan receive`."""


class Bucket(NamedTuple):
    """All allocations of one stack and size."""

    size: int
    pcs: Pcs


@dataclass
class Look:
    """What is held at one moment."""

    counts: dict[int, int]
    """Live objects, by the address of their bucket."""
    goroutines: list[Running]


class Span(NamedTuple):
    begin: int
    end: int
    size: int
    """Bytes of each object in it."""
    has_pointers: bool
    specials: int
    """The first of what is noted of its objects."""


class Layout(NamedTuple):
    """Where the runtime has what is read: variables from the program's begin, members from that of their structure."""

    rate: int
    buckets: int
    bucket: tuple[int, int, int, int]
    """Next, size, number of places, and the bytes of a bucket before them."""
    cycles: tuple[int, int]
    """How many counts follow the places, and how many there are of each kind."""
    goroutines: int
    goroutine: dict[str, int]
    goroutine_size: int
    ancestor: tuple[int, int]
    """Bytes of an ancestor, and where its places lie."""
    waits: tuple[int, int]
    """Texts of why a goroutine waits, and how many there are."""
    spans: int
    span: dict[str, int]
    special: dict[str, int]
    profile: int
    """Number of the kind of what is noted of an object that has a bucket."""

    @classmethod
    def of(cls, variables: Variables) -> Layout:
        """Raises LookupError, ValueError where it cannot be found."""
        bucket, cycle = variables.type("runtime.bucket"), variables.type("runtime.memRecordCycle")
        array, spans = variables.entry("runtime.allgs"), member(variables.entry("runtime.mheap_"), "allspans")
        goroutine, span = member(array, "array"), member(spans, "array")
        waits = variables.entry("runtime.waitReasonStrings")
        special = variables.type("runtime.specialprofile")
        ancestor = variables.type("runtime.ancestorInfo")
        names = ("atomicstatus", "gopc", "startpc", "waitreason", "ancestors")
        return cls(
            rate=variables.place("runtime.MemProfileRate"),
            buckets=variables.place("runtime.mbuckets"),
            bucket=(offset(bucket, "allnext"), offset(bucket, "size"), offset(bucket, "nstk"), size(bucket)),
            cycles=(size(variables.type("runtime.memRecord")) // 8, size(cycle) // 8),
            goroutines=variables.place("runtime.allgs"),
            goroutine={
                **{name: offset(goroutine, name) for name in names},
                "low": offset(goroutine, "stack", "lo"),
                "high": offset(goroutine, "stack", "hi"),
                "sp": offset(goroutine, "sched", "sp"),
            },
            goroutine_size=size(goroutine),
            ancestor=(size(ancestor), offset(ancestor, "pcs")),
            waits=(address(waits) - variables.begin, width(waits) // 16),
            spans=variables.place("runtime.mheap_", "allspans"),
            span={name: offset(span, name) for name in SPAN},
            special={
                "next": offset(special, "special", "next"),
                "offset": offset(special, "special", "offset"),
                "width": width(member(member(special, "special"), "offset")),
                "kind": offset(special, "special", "kind"),
                "bucket": offset(special, "b"),
            },
            profile=variables.constant("runtime._KindSpecialProfile"),
        )


class Memory:
    """The memory of a frozen process."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._blocks: dict[int, bytes] = {}

    def read(self, at: int, count: int) -> bytes:
        """So many bytes from there. Raises OSError."""
        try:
            found = os.pread(self._file, count, at)
        except (OverflowError, ValueError) as error:
            raise OSError("not an address") from error
        if len(found) != count:
            raise OSError("there is no memory")
        return found

    def near(self, at: int, count: int) -> bytes:
        """A few bytes, of which others near them are read as well. Raises OSError."""
        begin, place = at - at % BLOCK, at % BLOCK
        if place + count > BLOCK:
            return self.read(at, count)
        block = self._blocks.get(begin)
        if block is None:
            try:
                block = self.read(begin, BLOCK)
            except OSError:  # its end is not mapped
                return self.read(at, count)
            self._blocks[begin] = block
        return block[place : place + count]

    def number(self, at: int) -> int:
        """The number of eight bytes there. Raises OSError."""
        return int.from_bytes(self.near(at, 8), "little")

    def text(self, at: int) -> str:
        """The string there. Raises OSError."""
        return self.near(self.number(at), min(200, self.number(at + 8))).decode(errors="replace")


@contextmanager
def memory_of(pid: int) -> Iterator[Memory]:
    """Raises OSError if it has ended."""
    file = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield Memory(file)
    finally:
        os.close(file)


@dataclass
class Reader:
    """Reads one process again and again: what does not change is read once."""

    layout: Layout
    begin: int
    """Where the program lies in memory."""
    moved: int
    """By how many bytes that is behind where it was linked to begin."""
    buckets: dict[int, Bucket] = field(default_factory=dict)
    _origins: dict[tuple[int, int, int], Goroutine] = field(default_factory=dict)
    _waits: list[str] = field(default_factory=list)

    def look(self, memory: Memory) -> Look:
        """What is held now. Raises OSError."""
        counts = {at: max(0, made - freed) for at, made, freed in self._counts(memory)}
        return Look(counts, list(self._goroutines(memory)))

    def made(self, memory: Memory) -> dict[int, int]:
        """How many objects were ever made, by the address of their bucket. Raises OSError."""
        return {at: made for at, made, _ in self._counts(memory)}

    def count_all(self, pid: int) -> bool:
        """Have the runtime note each allocation from now on. True if it did so already. Raises OSError."""
        file = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            before = os.pread(file, 8, self.begin + self.layout.rate)
            os.pwrite(file, struct.pack("<q", 1), self.begin + self.layout.rate)
        finally:
            os.close(file)
        return before == struct.pack("<q", 1)

    def _counts(self, memory: Memory) -> Iterator[tuple[int, int, int]]:
        next_at, size_at, count_at, header = self.layout.bucket
        words, of_each = self.layout.cycles
        at, left = memory.number(self.begin + self.layout.buckets), MOST_BUCKETS
        while at and (left := left - 1):
            known = self.buckets.get(at)
            if known is None:
                count = memory.number(at + count_at)
                if count > MOST_FRAMES:
                    raise OSError("what was read is no stack")
                pcs = struct.unpack(f"<{count}Q", memory.near(at + header, 8 * count))
                known = Bucket(memory.number(at + size_at), tuple(each - self.moved for each in pcs))
                self.buckets[at] = known
            numbers = struct.unpack(f"<{words}Q", memory.near(at + header + 8 * len(known.pcs), 8 * words))
            yield at, sum(numbers[::of_each]) % (1 << 64), sum(numbers[1::of_each]) % (1 << 64)
            at = memory.number(at + next_at)

    def _goroutines(self, memory: Memory) -> Iterator[Running]:
        places, length = self.layout.goroutine, self.layout.goroutine_size
        first, count = (memory.number(self.begin + self.layout.goroutines + at) for at in (0, 8))
        if count > MOST_GOROUTINES:
            raise OSError("too many goroutines")
        if not self._waits:
            texts, known = self.layout.waits
            self._waits = [memory.text(self.begin + texts + 16 * each) for each in range(known)]
        for (at,) in struct.iter_unpack("<Q", memory.read(first, 8 * count)):
            structure = memory.read(at, length)

            def number(name: str, of: bytes = structure) -> int:
                return int.from_bytes(of[places[name] : places[name] + 8], "little")

            if number("atomicstatus") & WITHOUT_SCAN == ENDED:
                continue
            low, high, top, reason = number("low"), number("high"), number("sp"), structure[places["waitreason"]]
            yield Running(
                self._origin(memory, number("gopc"), number("startpc"), number("ancestors")),
                at,
                top if low <= top <= high else low,
                high,
                high - low,
                self._waits[reason] if reason < len(self._waits) else "",
            )

    def _origin(self, memory: Memory, created: int, starts: int, ancestors: int) -> Goroutine:
        key = (created, starts, ancestors)
        if key not in self._origins:
            stacks = tuple(self._ancestors(memory, ancestors)) if ancestors else ()
            self._origins[key] = Goroutine(created - self.moved, starts - self.moved, stacks)
        return self._origins[key]

    def _ancestors(self, memory: Memory, array: int) -> Iterator[Pcs]:
        length, places = self.layout.ancestor
        first, count = memory.number(array), memory.number(array + 8)
        for at in range(first, first + length * min(count, ANCESTORS), length):
            begin, frames = memory.number(at + places), memory.number(at + places + 8)
            found = struct.unpack(f"<{min(frames, MOST_FRAMES)}Q", memory.read(begin, 8 * min(frames, MOST_FRAMES)))
            yield tuple(each - self.moved for each in found)

    # --- the heap -----------------------------------------------------------------------------------------------------

    def spans(self, memory: Memory) -> list[Span]:
        """The spans with objects, by address. Raises OSError."""
        places, found = self.layout.span, []
        first, count = (memory.number(self.begin + self.layout.spans + at) for at in (0, 8))
        if count > MOST_SPANS:
            raise OSError("too many spans")
        for (at,) in struct.iter_unpack("<Q", memory.read(first, 8 * count)):
            each = {name: memory.number(at + place) for name, place in places.items()}
            if each["state"] & 0xFF == IN_USE and each["elemsize"]:
                begin = each["startAddr"]
                end = begin + each["npages"] * PAGE
                found.append(Span(begin, end, each["elemsize"], not each["spanclass"] & 1, each["specials"]))
        return sorted(found)

    def objects(self, memory: Memory, spans: list[Span]) -> tuple[Whole, Whole]:
        """The addresses of all objects, and of the bucket of each. Raises OSError."""
        places, at_most = self.layout.special, MOST_OBJECTS
        found: list[int] = []
        buckets: list[int] = []
        for span in spans:
            at = span.specials
            while at:
                if memory.near(at + places["kind"], 1)[0] == self.layout.profile:
                    shift = int.from_bytes(memory.near(at + places["offset"], places["width"]), "little")
                    found.append(span.begin + shift - shift % span.size)
                    buckets.append(memory.number(at + places["bucket"]))
                    if len(found) > at_most:
                        raise OSError("too many objects")
                at = memory.number(at + places["next"])
        return np.array(found, np.int64), np.array(buckets, np.int64)


def waits(goroutines: list[Running]) -> str:
    """Why most of them do not run."""
    ((most, _),) = Counter(each.waits for each in goroutines).most_common(1)
    return most
