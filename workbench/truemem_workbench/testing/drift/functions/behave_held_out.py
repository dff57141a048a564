"""A function like `behave`, in ways that the verdict was not tuned with.

Event: {"n": number of the invocation, from 0}.
"""

from __future__ import annotations

import ctypes
import functools
import io
import json
import logging
import os
import random
import re
import sqlite3
import ssl
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

KIB = 1024
_chance = random.Random(11)
_by_key: dict[int, Any] = {}
_records: list[str] = []
_libc = ctypes.CDLL(None)
_libc.malloc.restype = ctypes.c_void_p
_libc.malloc.argtypes = [ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]


def _work() -> None:
    """A request of some size is parsed and answered."""
    json.loads(json.dumps([{"id": i, "name": f"row {i}"} for i in range(int(_chance.lognormvariate(5, 0.7)))]))


def one_in_ten(n: int) -> None:
    """Keeps 80 KiB under a new key in one invocation of ten."""
    if _chance.random() < 0.1:
        _by_key[n] = os.urandom(80 * KIB)


def late_malloc(n: int) -> None:
    """Allocates 6 KiB in C and never frees them, on a path that is first taken at the 200th invocation."""
    if n >= 200:
        _malloc(6 * KIB)


@functools.lru_cache(maxsize=4096)
def _item(key: int) -> bytes:
    return os.urandom(int(_chance.lognormvariate(8, 0.6)))


_ZIPF = [1 / rank for rank in range(1, 5001)]
_TENANTS = [1 / rank for rank in range(1, 201)]


def zipf_cache(n: int) -> None:
    """Room for 4096 of 5000 items of 3.5 KiB, a few of which are wanted often: it is not full at the end."""
    for key in _chance.choices(range(5000), _ZIPF, k=8):
        _item(key)


_connections: OrderedDict[int, sqlite3.Connection] = OrderedDict()


def connections(n: int) -> None:
    """A connection by tenant, with a page cache of its own; the one that was used least recently is closed."""
    tenant = _chance.choices(range(200), _TENANTS)[0]
    if tenant not in _connections:
        _connections[tenant] = sqlite3.connect(":memory:")
        _connections[tenant].execute("create table seen (n integer, body blob)")
    _connections.move_to_end(tenant)
    _connections[tenant].execute("delete from seen where n < ?", (n - 100,))
    _connections[tenant].execute("insert into seen values (?, randomblob(20000))", (n,))
    if len(_connections) > 24:
        _connections.popitem(last=False)[1].close()


def tls(n: int) -> None:
    """A TLS context for each request, with the system's certificates: made and dropped."""
    if n % 3 == 0:
        ssl.create_default_context()


_arrays: deque[NDArray[np.float64]] = deque(maxlen=8)


def arrays(n: int) -> None:
    """Arrays of 8 KiB to some MiB, the last eight of which are kept."""
    made = np.random.default_rng(n).random(int(_chance.lognormvariate(10, 1.3)))
    _arrays.append(made @ made * made[: len(made) // 4])


def threads(n: int) -> None:
    """A thread that waits for ever, in one invocation of twenty."""
    if n % 20 == 0:
        threading.Thread(target=threading.Event().wait, daemon=True).start()


def patterns(n: int) -> None:
    """Two new patterns each time: `re` keeps 512, so it is full after 256 invocations."""
    for which in "ab":
        re.compile(rf"(?P<{which}{n}>[a-z]+\d{{1,3}}|{n}-(?:x|y|z)+)+")


_log = logging.getLogger("handled")
_log.propagate = False


def log_handlers(n: int) -> None:
    """Each invocation adds a handler, and every line goes to all of them."""
    _log.addHandler(logging.StreamHandler(io.StringIO()))
    _log.warning("request %d: %s", n, "x" * 100)


def log_buffer(n: int) -> None:
    """Records wait until there are 60 requests of them, and are sent together."""
    _records.extend(f"{n} {os.urandom(40).hex()}" for _ in range(200))
    if n % 60 == 59:
        "\n".join(_records).encode()
        _records.clear()


_blocks: dict[int, list[int]] = {}


def fragments(n: int) -> None:
    """Blocks of many sizes and lifetimes, in C: as many as are freed."""
    for block in _blocks.pop(n, []):
        _libc.free(block)
    for _ in range(60):
        until = n + 1 + int(_chance.expovariate(1 / 25))
        _blocks.setdefault(until, []).append(_malloc(int(min(_chance.lognormvariate(7, 1.2), 100_000))))


def garbage_and_leak(n: int) -> None:
    """Keeps 10 KiB each time. Garbage in cycles hides it, because the collector seldom runs."""
    _by_key[n] = os.urandom(10 * KIB)
    for _ in range(40):
        node: dict[str, Any] = {"load": os.urandom(4 * KIB)}
        node["self"] = node


def _malloc(size: int) -> int:
    block = int(_libc.malloc(size))
    ctypes.memset(block, 1, size)
    return block


BEHAVIOURS: dict[str, Callable[[int], None]] = {
    "dictionary, 1 of 10": one_in_ten,
    "malloc, late": late_malloc,
    "Zipf cache": zipf_cache,
    "connections": connections,
    "TLS contexts": tls,
    "arrays": arrays,
    "threads": threads,
    "patterns": patterns,
    "log handlers": log_handlers,
    "log buffer": log_buffer,
    "fragments": fragments,
    "garbage and leak": garbage_and_leak,
}


def handler(event: dict[str, Any], context: object) -> None:
    """See the module."""
    _work()
    BEHAVIOURS[os.environ["BEHAVIOUR"]](int(event["n"]))
