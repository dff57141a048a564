"""Makes a page for each address, and keeps the last 600 of them."""

import functools
import itertools

addresses = itertools.count(1)


@functools.lru_cache(maxsize=600)
def page(address: int) -> bytes:
    return bytes([address % 251]) * 40_000


def handler(event: object, context: object) -> int:
    return len(page(next(addresses)))
