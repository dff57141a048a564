"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, one: str, several: str | None = None) -> str:
    """`1 line`, `2 lines`; `several` where an s at the end does not make it."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
