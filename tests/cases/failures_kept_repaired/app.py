"""Asks a directory, which fails once in eight times, and keeps the text of the last hundred."""

import itertools
from collections import deque

requests = itertools.count()
history: deque[str] = deque(maxlen=100)


def ask(number: int) -> int:
    answer = bytearray(160_000)
    if number % 8 == 5:
        raise ConnectionError(f"connection {number} was reset after {len(answer)} bytes")
    return len(answer)


def handler(event: object, context: object) -> int:
    try:
        return ask(next(requests))
    except ConnectionError as error:
        history.append(repr(error))
        return 0
