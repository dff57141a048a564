"""Programs whose memory is not that of Python objects: allocated in C, mapped, or of other processes."""

from __future__ import annotations

import ctypes
import mmap
import random
import socket
import subprocess
import tempfile
from collections import deque

import numpy as np
from numpy.typing import NDArray

from .real_requests import KIB, MIB, Program, body, handler_of, size

_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def _malloc(length: int) -> int:
    block = int(_libc.malloc(length))
    ctypes.memset(block, 1, length)
    return block


def late_malloc(n: int, chance: random.Random) -> None:
    """Allocates 6 KiB in C and never frees them, on a path that is first taken at the 200th invocation."""
    if n >= 200:
        _malloc(size(chance, 6 * KIB))


_maps: list[mmap.mmap] = []


def mapped(n: int, chance: random.Random) -> None:
    """Maps memory for each request, writes 18 KiB to it, and never unmaps it."""
    made = mmap.mmap(-1, 256 * KIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made.write(body(chance, 16 * KIB))
    _maps.append(made)


_open: list[tuple[socket.socket, bytearray]] = []


def sockets(n: int, chance: random.Random) -> None:
    """A socket and the buffer that it was read into stay, in one invocation of five."""
    if n % 5 == 0:
        ours, theirs = socket.socketpair()
        theirs.sendall(body(chance, 40 * KIB, 3))
        theirs.close()
        buffer = bytearray(128 * KIB)
        length = 0
        while count := ours.recv_into(memoryview(buffer)[length:]):
            length += count
        _open.append((ours, buffer[:length]))


_children: list[subprocess.Popen[bytes]] = []


def children(n: int, chance: random.Random) -> None:
    """A child that is never ended, in one invocation of fifty. Others end."""
    if n % 50 == 0:
        _children.append(subprocess.Popen(["sleep", "infinity"]))
    elif n % 10 == 0:
        subprocess.run(["echo", "done"], check=True, stdout=subprocess.DEVNULL)


_heads: list[NDArray[np.float64]] = []


def views(n: int, chance: random.Random) -> None:
    """The first eight numbers of an array are kept: a view, so all of its 40 KiB stay."""
    made = np.random.default_rng(n).random(1 + size(chance, 40 * KIB) // 8)
    _heads.append(made[:8])
    np.sort(np.concatenate([made] * 40))


_arrays: deque[NDArray[np.float64]] = deque(maxlen=8)


def arrays(n: int, chance: random.Random) -> None:
    """Arrays of 8 KiB to some MiB, the last eight of which are kept."""
    made = np.random.default_rng(n).random(int(min(chance.lognormvariate(10, 1.3), MIB)))
    _arrays.append(made @ made * made[: len(made) // 4])


_blocks: dict[int, list[int]] = {}


def fragments(n: int, chance: random.Random) -> None:
    """Blocks of many sizes and lifetimes, in C: as many as are freed."""
    for block in _blocks.pop(n, []):
        _libc.free(block)
    for _ in range(60):
        until = n + 1 + int(chance.expovariate(1 / 25))
        _blocks.setdefault(until, []).append(_malloc(int(min(chance.lognormvariate(7, 1.2), 100_000))))


def _file(length: int) -> mmap.mmap:
    """Map a file, of which nothing has been read yet."""
    with tempfile.TemporaryFile() as file:
        file.write(bytes(length))
        file.flush()
        return mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ)


_index: list[mmap.mmap] = []


def mapped_file(n: int, chance: random.Random) -> None:
    """Reads records of a file of 24 MiB that stays mapped. What has been read is resident: in the end, all of it."""
    if not _index:
        _index.append(_file(24 * MIB))
    for _ in range(3):
        at = chance.randrange(24 * MIB)
        sum(_index[0][at : at + size(chance, 4 * KIB)])


LEAKS: dict[str, Program] = {
    "malloc, late": late_malloc,
    "mapped": mapped,
    "sockets": sockets,
    "child processes": children,
    "numpy views": views,
}
CALM: dict[str, Program] = {
    "arrays": arrays,
    "fragments": fragments,
    "mapped file": mapped_file,
}

handler = handler_of(LEAKS, CALM)
