"""Takes more than there is in every 60th invocation of an environment."""

import itertools

numbers = itertools.count(1)


def handler(event: object, context: object) -> int:
    taken = bytearray(b"\1") * ((400 if next(numbers) == 60 else 5) << 20)
    return len(taken)
