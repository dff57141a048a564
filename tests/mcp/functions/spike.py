"""Takes 300 MiB in its 40th invocation, and never again."""

import itertools

numbers = itertools.count(1)


def handler(event: object, context: object) -> int:
    taken = bytearray(b"\1") * ((300 if next(numbers) == 40 else 5) << 20)
    return len(taken)
