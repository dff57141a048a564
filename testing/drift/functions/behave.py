"""A function whose memory moves in one of the ways of real functions. `BEHAVIOUR` chooses the way.

Event: {"n": number of the invocation, from 0}.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import mmap
import os
import random
import threading
from collections.abc import Callable
from typing import Any

MIB = 2**20
_chance = random.Random(7)
_kept: list[Any] = []
_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def steady(n: int) -> None:
    """A request is parsed, worked on, answered."""
    rows = json.loads(json.dumps([{"id": i, "name": f"row {i}", "tags": ["a", "b"] * 3} for i in range(400 + n % 40)]))
    sorted(rows, key=lambda row: row["name"])


def python_list(n: int) -> None:
    """Puts 8 KiB into a list each time. The list is never emptied."""
    steady(n)
    _kept.append(os.urandom(8 * 1024))


def c_level(n: int) -> None:
    """Allocates 4 KiB in C each time and never frees them. No garbage collector knows of them."""
    steady(n)
    _malloc(4 * 1024)


@functools.lru_cache(maxsize=16)
def _model(key: int) -> bytes:
    return os.urandom(2 * MIB)


def lru_cache(n: int) -> None:
    """A cache of 16 out of 40 items, 2 MiB each."""
    steady(n)
    _model(_chance.randrange(40))


def arenas(n: int) -> None:
    """Threads allocate and free, each in an arena of its own, which keeps everything below the last block in use."""
    steady(n)
    if n % 5 == 0:
        counts = _chance.choices([64, 512, 2048, 4096], [60, 30, 7, 3], k=4)
        workers = [threading.Thread(target=_work, args=each) for each in enumerate(counts)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


_last: dict[int, tuple[int, int]] = {}
"""Most blocks that each thread had at once, and the last of them: one small block, which stays in use."""


def _work(thread: int, count: int) -> None:
    blocks = [_malloc(4000) for _ in range(count)]
    if count > _last.get(thread, (0, 0))[0]:
        _last[thread] = count, blocks.pop()
    for block in blocks:
        _libc.free(block)


def one_spike(n: int) -> None:
    """One request of them all needs 150 MiB for a moment."""
    steady(n)
    if n == 120:
        bytes(bytearray(os.urandom(MIB)) * 75)


def model_swap(n: int) -> None:
    """Two models in turn, with room for one."""
    steady(n)
    if n % 25 == 0:
        _kept.clear()
        _kept.append(_pages((30 if n % 50 else 18) * MIB))


def cycles(n: int) -> None:
    """Objects in cycles wait for Python's garbage collector."""
    steady(n)
    if n == 0:
        gc.set_threshold(20_000)
    for each in range(600):
        node: dict[str, Any] = {"load": _pages(256 * 1024) if each < 3 else b""}
        node["self"] = node


def _pages(size: int) -> mmap.mmap:
    """Allocate memory that goes back to the kernel when it is freed, with any allocator."""
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, size, mmap.PAGESIZE):
        block[at] = 1
    return block


def _malloc(size: int) -> int:
    block = int(_libc.malloc(size))
    ctypes.memset(block, 1, size)
    return block


BEHAVIOURS: dict[str, Callable[[int], None]] = {
    "steady": steady,
    "python list": python_list,
    "C level": c_level,
    "lru_cache": lru_cache,
    "arenas": arenas,
    "one spike": one_spike,
    "model swap": model_swap,
    "cycles": cycles,
}


def handler(event: dict[str, Any], context: object) -> None:
    """See the module."""
    BEHAVIOURS[os.environ["BEHAVIOUR"]](int(event["n"]))
