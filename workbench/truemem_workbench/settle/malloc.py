"""What glibc's malloc has given out in another process, and what it holds: read from outside, through /proc/PID/mem.

The main arena lies in libc's writable mapping. It is found by its empty bins, which point at themselves, so that no
symbols and no table of builds are needed; the other arenas are a list that begins there (malloc/malloc.c, malloc_state
and malloc_par, glibc 2.27 and later, 64 bit).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress

WORD = 8
SIZE_BITS = 7
"""Flags in a chunk's size."""
BINS = 127
FAST_BINS = 10
BEFORE_BINS = WORD * (2 + FAST_BINS + 2)
"""Bytes of malloc_state before its bins: mutex, flags, have_fastchunks; fast bins; top, last_remainder."""
AFTER_BINS = WORD * 2 * BINS + 16
"""Bytes from the first bin to what follows the bins and their map: next, next_free, attached_threads, system_mem."""
LEAST_EMPTY = 8
"""Bins that must be empty: chance finds one or two."""
MOST_ARENAS, MOST_CHUNKS = 256, 500_000
SAFE_LINKING = 12
"""Fast bins' links are hidden by their own address, moved by so many bits (since glibc 2.32)."""


def malloc_kib(pid: int, root: str = "/proc") -> tuple[float, float] | None:
    """KiB that malloc has given out in this process, thread caches included as mallinfo2(3) has it, and KiB that it
    holds: free, resident or not. None where there is no glibc that was found, or its memory may not be read. A list
    that changes meanwhile ends the same way: the process should be at rest."""
    with suppress(OSError, ValueError, struct.error):
        in_use, held = _read(pid, root)
        return in_use / 1024, held / 1024
    return None


def _read(pid: int, root: str) -> tuple[int, int]:
    libc, heap = _mappings(pid, root)
    memory = os.open(f"{root}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for begin, end in libc:
            words = struct.unpack(f"<{(end - begin) // WORD}Q", os.pread(memory, end - begin, begin))
            bins = _first_bin(words, begin)
            if bins is not None:
                arenas = list(_arenas(memory, bins))
                held = sum(free for _, free in arenas)
                return sum(system for system, _ in arenas) - held + _mapped(words, heap), held
    finally:
        os.close(memory)
    raise ValueError("no arena was found")


def _mappings(pid: int, root: str) -> tuple[list[tuple[int, int]], int]:
    """libc's writable mappings, and where the heap begins (0 without one)."""
    libc, heap = [], 0
    with open(f"{root}/{pid}/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - no pathlib here
        for line in file:
            fields = line.split(None, 5)
            begin, end = (int(each, 16) for each in fields[0].split("-"))
            name = fields[5].rstrip() if len(fields) > 5 else ""
            if "w" in fields[1] and name.rpartition("/")[2].startswith(("libc.so", "libc-")):
                libc.append((begin, end))
            elif name == "[heap]":
                heap = heap or begin
    return libc, heap


def _first_bin(words: tuple[int, ...], begin: int) -> int | None:
    """Address of the first bin of the main arena, in what is mapped from `begin` on; None if it is not there."""
    places = {begin + WORD * at - 2 * WORD: at for at in range(len(words) - 1)}
    empty = [at for at, word in enumerate(words[:-1]) if places.get(word) == at and words[at + 1] == word]
    best: tuple[int, int] | None = None
    for at in empty:  # the bins are at every second word: most of one parity within their length are of one arena
        count = sum(1 for other in empty if at <= other < at + 2 * BINS and (other - at) % 2 == 0)
        if best is None or count > best[0]:
            best = count, at
    if best is None or best[0] < LEAST_EMPTY:
        return None
    # The first of them may be not empty. Before the bins are `top` and the fast bins: the bins begin where 127 pairs
    # hold as many empty ones as there are.
    last = max(at for at in empty if best[1] <= at < best[1] + 2 * BINS and (at - best[1]) % 2 == 0)
    first = max(0, last - 2 * (BINS - 1))
    return begin + WORD * first


def _arenas(memory: int, bins: int) -> Iterator[tuple[int, int]]:
    """Bytes that each arena has from the system, and how many of them are free."""
    first = state = bins - BEFORE_BINS
    for _ in range(MOST_ARENAS):
        bins = state + BEFORE_BINS
        following, _, _, system = _words(memory, bins + AFTER_BINS, 4)
        yield system, _free(memory, bins)
        state = following
        if state in (first, 0):
            return
    raise ValueError("the list of arenas does not end")


def _free(memory: int, bins: int) -> int:
    top = _words(memory, bins - 2 * WORD, 1)[0]
    free = _words(memory, top + WORD, 1)[0] & ~SIZE_BITS if top else 0
    left = MOST_CHUNKS
    for first in _words(memory, bins - BEFORE_BINS + 2 * WORD, FAST_BINS):
        chunk = first
        while chunk:
            size, hidden = _words(memory, chunk + WORD, 2)
            free += size & ~SIZE_BITS
            chunk = hidden ^ ((chunk + 2 * WORD) >> SAFE_LINKING)
            left -= 1
            if left < 0:
                raise ValueError("a fast bin does not end")
    heads = _words(memory, bins, 2 * BINS)
    for number in range(BINS):
        head = bins + 2 * WORD * number - 2 * WORD
        chunk = heads[2 * number]
        while chunk not in (head, 0):
            size, chunk = _words(memory, chunk + WORD, 2)
            free += size & ~SIZE_BITS
            left -= 1
            if left < 0:
                raise ValueError("a bin does not end")
    return free


def _mapped(words: tuple[int, ...], heap: int) -> int:
    """Bytes of blocks that have a mapping of their own: mmapped_mem, two words before sbrk_base (malloc_par)."""
    for at in range(2, len(words)):
        if heap and words[at] == heap and words[at - 2] <= words[at - 1] and not words[at - 2] % 4096:
            return words[at - 2]
    return 0


def _words(memory: int, address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}Q", os.pread(memory, WORD * count, address))
