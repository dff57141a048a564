"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, one: str, several: str | None = None) -> str:
    """Count things in words: `1 line`, `2 lines`. `several` is the plural if it is not made with an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
