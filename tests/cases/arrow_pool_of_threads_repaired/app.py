"""Reads tables of several sizes in a pool of threads, and drops them; MIMALLOC_PURGE_DELAY=0 gives it back."""

import random
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

LARGEST = 100_000
draws = random.Random(1)
workers = ThreadPoolExecutor(8)
column = [random.random() for _ in range(LARGEST)]
stored = []
for rows in range(LARGEST // 5, LARGEST + 1, LARGEST // 10):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({f"column {place}": column[:rows] for place in range(10)}), sink)
    stored.append(sink.getvalue())


def read(file: pa.Buffer) -> int:
    return pq.read_table(pa.BufferReader(file), use_threads=False).num_rows


def handler(event: object, context: object) -> int:
    return sum(workers.map(read, draws.choices(stored, k=draws.randint(1, 8))))
