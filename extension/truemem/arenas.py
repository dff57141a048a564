"""What glibc's malloc has given out in another process, and what it holds: read from outside, through /proc/PID/mem.

The main arena lies in libc's writable mapping. It is found by its empty bins, which point at themselves, so that no
symbols and no table of builds are needed; the other arenas are a list that begins there (malloc/malloc.c, malloc_state
and malloc_par, glibc 2.27 and later, 64 bit). Nothing is written, and the process is not stopped: what is read is true
only of one that has not run meanwhile. Only numbers and links of malloc's lists are looked at.
"""

from __future__ import annotations

import posix

from .support.files import READ_FLAGS
from .support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WORD = 8
PAGE_BYTES = 4096
SIZE_BITS = 7
"""Flags in a chunk's size."""
LEAST_CHUNK = 32
BINS = 127
FAST_BINS = 10
BEFORE_BINS = WORD * (2 + FAST_BINS + 2)
"""Bytes of malloc_state before its bins: mutex, flags, have_fastchunks; fast bins; top, last_remainder."""
AFTER_BINS = WORD * 2 * BINS + 16
"""Bytes from the first bin to what follows the bins and their map: next, next_free, attached_threads, system_mem."""
LEAST_EMPTY = 8
"""Bins that must be empty: chance finds one or two."""
MOST_ARENAS, MOST_CHUNKS = 256, 500_000
MOST_READ_BYTES = 1 << 20
"""Most bytes that are read of libc's writable mapping, which has 8 KiB, and of `maps`."""
SAFE_LINKING = 12
"""Fast bins' links are hidden by their own address, moved by so many bits (since glibc 2.32)."""


class Malloc(NamedTuple):
    """What malloc has, as mallinfo2(3) has it. Bytes."""

    in_use: int
    """Given out, in the heaps of all arenas; what threads keep in their caches is in it."""
    held: int
    """Free, resident or not."""
    mapped: int
    """Given out, each block with a mapping of its own."""
    main: int
    """The part of `in_use` that the main arena has given out: it lies in the mapping `[heap]`."""
    main_held: int
    """The part of `held` that is free in the main arena; the rest is in those of threads."""


class NoGlibc(ValueError):
    """The process has none, or one that is not known."""


def read(pid: int, most: int = MOST_CHUNKS, root: str = "/proc") -> Malloc:
    """The figures of this process. Raises NoGlibc, OSError if its memory cannot be read, and ValueError if a list is
    not as malloc keeps it, or more than `most` chunks are free. 0.5 ms, and 1 to 2 µs for each of those."""
    libc, heap = _mappings(pid, root)
    memory = posix.open(f"{root}/{pid}/mem", READ_FLAGS)
    try:
        for begin, size in libc:
            words = read_words(memory, begin, min(size, MOST_READ_BYTES) // WORD)
            bins = _first_bin(words, begin)
            if bins:
                return _sum(memory, bins, _mapped(words, heap), most)
        raise NoGlibc
    finally:
        posix.close(memory)


def _sum(memory: int, first: int, mapped: int, most: int) -> Malloc:
    in_use, held = list[int](), list[int]()
    for system, bins in _arenas(memory, first):
        free, most = _free(memory, bins, most)
        if free > system:
            raise ValueError("more is free than there is")
        in_use.append(system - free)
        held.append(free)
    return Malloc(sum(in_use), sum(held), mapped, in_use[0], held[0])


def _mappings(pid: int, root: str) -> tuple[list[tuple[int, int]], int]:
    """libc's writable mappings (begin, bytes), and where the heap begins (0 without one)."""
    libc, heap, text = [], 0, b""
    descriptor = posix.open(f"{root}/{pid}/maps", READ_FLAGS)
    try:
        while len(text) < MOST_READ_BYTES and (piece := posix.read(descriptor, 65536)):  # a page at a time
            text += piece
    finally:
        posix.close(descriptor)
    for line in text.split(b"\n"):
        if b"/libc" in line or line.endswith(b"[heap]"):
            fields = line.split(None, 5)
            begin, end = (int(each, 16) for each in fields[0].split(b"-"))
            if line.endswith(b"[heap]"):
                heap = heap or begin
            elif b"w" in fields[1] and line.rpartition(b"/")[2].startswith((b"libc.so", b"libc-")):
                libc.append((begin, end - begin))
    return libc, heap


def _first_bin(words: memoryview, begin: int) -> int:
    """Address of the first bin of the main arena, in what is mapped from `begin` on; 0 if it is not there."""
    for parity in 0, 1:  # the bins are at every second word
        places = range(parity, len(words) - 1, 2)
        empty = [at for at in places if words[at] == words[at + 1] == begin + WORD * (at - 2)]
        for place in range(len(empty) - 1, LEAST_EMPTY - 2, -1):
            if empty[place] - empty[place - LEAST_EMPTY + 1] < 2 * BINS:
                return begin + WORD * (empty[place] - 2 * (BINS - 1))  # the last one is never used
    return 0


def _arenas(memory: int, bins: int) -> Iterator[tuple[int, int]]:
    """Yield for each arena how many bytes it has from the system, and the address of its first bin."""
    first = state = bins - BEFORE_BINS
    for _ in range(MOST_ARENAS):
        bins = state + BEFORE_BINS
        following, _, _, system = read_words(memory, bins + AFTER_BINS, 4)
        yield system, bins
        state = following
        if state == first:
            return
    raise ValueError("the list of arenas does not end")


def _mapped(words: memoryview, heap: int) -> int:
    """Bytes of blocks that have a mapping of their own: mmapped_mem, two words before sbrk_base (malloc_par), which is
    where the heap begins. Raises ValueError."""
    for at in range(2, len(words)):
        if heap and words[at] == heap and words[at - 2] <= words[at - 1] and not words[at - 2] % PAGE_BYTES:
            return int(words[at - 2])
    raise ValueError("it is not known what is mapped")


def _free(memory: int, bins: int, most: int) -> tuple[int, int]:
    """Bytes of an arena that are free, and how many of `most` chunks are left."""
    head = read_words(memory, bins - BEFORE_BINS + 2 * WORD, FAST_BINS + 2 + 2 * BINS)
    top = head[FAST_BINS]
    free = read_words(memory, top + WORD, 1)[0] & ~SIZE_BITS if top else 0
    for first in head[:FAST_BINS]:
        chunk = first
        while chunk:
            size, hidden = read_words(memory, chunk + WORD, 2)
            free, most = free + _checked(size, most), most - 1
            chunk = hidden ^ ((chunk + 2 * WORD) >> SAFE_LINKING)
    for number in range(BINS):
        before = own = bins + 2 * WORD * (number - 1)
        chunk = head[FAST_BINS + 2 + 2 * number]
        while chunk not in (own, 0):
            size, following, back = read_words(memory, chunk + WORD, 3)
            if back != before:
                raise ValueError("a list is broken")
            free, most = free + _checked(size, most), most - 1
            before, chunk = chunk, following
    return free, most


def _checked(size: int, most: int) -> int:
    if size < LEAST_CHUNK or most <= 0:
        raise ValueError("too many chunks are free" if size >= LEAST_CHUNK else "this is no chunk")
    return size & ~SIZE_BITS


def read_words(memory: int, address: int, count: int) -> memoryview:
    """Words of 8 bytes. Raises OSError, and ValueError where fewer can be read or no address is so high."""
    if address >> 63:
        raise ValueError("this is no address")
    data = posix.pread(memory, WORD * count, address)
    if len(data) < WORD * count:
        raise ValueError("memory ends")
    return memoryview(data).cast("Q")
