"""Reads the measurements of a report, and warns of each that is too large, with its value."""

import random
import warnings


def measurements() -> list[float]:
    return [random.uniform(0, 1000) for _ in range(25)]


def handler(event: object, context: object) -> int:
    read = measurements()
    for number, value in enumerate(read):
        if value > 100:
            warnings.warn(f"measurement {number} is {value}, more than 100", RuntimeWarning, stacklevel=2)
    return len(read)
