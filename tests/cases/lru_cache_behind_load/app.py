"""Unpacks a model's layers at the start, keeps a header of each, and then keeps features of each request for ever."""

import functools
import itertools
import zlib

PACKED = zlib.compress(b"\1" * 40_000)


def load() -> list[bytes]:
    unpacked, headers = [], []
    for _ in range(2000):
        layer = zlib.decompress(PACKED)
        unpacked.append(layer)
        headers.append(layer[:600])  # stays between two layers, so that their room is not given back
    return headers


headers = load()
requests = itertools.count()


@functools.cache
def features(request: int) -> bytes:
    return bytes([request % 251]) * 24 * 1024


def handler(event: object, context: object) -> int:
    return len(features(next(requests)))
