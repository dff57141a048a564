"""Programs that use a library: a database, TLS, pictures, HTTP, a model. What is large is imported when it is used."""

from __future__ import annotations

import os
import random
import sqlite3
import ssl
from collections import OrderedDict
from functools import cache
from typing import Any

from .real_requests import KIB, Program, body, handler_of, rows, size

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


LEAKS: dict[str, Program] = {
    "sqlite connections": databases,
    "figures": figures,
    "sessions": sessions,
}
CALM: dict[str, Program] = {
    "connections": connections,
    "sqlite, deletes": deletes,
    "TLS contexts": tls,
    "onnxruntime": inference,
}

handler = handler_of(LEAKS, CALM)
