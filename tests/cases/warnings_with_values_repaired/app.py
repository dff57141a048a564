"""Reads the measurements of a report, and warns that some are too large, without their values."""

import random
import warnings


def measurements() -> list[float]:
    return [random.uniform(0, 1000) for _ in range(25)]


def handler(event: object, context: object) -> int:
    read = measurements()
    for value in read:
        if value > 100:
            warnings.warn("a measurement is more than 100", RuntimeWarning, stacklevel=2)
    return len(read)
