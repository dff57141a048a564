"""Keeps 5 KB of each of the last 130 invocations: a cache whose bound is only in its code."""

from __future__ import annotations

from itertools import count
from typing import Any

slots = [""] * 130
numbers = count()


def handler(event: Any, context: object) -> int:
    number = next(numbers)
    slots[number % len(slots)] = "x" * 5000 + str(number)
    return number
