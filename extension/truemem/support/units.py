"""Units of the printed line."""

from __future__ import annotations


def mib(kib: float) -> float:
    """MiB with two decimals."""
    return round(kib / 1024, 2)
