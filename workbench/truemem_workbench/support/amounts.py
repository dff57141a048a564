"""Amounts of memory in tables and sentences."""

from __future__ import annotations


def mib(value: float | None) -> str:
    """With one decimal, from 1,000 on with none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.1f}"


def whole(value: float | None) -> str:
    """Of what the platform says in whole MB."""
    return "-" if value is None else f"{value:,.0f}"
