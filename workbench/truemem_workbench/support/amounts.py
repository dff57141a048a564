"""Amounts of memory in tables and sentences."""

from __future__ import annotations


def mib(value: float | None) -> str:
    """Format MiB: with one decimal, from 1,000 on without."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


def brief(count: float) -> str:
    """Format a count in a narrow place: `999,999`, `1.2M`, `3.4G`."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if count >= size:
            return f"{count / size:,.1f}{unit}"
    return f"{count:,.0f}"


def whole(value: float | None) -> str:
    """Format an amount that the platform gives in whole MB."""
    return "-" if value is None else f"{value:,.0f}"
