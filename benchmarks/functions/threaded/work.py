"""Handlers as functions have them: fourteen of one thread, and some whose library has threads of its own.

Event: {"work": NAME}. Each takes some ms to some tenths of a second.
"""

from __future__ import annotations

import csv
import decimal
import functools
import hashlib
import io
import json
import random
import re
import sqlite3
import statistics
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SETTINGS = {str(number): list(range(50)) for number in range(2000)}
TEXT = "".join(f"GET /orders/{number}?page={number % 7} 200\n" for number in range(20_000))


def plain_json() -> None:
    json.loads(json.dumps(SETTINGS))


def hashing() -> None:
    hashlib.sha256(bytes(8_000_000)).hexdigest()


def regex() -> None:
    re.findall(r"/orders/(\d+)\?page=(\d)", TEXT)


def sqlite() -> None:
    with sqlite3.connect(":memory:") as made:
        made.execute("create table orders (number, price)")
        made.executemany("insert into orders values (?, ?)", ((n, n * 0.3) for n in range(20_000)))
        made.execute("select sum(price) from orders group by number % 10").fetchall()


def zipped() -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("orders", TEXT * 4)


def rows() -> None:
    whole = io.StringIO()
    csv.writer(whole).writerows([number, number * 2, str(number)] for number in range(20_000))
    list(csv.DictReader(io.StringIO(whole.getvalue())))


def decimals() -> None:
    sum(decimal.Decimal(number) / 7 for number in range(20_000))


def sorting() -> None:
    sorted(random.random() for _ in range(100_000))


@functools.lru_cache(64)
def _block(number: int) -> bytes:
    return bytes(200_000)


def caching() -> None:
    for _ in range(40):
        _block(random.randrange(100))


def spooled() -> None:
    with tempfile.SpooledTemporaryFile(1 << 20) as file:
        for _ in range(200):
            file.write(bytes(50_000))
    statistics.median(range(50_000))


def _touched(mib: int) -> None:
    block = bytearray(mib << 20)
    block[::4096] = b"x" * (mib << 8)


def touch() -> None:
    """A block that goes back to the kernel at once."""
    _touched(50)


def twice() -> None:
    _touched(30)
    _touched(40)


def buffers() -> None:
    """Made and freed in less than a millisecond each."""
    for _ in range(4):
        _touched(5)


def answer() -> str:
    return "x" * 1_000_000


def pool() -> None:
    """Eight threads that come and go."""
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: hashlib.sha256(bytes(3_000_000)).digest(), range(24)))


def numpy_small() -> None:
    import numpy

    table = numpy.random.rand(300, 300)
    for _ in range(50):
        numpy.exp(-(table @ table) * 0.01).sum()


def numpy_large() -> None:
    import numpy

    table = numpy.random.rand(1500, 1500).astype("f4")
    for _ in range(4):
        numpy.tanh(table @ table).sum()


@functools.cache
def _network() -> bytes:
    import numpy
    import onnx
    from onnx import helper, numpy_helper

    layers = range(6)
    weights = [numpy_helper.from_array(numpy.random.rand(1024, 1024).astype("f4"), f"w{n}") for n in layers]
    nodes = [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in layers]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", 1024]) for name in ("x0", "x6")]
    graph = helper.make_graph(nodes, "network", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _opened() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(_network(), options)


_session = functools.cache(_opened)


def _score(session: Any, count: int) -> None:
    import numpy

    session.run(None, {"x0": numpy.random.rand(count, 1024).astype("f4")})


def onnx_run() -> None:
    """A session that is kept, batches of any size."""
    _score(_session(), random.choice([1, 64, 512, 2048]))


def onnx_open() -> None:
    """A session for each invocation."""
    _score(_opened(), 64)


def pandas_group() -> None:
    import numpy
    import pandas  # type: ignore[import-untyped]

    table = pandas.DataFrame({"key": numpy.random.randint(0, 1000, 300_000), "value": numpy.random.rand(300_000)})
    table.groupby("key").value.mean()
    table.sort_values("value")


def duckdb_query() -> None:
    import duckdb

    with duckdb.connect() as made:
        made.execute("set threads = 2")
        made.execute("select i % 1000, sum(i), count(*) from range(3000000) t(i) group by 1").fetchall()


def pillow_pool() -> None:
    from PIL import Image

    picture = Image.effect_noise((1200, 1200), 50).convert("RGB")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda side: picture.resize((side, side)).tobytes(), [900] * 8))


WORK: dict[str, Callable[[], str | None]] = {
    made.__name__: made
    for made in (
        *(plain_json, hashing, regex, sqlite, zipped, rows, decimals, sorting, caching, spooled),
        *(touch, twice, buffers, answer),
        *(pool, numpy_small, numpy_large, onnx_run, onnx_open, pandas_group, duckdb_query, pillow_pool),
    )
}


def handler(event: dict[str, str], context: object) -> str | None:
    """See the module."""
    return WORK[event["work"]]()
