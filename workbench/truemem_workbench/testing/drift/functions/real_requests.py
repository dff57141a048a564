"""What the programs of `real_*` have in common: requests of many sizes, made from the number of the event alone."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable, Mapping
from typing import Any

KIB = 1024
MIB = 2**20
SIGMA = 0.7
"""Of the logarithm of a body's size: one of ten is more than twice the mean."""
Program = Callable[[int, random.Random], None]
"""Gets the number of the invocation, from 0, and the chance that belongs to it."""


def body(chance: random.Random, mean: float, largest: float = 8) -> bytes:
    """Make a body. Its size is log-normal with this mean, in bytes, and at most `largest` times the mean."""
    return chance.randbytes(size(chance, mean, largest))


def size(chance: random.Random, mean: float, largest: float = 8) -> int:
    """The size of such a body."""
    return 1 + int(min(chance.lognormvariate(math.log(mean) - SIGMA**2 / 2, SIGMA), largest * mean))


def rows(chance: random.Random, mean: float) -> list[dict[str, Any]]:
    """Make rows as a parsed request has them, some 350 bytes each: so many in the mean."""
    count = size(chance, mean)
    text = json.dumps([{"id": number, "name": f"row {number}", "price": chance.random()} for number in range(count)])
    made: list[dict[str, Any]] = json.loads(text)
    return made


def handler_of(*programs: Mapping[str, Program]) -> Callable[[dict[str, Any], object], None]:
    """Make a handler. Each invocation answers a request, then does what the program of `BEHAVIOUR` does.

    Event: {"n": number of the invocation, from 0}.
    """
    program = {name: program for each in programs for name, program in each.items()}

    def handler(event: dict[str, Any], context: object) -> None:
        chance = random.Random(event["n"])
        rows(chance, 200)
        program[os.environ["BEHAVIOUR"]](event["n"], chance)

    return handler
