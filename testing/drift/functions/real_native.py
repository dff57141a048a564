"""Programs whose memory is not that of Python objects: in C, mapped, of other processes, or of a library, such as a
database, TLS, pictures or a model. What is large is imported when it is used."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import socket
import sqlite3
import ssl
import subprocess
import tempfile
from collections import OrderedDict, deque
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .real_python import KIB, MIB, Program, body, handler_of, rows, size

_databases: list[sqlite3.Connection] = []


def databases(n: int, chance: random.Random) -> None:
    """A database in memory for the rows of a request, in one invocation of three. It is never closed."""
    if n % 3 == 0:
        made = sqlite3.connect(":memory:")
        made.execute("create table seen (n integer, name text)")
        made.executemany("insert into seen values (?, ?)", [(row["id"], row["name"]) for row in rows(chance, 300)])
        _databases.append(made)


_TENANTS = [1 / rank for rank in range(1, 201)]
_connections: OrderedDict[int, sqlite3.Connection] = OrderedDict()


def connections(n: int, chance: random.Random) -> None:
    """A connection by tenant, with a page cache of its own; the one that was used least recently is closed."""
    tenant = chance.choices(range(200), _TENANTS)[0]
    if tenant not in _connections:
        _connections[tenant] = sqlite3.connect(":memory:")
        _connections[tenant].execute("create table seen (n integer, body blob)")
    _connections.move_to_end(tenant)
    _connections[tenant].execute("delete from seen where n < ?", (n - 100,))
    _connections[tenant].execute("insert into seen values (?, ?)", (n, body(chance, 20 * KIB)))
    if len(_connections) > 24:
        _connections.popitem(last=False)[1].close()


@cache
def _queue() -> sqlite3.Connection:
    made = sqlite3.connect(":memory:")
    made.execute("create table queue (n integer, body blob)")
    return made


def deletes(n: int, chance: random.Random) -> None:
    """A queue in a database in memory: what is older than some 200 invocations is deleted, now and then."""
    _queue().executemany(
        "insert into queue values (?, ?)", [(n, body(chance, 8 * KIB)) for _ in range(chance.randrange(1, 5))]
    )
    if chance.random() < 0.1:
        _queue().execute("delete from queue where n < ?", (n - 200,))


def tls(n: int, chance: random.Random) -> None:
    """A TLS context for each request, with the system's certificates: made and dropped."""
    if n % 3 == 0:
        ssl.create_default_context()


def figures(n: int, chance: random.Random) -> None:
    """A picture in one invocation of ten. The figure is not closed, so pyplot keeps it."""
    if n % 10 == 0:
        os.environ["MPLCONFIGDIR"] = "/tmp"
        from matplotlib import pyplot, rcParams

        rcParams["figure.max_open_warning"] = 0
        _, axes = pyplot.subplots()
        axes.plot([chance.random() for _ in range(size(chance, 500))])


_sessions: list[Any] = []


def sessions(n: int, chance: random.Random) -> None:
    """A session of requests for each invocation, with a cookie and its pools. It is never closed, and kept."""
    import requests

    session = requests.Session()
    session.headers["authorization"] = body(chance, 2 * KIB).hex()
    session.cookies["session"] = body(chance, KIB).hex()
    session.prepare_request(requests.Request("POST", "https://example.com/items", json=rows(chance, 100)))
    _sessions.append(session)


_WIDTH = 256


@cache
def _model() -> Any:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    weights = [np.random.default_rng(seed).random((_WIDTH, _WIDTH), dtype=np.float32) for seed in range(4)]
    nodes = [helper.make_node("MatMul", [f"x{at}", f"w{at}"], [f"x{at + 1}"]) for at in range(4)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", _WIDTH]) for name in ("x0", "x4")]
    graph = helper.make_graph(
        nodes, "model", ends[:1], ends[1:], [numpy_helper.from_array(each, f"w{at}") for at, each in enumerate(weights)]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(made.SerializeToString(), options)


def inference(n: int, chance: random.Random) -> None:
    """One model for all requests, on batches of many sizes: its arena grows with the largest."""
    import numpy as np

    batch = np.random.default_rng(n).random((size(chance, 60, 20), _WIDTH), dtype=np.float32)
    _model().run(None, {"x0": batch})


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
    "sqlite connections": databases,
    "figures": figures,
    "sessions": sessions,
    "malloc, late": late_malloc,
    "mapped": mapped,
    "sockets": sockets,
    "child processes": children,
    "numpy views": views,
}
CALM: dict[str, Program] = {
    "connections": connections,
    "sqlite, deletes": deletes,
    "TLS contexts": tls,
    "onnxruntime": inference,
    "arrays": arrays,
    "fragments": fragments,
    "mapped file": mapped_file,
}

handler = handler_of(LEAKS, CALM)
